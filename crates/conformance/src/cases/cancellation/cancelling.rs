//! Cancellation, part 1: what a cancelled scope still does, what it refuses, and how it ends (L16).
//!
//! Not here: cancelling while others are at work (`racing.rs`).

use std::panic::{AssertUnwindSafe, catch_unwind};

use tenure_core::{Error, Outcome, RunError, ScopeState, SequenceState, hook, op};

use crate::bed::{Bed, Rig};
use crate::case::{Case, Requirement};
use crate::cases::hooks::support::{Fault, Order, case, case_with, cleanup_failure, culprits};
use crate::instrument::CallKind;

pub(super) const CASES: &[Case] = &[
    case(
        "cancellation/submitted_work_completes_and_the_rest_never_starts",
        &["L16"],
        submitted_work_completes,
    ),
    case("cancellation/it_returns_at_once", &["L4", "L16"], it_returns_at_once),
    case("cancellation/a_cancelled_sequence_can_be_destroyed", &["L5", "L16"], a_cancelled_sequence_ends),
    case("cancellation/sequences_made_later_never_start", &["L8", "L16"], sequences_made_later),
    case("cancellation/memory_and_hooks_are_still_to_be_had", &["L16"], memory_and_hooks_still),
    case("cancellation/children_are_cancelled_too", &["L16"], children_are_cancelled),
    case("cancellation/a_child_of_a_cancelled_scope_is_born_cancelled", &["L16"], a_late_child_is_cancelled),
    case("cancellation/a_scope_that_moved_out_is_left_alone", &["L16", "L17"], a_moved_scope_is_left_alone),
    case("cancellation/a_moved_scope_can_be_cancelled", &["L16", "L17"], a_moved_scope_can_be_cancelled),
    case("cancellation/twice_is_once", &["L16"], twice_is_once),
    case("cancellation/hooks_run_once_each_in_order", &["L10", "L11", "L16"], hooks_run_once_each),
    case("cancellation/hooks_run_and_may_evaluate", &["L11", "L16"], hooks_run_and_may_evaluate),
    case("cancellation/a_failing_body_stays_first", &["L13", "L16"], a_failing_body_stays_first),
    case("cancellation/finish_with_an_error_after_it", &["L13", "L16"], finish_with_an_error),
    case("cancellation/failing_hooks_are_told", &["L13", "L16"], failing_hooks_are_told),
    case("cancellation/a_panicking_body_is_panicked", &["L11", "L16"], a_panicking_body),
    case("cancellation/a_dropped_scope_is_cancelled", &["L16", "L17"], a_dropped_scope_is_cancelled),
    case("cancellation/a_forgotten_scope_is_cancelled", &["L16", "L17"], a_forgotten_scope_is_cancelled),
    case("cancellation/after_the_end_is_nothing", &["L16"], after_the_end_is_nothing),
    case_with(
        "cancellation/failed_work_is_told_all_the_same",
        &["L13", "L16"],
        &[Requirement::HostKernels],
        failed_work_is_told,
    ),
];

/// What was submitted completes with its result; what was not is `Cancelled`, and reaches no driver.
fn submitted_work_completes(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let scope = manager.scope("s").unwrap();
    let tensor = scope.tensor_from("data", &[1_u32; 64]).unwrap();
    let [first, second] = [scope.named("first").unwrap(), scope.named("second").unwrap()];
    first.record(op::fill(&tensor, 2)).unwrap();
    second.record(op::fill(&tensor, 3)).unwrap();
    probe.hold();
    let execution = first.evaluate().unwrap();
    scope.cancel();
    assert!(scope.is_cancelled());
    assert_eq!(scope.state(), ScopeState::Open);
    assert_eq!((first.state(), second.state()), (SequenceState::Running, SequenceState::Cancelled));
    assert!(matches!(first.evaluate(), Err(Error::Busy { .. })));
    let error = second.evaluate().unwrap_err();
    assert!(matches!(&error, Error::Cancelled { scope } if &**scope == "s"), "{error}");
    assert!(matches!(second.record(op::fill(&tensor, 4)), Err(Error::Cancelled { .. })));
    probe.release_all();
    execution.wait().unwrap();
    assert!(matches!(first.evaluate(), Err(Error::Cancelled { .. })));
    assert_eq!(tensor.read().unwrap(), [2; 64]);
    assert_eq!(probe.calls(CallKind::Submit), 1);
    let report = scope.finish_blocking().unwrap();
    assert_eq!((report.outcome, report.executions), (Outcome::Cancelled, 1));
}

