//! How often hooks run, and for what: once a scope, once an execution, once a key (L7, L11, L12).
//!
//! Not here: what happens when they fail (`errors.rs`, `panics.rs`).

use std::sync::Arc;
use std::sync::mpsc;

use tenure_core::{BackendErrorKind, Error, ExecutionStatus, Hook, Period, SequenceState, hook, op};

use super::support::{
    Count, Custom, Latch, Order, assert_given_back, case, cleanup_failure, fill, number, receive, runs, work,
};
use crate::bed::{Bed, Rig};
use crate::case::{Case, FIRST};
use crate::instrument::CallKind;

pub(super) const CASES: &[Case] = &[
    case("hooks/each_runs_once_an_execution", &["L11"], each_runs_once_an_execution),
    case("hooks/scope_hooks_run_with_no_execution", &["L11"], scope_hooks_run_with_no_execution),
    case("hooks/failed_executions_count", &["L11"], failed_executions_count),
    case("hooks/refused_executions_do_not_count", &["L11", "L3"], refused_executions_do_not_count),
    case("hooks/executions_are_never_coalesced", &["L11"], executions_are_never_coalesced),
    case("hooks/execution_hooks_come_before_scope_hooks", &["L11", "L16"], execution_hooks_come_first),
    case("hooks/a_hook_applies_to_later_submissions", &["L11"], a_hook_applies_to_later_submissions),
    case("hooks/the_result_is_there_before_the_hooks", &["L7"], the_result_is_there_first),
    case("hooks/a_key_is_one_registration", &["L12"], a_key_is_one_registration),
    case("hooks/a_key_is_a_scopes_and_a_periods", &["L12"], a_key_is_a_scopes_and_a_periods),
    case("hooks/a_key_does_not_come_back_after_its_run", &["L12", "L10"], a_key_does_not_come_back),
    case("hooks/a_keyed_execution_hook_runs_once_an_execution", &["L12", "L11"], a_keyed_execution_hook),
    case("hooks/custom_hooks_of_every_period", &["L11"], custom_hooks_of_every_period),
];

/// An execution hook runs once for each execution, a scope hook once for the scope.
fn each_runs_once_an_execution(bed: &Bed) {
    let manager = bed.open().manager;
    let order = Order::default();
    let scope = manager.scope("counts").unwrap();
    scope.register(order.each("each")).unwrap();
    scope.register(order.once("once")).unwrap();
    let tensor = scope.tensor::<u32>(16).unwrap();
    for value in 0..3 {
        fill(&scope, &tensor, value).wait().unwrap();
    }
    let report = scope.finish_blocking().unwrap();
    assert_eq!(order.seen(), ["each #1", "each #2", "each #3", "once"]);
    assert_eq!((report.executions, runs(&report)), (3, vec![("each", 3), ("once", 1)]));
}

/// With no execution at all the scope's hooks run once, and the execution hook never.
fn scope_hooks_run_with_no_execution(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let order = Order::default();
    let scope = manager.scope("s").unwrap();
    scope.register(order.after("after")).unwrap();
    scope.register(order.each("each")).unwrap();
    scope.register(order.once("once")).unwrap();
    scope.register(order.future("async")).unwrap();
    scope.sequence().unwrap();
    let report = scope.finish_blocking().unwrap();
    assert_eq!(order.seen(), ["async begins", "async ends", "once", "after"]);
    assert_eq!(runs(&report), [("after", 1), ("each", 0), ("once", 1), ("async", 1)]);
    assert_eq!(probe.calls(CallKind::Submit), 0);
}

