//! Hooks with deadlines: those that outlive theirs are recorded and left behind, with the memory that they may still
//! use (L16).
//!
//! Deadlines that are meant to pass are short, the others far: no case depends on how fast anything is. Not here: the
//! deadline of a finish (`scopes/ending.rs`), and late hooks among other scopes (`late.rs`).

use std::sync::mpsc;
use std::time::Duration;

use tenure_core::{
    CleanupErrorKind, CleanupFailure, Error, Hook, ManagerOptions, Outcome, ScopeOptions, hook, op,
};

use super::support::{
    FAR, Fault, Latch, MIB, Order, SOON, Signal, ThreadEnd, all_errors, assert_given_back, case,
    cleanup_failure, culprits, number, poll_once, receive, runs, untrimmed, watch_this_thread, work,
};
use crate::bed::{Bed, Rig};
use crate::case::{Case, FIRST};

pub(super) const CASES: &[Case] = &[
    case("hooks/a_sync_hook_outlives_its_deadline", &["L16", "L13", "L11"], a_sync_hook_outlives),
    case("hooks/an_async_hook_outlives_its_deadline", &["L16", "L13", "L11"], an_async_hook_outlives),
    case("hooks/an_execution_hook_outlives_its_deadline", &["L16", "L11"], an_execution_hook_outlives),
    case("hooks/memory_is_quarantined_until_the_hook_is_back", &["L16", "L19"], memory_is_quarantined),
    case("hooks/a_late_hook_of_an_open_scope_quarantines_too", &["L16", "L19"], a_late_hook_of_an_open_scope),
    case("hooks/closing_names_hooks_that_have_not_come_back", &["L16", "L28"], closing_names_late_hooks),
    case("hooks/a_late_hook_is_told_with_its_time", &["L16", "L13"], a_late_hook_is_told_with_its_time),
    case("hooks/a_late_hooks_end_is_not_told_again", &["L16", "L13"], a_late_hooks_end_is_not_told),
    case("hooks/a_late_hook_may_still_call", &["L16", "L15", "L3"], a_late_hook_may_still_call),
    case("hooks/deadlines_come_from_hook_scope_parent_or_manager", &["L16"], where_deadlines_come_from),
    case("hooks/a_hook_in_time_runs_on_the_cleanup_thread", &["L16"], a_hook_in_time),
    case("hooks/a_deadline_that_comes_with_a_hook_of_a_hook", &["L16", "L10"], a_deadline_from_inside),
];

/// A hook that comes back when its latch opens, and then ends the thread that it was left behind with.
pub(super) struct Late {
    latch: Latch,
    end: ThreadEnd,
}

impl Late {
    /// The hook notes its return.
    pub(super) fn new(order: &Order, label: &'static str) -> (Late, Hook) {
        Late::ending(order, label, || Ok(()))
    }

    fn ending(
        order: &Order,
        label: &'static str,
        mut answer: impl FnMut() -> Result<(), tenure_core::BoxError> + Send + 'static,
    ) -> (Late, Hook) {
        let latch = Latch::default();
        let (end, sender) = ThreadEnd::new();
        let (noted, wait) = (order.clone(), latch.clone());
        let hook = hook::once(label, move |_| {
            watch_this_thread(sender);
            wait.wait();
            noted.note(format!("{label} is back"));
            answer()
        });
        (Late { latch, end }, hook)
    }

    /// Lets the hook come back and waits until tenure has taken note of it.
    pub(super) fn come_back(&self) {
        self.latch.open();
        self.end.wait();
    }
}

/// The only error is that of the hook that outlived its deadline.
#[track_caller]
pub(super) fn assert_timed_out(failure: &CleanupFailure, label: &str) {
    assert_eq!(culprits(all_errors(failure)), [label]);
    let primary = &failure.primary;
    assert_eq!(primary.kind, CleanupErrorKind::TimedOut);
    match primary.source.downcast_ref() {
        Some(Error::TimedOut { what, .. }) => assert_eq!(**what, format!("hook `{label}`")),
        other => panic!("{other:?}"),
    }
}

