//! Scopes that end without being finished, or before their work does: dropped, unwound, forgotten, timed out (L16,
//! L17).
//!
//! Not here: cancelling (`cancellation.rs`) and hooks that outlive their own deadline (`hooks/deadlines.rs`).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc;

use tenure_core::{
    BackendError, BackendErrorKind, Error, ExecutionStatus, ManagerOptions, Outcome, ScopeOptions, ScopeRef,
    ScopeState, hook, op,
};

use crate::bed::{Bed, Rig};
use crate::case::{Case, FIRST};
use crate::cases::hooks::support::{
    DRIVER_WORK, FAR, Fault, MIB, OnDrop, Order, SOON, assert_given_back, case, culprits, fill, number,
    outcome, poll_once, receive, runs, tell, work,
};
use crate::instrument::CallKind;

pub(super) const CASES: &[Case] = &[
    case("scopes/dropped_is_abandoned", &["L17", "L4", "L11"], dropped_is_abandoned),
    case("scopes/dropped_while_unwinding_is_panicked", &["L17"], dropped_while_unwinding_is_panicked),
    case("scopes/errors_of_a_dropped_scope_are_kept", &["L17", "L13"], errors_of_a_dropped_scope_are_kept),
    case("scopes/dropped_after_its_finish_is_nothing", &["L17", "L11"], dropped_after_its_finish),
    case("scopes/a_dropped_outer_takes_its_inner_along", &["L17", "L10"], a_dropped_outer_takes_its_inner),
    case("scopes/forgotten_is_finished_by_close", &["L17", "L28", "L11"], forgotten_is_finished_by_close),
    case("scopes/open_when_the_last_manager_goes", &["L17", "L6", "L11"], open_when_the_last_manager_goes),
    case("scopes/a_deadline_ends_the_wait_and_not_the_work", &["L16", "L4", "L11"], a_deadline_ends_the_wait),
    case("scopes/a_deadline_holds_for_the_awaiting_too", &["L16", "L18"], a_deadline_holds_for_the_awaiting),
    case("scopes/a_finish_deadline_is_inherited", &["L16"], a_finish_deadline_is_inherited),
    case("scopes/a_deadline_in_time_changes_nothing", &["L16"], a_deadline_in_time),
    case("scopes/a_late_executions_hook_goes_with_it", &["L11", "L16"], a_late_executions_hook_goes),
    case("scopes/errors_of_late_executions_are_kept", &["L13", "L16"], errors_of_late_executions_are_kept),
    case(
        "scopes/a_late_execution_outlives_its_scope",
        &["L11", "L16", "L5"],
        a_late_execution_outlives_its_scope,
    ),
];

/// Dropping a scope with work in flight waits for nothing and calls no driver; the cleanup thread finishes it as
/// abandoned once the device is done.
fn dropped_is_abandoned(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let scope = manager.scope("s").unwrap();
    let (sender, seen) = mpsc::channel();
    let each = sender.clone();
    let hook =
        hook::each("each", move |context| Ok(each.send((number(context).to_string(), context.outcome()))?));
    scope.register(hook).unwrap();
    let once = sender.clone();
    let hook = hook::once("once", move |context| {
        let thread = std::thread::current().name().unwrap_or_default().to_owned();
        Ok(once.send((thread, context.outcome()))?)
    });
    scope.register(hook).unwrap();
    let weak = ScopeRef::clone(&scope);
    probe.hold();
    work(&scope);
    {
        let _no_driver_work = probe.forbid_here(DRIVER_WORK);
        drop(scope);
    }
    assert_eq!(weak.state(), ScopeState::Finishing);
    assert!(seen.try_recv().is_err(), "nothing runs before the work has retired");
    assert!(manager.memory().live.bytes + manager.memory().retired.bytes > 0);
    probe.release_all();
    assert_eq!(receive(&seen), ("1".to_owned(), Some(Outcome::Abandoned)));
    assert_eq!(receive(&seen), ("tenure-cleanup".to_owned(), Some(Outcome::Abandoned)));
    assert!(manager.close().unwrap().is_clean());
    assert_eq!(weak.state(), ScopeState::Finished(Outcome::Abandoned));
    assert!(seen.try_recv().is_err());
}