/// Cancelling waits for nothing and asks nothing of the driver, with work in flight and recordings of all kinds.
fn it_returns_at_once(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let scope = manager.scope("s").unwrap();
    let child = scope.scope("child").unwrap();
    let tensor = scope.tensor::<u32>(64).unwrap();
    let encoded = scope.named("encoded").unwrap();
    encoded.record(op::fill(&tensor, 1)).unwrap().run().unwrap();
    let recorded = child.named("recorded").unwrap();
    recorded.record(op::fill(&tensor, 1)).unwrap();
    probe.hold();
    let execution = child.evaluate([op::fill(&tensor, 2)]).unwrap();
    {
        let _no_driver_call = probe.forbid_calls_here();
        scope.cancel();
    }
    assert_eq!((encoded.state(), recorded.state()), (SequenceState::Finished, SequenceState::Cancelled));
    assert!(matches!(encoded.evaluate(), Err(Error::Cancelled { .. })));
    probe.release_all();
    execution.wait().unwrap();
}

/// What a recording that never started holds can be let go before its scope ends.
fn a_cancelled_sequence_ends(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let scope = manager.scope("s").unwrap();
    let held = manager.tensor::<u32>(64).unwrap();
    let named = scope.named("never").unwrap();
    let anonymous = scope.sequence().unwrap();
    named.record(op::fill(&held, 1)).unwrap();
    anonymous.record(op::fill(&held, 1)).unwrap();
    drop(held);
    scope.cancel();
    let listed = [scope.named_sequences(), scope.anonymous_sequences()].concat();
    assert_eq!(listed.iter().map(|info| info.state).collect::<Vec<_>>(), [SequenceState::Cancelled; 2]);
    named.destroy().unwrap();
    assert_eq!(manager.memory().tensors, 1);
    drop(anonymous);
    assert_eq!(manager.memory().tensors, 0);
}

/// In a cancelled scope a sequence can be made and recorded; it does not start, and none is left behind.
fn sequences_made_later(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let scope = manager.scope("s").unwrap();
    let tensor = scope.tensor::<u32>(64).unwrap();
    scope.cancel();
    let late = scope.named("late").unwrap();
    late.record(op::fill(&tensor, 1)).unwrap();
    for _ in 0..2 {
        assert!(matches!(late.evaluate(), Err(Error::Cancelled { .. })));
        assert_eq!(late.state(), SequenceState::Cancelled);
    }
    for _ in 0..10 {
        assert!(matches!(scope.evaluate([op::fill(&tensor, 1)]), Err(Error::Cancelled { .. })));
    }
    assert!(scope.anonymous_sequences().is_empty());
    assert_eq!(probe.calls(CallKind::OpenSequence | CallKind::Record | CallKind::Submit), 0);
    assert_eq!(scope.finish_blocking().unwrap().executions, 0);
}

/// Until it finishes a cancelled scope is open: what is needed to end well is not refused.
fn memory_and_hooks_still(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let scope = manager.scope("s").unwrap();
    let tensor = scope.tensor_from("before", &[1_u32; 64]).unwrap();
    scope.cancel();
    scope.register(order.once("hook")).unwrap();
    order.adopt(&scope, "value");
    tensor.write(&[2; 64]).unwrap();
    let saved = scope.tensor_from("after", &tensor.read().unwrap()).unwrap();
    saved.promote().unwrap();
    let report = scope.finish_blocking().unwrap();
    assert_eq!((report.outcome, report.released_tensors), (Outcome::Cancelled, 1));
    assert_eq!(order.seen(), ["value", "hook"]);
    assert_eq!(saved.read().unwrap(), [2; 64]);
}

/// Cancelling reaches every scope below, not the one above, and not the one beside.
fn children_are_cancelled(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let outer = manager.scope("outer").unwrap();
    let middle = outer.scope("middle").unwrap();
    let beside = outer.scope("beside").unwrap();
    let inner = middle.scope("inner").unwrap();
    middle.cancel();
    assert_eq!((outer.is_cancelled(), middle.is_cancelled(), inner.is_cancelled()), (false, true, true));
    assert!(!beside.is_cancelled());
    let tensor = outer.tensor::<u32>(4).unwrap();
    assert!(matches!(inner.evaluate([op::fill(&tensor, 1)]), Err(Error::Cancelled { .. })));
    for scope in [&outer, &beside] {
        scope.evaluate([op::fill(&tensor, 1)]).unwrap().wait().unwrap();
    }
    assert_eq!(inner.finish_blocking().unwrap().outcome, Outcome::Cancelled);
    assert_eq!(middle.finish_blocking().unwrap().outcome, Outcome::Cancelled);
    assert_eq!(beside.finish_blocking().unwrap().outcome, Outcome::Completed);
    assert_eq!(outer.finish_blocking().unwrap().outcome, Outcome::Completed);
}

