//! Models of evaluating and waiting: nobody who waits is forgotten, however the timeline thread rests just then.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use shuttle::sync::{Condvar, Mutex};
use shuttle::thread;
use tenure_core::{Manager, ManagerOptions, hook, op};

use crate::explore;
use crate::support::Device;

/// One thread blocks for an execution, another awaits it: both are told, whoever retires it.
#[test]
fn a_future_and_a_blocking_wait() {
    explore(|| {
        let device = Device::default();
        device.hold();
        let manager = Manager::open_with(device.backend(), ManagerOptions::default()).unwrap();
        let scope = manager.scope("s").unwrap();
        let tensor = manager.tensor::<f32>(64).unwrap();
        let execution = scope.evaluate([op::fill(&tensor, 1.0)]).unwrap();
        let awaiting = {
            let execution = execution.clone();
            thread::spawn(move || shuttle::future::block_on(execution).unwrap())
        };
        let completing = {
            let device = device.clone();
            thread::spawn(move || device.complete_all())
        };
        execution.wait().unwrap();
        awaiting.join().unwrap();
        completing.join().unwrap();
        scope.finish_blocking().unwrap();
        drop((tensor, execution));
        assert!(manager.close().unwrap().is_clean());
    });
}

/// Two threads evaluate in turns of their own; one waits by itself, one relies on the timeline thread.
#[test]
fn submissions_and_futures_on_two_threads() {
    explore(|| {
        let device = Device::default();
        let manager = Manager::open_with(device.backend(), ManagerOptions::default()).unwrap();
        let scope = Arc::new(manager.scope("s").unwrap());
        let other = {
            let scope = scope.clone();
            let tensor = manager.tensor::<f32>(64).unwrap();
            thread::spawn(move || {
                for _ in 0..2 {
                    let execution = scope.evaluate([op::fill(&tensor, 1.0)]).unwrap();
                    shuttle::future::block_on(execution).unwrap();
                }
            })
        };
        let tensor = manager.tensor::<f32>(64).unwrap();
        let sequence = scope.named("fill").unwrap();
        sequence.record(op::fill(&tensor, 2.0)).unwrap();
        for _ in 0..2 {
            sequence.run().unwrap();
        }
        other.join().unwrap();
        assert_eq!(scope.finish_blocking().unwrap().executions, 4);
        drop((tensor, sequence));
        assert!(manager.close().unwrap().is_clean());
    });
}

/// One execution after the other, awaited by a thread that only the timeline thread can help.
#[test]
fn futures_one_after_the_other() {
    explore(|| {
        let device = Device::default();
        let manager = Manager::open_with(device.backend(), ManagerOptions::default()).unwrap();
        let scope = manager.scope("s").unwrap();
        let tensor = manager.tensor::<f32>(64).unwrap();
        let sequence = scope.named("fill").unwrap();
        sequence.record(op::fill(&tensor, 1.0)).unwrap();
        for _ in 0..4 {
            shuttle::future::block_on(sequence.evaluate().unwrap()).unwrap();
        }
        assert_eq!(scope.finish_blocking().unwrap().executions, 4);
        drop((tensor, sequence));
        assert!(manager.close().unwrap().is_clean());
    });
}

/// An execution hook runs though nobody waits for its execution.
#[test]
fn hooks_of_an_execution_that_nobody_waits_for() {
    explore(|| {
        let device = Device::default();
        let manager = Manager::open_with(device.backend(), ManagerOptions::default()).unwrap();
        let scope = manager.scope("s").unwrap();
        let tensor = manager.tensor::<f32>(64).unwrap();
        let ran = Arc::new((Mutex::new(false), Condvar::new()));
        let tell = ran.clone();
        let hook = hook::each("tell", move |_| {
            *tell.0.lock().unwrap() = true;
            tell.1.notify_all();
            Ok(())
        });
        scope.register(hook).unwrap();
        drop(scope.evaluate([op::fill(&tensor, 1.0)]).unwrap());
        let mut seen = ran.0.lock().unwrap();
        while !*seen {
            seen = ran.1.wait(seen).unwrap();
        }
        drop(seen);
        scope.finish_blocking().unwrap();
        drop(tensor);
        assert!(manager.close().unwrap().is_clean());
    });
}

/// The last handle of a sequence goes while its scope finishes and its manager closes: its native recording is back
/// before the device ends.
#[test]
fn the_last_handle_of_a_sequence_against_close() {
    explore(|| {
        let device = Device::default();
        let manager = Manager::open_with(device.backend(), ManagerOptions::default()).unwrap();
        let scope = manager.scope("s").unwrap();
        let tensor = manager.tensor::<f32>(64).unwrap();
        let sequence = scope.sequence().unwrap();
        sequence.record(op::fill(&tensor, 1.0)).unwrap();
        sequence.run().unwrap();
        let ends = Arc::new(AtomicUsize::new(0));
        let ended = ends.clone();
        let dropping = thread::spawn(move || {
            drop(sequence);
            ended.fetch_add(1, Ordering::SeqCst);
        });
        drop(tensor);
        let report = manager.close().unwrap();
        dropping.join().unwrap();
        assert_eq!(ends.load(Ordering::SeqCst), 1);
        assert!(report.errors.is_empty(), "{report}");
        assert_eq!(device.balance(), (1, 1));
        drop(scope);
    });
}
