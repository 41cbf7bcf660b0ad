//! Finishes that are dropped, left alone, or moved from task to task: who goes on (L18, L10, L13).
//!
//! Not here: what async hooks do (`futures.rs`), managers without threads (`scopes/threadless.rs`).

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::task::{Context, Poll, Wake, Waker};

use tenure_core::{Error, Finish, ManagedScope, Manager, Outcome, ScopeState, hook};

use super::support::{
    Order, Signal, all_errors, assert_given_back, case, cleanup_failure, culprits, poll_once, receive, tell,
    work,
};
use crate::bed::{Bed, Rig};
use crate::case::Case;

pub(super) const CASES: &[Case] = &[
    case("hooks/a_dropped_finish_goes_on_elsewhere", &["L18", "L11"], a_dropped_finish_goes_on),
    case("hooks/a_finish_dropped_before_its_work_is_done", &["L18", "L11", "L4"], a_finish_dropped_early),
    case("hooks/a_finish_dropped_inside_a_childs_hook", &["L18", "L10"], a_finish_dropped_inside_a_child),
    case("hooks/errors_after_a_dropped_finish_are_kept", &["L18", "L13"], errors_after_a_dropped_finish),
    case("hooks/one_of_two_finishes_is_dropped", &["L18", "L10"], one_of_two_finishes_is_dropped),
    case(
        "hooks/one_of_two_finishes_is_never_polled_again",
        &["L18", "L10"],
        one_of_two_is_never_polled_again,
    ),
    case("hooks/closing_goes_on_with_a_finish_that_nobody_polls", &["L18", "L11"], closing_goes_on),
    case("hooks/a_finish_wakes_whoever_polled_it_last", &["L18"], a_finish_wakes_whoever_polled_last),
];

/// A scope with three hooks on its stack, the middle one async and pending until the signal, and one after the
/// release.
struct Half {
    scope: ManagedScope,
    order: Order,
    signal: Signal,
    /// Where the hooks ran.
    threads: mpsc::Receiver<std::thread::ThreadId>,
}

fn half(manager: &Manager, fails: bool) -> Half {
    let (order, signal) = (Order::default(), Signal::default());
    let (sender, threads) = mpsc::channel();
    let scope = manager.scope("s").unwrap();
    let ran = sender.clone();
    let last = hook::after_release("last", move |_| {
        tell(&ran, std::thread::current().id());
        Ok(())
    });
    scope.register(last).unwrap();
    scope.register(if fails { order.failing("below") } else { order.once("below") }).unwrap();
    let (noted, wait) = (order.clone(), signal.clone());
    let hook = hook::future("waits", move |context| async move {
        noted.note("waits begins");
        wait.wait().await;
        noted.note("waits ends");
        assert!(context.outcome().is_some());
        tell(&sender, std::thread::current().id());
        Ok(())
    });
    scope.register(hook).unwrap();
    scope.register(order.once("above")).unwrap();
    Half { scope, order, signal, threads }
}

const WHOLE: [&str; 4] = ["above", "waits begins", "waits ends", "below"];

/// Dropping a finish in the middle of an async hook moves that hook and the rest of the stack to the cleanup thread;
/// nothing runs twice, and the outcome stays what was asked for.
fn a_dropped_finish_goes_on(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let Half { scope, order, signal, threads } = half(&manager, false);
    let mut finish = scope.finish();
    assert!(poll_once(&mut finish).is_pending());
    drop(finish);
    assert_eq!(order.seen(), WHOLE[..2]);
    assert_eq!(scope.state(), ScopeState::Finishing);
    signal.set();
    let ran_on = [receive(&threads), receive(&threads)];
    assert!(ran_on[0] == ran_on[1] && ran_on[0] != std::thread::current().id());
    assert_eq!(order.seen(), WHOLE);
    let state = tenure_core::ScopeRef::clone(&scope);
    drop(scope);
    assert!(manager.close().unwrap().is_clean());
    assert_eq!(state.state(), ScopeState::Finished(Outcome::Completed));
}

/// A finish that is dropped while executions run: it has begun, and ends without anybody's help. So does one whose
/// scope is dropped besides.
fn a_finish_dropped_early(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    for drops_scope in [false, true] {
        let Half { scope, order, signal, threads } = half(&manager, false);
        scope.register(order.each("each")).unwrap();
        signal.set();
        probe.hold();
        work(&scope);
        let mut finish = scope.finish();
        assert!(poll_once(&mut finish).is_pending());
        drop(finish);
        let mut scope = Some(scope);
        if drops_scope {
            drop(scope.take());
        }
        assert_eq!(order.seen().len(), 0);
        probe.release_all();
        receive(&threads);
        receive(&threads);
        assert_eq!(order.seen()[0], "each #1");
        assert_eq!(order.seen()[1..], WHOLE);
        drop(scope);
    }
    assert!(manager.close().unwrap().is_clean());
}