/// A scope that is opened under a cancelled one starts nothing either.
fn a_late_child_is_cancelled(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let outer = manager.scope("outer").unwrap();
    outer.cancel();
    let inner = outer.scope("inner").unwrap();
    assert!(inner.is_cancelled());
    let tensor = inner.tensor::<u32>(4).unwrap();
    assert!(matches!(inner.evaluate([op::fill(&tensor, 1)]), Err(Error::Cancelled { .. })));
    assert_eq!(inner.finish_blocking().unwrap().outcome, Outcome::Cancelled);
    outer.finish_blocking().unwrap();
}

/// What moved out before is no scope below any more: it works on.
fn a_moved_scope_is_left_alone(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let outer = manager.scope("outer").unwrap();
    let inner = outer.scope("inner").unwrap();
    let tensor = inner.tensor::<u32>(4).unwrap();
    let moved = inner.move_out().unwrap();
    outer.cancel();
    assert!(!moved.is_cancelled());
    moved.evaluate([op::fill(&tensor, 1)]).unwrap().wait().unwrap();
    assert_eq!(outer.finish_blocking().unwrap().outcome, Outcome::Cancelled);
    assert_eq!(moved.finish_blocking().unwrap().outcome, Outcome::Completed);
}

/// Cancelled and moved out, in either order, it is cancelled.
fn a_moved_scope_can_be_cancelled(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    for cancelled_first in [true, false] {
        let outer = manager.scope("outer").unwrap();
        let inner = outer.scope("inner").unwrap();
        let tensor = inner.tensor::<u32>(4).unwrap();
        if cancelled_first {
            inner.cancel();
        }
        let moved = inner.move_out().unwrap();
        moved.cancel();
        assert!(matches!(moved.evaluate([op::fill(&tensor, 1)]), Err(Error::Cancelled { .. })));
        assert_eq!(outer.finish_blocking().unwrap().outcome, Outcome::Completed);
        assert_eq!(moved.finish_blocking().unwrap().outcome, Outcome::Cancelled);
    }
}

/// A second cancel changes nothing.
fn twice_is_once(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let log = manager.record_events();
    let scope = manager.scope("s").unwrap();
    scope.cancel();
    scope.cancel();
    assert_eq!(scope.finish_blocking().unwrap().outcome, Outcome::Cancelled);
    assert_eq!(log.contract_text().matches("cancelled").count(), 1);
}

/// Every hook runs once, in the order of any other finish, and knows how the scope ends.
fn hooks_run_once_each(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let order = Order::default();
    let scope = manager.scope("s").unwrap();
    scope.register(order.after("after")).unwrap();
    scope.register(order.outcome("first")).unwrap();
    scope.register(order.each("each")).unwrap();
    scope.register(order.outcome("second")).unwrap();
    let tensor = scope.tensor::<u32>(4).unwrap();
    probe.hold();
    for value in 0..2 {
        scope.evaluate([op::fill(&tensor, value)]).unwrap();
    }
    scope.cancel();
    assert!(order.seen().is_empty(), "cancelling runs no hook");
    scope.evaluate([op::fill(&tensor, 9)]).unwrap_err();
    probe.release_all();
    let report = scope.finish_blocking().unwrap();
    assert_eq!(order.seen(), ["each #1", "each #2", "second Cancelled", "first Cancelled", "after"]);
    assert_eq!((report.outcome, report.executions), (Outcome::Cancelled, 2));
}

/// Hooks of a cancelled scope run, know the outcome, and may still use the device: cleanup was not cancelled.
fn hooks_run_and_may_evaluate(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let scope = manager.scope("s").unwrap();
    let tensor = scope.tensor_from("data", &[1_u32; 4]).unwrap();
    let target = manager.tensor::<u32>(4).unwrap();
    let copy = (tensor.clone(), target.clone());
    scope
        .register(hook::once("copies", move |context| {
            assert_eq!(context.outcome(), Some(Outcome::Cancelled));
            Ok(context.scope().evaluate([op::copy(&copy.0, &copy.1)])?.wait()?)
        }))
        .unwrap();
    scope.cancel();
    let report = scope.finish_blocking().unwrap();
    assert_eq!((report.outcome, report.executions), (Outcome::Cancelled, 1));
    assert_eq!(target.read().unwrap(), [1; 4]);
}

/// The body's error comes back as it is; the outcome says that it was cancelled.
fn a_failing_body_stays_first(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let result = manager.run("s", |scope| -> Result<(), String> {
        scope.cancel();
        Err("stopped at step 3".to_owned())
    });
    let Err(RunError::Body { error, report }) = result else { panic!("{result:?}") };
    assert_eq!(error, "stopped at step 3");
    assert_eq!(report.unwrap().outcome, Outcome::Cancelled);
}

