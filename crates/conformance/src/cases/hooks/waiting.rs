//! Waiting inside hooks: refused where it would wait for itself, served where it can end (L15, L16).
//!
//! Not here: everything else that hooks may do (`inside.rs`).

use std::sync::Arc;
use std::sync::mpsc;
use std::task::Poll;
use std::time::Duration;

use parking_lot::Mutex;
use tenure_core::{
    CleanupContext, Error, Execution, ManagedScope, Manager, Outcome, RunError, ScopeState, hook,
};

use super::support::{
    Order, WATCHDOG, all_errors, assert_given_back, case, cleanup_failure, culprits, fill, number, poll_once,
    receive, work,
};
use crate::bed::{Bed, Rig};
use crate::case::Case;

pub(super) const CASES: &[Case] = &[
    case("hooks/waiting_for_its_own_scope_would_deadlock", &["L15"], waiting_for_its_own_scope),
    case("hooks/waiting_for_an_ancestor_would_deadlock", &["L15"], waiting_for_an_ancestor),
    case("hooks/waiting_for_its_own_execution_would_deadlock", &["L15"], waiting_for_its_own_execution),
    case("hooks/closing_would_deadlock", &["L15"], closing_would_deadlock),
    case(
        "hooks/an_async_hook_that_waits_for_itself_would_deadlock",
        &["L15"],
        an_async_hook_waits_for_itself,
    ),
    case("hooks/a_refused_wait_is_an_error_like_another", &["L15", "L13"], a_refused_wait_is_an_error),
];

#[track_caller]
fn assert_would_deadlock<T>(result: Result<T, Error>, on: &str) {
    match result {
        Err(Error::WouldDeadlock { what }) => assert_eq!(&*what, on),
        Err(other) => panic!("a wait for {on} answered: {other}"),
        Ok(_) => panic!("a wait for {on} came back"),
    }
}

/// Every way to wait for the end of a scope is refused, at once.
#[track_caller]
fn assert_no_way_to_wait(scope: &ManagedScope) {
    let what = format!("scope `{}`", scope.label());
    assert_would_deadlock(scope.finish_blocking(), &what);
    assert_would_deadlock(pollster::block_on(scope.finish()), &what);
    match scope.finish_with::<_, Error>(Ok(())) {
        Err(RunError::Scope(error)) => assert_would_deadlock::<()>(Err(error), &what),
        other => panic!("{other:?}"),
    }
    match pollster::block_on(scope.finish_with_async::<(), _>(Err("body"))) {
        Err(RunError::Body { error: "body", report: None }) => {}
        other => panic!("{other:?}"),
    }
}

/// A hook of any kind that asks its own scope to finish is told that this would deadlock; the scope is not harmed. An
/// execution hook of an open scope does not even begin its finish.
fn waiting_for_its_own_scope(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let scope = Arc::new(manager.scope("s").unwrap());
    let asks = |label: &'static str| {
        let (order, own) = (order.clone(), scope.clone());
        move |_: &CleanupContext| {
            assert_no_way_to_wait(&own);
            order.note(label);
            Ok(())
        }
    };
    scope.register(hook::after_release("after", asks("after"))).unwrap();
    scope.register(hook::once("once", asks("once"))).unwrap();
    let release = asks("adopted");
    scope.adopt("adopted", (), move |(), context| release(context)).unwrap();
    let each = asks("each");
    let (sender, ran) = mpsc::channel();
    let hook = hook::each("each", move |context| {
        let before = context.scope().state();
        each(context)?;
        assert_eq!(context.scope().state(), before);
        Ok(sender.send(before)?)
    });
    scope.register(hook).unwrap();
    work(&scope);
    assert_eq!((receive(&ran), order.seen()), (ScopeState::Open, vec!["each".into()]));
    let report = scope.finish_blocking().unwrap();
    assert_eq!(order.seen(), ["each", "adopted", "once", "after"]);
    assert_eq!(report.outcome, Outcome::Completed);
}

/// A hook may not wait for a scope above its own, however the hook came to run.
fn waiting_for_an_ancestor(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let root = Arc::new(manager.scope("root").unwrap());
    for finishes_root in [false, true] {
        let middle = Arc::new(root.scope("middle").unwrap());
        let leaf = middle.scope("leaf").unwrap();
        let (noted, above) = (order.clone(), [middle.clone(), root.clone()]);
        let hook = hook::once("leaf", move |_| {
            above.iter().for_each(|scope| assert_no_way_to_wait(scope));
            noted.note("leaf");
            Ok(())
        });
        leaf.register(hook).unwrap();
        if finishes_root {
            root.finish_blocking().unwrap();
        } else {
            leaf.finish_blocking().unwrap();
            assert_eq!((middle.state(), root.state()), (ScopeState::Open, ScopeState::Open));
        }
    }
    assert_eq!(order.seen(), ["leaf", "leaf"]);
}