/// An execution that fails on the device has its hooks run like any other, with its number, its sequence and its
/// error; so does the next one of the same sequence.
fn failed_executions_count(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let order = Order::default();
    let scope = manager.scope("s").unwrap();
    let noted = order.clone();
    let hook = hook::each("each", move |context| {
        let execution = context.execution().expect("an execution hook");
        let end = match &execution.result {
            Ok(()) => "ok",
            Err(Error::Execution { execution: named, .. }) if *named == execution.number => "failed",
            Err(other) => panic!("{other}"),
        };
        noted.note(format!("{} #{} {end}", execution.sequence, execution.number));
        Ok(())
    });
    scope.register(hook).unwrap();
    let tensor = scope.tensor::<u32>(64).unwrap();
    let named = scope.named("fills").unwrap();
    named.record(op::fill(&tensor, 1)).unwrap();
    named.run().unwrap();
    probe.fail_nth(CallKind::Collect, 1, BackendErrorKind::Driver);
    assert!(matches!(named.run(), Err(Error::Execution { execution: 2, .. })));
    assert_eq!(named.state(), SequenceState::Failed);
    named.run().unwrap();
    fill(&scope, &tensor, 2).wait().unwrap();
    assert_eq!(scope.finish_blocking().unwrap().executions, 4);
    assert_eq!(order.seen(), ["fills #1 ok", "fills #2 failed", "fills #3 ok", "anonymous #4 ok"]);
}

/// What was refused before it reached the device is no execution: no hook runs, and it is not counted.
fn refused_executions_do_not_count(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let order = Order::default();
    let scope = manager.scope("s").unwrap();
    scope.register(order.each("each")).unwrap();
    let tensor = scope.tensor::<u32>(64).unwrap();
    probe.fail_nth(CallKind::Submit, 1, BackendErrorKind::Driver);
    assert!(matches!(scope.evaluate([op::fill(&tensor, 1)]), Err(Error::Backend(_))));
    let sequence = scope.sequence().unwrap();
    sequence.record(op::fill(&tensor, 1)).unwrap();
    tensor.destroy().unwrap();
    assert!(matches!(sequence.evaluate(), Err(Error::Stale { .. })));
    let execution = work(&scope);
    let report = scope.finish_blocking().unwrap();
    assert_eq!((report.executions, order.seen()), (1, vec![format!("each #{}", execution.number())]));
}

/// Fifty executions complete at the same moment: each hook runs fifty times, for one after the other, the last
/// registered hook first.
fn executions_are_never_coalesced(bed: &Bed) {
    const EXECUTIONS: u64 = 50;
    let Rig { manager, probe } = bed.open();
    let order = Order::default();
    let scope = manager.scope("s").unwrap();
    scope.register(order.each("first")).unwrap();
    scope.register(order.each("second")).unwrap();
    let tensor = scope.tensor::<u32>(64).unwrap();
    probe.hold();
    for value in 0..EXECUTIONS {
        fill(&scope, &tensor, value as u32);
    }
    probe.release_all();
    let report = scope.finish_blocking().unwrap();
    assert_eq!(runs(&report), [("first", EXECUTIONS), ("second", EXECUTIONS)]);
    let expected: Vec<_> = (1..=EXECUTIONS)
        .flat_map(|number| ["second", "first"].map(|label| format!("{label} #{number}")))
        .collect();
    assert_eq!(order.seen(), expected);
}

/// Hooks of executions that a scope hook submits run before the next entry of the stack.
fn execution_hooks_come_first(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let order = Order::default();
    let scope = manager.scope("s").unwrap();
    scope.register(order.each("each")).unwrap();
    scope.register(order.once("last")).unwrap();
    let noted = order.clone();
    let hook = hook::once("submits", move |context| {
        work(&context.scope());
        work(&context.scope());
        noted.note("submits");
        Ok(())
    });
    scope.register(hook).unwrap();
    scope.register(order.once("first")).unwrap();
    probe.hold();
    work(&scope);
    probe.release_all();
    let report = scope.finish_blocking().unwrap();
    assert_eq!(order.seen(), ["each #1", "first", "submits", "each #2", "each #3", "last"]);
    assert_eq!(report.executions, 3);
}