/// Errors of hooks that ran after the last finish was dropped have no reader: the manager keeps them, as it does
/// those of a dropped scope.
fn errors_after_a_dropped_finish(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    for drops_scope in [false, true] {
        let Half { scope, order, signal, threads } = half(&manager, true);
        let mut finish = scope.finish();
        assert!(poll_once(&mut finish).is_pending());
        drop(finish);
        let mut scope = Some(scope);
        if drops_scope {
            drop(scope.take());
        }
        signal.set();
        receive(&threads);
        receive(&threads);
        // The cleanup thread does one scope after the other: when this one's hook runs, the first one is over.
        let (sender, next) = mpsc::channel();
        let tells = manager.scope("next").unwrap();
        tells.register(hook::once("tells", move |_| Ok(sender.send(())?))).unwrap();
        drop(tells);
        receive(&next);
        let errors = manager.take_errors();
        let [Error::Cleanup(failure)] = &errors[..] else { panic!("one failed scope, not {errors:?}") };
        assert_eq!(culprits(all_errors(failure)), ["below"]);
        assert_eq!(
            (order.seen(), failure.report.outcome),
            (WHOLE.map(str::to_owned).to_vec(), Outcome::Completed)
        );
        assert!(manager.take_errors().is_empty());
        drop(scope);
    }
    assert!(manager.close().unwrap().is_clean());
}

/// Two finishes await the same scope and one is dropped in the middle, whichever: the other gets the result, and the
/// manager keeps no error of it.
fn one_of_two_finishes_is_dropped(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    for drops_first in [false, true] {
        let Half { scope, order, signal, threads } = half(&manager, true);
        let (mut first, mut second) = (scope.finish(), scope.finish());
        assert!(poll_once(&mut first).is_pending());
        assert!(poll_once(&mut second).is_pending());
        let rest = if drops_first { keep(second, first) } else { keep(first, second) };
        signal.set();
        let failure = cleanup_failure(pollster::block_on(rest));
        assert_eq!(culprits(all_errors(&failure)), ["below"]);
        assert_eq!(order.seen(), WHOLE);
        receive(&threads);
        receive(&threads);
    }
    assert!(manager.take_errors().is_empty());
    assert!(manager.close().unwrap().is_clean());
}

fn keep(kept: Finish, dropped: Finish) -> Finish {
    drop(dropped);
    kept
}

/// Of two finishes one has begun, is inside the async hook, and is never polled again, nor dropped: it holds the
/// other one up in nothing.
fn one_of_two_is_never_polled_again(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let Half { scope, order, signal, .. } = half(&manager, false);
    let mut idle = scope.finish();
    assert!(poll_once(&mut idle).is_pending());
    std::thread::scope(|threads| {
        let blocking = threads.spawn(|| scope.finish_blocking());
        let awaiting = threads.spawn(|| pollster::block_on(scope.finish()));
        signal.set();
        for finished in [blocking, awaiting] {
            match finished.join().unwrap() {
                Ok(report) => assert_eq!(report.outcome, Outcome::Completed),
                // It came when the other was done.
                Err(Error::ScopeFinished { .. }) => {}
                Err(other) => panic!("{other}"),
            }
        }
    });
    assert_eq!(order.seen(), WHOLE);
    assert!(matches!(poll_once(&mut idle), Poll::Ready(Ok(_))), "the result is there for it too");
    drop((idle, scope));
    assert_given_back(&manager);
}

/// A waker that counts.
#[derive(Default)]
struct Wakes(AtomicU64);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A finish that moves from task to task wakes the task that polled it last, when its hook is woken.
fn a_finish_wakes_whoever_polled_last(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let Half { scope, order, signal, .. } = half(&manager, false);
    let tasks = [Arc::new(Wakes::default()), Arc::new(Wakes::default())];
    let mut finish = scope.finish();
    for task in &tasks {
        let waker = Waker::from(task.clone());
        assert!(Pin::new(&mut finish).poll(&mut Context::from_waker(&waker)).is_pending());
    }
    signal.set();
    assert!(tasks[1].0.load(Ordering::SeqCst) >= 1, "the last task was woken");
    assert_eq!(order.seen(), WHOLE[..2], "waking runs no hook");
    let report = pollster::block_on(finish).unwrap();
    assert_eq!((order.seen().len(), report.hooks.len()), (4, 4));
}

/// The finish of a parent is dropped while an async hook of its child is pending: child and parent go on, in order.
fn a_finish_dropped_inside_a_child(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let Half { scope: root, order, signal, threads } = half(&manager, false);
    let child = root.scope("child").unwrap();
    child.register(order.once("child below")).unwrap();
    let (noted, wait) = (order.clone(), signal.clone());
    let hook = hook::future("child waits", move |_| async move {
        wait.wait().await;
        noted.note("child waits");
        Ok(())
    });
    child.register(hook).unwrap();
    let mut finish = root.finish();
    assert!(poll_once(&mut finish).is_pending());
    drop(finish);
    assert_eq!((order.seen().len(), child.state()), (0, ScopeState::Finishing));
    signal.set();
    let ran_on = [receive(&threads), receive(&threads)];
    assert!(ran_on[0] == ran_on[1] && ran_on[0] != std::thread::current().id());
    assert_eq!(order.seen()[..2], ["child waits", "child below"]);
    assert_eq!(order.seen()[2..], WHOLE);
    assert_eq!(child.state(), ScopeState::Finished(Outcome::Completed));
    drop((root, child));
    assert!(manager.close().unwrap().is_clean());
}

/// A finish that has begun is kept and never polled again: closing goes on with its pending hook, and the finish
/// still gets the scope's report.
fn closing_goes_on(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let Half { scope, order, signal, .. } = half(&manager, false);
    let mut idle = scope.finish();
    assert!(poll_once(&mut idle).is_pending());
    signal.set();
    let report = manager.close().unwrap();
    assert!(report.is_clean(), "{report}");
    assert_eq!((order.seen().len(), scope.state()), (4, ScopeState::Finished(Outcome::Completed)));
    let Poll::Ready(Ok(report)) = poll_once(&mut idle) else { panic!("the result is there") };
    assert_eq!(report.hooks.len(), 4);
}
