//! The engine over a backend with no device: what needs no device to be shown. The contract's own cases are in the
//! conformance suite.

#![cfg(not(feature = "shuttle"))]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use support::Device;
use tenure_core::{Error, Manager, ManagerOptions, Outcome, SequenceState, hook, op};

#[test]
fn a_scope_runs_through_its_life() {
    let device = Device::default();
    let manager = Manager::open_with(device.backend(), ManagerOptions::default()).unwrap();
    let runs = Arc::new(AtomicUsize::new(0));
    let scope = manager.scope("s").unwrap();
    let seen = runs.clone();
    scope
        .register(hook::each("each", move |_| {
            seen.fetch_add(1, Ordering::SeqCst);
            Ok(())
        }))
        .unwrap();
    let tensor = scope.tensor::<f32>(1000).unwrap();
    let sequence = scope.named("fill").unwrap();
    sequence.record(op::fill(&tensor, 1.0)).unwrap();
    for _ in 0..10 {
        sequence.run().unwrap();
    }
    assert_eq!(sequence.state(), SequenceState::Finished);
    let report = scope.finish_blocking().unwrap();
    assert_eq!(report.outcome, Outcome::Completed);
    assert_eq!(report.executions, 10);
    assert_eq!(report.hooks[0].runs, 10);
    assert_eq!(runs.load(Ordering::SeqCst), 10);
    assert!(matches!(tensor.read(), Err(Error::Stale { .. })));
    assert!(matches!(scope.finish_blocking(), Err(Error::ScopeFinished { .. })));
    let report = manager.close().unwrap();
    assert!(report.is_clean(), "{report}");
    assert_eq!(device.balance(), (1, 1));
}

#[test]
fn a_dropped_scope_and_manager_close_in_the_background() {
    let device = Device::default();
    device.hold();
    let manager = Manager::open_with(device.backend(), ManagerOptions::default()).unwrap();
    let scope = manager.scope("s").unwrap();
    let tensor = scope.tensor::<u8>(1).unwrap();
    let execution = scope.evaluate([op::fill(&tensor, 7)]).unwrap();
    assert!(matches!(execution.wait_timeout(Duration::from_millis(1)), Err(Error::TimedOut { .. })));
    drop(manager);
    drop(scope);
    drop(tensor);
    device.complete_all();
    device.wait_shut_down();
    execution.wait().unwrap();
    assert_eq!(device.balance(), (1, 1));
}

#[test]
fn without_threads_poll_does_the_work() {
    let device = Device::default();
    let options = ManagerOptions::builder().threads(false).build();
    let manager = Manager::open_with(device.backend(), options).unwrap();
    let scope = manager.scope("s").unwrap();
    let tensor = scope.tensor::<u8>(1).unwrap();
    let runs = Arc::new(AtomicUsize::new(0));
    let seen = runs.clone();
    scope
        .register(hook::once("last", move |_| {
            seen.fetch_add(1, Ordering::SeqCst);
            Ok(())
        }))
        .unwrap();
    device.hold();
    let execution = scope.evaluate([op::fill(&tensor, 7)]).unwrap();
    drop(scope);
    assert_eq!(manager.poll().unwrap().retired, 0);
    device.complete_all();
    while runs.load(Ordering::SeqCst) == 0 {
        manager.poll().unwrap();
    }
    execution.wait().unwrap();
    assert!(manager.close().unwrap().is_clean());
}

#[test]
fn an_async_finish_runs_under_a_plain_executor() {
    let device = Device::default();
    let manager = Manager::open_with(device.backend(), ManagerOptions::default()).unwrap();
    let scope = manager.scope("s").unwrap();
    scope.register(hook::future("async", |_| async { Err("too bad".into()) })).unwrap();
    let error = pollster::block_on(scope.finish()).unwrap_err();
    assert_eq!(error.to_string(), "hook `async` failed in scope `s`: too bad");
    manager.close().unwrap();
    device.wait_shut_down();
}

#[test]
fn a_hook_that_outlives_its_deadline_is_left_behind() {
    let device = Device::default();
    let manager = Manager::open_with(device.backend(), ManagerOptions::default()).unwrap();
    let scope = manager.scope("s").unwrap();
    let _tensor = scope.tensor::<u8>(1).unwrap();
    let (release, held) = std::sync::mpsc::channel::<()>();
    scope
        .register(
            hook::once("stuck", move |_| {
                held.recv().unwrap();
                Ok(())
            })
            .deadline(Duration::from_millis(5)),
        )
        .unwrap();
    let error = scope.finish_blocking().unwrap_err();
    assert!(error.to_string().starts_with("hook `stuck` outlived its deadline"), "{error}");
    assert_eq!(manager.memory().retired.blocks, 1, "quarantined until the hook is back");
    assert!(matches!(
        manager.close_deadline(Duration::from_millis(5)),
        Err(Error::CloseTimedOut { detached_hooks, .. }) if detached_hooks.len() == 1
    ));
    release.send(()).unwrap();
    let report = manager.close().unwrap();
    assert_eq!(report.memory.reserved.bytes, 0);
    assert!(report.detached_hooks.is_empty());
    assert_eq!(device.balance(), (1, 1));
}