/// A hook applies to what is submitted after its registration, not to what runs already.
fn a_hook_applies_to_later_submissions(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let order = Order::default();
    let scope = manager.scope("s").unwrap();
    probe.hold();
    work(&scope);
    scope.register(order.each("early")).unwrap();
    work(&scope);
    scope.register(order.each("late")).unwrap();
    work(&scope);
    probe.release_all();
    let report = scope.finish_blocking().unwrap();
    assert_eq!(order.seen(), ["early #2", "late #3", "early #3"]);
    assert_eq!(runs(&report), [("early", 2), ("late", 1)]);
}

/// While an execution's hook is stuck, its result is there for all who wait, its data can be read, and its sequence
/// can be evaluated again; only finish waits for the hook.
fn the_result_is_there_first(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let (order, latch) = (Order::default(), Latch::default());
    let scope = manager.scope("s").unwrap();
    let (sender, begun) = mpsc::channel();
    let (noted, wait) = (order.clone(), latch.clone());
    let hook = hook::each("stuck", move |context| {
        sender.send(std::thread::current().id())?;
        wait.wait();
        noted.note(format!("stuck #{}", number(context)));
        Ok(())
    });
    scope.register(hook).unwrap();
    let tensor = scope.tensor::<u32>(64).unwrap();
    let sequence = scope.named("fills").unwrap();
    sequence.record(op::fill(&tensor, 7)).unwrap();
    probe.hold();
    let first = sequence.evaluate().unwrap();
    // Awaited, so that the cleanup thread runs the hook.
    let awaited = first.clone();
    std::thread::scope(|threads| {
        let awaiting = threads.spawn(|| pollster::block_on(awaited));
        assert_eq!(probe.release_one(FIRST), Some(1));
        assert_ne!(receive(&begun), std::thread::current().id());
        awaiting.join().unwrap().unwrap();
    });
    assert_eq!(first.status(), ExecutionStatus::Completed);
    first.wait().unwrap();
    assert_eq!(sequence.state(), SequenceState::Finished);
    assert_eq!(tensor.read().unwrap(), [7; 64]);
    probe.release_all();
    sequence.run().unwrap();
    manager.wait_idle().unwrap();
    assert_eq!(order.seen().len(), 0, "all of this with the hook inside");
    latch.open();
    let report = scope.finish_blocking().unwrap();
    assert_eq!(order.seen(), ["stuck #1", "stuck #2"]);
    assert_eq!(report.executions, 2);
}

/// The same key again is the first registration: one id, one row, one run, by the hook that came first. Without keys
/// every registration runs.
fn a_key_is_one_registration(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let scope = manager.scope("s").unwrap();
    let first = scope.register(order.once("first").key("k")).unwrap();
    let dropped = Arc::new(());
    let held = dropped.clone();
    let again = hook::once("second", move |_| {
        let _ = &held;
        panic!("the second hook of a key ran")
    });
    assert_eq!(scope.register(again.key("k")).unwrap(), first);
    assert_eq!(Arc::strong_count(&dropped), 1, "what a duplicate captured goes at once");
    let other = scope.register(order.once("other").key("other")).unwrap();
    let without: Vec<_> = (0..2).map(|_| scope.register(order.once("without")).unwrap()).collect();
    assert!(other != first && without[0] != without[1]);
    let report = scope.finish_blocking().unwrap();
    assert_eq!(order.seen(), ["without", "without", "other", "first"]);
    let rows: Vec<_> = report.hooks.iter().map(|row| (&*row.label, row.key.as_deref(), row.runs)).collect();
    let expected =
        [("first", Some("k"), 1), ("other", Some("other"), 1), ("without", None, 1), ("without", None, 1)];
    assert_eq!(rows, expected);
}

