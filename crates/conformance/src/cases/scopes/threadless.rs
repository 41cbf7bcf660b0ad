//! Scopes of a manager that may make no threads: who finishes drives the device, and `poll` does what nobody waits
//! for (L16, L17, L18).
//!
//! Not here: memory and loss without threads.

use std::sync::mpsc;
use std::time::Duration;

use tenure_core::{
    Error, ExecutionStatus, Manager, ManagerOptions, Outcome, ScopeOptions, ScopeRef, ScopeState, hook,
};

use crate::bed::{Bed, Rig};
use crate::case::{Case, FIRST};
use crate::cases::hooks::support::{
    Count, Order, Signal, WATCHDOG, assert_given_back, case, number, poll_once, receive, runs, threadless,
    work,
};

pub(super) const CASES: &[Case] = &[
    case("scopes/threadless_finish_blocking_drives_the_device", &["L16"], finish_blocking_drives),
    case("scopes/threadless_finish_is_polled_with_poll", &["L16", "L18"], finish_is_polled),
    case("scopes/threadless_drop_is_finished_by_poll", &["L17", "L11"], drop_is_finished_by_poll),
    case("scopes/threadless_execution_hooks_run_by_poll", &["L11"], execution_hooks_run_by_poll),
    case("scopes/threadless_async_hook_in_a_blocking_finish", &["L16"], async_hook_in_a_blocking_finish),
    case("scopes/threadless_async_hook_goes_on_by_poll", &["L18", "L11"], async_hook_goes_on_by_poll),
    case("scopes/threadless_close_finishes_what_is_left", &["L17", "L18"], close_finishes_what_is_left),
    case("scopes/threadless_deadlines_are_refused", &["L16", "L10"], deadlines_are_refused),
];

fn open(bed: &Bed) -> Rig {
    bed.open_with(threadless())
}

/// A finish that blocks waits for the device by itself and runs the hooks on its own thread.
fn finish_blocking_drives(bed: &Bed) {
    let Rig { manager, probe } = open(bed);
    let order = Order::default();
    let here = std::thread::current().id();
    let scope = manager.scope("s").unwrap();
    scope.register(order.once("once")).unwrap();
    let noted = order.clone();
    let hook = hook::each("each", move |context| {
        assert_eq!(std::thread::current().id(), here);
        noted.note(format!("each #{}", number(context)));
        Ok(())
    });
    scope.register(hook).unwrap();
    probe.hold();
    work(&scope);
    work(&scope);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            assert!(
                probe.wait_calls(crate::instrument::CallKind::WaitAny, 1, WATCHDOG),
                "nobody waits for the device"
            );
            probe.release_all();
        });
        let report = scope.finish_blocking().unwrap();
        assert_eq!(runs(&report), [("once", 1), ("each", 2)]);
    });
    assert_eq!(order.seen(), ["each #1", "each #2", "once"]);
    assert_given_back(&manager);
}

/// A finish that is polled by hand notices by itself what the device has done.
fn finish_is_polled(bed: &Bed) {
    let Rig { manager, probe } = open(bed);
    let order = Order::default();
    let scope = manager.scope("s").unwrap();
    scope.register(order.after("after")).unwrap();
    scope.register(order.once("once")).unwrap();
    scope.register(order.each("each")).unwrap();
    probe.hold();
    let execution = work(&scope);
    let mut finish = scope.finish();
    assert!(poll_once(&mut finish).is_pending());
    assert_eq!(manager.poll().unwrap().retired, 0);
    assert!(poll_once(&mut finish).is_pending());
    assert_eq!((order.seen().len(), scope.state()), (0, ScopeState::Finishing));
    probe.release_all();
    probe.settle();
    let std::task::Poll::Ready(Ok(report)) = poll_once(&mut finish) else { panic!("all is done") };
    assert_eq!((report.outcome, execution.status()), (Outcome::Completed, ExecutionStatus::Completed));
    assert_eq!(order.seen(), ["each #1", "once", "after"]);
    drop((finish, scope));
    manager.poll().unwrap();
    assert_eq!(order.seen().len(), 3, "nothing is done again");
    assert_given_back(&manager);
}

