//! Helpers of the cases from the field: rows of the table, counting hooks, one poll of a future, and the figures that
//! every case must end with.
//!
//! Not here: kernels (`kernels.rs`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tenure_core::{
    CleanupFailure, Error, Hook, Manager, ManagerOptions, MemoryReport, ScopeReport, TrimPolicy, hook,
};

use crate::bed::Bed;
use crate::case::{Case, Requirement};
pub(super) use crate::cases::hooks::support::{Yield, poll_once};
use crate::instrument::{CallKind, CallSet};

/// One mebibyte: a size that every pool grants exactly.
pub(super) const MIB: u64 = 1 << 20;

/// How long a case waits for what must come. Only keeps it from hanging.
pub(super) const WATCHDOG: Duration = Duration::from_secs(20);

/// Every driver call but the one that wakes a waiting thread.
pub(super) const DRIVER_WORK: CallSet = CallSet::ALL.without(CallSet::of(&[CallKind::Interrupt]));

/// A row of the table.
pub(super) const fn case(id: &'static str, rules: &'static [&'static str], run: fn(&Bed)) -> Case {
    Case { id, rules, requires: &[], run }
}

/// A row of the table, for devices that have something.
pub(super) const fn case_with(
    id: &'static str,
    rules: &'static [&'static str],
    requires: &'static [Requirement],
    run: fn(&Bed),
) -> Case {
    Case { id, rules, requires, run }
}

/// Options without trimming by policy, so that every trim is one that the case asked for.
pub(super) fn untrimmed() -> ManagerOptions {
    ManagerOptions::builder().trim(TrimPolicy::Never).build()
}

/// Counts; clones count together.
#[derive(Clone, Default)]
pub(super) struct Count(Arc<AtomicU64>);

impl Count {
    pub(super) fn add(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    /// A scope hook that counts its runs.
    pub(super) fn once(&self, label: &'static str) -> Hook {
        let count = self.clone();
        hook::once(label, move |_| {
            count.add();
            Ok(())
        })
    }

    /// An execution hook that counts its runs.
    pub(super) fn each(&self, label: &'static str) -> Hook {
        let count = self.clone();
        hook::each(label, move |_| {
            count.add();
            Ok(())
        })
    }
}

/// What happened, in order; clones write to the same list.
#[derive(Clone, Default)]
pub(super) struct Order(Arc<Mutex<Vec<String>>>);

impl Order {
    pub(super) fn note(&self, text: impl Into<String>) {
        self.0.lock().push(text.into());
    }

    pub(super) fn seen(&self) -> Vec<String> {
        self.0.lock().clone()
    }
}

/// The failure that finishing gave.
#[track_caller]
pub(super) fn cleanup_failure(result: Result<ScopeReport, Error>) -> Arc<CleanupFailure> {
    match result {
        Err(Error::Cleanup(failure)) => failure,
        other => panic!("the cleanup should have failed, not ended as {other:?}"),
    }
}

/// The memory figures once a pass that is under way has given back what it retired.
#[track_caller]
pub(super) fn settled(manager: &Manager) -> MemoryReport {
    manager.poll().unwrap();
    let memory = manager.memory();
    assert_sums(&memory);
    memory
}

/// L19: `reserved = live + retired + cached`, in bytes and in blocks.
#[track_caller]
pub(super) fn assert_sums(memory: &MemoryReport) {
    assert_eq!(memory.reserved, memory.live + memory.retired + memory.cached, "{memory:?}");
}

/// After all handles are gone and the queues are idle nothing is live or retired, and after a trim nothing is reserved
/// (L19).
#[track_caller]
pub(super) fn assert_given_back(manager: &Manager) {
    manager.wait_idle().unwrap();
    let memory = settled(manager);
    assert_eq!(memory.tensors, 0, "tensors are still there: {memory}");
    assert_eq!((memory.live.bytes, memory.retired.bytes), (0, 0), "{memory}");
    manager.trim().unwrap();
    let memory = manager.memory();
    assert_eq!(memory.reserved.bytes, 0, "{memory}");
    assert_eq!(memory.allocations, memory.frees, "{memory}");
}
