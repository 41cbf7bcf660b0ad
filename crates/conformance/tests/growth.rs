//! Growth over a very long life, after the report C24 of the collection: a scope that makes, evaluates and drops anonymous
//! sequences for ever holds no more memory than it did after the first ten thousand (L8), and a hook's runs are one row
//! of the report, however many they are (L16).
//!
//! A release build does the full million; a debug build does a tenth of it, so that it takes seconds. Linux only: the
//! resident memory is what the kernel says of this process. Not here: lists and driver objects (`cases/field`).

#![cfg(target_os = "linux")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tenure_backend_host::HostBackend;
use tenure_core::{ManagedScope, Manager, ManagerOptions, Tensor, hook, op};

/// Rounds of each test.
const ROUNDS: u64 = if cfg!(debug_assertions) { 100_000 } else { 1_000_000 };

/// Rounds until everything has its size.
const WARM_UP: u64 = 10_000;

/// Bytes that the process may grow by after that.
const ALLOWED: u64 = 1 << 20;

/// The tests look at the process: one at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// Bytes of this process that are in memory, summed up page by page: the counters in `statm` lag behind.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup")
        .or_else(|_| std::fs::read_to_string("/proc/self/status"))
        .expect("the kernel tells");
    let line = text.lines().find_map(|line| line.strip_prefix("Rss:").or(line.strip_prefix("VmRSS:")));
    let kib =
        line.and_then(|line| line.split_whitespace().next()).and_then(|number| number.parse::<u64>().ok());
    kib.expect("the resident memory is a number of KiB") << 10
}

/// Calls `round` in a scope of its own, and checks that the process does not grow after the warm-up.
fn assert_no_growth(scope: &ManagedScope, tensor: &Tensor<u32>, round: impl Fn(u64)) {
    let mut after_warm_up = 0;
    for at in 0..ROUNDS {
        round(at);
        if at + 1 == WARM_UP {
            after_warm_up = resident();
        }
    }
    let grown = resident().saturating_sub(after_warm_up);
    assert!(grown < ALLOWED, "the process grew by {grown} bytes in {} rounds", ROUNDS - WARM_UP);
    assert!(scope.anonymous_sequences().is_empty());
    assert_eq!(tensor.read().unwrap(), [ROUNDS as u32 - 1; 64]);
}

fn open() -> Manager {
    Manager::open_with(HostBackend::new(), ManagerOptions::default()).unwrap()
}

/// L8: anonymous sequences that have retired go by themselves.
#[test]
fn anonymous_sequences_do_not_pile_up() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let manager = open();
    let scope = manager.scope("for ever").unwrap();
    let tensor = scope.tensor::<u32>(64).unwrap();
    assert_no_growth(&scope, &tensor, |at| {
        scope.evaluate([op::fill(&tensor, at as u32)]).unwrap().wait().unwrap();
    });
    let report = scope.finish_blocking().unwrap();
    assert_eq!((report.executions, report.error_count), (ROUNDS, 0));
    assert!(manager.close().unwrap().is_clean());
}

/// L16: the runs of a hook are one row, and cost the report nothing.
#[test]
fn a_hook_is_one_row() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let manager = open();
    let scope = manager.scope("for ever").unwrap();
    let runs = Arc::new(AtomicU64::new(0));
    let seen = runs.clone();
    scope
        .register(hook::each("each", move |_| {
            seen.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }))
        .unwrap();
    let tensor = scope.tensor::<u32>(64).unwrap();
    let sequence = scope.named("fill").unwrap();
    assert_no_growth(&scope, &tensor, |at| {
        sequence.reset().unwrap();
        sequence.record(op::fill(&tensor, at as u32)).unwrap().run().unwrap();
    });
    let report = scope.finish_blocking().unwrap();
    assert_eq!(report.executions, ROUNDS);
    assert_eq!(report.hooks.len(), 1);
    assert_eq!((report.hooks[0].runs, report.hooks[0].failed, report.hooks[0].skipped), (ROUNDS, 0, 0));
    assert_eq!(runs.load(Ordering::Relaxed), ROUNDS);
    assert!(manager.close().unwrap().is_clean());
}