/// A body that stops because its evaluation was `Cancelled` gets that very error back, blocking or not.
fn finish_with_an_error(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    for blocking in [true, false] {
        let scope = manager.scope("s").unwrap();
        let tensor = scope.tensor::<u32>(4).unwrap();
        scope.cancel();
        let body = scope.evaluate([op::fill(&tensor, 1)]).map(drop);
        let result = if blocking {
            scope.finish_with(body)
        } else {
            pollster::block_on(scope.finish_with_async(body))
        };
        let Err(RunError::Body { error, report }) = result else { panic!("{result:?}") };
        assert!(matches!(&error, Error::Cancelled { scope } if &**scope == "s"), "{error}");
        let report = report.unwrap();
        assert_eq!((report.outcome, report.error_count), (Outcome::Cancelled, 0));
        // A body that did not mind has its value.
        let scope = manager.scope("s").unwrap();
        scope.cancel();
        let (value, report) = scope.finish_with::<_, Error>(Ok(7)).unwrap();
        assert_eq!((value, report.outcome), (7, Outcome::Cancelled));
    }
}

/// Errors of hooks are errors of the finish; the outcome stays.
fn failing_hooks_are_told(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let scope = manager.scope("s").unwrap();
    scope.register(order.failing("last")).unwrap();
    scope.register(order.panicking("first")).unwrap();
    scope.cancel();
    let failure = cleanup_failure(scope.finish_blocking());
    assert_eq!(failure.report.outcome, Outcome::Cancelled);
    assert_eq!(culprits(&failure.report.errors), ["first", "last"]);
    let last = &failure.others[0];
    assert_eq!(last.source.downcast_ref::<Fault>(), Some(&Fault("last")));
}

/// A body that panics after it was cancelled has panicked: that is what its hooks are told, and the panic goes on.
fn a_panicking_body(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let caught = catch_unwind(AssertUnwindSafe(|| {
        manager.run("s", |scope| -> Result<(), Error> {
            scope.register(order.outcome("hook"))?;
            scope.cancel();
            panic!("out of the body")
        })
    }));
    assert_eq!(caught.unwrap_err().downcast_ref::<&str>(), Some(&"out of the body"));
    assert_eq!(order.seen(), ["hook Panicked"]);
}

/// Dropped without a finish, a cancelled scope ends as cancelled, on the cleanup thread.
fn a_dropped_scope_is_cancelled(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let scope = manager.scope("s").unwrap();
    scope.register(order.outcome("hook")).unwrap();
    let reference = (*scope).clone();
    scope.cancel();
    drop(scope);
    manager.close().unwrap();
    assert_eq!(order.seen(), ["hook Cancelled"]);
    assert_eq!(reference.state(), ScopeState::Finished(Outcome::Cancelled));
}

/// Forgotten, it ends when the manager closes, which names it.
fn a_forgotten_scope_is_cancelled(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let scope = manager.scope("forgotten").unwrap();
    scope.register(order.outcome("hook")).unwrap();
    scope.cancel();
    std::mem::forget(scope);
    let report = manager.close().unwrap();
    assert_eq!(report.unfinished_scopes.len(), 1);
    assert_eq!(order.seen(), ["hook Cancelled"]);
}

/// Cancelling a finished scope does not change how it ended.
fn after_the_end_is_nothing(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let log = manager.record_events();
    let scope = manager.scope("s").unwrap();
    scope.finish_blocking().unwrap();
    scope.cancel();
    assert_eq!(scope.state(), ScopeState::Finished(Outcome::Completed));
    let error = scope.finish_blocking().unwrap_err();
    assert!(matches!(error, Error::ScopeFinished { outcome: Outcome::Completed, .. }), "{error}");
    assert!(!log.contract_text().contains("cancelled"));
}

/// Work that was submitted before and fails is an error of the finish, if nobody has looked at it; the scope was
/// cancelled all the same.
fn failed_work_is_told(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let fail = manager.kernel(&bed.kernels().fail).unwrap();
    let scope = manager.scope("s").unwrap();
    let tensor = scope.tensor::<u32>(4).unwrap();
    probe.hold();
    scope.evaluate([op::dispatch(&fail).bind(&tensor)]).unwrap();
    scope.cancel();
    probe.release_all();
    let failure = cleanup_failure(scope.finish_blocking());
    assert_eq!((failure.report.outcome, failure.report.error_count), (Outcome::Cancelled, 1));
    assert_eq!((failure.primary.execution, failure.primary.hook.is_none()), (Some(1), true));
}