/// A scope that a panic unwinds through is finished as panicked, and does not panic itself.
fn dropped_while_unwinding_is_panicked(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let (sender, seen) = mpsc::channel();
    let payload = catch_unwind(AssertUnwindSafe(|| {
        let scope = manager.scope("s").unwrap();
        let hook = hook::once("once", move |context| Ok(sender.send(outcome(context))?));
        scope.register(hook).unwrap();
        scope.register(hook::once("fails", |_| Err(Fault("hook").into()))).unwrap();
        work(&scope);
        std::panic::panic_any(Fault("payload"));
    }));
    assert_eq!(payload.unwrap_err().downcast_ref(), Some(&Fault("payload")));
    assert_eq!(receive(&seen), Outcome::Panicked);
    let report = manager.close().unwrap();
    assert_eq!((report.errors.len(), report.unfinished_scopes.len()), (1, 0));
}

/// What the hooks of a dropped scope say has no caller: `take_errors` has it, once, with everything known.
fn errors_of_a_dropped_scope_are_kept(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let scope = manager.scope("dropped").unwrap();
    scope.register(order.failing("second")).unwrap();
    scope.register(order.panicking("first")).unwrap();
    drop(scope);
    // The cleanup thread does one scope after the other: when this one's hook runs, the first one is over.
    let (sender, next) = mpsc::channel();
    let scope = manager.scope("next").unwrap();
    scope.register(hook::once("tells", move |_| Ok(sender.send(())?))).unwrap();
    drop(scope);
    receive(&next);
    let errors = manager.take_errors();
    let [Error::Cleanup(failure)] = &errors[..] else { panic!("one failed scope, not {errors:?}") };
    assert_eq!(culprits(&failure.report.errors), ["first", "second"]);
    assert_eq!((&*failure.report.scope, failure.report.outcome), ("dropped", Outcome::Abandoned));
    assert_eq!(order.seen(), ["first", "second"]);
    assert!(manager.take_errors().is_empty());
    assert!(manager.close().unwrap().is_clean());
}

/// The handle of a finished scope says nothing when it goes: its errors had a caller.
fn dropped_after_its_finish(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let scope = manager.scope("s").unwrap();
    scope.register(order.failing("fails")).unwrap();
    scope.finish_blocking().unwrap_err();
    drop(scope);
    assert!(manager.take_errors().is_empty());
    assert!(manager.close().unwrap().is_clean());
    assert_eq!(order.seen(), ["fails"]);
}

/// The outer scope is dropped first: the inner one is finished with it, before the outer's older entries, and its own
/// drop and finish find it over.
fn a_dropped_outer_takes_its_inner(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let (sender, over) = mpsc::channel();
    let outer = manager.scope("outer").unwrap();
    outer.register(hook::after_release("tells", move |_| Ok(sender.send(())?))).unwrap();
    outer.register(order.outcome("old")).unwrap();
    let inner = outer.scope("inner").unwrap();
    inner.register(order.outcome("inner")).unwrap();
    work(&inner);
    outer.register(order.outcome("new")).unwrap();
    drop(outer);
    receive(&over);
    assert_eq!(order.seen(), ["new Abandoned", "inner Abandoned", "old Abandoned"]);
    assert_eq!(inner.state(), ScopeState::Finished(Outcome::Abandoned));
    let late = inner.finish_blocking();
    assert!(matches!(late, Err(Error::ScopeFinished { outcome: Outcome::Abandoned, .. })), "{late:?}");
    drop(inner);
    assert!(manager.close().unwrap().is_clean());
    assert_eq!(order.seen().len(), 3);
}

/// Scopes and executions that were forgotten hold nobody up; closing finishes them, and their hooks run once.
fn forgotten_is_finished_by_close(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let order = Order::default();
    let scope = manager.scope("forgotten").unwrap();
    scope.register(order.outcome("outer")).unwrap();
    let child = scope.scope("child").unwrap();
    child.register(order.outcome("child")).unwrap();
    child.register(order.each("each")).unwrap();
    probe.hold();
    std::mem::forget(work(&child));
    std::mem::forget(child);
    std::mem::forget(scope);
    let second = manager.scope("second").unwrap();
    second.register(order.once("second")).unwrap();
    work(&second);
    probe.release_all();
    second.finish_blocking().unwrap();
    drop(second);
    manager.wait_idle().unwrap();
    let before = order.seen();
    assert!(!before.iter().any(|note| note.contains("Abandoned")), "{before:?}");
    let report = manager.close().unwrap();
    let mut notes = order.seen();
    notes.sort();
    assert_eq!(notes, ["child Abandoned", "each #1", "outer Abandoned", "second"]);
    let names: Vec<_> = report.unfinished_scopes.iter().map(|scope| &*scope.scope).collect();
    assert_eq!((names, report.memory.reserved.bytes), (vec!["forgotten", "child"], 0));
}