/// A dropped scope waits for the next poll, and for as many as its work takes.
fn drop_is_finished_by_poll(bed: &Bed) {
    let Rig { manager, probe } = open(bed);
    let order = Order::default();
    let here = std::thread::current().id();
    let scope = manager.scope("s").unwrap();
    let noted = order.clone();
    let hook = hook::once("once", move |context| {
        assert_eq!(std::thread::current().id(), here, "there is no thread but the caller's");
        noted.note(format!("once {:?}", context.outcome()));
        Ok(())
    });
    scope.register(hook).unwrap();
    scope.register(order.each("each")).unwrap();
    probe.hold();
    work(&scope);
    let seen = ScopeRef::clone(&scope);
    drop(scope);
    assert_eq!((seen.state(), order.seen().len()), (ScopeState::Finishing, 0));
    let report = manager.poll().unwrap();
    assert_eq!((report.retired, report.jobs, order.seen().len()), (0, 1, 0), "the work is not done");
    probe.release_all();
    probe.settle();
    assert_eq!(manager.poll().unwrap().retired, 1);
    assert_eq!(order.seen(), ["each #1", "once Some(Abandoned)"]);
    assert_eq!(seen.state(), ScopeState::Finished(Outcome::Abandoned));
    assert_eq!((manager.poll().unwrap().retired, order.seen().len()), (0, 2));
    assert_given_back(&manager);
}

/// Hooks of executions that nobody waits for run by poll, while their scope stays open.
fn execution_hooks_run_by_poll(bed: &Bed) {
    let Rig { manager, probe } = open(bed);
    let order = Order::default();
    let scope = manager.scope("s").unwrap();
    scope.register(order.each("each")).unwrap();
    probe.hold();
    let executions = [work(&scope), work(&scope)];
    assert_eq!(probe.release_one(FIRST), Some(1));
    probe.settle();
    assert_eq!(
        (executions[0].status(), order.seen().len()),
        (ExecutionStatus::Running, 0),
        "nobody has looked"
    );
    assert_eq!(manager.poll().unwrap().retired, 1);
    assert_eq!(order.seen(), ["each #1"]);
    assert_eq!(executions[0].status(), ExecutionStatus::Completed);
    probe.release_all();
    executions[1].wait().unwrap();
    scope.finish_blocking().unwrap();
    assert_eq!(order.seen(), ["each #1", "each #2"]);
    assert_given_back(&manager);
}

/// A blocking finish sleeps while an async hook is pending, and is woken by whoever wakes the hook.
fn async_hook_in_a_blocking_finish(bed: &Bed) {
    let Rig { manager, .. } = open(bed);
    let order = Order::default();
    let signal = Signal::default();
    let (sender, pending) = mpsc::channel();
    let scope = manager.scope("s").unwrap();
    scope.register(order.once("last")).unwrap();
    let (noted, wait) = (order.clone(), signal.clone());
    let hook = hook::future("waits", move |context| async move {
        sender.send(())?;
        wait.wait().await;
        work(&context.scope()).await?;
        noted.note("waits");
        Ok(())
    });
    scope.register(hook).unwrap();
    std::thread::scope(|threads| {
        threads.spawn(move || {
            receive(&pending);
            signal.set();
        });
        assert_eq!(scope.finish_blocking().unwrap().executions, 1);
    });
    assert_eq!(order.seen(), ["waits", "last"]);
    assert_given_back(&manager);
}