/// Where a hook finds the execution that it runs for.
type Slot = Arc<Mutex<Vec<Execution>>>;

/// A hook may not wait for the execution that it runs for, with or without a time; for another one it may.
fn waiting_for_its_own_execution(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let order = Order::default();
    let slot = Slot::default();
    let scope = manager.scope("s").unwrap();
    let (noted, executions) = (order.clone(), slot.clone());
    let hook = hook::each("each", move |context| {
        let executions = executions.lock().clone();
        for mut execution in executions {
            let what = format!("execution {} of scope `s`", execution.number());
            if execution.number() == number(context) {
                assert_would_deadlock(execution.wait(), &what);
                assert_would_deadlock(execution.wait_timeout(Duration::ZERO), &what);
                match poll_once(&mut execution) {
                    Poll::Ready(refused) => assert_would_deadlock(refused, &what),
                    Poll::Pending => panic!("waits for itself"),
                }
            } else {
                execution.wait()?;
                execution.wait_timeout(WATCHDOG)?;
                assert_eq!(poll_once(&mut execution).map(|result| result.is_ok()), Poll::Ready(true));
            }
        }
        noted.note(format!("each #{}", number(context)));
        Ok(())
    });
    scope.register(hook).unwrap();
    let tensor = scope.tensor::<u32>(64).unwrap();
    probe.hold();
    let executions: Vec<_> = (0..3).map(|value| fill(&scope, &tensor, value)).collect();
    *slot.lock() = executions.clone();
    probe.release_all();
    // The refused waits are the hook's: for everybody else the result is there.
    executions[2].wait().unwrap();
    scope.finish_blocking().unwrap();
    assert_eq!(order.seen(), ["each #1", "each #2", "each #3"]);
    slot.lock().clear();
    drop(tensor);
    assert_given_back(&manager);
}

/// No hook may close its manager, with or without a time; the refusal closes nothing.
fn closing_would_deadlock(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let scope = manager.scope("s").unwrap();
    let closes = |label: &'static str| {
        let order = order.clone();
        move |context: &CleanupContext| {
            let manager: Manager = context.manager()?;
            assert_would_deadlock(manager.close(), "manager `manager`");
            assert_would_deadlock(manager.close_deadline(Duration::ZERO), "manager `manager`");
            drop(manager.scope("still open")?);
            order.note(label);
            Ok(())
        }
    };
    scope.register(hook::after_release("after", closes("after"))).unwrap();
    scope.register(hook::once("once", closes("once"))).unwrap();
    scope.register(hook::each("each", closes("each"))).unwrap();
    work(&scope);
    scope.finish_blocking().unwrap();
    assert_eq!(order.seen(), ["each", "once", "after"]);

    let (sender, dropped) = mpsc::channel();
    let scope = manager.scope("dropped").unwrap();
    let close = closes("on the cleanup thread");
    scope.register(hook::once("once", move |context| Ok(sender.send(close(context).is_ok())?))).unwrap();
    drop(scope);
    assert!(receive(&dropped));
    assert!(manager.close().unwrap().errors.is_empty());
}

/// The same for async hooks: the future that waits for itself is ready at once, with the refusal.
fn an_async_hook_waits_for_itself(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let outer = Arc::new(manager.scope("outer").unwrap());
    let inner = Arc::new(outer.scope("inner").unwrap());
    let (noted, own, above) = (order.clone(), inner.clone(), outer.clone());
    let hook = hook::future("async", move |context| async move {
        for scope in [&own, &above] {
            assert_would_deadlock(scope.finish().await, &format!("scope `{}`", scope.label()));
            assert_no_way_to_wait(scope);
            super::support::Yield::default().await;
            // After it was pending it may be another thread's turn: the answer is the same.
            assert_would_deadlock(scope.finish().await, &format!("scope `{}`", scope.label()));
        }
        assert_would_deadlock(context.manager()?.close(), "manager `manager`");
        noted.note("async");
        Ok(())
    });
    inner.register(hook).unwrap();
    pollster::block_on(outer.finish()).unwrap();
    assert_eq!(order.seen(), ["async"]);
}

/// A hook that hands the refusal on by `?` has failed with it, and the rest goes on.
fn a_refused_wait_is_an_error(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let scope = Arc::new(manager.scope("s").unwrap());
    scope.register(order.once("last")).unwrap();
    let own = scope.clone();
    scope.register(hook::once("waits", move |_| Ok(own.finish_blocking().map(drop)?))).unwrap();
    let failure = cleanup_failure(scope.finish_blocking());
    assert_eq!(culprits(all_errors(&failure)), ["waits"]);
    assert!(matches!(failure.primary.source.downcast_ref(), Some(Error::WouldDeadlock { .. })));
    assert_eq!(order.seen(), ["last"]);
}