/// A hook that blocks past its deadline is recorded; the next entries run, finish comes back, and the hook's return
/// later changes nothing.
fn a_sync_hook_outlives(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let scope = manager.scope("s").unwrap();
    scope.register(order.after("after")).unwrap();
    scope.register(order.future("below")).unwrap();
    let (late, hook) = Late::new(&order, "late");
    scope.register(hook.deadline(SOON)).unwrap();
    scope.register(order.once("above")).unwrap();
    work(&scope);
    let failure = cleanup_failure(scope.finish_blocking());
    assert_timed_out(&failure, "late");
    assert_eq!(order.seen(), ["above", "below begins", "below ends", "after"]);
    assert_eq!(failure.report.outcome, Outcome::Completed);
    let row = failure.report.hook("late").unwrap();
    assert_eq!((row.runs, row.failed, row.skipped), (1, 1, 0));
    late.come_back();
    assert_eq!(order.seen().last().map(String::as_str), Some("late is back"));
    assert!(manager.close().unwrap().is_clean());
}

/// The same for a hook whose future stays pending: awaited or not, finish comes back, and the future is polled to its
/// end.
fn an_async_hook_outlives(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    for blocking in [true, false] {
        let (order, signal) = (Order::default(), Signal::default());
        let (end, sender) = ThreadEnd::new();
        let scope = manager.scope("s").unwrap();
        scope.register(order.once("below")).unwrap();
        let (noted, wait) = (order.clone(), signal.clone());
        let hook = hook::future("late", move |_| async move {
            wait.wait().await;
            watch_this_thread(sender);
            noted.note("late is back");
            Ok(())
        });
        scope.register(hook.deadline(SOON)).unwrap();
        let finished = if blocking { scope.finish_blocking() } else { pollster::block_on(scope.finish()) };
        assert_timed_out(&cleanup_failure(finished), "late");
        assert_eq!(order.seen(), ["below"]);
        signal.set();
        end.wait();
        assert_eq!(order.seen(), ["below", "late is back"]);
    }
    assert!(manager.close().unwrap().is_clean());
}

/// An execution hook that is out is skipped for the executions that retire meanwhile; the others run for them. The
/// device's results are there all the while.
fn an_execution_hook_outlives(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let (order, latch) = (Order::default(), Latch::default());
    let (end, sender) = ThreadEnd::new();
    let scope = manager.scope("s").unwrap();
    let (tell, told) = mpsc::channel();
    // Registered first, so that it runs after the late one.
    let below = hook::each("below", move |context| Ok(tell.send(number(context))?));
    scope.register(below).unwrap();
    let (noted, wait, mut sender) = (order.clone(), latch.clone(), Some(sender));
    let late = hook::each("late", move |context| {
        watch_this_thread(sender.take().expect("it runs once"));
        wait.wait();
        noted.note(format!("late is back #{}", number(context)));
        Ok(())
    });
    scope.register(late.deadline(SOON)).unwrap();
    probe.hold();
    let first = work(&scope);
    assert_eq!(probe.release_one(FIRST), Some(1));
    assert_eq!(receive(&told), 1, "the late hook was left behind");
    first.wait().unwrap();
    let second = work(&scope);
    assert_eq!(probe.release_one(FIRST), Some(2));
    second.wait().unwrap();
    assert_eq!(receive(&told), 2);
    let failure = cleanup_failure(scope.finish_blocking());
    assert_timed_out(&failure, "late");
    let place = (failure.primary.sequence.as_deref(), failure.primary.execution);
    assert_eq!(place, (Some("anonymous"), Some(1)));
    let row = failure.report.hook("late").unwrap();
    assert_eq!((row.runs, row.failed, row.skipped), (1, 1, 1));
    assert_eq!(failure.report.hook("below").unwrap().runs, 2);
    latch.open();
    end.wait();
    assert_eq!(order.seen(), ["late is back #1"]);
    probe.release_all();
    assert!(manager.close().unwrap().is_clean());
}

