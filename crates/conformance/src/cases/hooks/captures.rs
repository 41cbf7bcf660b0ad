//! What hooks capture: it lives until the last run and goes then, on every way (L11, L18, L15).
//!
//! Not here: captured values that panic when they go (`panics.rs`).

use std::sync::mpsc;
use std::sync::{Arc, Weak};

use tenure_core::{
    BoxError, CleanupContext, Error, HookClass, ManagedScope, Outcome, Period, ScopeState, hook, op,
};

use super::support::{
    Custom, Fault, Latch, OnDrop, Signal, WATCHDOG, Yield, assert_given_back, case, cleanup_failure,
    poll_once, receive, tell, work,
};
use crate::bed::{Bed, Rig};
use crate::case::Case;

pub(super) const CASES: &[Case] = &[
    case("hooks/captures_go_after_the_last_run", &["L11", "L16"], captures_go_after_the_last_run),
    case("hooks/captures_of_skipped_hooks_go_too", &["L14", "L11"], captures_of_skipped_hooks_go),
    case("hooks/captures_of_failed_hooks_go_too", &["L13", "L11"], captures_of_failed_hooks_go),
    case("hooks/captures_of_a_hook_that_is_left_pending_stay", &["L18"], captures_of_a_pending_hook_stay),
    case("hooks/captured_tensors_are_given_back", &["L2", "L11", "L19"], captured_tensors_are_given_back),
    case("hooks/a_captured_value_closes_the_manager", &["L15", "L6"], a_captured_value_closes_the_manager),
    case("hooks/a_captured_scope_is_finished_when_it_goes", &["L15", "L17"], a_captured_scope_is_finished),
];

/// Registers a hook of each kind that captures a clone of the sentinel.
fn register_all(scope: &ManagedScope, sentinel: &Arc<()>, fails: bool) {
    let end = move || -> Result<(), BoxError> { if fails { Err(Fault("fails").into()) } else { Ok(()) } };
    let held = sentinel.clone();
    let run = move |_: &CleanupContext| {
        let _ = &held;
        end()
    };
    scope.register(hook::once("once", run.clone())).unwrap();
    scope.register(hook::after_release("after", run.clone())).unwrap();
    scope.register(hook::each("each", run.clone())).unwrap();
    let held = sentinel.clone();
    let later = hook::future("async", move |_| async move {
        Yield::default().await;
        drop(held);
        end()
    });
    scope.register(later).unwrap();
    for (label, period) in [
        ("custom once", Period::Scope),
        ("custom each", Period::Execution),
        ("custom after", Period::AfterRelease),
    ] {
        scope.register(hook::custom(Custom::new(label, period, run.clone()))).unwrap();
    }
    scope.adopt("adopted", sentinel.clone(), move |_, _| end()).unwrap();
    let each = run.clone();
    let duplicate = hook::each("each again", each).key("k");
    scope.register(duplicate).unwrap();
    scope.register(hook::each("each again", run).key("k")).unwrap();
}

/// When finish returns, nothing that the hooks captured is left, whatever kind they were; a report keeps none of it.
fn captures_go_after_the_last_run(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    for executions in [0, 2] {
        let sentinel = Arc::new(());
        let scope = manager.scope("s").unwrap();
        register_all(&scope, &sentinel, false);
        for _ in 0..executions {
            work(&scope);
        }
        let watch: Weak<()> = Arc::downgrade(&sentinel);
        drop(sentinel);
        assert_eq!(watch.strong_count(), 9, "one for each hook that was taken");
        let report = scope.finish_blocking().unwrap();
        assert_eq!(report.hooks.len(), 9);
        assert_eq!(watch.strong_count(), 0, "after {executions} executions");
    }
    assert_given_back(&manager);
}

/// A device hook that is skipped after loss lets go of what it captured as well.
fn captures_of_skipped_hooks_go(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let sentinel = Arc::new(());
    let scope = manager.scope("s").unwrap();
    let held = sentinel.clone();
    let run = move |_: &CleanupContext| -> Result<(), BoxError> {
        let _ = &held;
        panic!("a device hook ran after loss")
    };
    scope.register(hook::once("once", run.clone()).device()).unwrap();
    scope.register(hook::after_release("after", run.clone()).device()).unwrap();
    scope.register(hook::each("each", run.clone()).device()).unwrap();
    let mut custom = Custom::new("custom", Period::Scope, run);
    custom.class = HookClass::Device;
    scope.register(hook::custom(custom)).unwrap();
    probe.hold();
    work(&scope);
    probe.lose_device();
    let failure = cleanup_failure(scope.finish_blocking());
    assert!(failure.report.hooks.iter().all(|row| (row.runs, row.skipped) == (0, 1)), "{}", failure.report);
    assert_eq!((failure.report.outcome, failure.report.error_count), (Outcome::DeviceLost, 1));
    assert_eq!(Arc::strong_count(&sentinel), 1);
}