/// The last manager goes while a scope is open: it is finished as abandoned in the background, and its handle says
/// so.
fn open_when_the_last_manager_goes(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let order = Order::default();
    let scope = manager.scope("s").unwrap();
    scope.register(order.outcome("once")).unwrap();
    scope.register(order.each("each")).unwrap();
    let tensor = scope.tensor::<u32>(64).unwrap();
    probe.hold();
    fill(&scope, &tensor, 1);
    {
        let _no_driver_work = probe.forbid_here(DRIVER_WORK);
        drop(manager);
    }
    probe.release_all();
    assert!(probe.wait_shutdown(crate::cases::hooks::support::WATCHDOG));
    assert_eq!(order.seen(), ["each #1", "once Abandoned"]);
    let late = scope.finish_blocking();
    assert!(matches!(late, Err(Error::ScopeFinished { outcome: Outcome::Abandoned, .. })), "{late:?}");
    assert!(matches!(scope.manager(), Err(Error::Closed { .. })));
    assert!(matches!(tensor.read(), Err(Error::Stale { .. })));
}

/// Finishing stops waiting at its deadline: the stack runs, the tensors are retired and not reclaimed, the outcome is
/// `TimedOut`. The work completes later, and its hook runs once.
fn a_deadline_ends_the_wait(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let order = Order::default();
    let options = ScopeOptions::builder().label("s").finish_deadline(SOON).build();
    let scope = manager.scope_with(options).unwrap();
    let (sender, late) = mpsc::channel();
    let hook = hook::each("each", move |context| {
        let execution = context.execution().expect("an execution hook");
        Ok(sender.send((execution.number, execution.result.is_ok(), context.outcome()))?)
    });
    scope.register(hook).unwrap();
    scope.register(order.outcome("once")).unwrap();
    let tensor = scope.tensor::<u8>(MIB).unwrap();
    probe.hold();
    let execution = scope.evaluate([op::fill(tensor.view(0..64).unwrap(), 1)]).unwrap();
    let report = scope.finish_blocking().unwrap();
    assert_eq!((report.outcome, report.executions, report.error_count), (Outcome::TimedOut, 1, 0));
    assert_eq!(runs(&report), [("each", 0), ("once", 1)]);
    assert_eq!((report.released_tensors, report.released_bytes), (1, MIB));
    assert_eq!(order.seen(), ["once TimedOut"]);
    assert_eq!(scope.state(), ScopeState::Finished(Outcome::TimedOut));
    assert!(matches!(tensor.read(), Err(Error::Stale { .. })));
    manager.trim().unwrap();
    let memory = manager.memory();
    // L4: still in flight.
    assert_eq!((memory.live.bytes, memory.retired.bytes, memory.cached.bytes), (0, MIB, 0));
    assert_eq!(execution.status(), ExecutionStatus::Running);
    assert!(late.try_recv().is_err());
    probe.release_all();
    assert_eq!(receive(&late), (1, true, Some(Outcome::TimedOut)));
    execution.wait().unwrap();
    drop((tensor, scope));
    assert_given_back(&manager);
    assert!(manager.close().unwrap().is_clean());
    assert!(late.try_recv().is_err(), "the hook ran once");
}

/// A finish that is awaited comes back at the deadline as well.
fn a_deadline_holds_for_the_awaiting(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let options = ScopeOptions::builder().label("s").finish_deadline(SOON).build();
    let scope = manager.scope_with(options).unwrap();
    probe.hold();
    work(&scope);
    let mut other = scope.finish();
    assert!(poll_once(&mut other).is_pending());
    let report = pollster::block_on(scope.finish()).unwrap();
    assert_eq!(report.outcome, Outcome::TimedOut);
    assert_eq!(pollster::block_on(other).unwrap().outcome, Outcome::TimedOut);
    probe.release_all();
    drop(scope);
    assert_given_back(&manager);
}

/// A scope's deadline is its own, or its parent's, or the manager's. A child that times out does not make its parent
/// time out.
fn a_finish_deadline_is_inherited(bed: &Bed) {
    let with_manager = bed.open_with(ManagerOptions::builder().finish_deadline(SOON).build());
    let scope = with_manager.manager.scope("manager's").unwrap();
    with_manager.probe.hold();
    work(&scope);
    assert_eq!(scope.finish_blocking().unwrap().outcome, Outcome::TimedOut);
    with_manager.probe.release_all();

    let Rig { manager, probe } = bed.open();
    let parent = manager.scope_with(ScopeOptions::builder().finish_deadline(SOON).build()).unwrap();
    let child = parent.scope("parent's").unwrap();
    probe.hold();
    work(&child);
    assert_eq!(child.finish_blocking().unwrap().outcome, Outcome::TimedOut);
    assert_eq!(parent.finish_blocking().unwrap().outcome, Outcome::Completed);
    probe.release_all();
    assert_given_back(&manager);
}