/// A finish that is dropped in the middle of an async hook goes on by poll, where it was.
fn async_hook_goes_on_by_poll(bed: &Bed) {
    let Rig { manager, .. } = open(bed);
    let order = Order::default();
    let signal = Signal::default();
    let scope = manager.scope("s").unwrap();
    scope.register(order.once("last")).unwrap();
    let begins = Count::default();
    let (noted, wait, begun) = (order.clone(), signal.clone(), begins.clone());
    let hook = hook::future("waits", move |_| async move {
        begun.add();
        wait.wait().await;
        noted.note("waits");
        Ok(())
    });
    scope.register(hook).unwrap();
    let mut finish = scope.finish();
    assert!(poll_once(&mut finish).is_pending());
    assert_eq!(begins.get(), 1);
    drop(finish);
    assert_eq!((manager.poll().unwrap().jobs, order.seen().len()), (1, 0));
    manager.poll().unwrap();
    assert_eq!(order.seen().len(), 0, "a pending hook is nothing to wait for");
    signal.set();
    manager.poll().unwrap();
    assert_eq!((order.seen(), begins.get()), (vec!["waits".into(), "last".into()], 1));
    assert_eq!(scope.state(), ScopeState::Finished(Outcome::Completed));
    assert_given_back(&manager);
}

/// What no poll has done, closing does; so does the drop of the last manager, which is the one drop that waits.
fn close_finishes_what_is_left(bed: &Bed) {
    for closes in [true, false] {
        let Rig { manager, probe } = open(bed);
        let order = Order::default();
        let dropped = manager.scope("dropped").unwrap();
        dropped.register(order.outcome("dropped")).unwrap();
        work(&dropped);
        drop(dropped);
        let half = manager.scope("half finished").unwrap();
        half.register(order.outcome("half")).unwrap();
        half.register(order.each("each")).unwrap();
        work(&half);
        let signal = Signal::default();
        let wait = signal.clone();
        let waits = hook::future("waits", move |_| async move {
            wait.wait().await;
            Ok(())
        });
        half.register(waits).unwrap();
        drop_in_the_middle(&manager, &half);
        signal.set();
        let open = manager.scope("open").unwrap();
        open.register(order.outcome("open")).unwrap();
        if closes {
            let report = manager.close().unwrap();
            let names: Vec<_> = report.unfinished_scopes.iter().map(|scope| &*scope.scope).collect();
            assert_eq!((names, report.errors.len()), (vec!["open"], 0));
        }
        drop(manager);
        assert!(probe.is_shut_down(), "there is nobody who could do it later");
        let mut notes = order.seen();
        notes.sort();
        assert_eq!(notes, ["dropped Abandoned", "each #1", "half Completed", "open Abandoned"]);
    }
}

/// Polls a finish until its hooks have begun, and drops it.
fn drop_in_the_middle(manager: &Manager, scope: &tenure_core::ManagedScope) {
    let mut finish = scope.finish();
    assert!(poll_once(&mut finish).is_pending());
    manager.wait_idle().unwrap();
    assert!(poll_once(&mut finish).is_pending());
}

/// Without threads nothing could keep a deadline: options and hooks that have one are refused, and the hook comes
/// back.
fn deadlines_are_refused(bed: &Bed) {
    let after = Duration::from_secs(1);
    let options = [
        ManagerOptions::builder().threads(false).hook_deadline(after).build(),
        ManagerOptions::builder().threads(false).finish_deadline(after).build(),
    ];
    for options in options {
        let refused = bed.try_open(Default::default(), options);
        assert!(matches!(refused, Err(Error::InvalidOption { .. })), "{refused:?}");
    }
    let Rig { manager, .. } = open(bed);
    let options = [
        ScopeOptions::builder().hook_deadline(after).build(),
        ScopeOptions::builder().finish_deadline(after).build(),
    ];
    for options in options {
        let refused = manager.scope_with(options);
        assert!(matches!(refused, Err(Error::InvalidOption { .. })), "{refused:?}");
    }
    let order = Order::default();
    let scope = manager.scope("s").unwrap();
    let refused = scope.register(order.once("once").deadline(after)).unwrap_err();
    assert!(matches!(refused.error, Error::InvalidOption { .. }), "{}", refused.error);
    assert_eq!(refused.value.label(), "once");
    let report = scope.finish_blocking().unwrap();
    assert_eq!((report.hooks.len(), order.seen().len()), (0, 0));
}