/// All tensors of the scope of a late hook stay retired, whatever trims and asks for memory, until the hook is back;
/// other scopes' memory is not concerned.
fn memory_is_quarantined(bed: &Bed) {
    let Rig { manager, probe } = bed.open_with(untrimmed());
    let order = Order::default();
    let scope = manager.scope("s").unwrap();
    let (late, hook) = Late::new(&order, "late");
    scope.register(hook.deadline(SOON)).unwrap();
    let used = scope.tensor::<u8>(MIB).unwrap();
    let idle = scope.tensor::<u8>(2 * MIB).unwrap();
    scope.evaluate([op::fill(used.view(0..64).unwrap(), 1)]).unwrap().wait().unwrap();
    let failure = cleanup_failure(scope.finish_blocking());
    assert_eq!((failure.report.released_tensors, failure.report.released_bytes), (2, 3 * MIB));
    assert!(!used.is_live() && !idle.is_live());
    drop((used, idle, scope));
    manager.wait_idle().unwrap();
    let memory = manager.memory();
    assert_eq!((memory.live.bytes, memory.retired.bytes, memory.cached.bytes), (0, 3 * MIB, 0));
    assert_eq!(manager.trim().unwrap().blocks, 0);
    manager.run("other", |scope| scope.tensor::<u8>(MIB).map(drop)).unwrap();
    let memory = manager.memory();
    assert_eq!((memory.retired.bytes, memory.cached.bytes), (3 * MIB, MIB), "nothing of it was reused");
    assert_eq!(probe.calls(crate::instrument::CallKind::Free), 0);
    late.come_back();
    let memory = manager.memory();
    assert_eq!((memory.retired.bytes, memory.cached.bytes), (0, 4 * MIB));
    assert_given_back(&manager);
}

/// A hook is late while its scope is open: what the scope gives up from then on is quarantined, and reclaimed when
/// the hook is back; what it makes afterwards is not.
fn a_late_hook_of_an_open_scope(bed: &Bed) {
    let Rig { manager, .. } = bed.open_with(untrimmed());
    let (order, latch) = (Order::default(), Latch::default());
    let (end, sender) = ThreadEnd::new();
    let scope = manager.scope("s").unwrap();
    let (tell, told) = mpsc::channel();
    scope.register(hook::each("below", move |context| Ok(tell.send(number(context))?))).unwrap();
    let (noted, wait, mut sender) = (order.clone(), latch.clone(), Some(sender));
    let late = hook::each("late", move |_| {
        if let Some(sender) = sender.take() {
            watch_this_thread(sender);
            wait.wait();
        }
        noted.note("late");
        Ok(())
    });
    scope.register(late.deadline(SOON)).unwrap();
    let tensor = scope.tensor::<u8>(MIB).unwrap();
    let execution = scope.evaluate([op::fill(tensor.view(0..64).unwrap(), 1)]).unwrap();
    assert_eq!(receive(&told), 1);
    execution.wait().unwrap();
    drop(tensor);
    let memory = manager.memory();
    assert_eq!((memory.live.bytes, memory.retired.bytes, memory.cached.bytes), (0, MIB, 0));
    latch.open();
    end.wait();
    assert_eq!(order.seen(), ["late"]);
    let memory = manager.memory();
    assert_eq!((memory.retired.bytes, memory.cached.bytes), (0, MIB));
    drop(scope.tensor::<u8>(MIB).unwrap());
    let memory = manager.memory();
    assert_eq!((memory.retired.bytes, memory.cached.bytes), (0, MIB), "the quarantine is over");
    assert_timed_out(&cleanup_failure(scope.finish_blocking()), "late");
    assert_given_back(&manager);
}

