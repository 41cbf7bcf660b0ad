//! Models of the real engine under shuttle, which explores interleavings of every lock, wait and atomic:
//! handle drop against the sweep of retired blocks against finish against close. Graphs and kept tensors have their own (`graphs.rs`, `memory.rs`).
//!
//! Run with `cargo test -p tenure-core --features shuttle --test shuttle`.

#![cfg(feature = "shuttle")]

mod graphs;
mod memory;
#[path = "../support/mod.rs"]
mod support;
mod waiting;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use shuttle::thread;
use support::Device;
use tenure_core::{CleanupContext, Error, Manager, ManagerOptions, Outcome, hook, op};

/// Interleavings tried for each model.
const ITERATIONS: usize = 1_000;

/// Preemptions that the second scheduler spends on each interleaving.
const DEPTH: usize = 3;

fn explore(model: impl Fn() + Send + Sync + Clone + 'static) {
    shuttle::check_random(model.clone(), ITERATIONS);
    shuttle::check_pct(model, ITERATIONS, DEPTH);
}

/// A tensor ends while the device uses it, memory is reclaimed and trimmed, and the scope finishes.
#[test]
fn end_of_tensor_against_reclaim_against_trim_against_finish() {
    explore(|| {
        let device = Device::default();
        device.hold();
        let manager = Manager::open_with(device.backend(), ManagerOptions::default()).unwrap();
        let scope = manager.scope("s").unwrap();
        let tensor = scope.tensor::<f32>(64).unwrap();
        let execution = scope.evaluate([op::fill(&tensor, 1.0)]).unwrap();
        let ending = thread::spawn(move || tensor.destroy().unwrap());
        let trimming = {
            let manager = manager.clone();
            thread::spawn(move || manager.trim().unwrap().blocks)
        };
        let completing = {
            let device = device.clone();
            thread::spawn(move || device.complete_all())
        };
        let finishing = thread::spawn(move || scope.finish_blocking().unwrap().outcome);
        execution.wait().unwrap();
        ending.join().unwrap();
        assert!(trimming.join().unwrap() <= 1);
        completing.join().unwrap();
        assert_eq!(finishing.join().unwrap(), Outcome::Completed);
        let report = manager.close().unwrap();
        assert!(report.is_clean(), "{report}");
        assert_eq!(report.memory.reserved.bytes, 0);
        assert_eq!(device.balance(), (1, 1));
    });
}

/// The manager closes while a handle is dropped, the device completes and a scope finishes: whoever comes first.
#[test]
fn close_against_drop_against_finish() {
    explore(|| {
        let device = Device::default();
        device.hold();
        let manager = Manager::open_with(device.backend(), ManagerOptions::default()).unwrap();
        let scope = manager.scope("s").unwrap();
        let tensor = manager.tensor::<f32>(64).unwrap();
        scope.evaluate([op::fill(&tensor, 1.0)]).unwrap();
        let dropping = thread::spawn(move || drop(tensor));
        let finishing = thread::spawn(move || match scope.finish_blocking() {
            Ok(report) => assert!(matches!(report.outcome, Outcome::Completed | Outcome::Abandoned)),
            Err(error) => assert!(matches!(error, Error::ScopeFinished { .. }), "{error}"),
        });
        let completing = {
            let device = device.clone();
            thread::spawn(move || device.complete_all())
        };
        let report = manager.close().unwrap();
        assert!(report.errors.is_empty(), "{report}");
        dropping.join().unwrap();
        finishing.join().unwrap();
        completing.join().unwrap();
        assert_eq!(device.balance(), (1, 1));
    });
}

/// Two finishes and a retiring execution: its hook runs once, and both get the same report.
#[test]
fn hooks_run_once_under_two_finishes() {
    explore(|| {
        let device = Device::default();
        device.hold();
        let manager = Manager::open_with(device.backend(), ManagerOptions::default()).unwrap();
        let scope = Arc::new(manager.scope("s").unwrap());
        let runs = Arc::new(AtomicUsize::new(0));
        for label in ["first", "second"] {
            let runs = runs.clone();
            let count = move |_: &CleanupContext| {
                runs.fetch_add(1, Ordering::SeqCst);
                Ok(())
            };
            scope.register(hook::each(label, count)).unwrap();
        }
        let tensor = scope.tensor::<f32>(64).unwrap();
        scope.evaluate([op::fill(&tensor, 1.0)]).unwrap();
        let other = {
            let scope = scope.clone();
            thread::spawn(move || scope.finish_blocking())
        };
        let completing = {
            let device = device.clone();
            thread::spawn(move || device.complete_all())
        };
        let mine = scope.finish_blocking();
        let theirs = other.join().unwrap();
        completing.join().unwrap();
        for result in [mine, theirs] {
            match result {
                Ok(report) => assert_eq!(report.executions, 1),
                Err(error) => assert!(matches!(error, Error::ScopeFinished { .. }), "{error}"),
            }
        }
        assert_eq!(runs.load(Ordering::SeqCst), 2, "each hook once");
        assert!(manager.close().unwrap().is_clean());
    });
}

/// Everything is dropped, on threads of their own, with work in flight: the device ends once, with nothing left.
#[test]
fn everything_dropped_at_once() {
    explore(|| {
        let device = Device::default();
        device.hold();
        let manager = Manager::open_with(device.backend(), ManagerOptions::default()).unwrap();
        let scope = manager.scope("s").unwrap();
        let tensor = scope.tensor::<f32>(64).unwrap();
        let sequence = scope.named("fill").unwrap();
        sequence.record(op::fill(&tensor, 1.0)).unwrap();
        let execution = sequence.evaluate().unwrap();
        let threads = [
            thread::spawn(move || drop(manager)),
            thread::spawn(move || drop(scope)),
            thread::spawn(move || drop((tensor, execution))),
            thread::spawn(move || drop(sequence)),
        ];
        device.complete_all();
        device.wait_shut_down();
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(device.balance(), (1, 1));
    });
}

/// A copy from the host, an evaluation of the same tensor and a trim exclude each other where they must.
#[test]
fn host_copy_against_evaluation_against_trim() {
    explore(|| {
        let device = Device::default();
        let manager = Manager::open_with(device.backend(), ManagerOptions::default()).unwrap();
        let scope = manager.scope("s").unwrap();
        let tensor = scope.tensor::<u8>(256).unwrap();
        let writing = {
            let tensor = tensor.clone();
            thread::spawn(move || tensor.write(&[7; 256]).unwrap())
        };
        let trimming = {
            let manager = manager.clone();
            thread::spawn(move || manager.trim().unwrap())
        };
        scope.evaluate([op::fill(&tensor, 1)]).unwrap().wait().unwrap();
        writing.join().unwrap();
        assert_eq!(trimming.join().unwrap().blocks, 0, "the live block stays");
        assert!(scope.finish_blocking().is_ok());
        drop(tensor);
        assert!(manager.close().unwrap().is_clean());
        assert_eq!(device.balance(), (1, 1));
    });
}