/// A deadline that does not pass is not seen.
fn a_deadline_in_time(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let order = Order::default();
    let scope = manager.scope_with(ScopeOptions::builder().finish_deadline(FAR).build()).unwrap();
    scope.register(order.each("each")).unwrap();
    probe.hold();
    work(&scope);
    let mut finish = scope.finish();
    assert!(poll_once(&mut finish).is_pending());
    assert_eq!(probe.release_one(FIRST), Some(1));
    let report = pollster::block_on(finish).unwrap();
    assert_eq!((report.outcome, runs(&report)), (Outcome::Completed, vec![("each", 1)]));
    probe.release_all();
    drop(scope);
    assert_given_back(&manager);
}

/// Executions that a timed-out scope left behind keep their hooks until the last one has run; then what those
/// captured goes, with nobody waiting.
fn a_late_execution_outlives_its_scope(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let options = ScopeOptions::builder().label("s").finish_deadline(SOON).build();
    let scope = manager.scope_with(options).unwrap();
    let (sender, seen) = mpsc::channel();
    let gone = sender.clone();
    let sentinel = Arc::new(OnDrop(move || tell(&gone, 0)));
    let watch = Arc::downgrade(&sentinel);
    let hook = hook::each("each", move |context| {
        let _ = &sentinel;
        Ok(sender.send(number(context))?)
    });
    scope.register(hook).unwrap();
    let tensor = scope.tensor::<u32>(64).unwrap();
    probe.hold();
    let executions = [1, 2].map(|value| fill(&scope, &tensor, value));
    assert_eq!(scope.finish_blocking().unwrap().outcome, Outcome::TimedOut);
    drop((scope, tensor));
    assert!(watch.upgrade().is_some());
    assert_eq!(probe.release_one(FIRST), Some(1));
    assert_eq!(receive(&seen), 1);
    executions[0].wait().unwrap();
    assert!(watch.upgrade().is_some(), "the second execution still needs its hook");
    assert_eq!(probe.release_one(FIRST), Some(2));
    assert_eq!(receive(&seen), 2);
    assert_eq!(receive(&seen), 0, "what the hook captured");
    executions[1].wait().unwrap();
    assert!(watch.upgrade().is_none());
    probe.release_all();
    assert_given_back(&manager);
}

/// A hook that is registered after the only execution of a scope was submitted never runs. What it captured goes when
/// that late execution has retired, whoever notices.
fn a_late_executions_hook_goes(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    for _ in 0..10 {
        let options = ScopeOptions::builder().label("s").finish_deadline(SOON).build();
        let scope = manager.scope_with(options).unwrap();
        probe.hold();
        let execution = work(&scope);
        let (sender, gone) = mpsc::channel();
        let (value, own) = (OnDrop(move || tell(&sender, ())), ScopeRef::clone(&scope));
        let hook = hook::each("never", move |_| {
            let _ = (&value, &own);
            Ok(())
        });
        scope.register(hook).unwrap();
        assert_eq!(scope.finish_blocking().unwrap().outcome, Outcome::TimedOut);
        probe.release_all();
        execution.wait().unwrap();
        receive(&gone);
    }
    assert_given_back(&manager);
}

/// What fails after the report of a timed-out scope is out, a late execution or its hook, is kept by the manager.
fn errors_of_late_executions_are_kept(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let options = ScopeOptions::builder().label("s").finish_deadline(SOON).build();
    let scope = manager.scope_with(options).unwrap();
    let (sender, gone) = mpsc::channel();
    let value = OnDrop(move || tell(&sender, ()));
    let hook = hook::each("each", move |_| {
        let _ = &value;
        Err(Fault("late").into())
    });
    scope.register(hook).unwrap();
    probe.hold();
    work(&scope);
    let report = scope.finish_blocking().unwrap();
    assert_eq!((report.outcome, report.error_count), (Outcome::TimedOut, 0));
    probe.fail_nth(CallKind::Collect, 1, BackendErrorKind::Driver);
    probe.release_all();
    receive(&gone);
    let errors = manager.take_errors();
    let [failed, hook] = &errors[..] else { panic!("the execution and its hook, not {errors:?}") };
    assert!(failed.find::<BackendError>().is_some(), "{failed:?}");
    assert_eq!(hook.find::<Fault>(), Some(&Fault("late")), "{hook:?}");
    let Error::AfterFinish(known) = hook else { panic!("{hook:?}") };
    assert_eq!((known.hook.as_deref(), &*known.scope, known.execution), (Some("each"), "s", Some(1)));
    drop(scope);
    assert!(manager.close().unwrap().is_clean());
}