/// `close` with a time names the hooks that have not come back, and leaves the manager closed to new work; `close`
/// without one waits for them.
fn closing_names_late_hooks(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let order = Order::default();
    let scope = manager.scope("s").unwrap();
    let (late, hook) = Late::new(&order, "late");
    scope.register(hook.deadline(SOON)).unwrap();
    let tensor = scope.tensor::<u8>(MIB).unwrap();
    assert_timed_out(&cleanup_failure(scope.finish_blocking()), "late");
    drop((scope, tensor));
    for _ in 0..2 {
        match manager.close_deadline(Duration::from_millis(1)).unwrap_err() {
            Error::CloseTimedOut { manager, detached_hooks, .. } => {
                assert_eq!((&*manager, detached_hooks.len()), ("manager", 1));
                assert_eq!((&*detached_hooks[0].hook, &*detached_hooks[0].scope), ("late", "s"));
            }
            other => panic!("{other}"),
        }
        assert!(matches!(manager.scope("refused"), Err(Error::Closed { .. })));
        assert!(!probe.is_shut_down());
    }
    assert_eq!(manager.memory().retired.bytes, MIB);
    late.latch.open();
    let report = manager.close().unwrap();
    assert!(report.is_clean(), "{report}");
    assert_eq!((report.memory.reserved.bytes, order.seen().len()), (0, 1));
}

/// The error of a late hook tells the time that it was given, and reads so.
fn a_late_hook_is_told_with_its_time(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let scope = manager.scope("s").unwrap();
    let (late, hook) = Late::new(&Order::default(), "late");
    scope.register(hook.deadline(SOON)).unwrap();
    let failure = cleanup_failure(scope.finish_blocking());
    late.come_back();
    match failure.primary.source.downcast_ref() {
        Some(Error::TimedOut { after, .. }) => assert_eq!(*after, SOON),
        other => panic!("{other:?}"),
    }
    let text = "hook `late` outlived its deadline in scope `s`: hook `late` did not complete within 20ms";
    assert_eq!(failure.to_string(), text);
}

/// What a late hook answers in the end, an error or a panic, has been told already: as timed out.
fn a_late_hooks_end_is_not_told(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    type Answer = fn() -> Result<(), tenure_core::BoxError>;
    let answers: [Answer; 2] = [|| Err(Fault("late").into()), || panic!("late")];
    for answer in answers {
        let order = Order::default();
        let scope = manager.scope("s").unwrap();
        let (late, hook) = Late::ending(&order, "late", answer);
        scope.register(hook.deadline(SOON)).unwrap();
        let failure = cleanup_failure(scope.finish_blocking());
        assert_timed_out(&failure, "late");
        late.come_back();
        assert_eq!((order.seen().len(), failure.report.error_count), (1, 1));
        assert!(manager.take_errors().is_empty());
    }
    assert!(manager.close().unwrap().is_clean());
}

/// A late hook that goes on working finds its scope over: its tensors are stale, it cannot register or evaluate in
/// it; the manager serves it.
fn a_late_hook_may_still_call(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let (order, latch) = (Order::default(), Latch::default());
    let (end, sender) = ThreadEnd::new();
    let scope = manager.scope("s").unwrap();
    let tensor = scope.tensor::<u32>(64).unwrap();
    let (noted, wait, used) = (order.clone(), latch.clone(), tensor.clone());
    let hook = hook::once("late", move |context| {
        watch_this_thread(sender);
        wait.wait();
        let scope = context.scope();
        assert!(matches!(used.read(), Err(Error::Stale { .. })));
        assert!(matches!(
            scope.register(noted.once("never")).unwrap_err().error,
            Error::ScopeFinished { .. }
        ));
        assert!(matches!(scope.tensor::<u32>(1), Err(Error::ScopeFinished { .. })));
        let manager = context.manager()?;
        let other = manager.tensor::<u32>(64)?;
        assert!(matches!(scope.evaluate([op::fill(&other, 1)]), Err(Error::ScopeFinished { .. })));
        manager
            .run("inner", |inner| inner.evaluate([op::fill(&other, 1)])?.wait())
            .map_err(|error| error.to_string())?;
        assert_eq!(other.read()?, [1; 64]);
        assert!(matches!(manager.close(), Err(Error::WouldDeadlock { .. })));
        noted.note("late");
        Ok(())
    });
    scope.register(hook.deadline(SOON)).unwrap();
    assert_timed_out(&cleanup_failure(scope.finish_blocking()), "late");
    drop(tensor);
    latch.open();
    end.wait();
    assert_eq!(order.seen(), ["late"]);
    assert!(manager.close().unwrap().is_clean());
}