/// Hooks that fail are dropped like those that do not; the error that is kept keeps none of it.
fn captures_of_failed_hooks_go(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let sentinel = Arc::new(());
    let scope = manager.scope("s").unwrap();
    register_all(&scope, &sentinel, true);
    work(&scope);
    let failure = cleanup_failure(scope.finish_blocking());
    assert_eq!(failure.report.error_count, 9);
    assert_eq!(Arc::strong_count(&sentinel), 1);
    assert_given_back(&manager);
}

/// An async hook that nobody polls keeps what it holds, whatever is dropped around it, until it has ended.
fn captures_of_a_pending_hook_stay(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let (sentinel, signal) = (Arc::new(()), Signal::default());
    let scope = manager.scope("s").unwrap();
    let tensor = scope.tensor::<u32>(64).unwrap();
    let (held, wait, used) = (sentinel.clone(), signal.clone(), tensor.clone());
    let hook = hook::future("waits", move |_| async move {
        wait.wait().await;
        // L18: alive until the hook is done.
        let values = used.read_async().await?;
        assert_eq!(values, [1; 64]);
        drop(held);
        Ok(())
    });
    scope.register(hook).unwrap();
    super::support::fill(&scope, &tensor, 1);
    manager.wait_idle().unwrap();
    let mut finish = scope.finish();
    assert!(poll_once(&mut finish).is_pending());
    drop((finish, scope));
    drop(tensor);
    drop(manager);
    assert_eq!(Arc::strong_count(&sentinel), 2);
    assert!(!probe.is_shut_down());
    signal.set();
    assert!(probe.wait_shutdown(WATCHDOG));
    assert_eq!(Arc::strong_count(&sentinel), 1);
}

/// A tensor whose last handle a hook holds goes with the hook; a sequence too.
fn captured_tensors_are_given_back(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let scope = manager.scope("s").unwrap();
    let tensor = manager.tensor::<u32>(64).unwrap();
    let other = manager.scope("other").unwrap();
    let sequence = other.sequence().unwrap();
    sequence.record(op::fill(&tensor, 9)).unwrap();
    let hook = hook::each("holds", move |_| {
        sequence.run()?;
        assert_eq!(tensor.read()?, [9; 64]);
        Ok(())
    });
    scope.register(hook).unwrap();
    work(&scope);
    work(&scope);
    let report = scope.finish_blocking().unwrap();
    assert_eq!(report.hooks[0].runs, 2);
    assert_eq!((manager.memory().tensors, other.anonymous_sequences().len()), (0, 0));
    assert_eq!(other.finish_blocking().unwrap().executions, 2);
    assert_given_back(&manager);
}

/// The drop of what an execution hook captured runs outside of any hook: even `close` works there, on the thread that
/// finished, and on the cleanup thread.
fn a_captured_value_closes_the_manager(bed: &Bed) {
    for drops in [false, true] {
        let Rig { manager, probe } = bed.open();
        let (sender, closed) = mpsc::channel();
        let scope = manager.scope("s").unwrap();
        let owned = manager.clone();
        let mut sender = Some(sender);
        let value = OnDrop(move || {
            let report = owned.close();
            if let Some(sender) = sender.take() {
                tell(&sender, report);
            }
        });
        let hook = hook::each("closes", move |_| {
            let _ = &value;
            Ok(())
        });
        scope.register(hook).unwrap();
        work(&scope);
        drop(manager);
        if drops {
            drop(scope);
        } else {
            assert_eq!(scope.finish_blocking().unwrap().outcome, Outcome::Completed);
        }
        let report = receive(&closed).unwrap();
        assert!(report.is_clean(), "{report}");
        assert!(probe.is_shut_down());
    }
}

/// A hook captures the only handle of another scope: when the hook goes, that scope is abandoned, and its own hook
/// runs, which finds everything at its service.
fn a_captured_scope_is_finished(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let (sender, seen) = mpsc::channel();
    let latch = Latch::default();
    let other = manager.scope("other").unwrap();
    let wait = latch.clone();
    let hook = hook::once("once", move |context| {
        wait.wait();
        let late = context.scope().tensor_from("late", &[4_u32; 64])?;
        Ok(sender.send((context.outcome(), late.read()?))?)
    });
    other.register(hook).unwrap();
    let state = tenure_core::ScopeRef::clone(&other);
    let scope = manager.scope("s").unwrap();
    let hook = hook::each("owner", move |_| {
        let _ = &other;
        Ok(())
    });
    scope.register(hook).unwrap();
    scope.finish_blocking().unwrap();
    assert_eq!(state.state(), ScopeState::Finishing, "nobody waits for it");
    latch.open();
    assert_eq!(receive(&seen), (Some(Outcome::Abandoned), vec![4; 64]));
    let report = manager.close().unwrap();
    assert_eq!((report.unfinished_scopes.len(), report.errors.len()), (0, 0));
    assert!(matches!(state.tensor::<u32>(1), Err(Error::Closed { .. } | Error::ScopeFinished { .. })));
}