/// One key in two scopes, or in two periods, is two registrations.
fn a_key_is_a_scopes_and_a_periods(bed: &Bed) {
    const OUTER: [&str; 3] = ["outer once", "outer each", "outer after"];
    const INNER: [&str; 3] = ["inner once", "inner each", "inner after"];
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let outer = manager.scope("outer").unwrap();
    let inner = outer.scope("inner").unwrap();
    let keyed = |hook: Hook| hook.key("k");
    let mut ids = Vec::new();
    for (scope, [once, each, after]) in [(&outer, OUTER), (&inner, INNER)] {
        for hook in [order.once(once), order.each(each), order.after(after)] {
            ids.push(scope.register(keyed(hook)).unwrap());
        }
        for hook in [order.once(once), order.each(each), order.after(after)] {
            let known = scope.register(keyed(hook)).unwrap();
            assert!(ids[ids.len() - 3..].contains(&known));
        }
        work(scope).wait().unwrap();
    }
    let report = outer.finish_blocking().unwrap();
    assert_eq!(runs(&report), OUTER.map(|hook| (hook, 1)));
    // The child's execution hook may also run before it finishes, on the cleanup thread.
    let seen = order.seen();
    let of = |scope: &str| -> Vec<String> {
        seen.iter().filter(|hook| hook.starts_with(scope)).cloned().collect()
    };
    assert_eq!(of("outer"), ["outer each #1", "outer once", "outer after"]);
    assert_eq!(of("inner"), ["inner each #1", "inner once", "inner after"]);
    assert_eq!(seen.last().map(|hook| &**hook), Some("outer after"), "after the child's: {seen:?}");
}

/// A key whose hook has had its run stays taken: another hook's attempt to register it again is the first one.
fn a_key_does_not_come_back(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let scope = manager.scope("s").unwrap();
    let noted = order.clone();
    let hook = hook::once("last", move |context| {
        noted.note("last");
        context.register(noted.once("again").key("k"))?;
        Ok(())
    });
    scope.register(hook).unwrap();
    scope.register(order.once("first").key("k")).unwrap();
    let report = scope.finish_blocking().unwrap();
    assert_eq!(order.seen(), ["first", "last"]);
    assert_eq!(report.hooks.len(), 2);
}

/// A key makes one registration of many; it runs for each execution as any other does.
fn a_keyed_execution_hook(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let scope = manager.scope("s").unwrap();
    for _ in 0..3 {
        scope.register(order.each("each").key("k")).unwrap();
        work(&scope).wait().unwrap();
    }
    let report = scope.finish_blocking().unwrap();
    assert_eq!((runs(&report), order.seen().len()), (vec![("each", 3)], 3));
}

/// Hooks as implementations of the trait, async, in every period: they run as often as closures do, and their state
/// is theirs from run to run.
fn custom_hooks_of_every_period(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let scope = manager.scope("s").unwrap();
    for (label, period) in
        [("after", Period::AfterRelease), ("once", Period::Scope), ("each", Period::Execution)]
    {
        let noted = order.clone();
        let mut mine = 0;
        let run = move |context: &tenure_core::CleanupContext| {
            mine += 1;
            noted.note(format!("{label} {mine} {:?}", context.execution().map(|execution| execution.number)));
            if mine == 2 { Err(super::support::Fault("second").into()) } else { Ok(()) }
        };
        scope.register(hook::custom(Custom::new(label, period, run)).key(label)).unwrap();
    }
    for _ in 0..3 {
        work(&scope).wait().unwrap();
    }
    let failure = cleanup_failure(scope.finish_blocking());
    let expected = ["each 1 Some(1)", "each 2 Some(2)", "each 3 Some(3)", "once 1 None", "after 1 None"];
    assert_eq!(order.seen(), expected);
    assert_eq!(runs(&failure.report), [("after", 1), ("once", 1), ("each", 3)]);
    assert_eq!((failure.primary.execution, failure.report.error_count), (Some(2), 1));
    assert_eq!(failure.report.hooks[2].key.as_deref(), Some("each"));
    let count = Count::default();
    let counted = count.clone();
    // A custom hook that is refused comes back, and is as good as before.
    let late = hook::custom(Custom::new("late", Period::Scope, move |_: &tenure_core::CleanupContext| {
        counted.add();
        Ok(())
    }));
    let refused = scope.register(late).unwrap_err();
    let other = manager.scope("other").unwrap();
    other.register(refused.value).unwrap();
    other.finish_blocking().unwrap();
    assert_eq!(count.get(), 1);
    assert_given_back(&manager);
}