/// The deadline is the hook's, else its scope's, else the parent's, else the manager's; the nearest one counts.
fn where_deadlines_come_from(bed: &Bed) {
    let Rig { manager, .. } = bed.open_with(ManagerOptions::builder().hook_deadline(SOON).build());
    let with = |deadline| ScopeOptions::builder().hook_deadline(deadline).build();
    let root = manager.scope("root").unwrap();
    let far = manager.scope_with(with(FAR)).unwrap();
    let parent = manager.scope_with(with(FAR)).unwrap();
    let near = parent.scope_with(with(SOON)).unwrap();
    let below = far.scope("below").unwrap();
    for (scope, own, is_late) in [
        (&root, None, true),
        (&near, None, true),
        (&far, Some(SOON), true),
        (&below, Some(SOON), true),
        (&far, None, false),
        (&below, None, false),
        (&root, Some(FAR), false),
        (&near, Some(FAR), false),
    ] {
        let order = Order::default();
        let child = scope.scope("child").unwrap();
        let (late, hook) = Late::new(&order, "hook");
        child.register(if let Some(deadline) = own { hook.deadline(deadline) } else { hook }).unwrap();
        if is_late {
            assert_timed_out(&cleanup_failure(child.finish_blocking()), "hook");
            late.come_back();
        } else {
            late.latch.open();
            child.finish_blocking().unwrap();
        }
        assert_eq!(order.seen(), ["hook is back"]);
    }
}

/// A hook with a deadline runs on the cleanup thread, and with it the rest of its scope; in time, it is a hook like
/// another. A pending finish is woken when it is over.
fn a_hook_in_time(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let (sender, seen) = mpsc::channel();
    let scope = manager.scope("s").unwrap();
    for label in ["without", "with"] {
        let sender = sender.clone();
        let hook = hook::once(label, move |_| {
            let name = std::thread::current().name().map(str::to_owned);
            Ok(sender.send((label, name))?)
        });
        scope.register(if label == "with" { hook.deadline(FAR) } else { hook }).unwrap();
    }
    probe.hold();
    work(&scope);
    let mut finish = scope.finish();
    assert!(poll_once(&mut finish).is_pending());
    probe.release_all();
    let report = pollster::block_on(finish).unwrap();
    assert_eq!(runs(&report), [("without", 1), ("with", 1)]);
    for label in ["with", "without"] {
        assert_eq!(receive(&seen), (label, Some("tenure-cleanup".to_owned())));
    }
}

/// A hook that runs inline registers one with a deadline: from there on the cleanup thread goes on.
fn a_deadline_from_inside(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let scope = manager.scope("s").unwrap();
    scope.register(order.once("below")).unwrap();
    let (late, inner) = Late::new(&order, "late");
    let noted = order.clone();
    let hook = hook::once("registers", move |context| {
        noted.note("registers");
        context.register(inner.deadline(SOON))?;
        Ok(())
    });
    scope.register(hook).unwrap();
    assert_timed_out(&cleanup_failure(scope.finish_blocking()), "late");
    assert_eq!(order.seen(), ["registers", "below"]);
    late.come_back();
    assert!(manager.close().unwrap().is_clean());
}
