//! Waiting inside hooks: refused where it would wait for itself, served where it can end (L15, L16).
//!
//! Not here: everything else that hooks may do (`inside.rs`).

use std::sync::Arc;
use std::sync::mpsc;
use std::task::Poll;
use std::time::Duration;

use parking_lot::Mutex;
use tenure_core::{
    CleanupContext, CleanupErrorKind, Error, Execution, ManagedScope, Manager, Outcome, RunError, ScopeState,
    hook,
};

use super::support::{
    Order, SOON, Signal, WATCHDOG, all_errors, assert_given_back, case, cleanup_failure, culprits, fill,
    number, poll_once, receive, register, work,
};
use crate::bed::{Bed, Rig};
use crate::case::{Case, FIRST};

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
    case("hooks/waiting_for_others_works", &["L15"], waiting_for_others_works),
    case("hooks/waiting_for_held_work_of_its_own_scope_works", &["L15", "L16"], waiting_for_held_work),
    case("hooks/the_cleanup_thread_serves_others_while_it_waits", &["L15"], the_cleanup_thread_serves_others),
    case("hooks/without_threads_a_wait_serves_others", &["L15"], without_threads_a_wait_serves_others),
    case("hooks/two_hooks_wait_for_each_others_scopes", &["L15", "L16"], two_hooks_wait_for_each_other),
    case("hooks/a_cycle_through_a_thread_ends_by_deadline", &["L15", "L16"], a_cycle_through_a_thread),
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
    let hook = hook::each("each", move |context| {
        let before = context.scope().state();
        each(context)?;
        assert_eq!(context.scope().state(), before);
        Ok(())
    });
    scope.register(hook).unwrap();
    work(&scope).wait().unwrap();
    assert_eq!((order.seen(), scope.state()), (vec!["each".into()], ScopeState::Open));
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

/// A hook waits for another scope, for executions of another scope, for a read, and for the device to be idle: inline on
/// the thread that finishes, and on the cleanup thread.
fn waiting_for_others_works(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    for dropped in [false, true] {
        let order = Order::default();
        let (sender, seen) = mpsc::channel();
        let other = manager.scope("other").unwrap();
        other.register(order.once("other's")).unwrap();
        other.register(order.each("other's")).unwrap();
        let scope = manager.scope("s").unwrap();
        let noted = order.clone();
        let wait = move |context: &CleanupContext| -> Result<(), Error> {
            let tensor = context.scope().tensor_from("data", &[1_u32; 64])?;
            fill(&other, &tensor, 2).wait()?;
            pollster::block_on(fill(&other, &tensor, 3))?;
            assert_eq!(pollster::block_on(tensor.read_async())?, [3; 64]);
            context.manager()?.wait_idle()?;
            assert_eq!(other.finish_blocking()?.executions, 2);
            let (_, report) = context
                .manager()?
                .run("inner", |inner| {
                    register(inner, noted.once("inner's"))?;
                    fill(inner, &tensor, 4).wait()
                })
                .map_err(|error: RunError<Error>| error.body().expect("the body failed"))?;
            assert_eq!(report.executions, 1);
            Ok(())
        };
        scope.register(hook::once("waits", move |context| Ok(sender.send(wait(context))?))).unwrap();
        if dropped {
            drop(scope);
        } else {
            scope.finish_blocking().unwrap();
        }
        receive(&seen).unwrap();
        assert_eq!(order.seen(), ["other's #1", "other's #2", "other's", "inner's"]);
    }
    assert!(manager.close().unwrap().is_clean());
}

/// A scope hook waits for work that it has submitted to its own scope and that the device has not done: the wait ends
/// with the work, whose hook runs after the waiting hook has returned.
fn waiting_for_held_work(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let order = Order::default();
    let (sender, submitted) = mpsc::channel();
    let scope = manager.scope("s").unwrap();
    scope.register(order.each("each")).unwrap();
    let noted = order.clone();
    let hook = hook::once("waits", move |context| {
        let execution = work(&context.scope());
        sender.send(())?;
        execution.wait()?;
        noted.note("waits");
        Ok(())
    });
    scope.register(hook).unwrap();
    probe.hold();
    std::thread::scope(|threads| {
        let probe = &probe;
        threads.spawn(move || {
            receive(&submitted);
            assert_eq!(probe.release_one(FIRST), Some(1));
        });
        scope.finish_blocking().unwrap();
    });
    assert_eq!(order.seen(), ["waits", "each #1"]);
    probe.release_all();
    assert_given_back(&manager);
}

/// What `b` waits for is queued behind the hook that waits for `b`.
struct Queued {
    a: ManagedScope,
    /// Threads of the hooks of `a` and `c`, and whether `b` finished.
    seen: mpsc::Receiver<(std::thread::ThreadId, bool)>,
}

/// A hook of `a` drops `c`, whose cleanup is now queued, and finishes `b`, whose hook is pending until that of `c` runs.
fn queue_up(manager: &Manager) -> Queued {
    let (sender, seen) = mpsc::channel();
    let signal = Signal::default();
    let b = manager.scope("b").unwrap();
    let wait = signal.clone();
    let waits = hook::future("waits", move |_| async move {
        wait.wait().await;
        Ok(())
    });
    b.register(waits).unwrap();
    let c = manager.scope("c").unwrap();
    let tell = sender.clone();
    let sets = hook::once("sets", move |_| {
        signal.set();
        Ok(tell.send((std::thread::current().id(), true))?)
    });
    c.register(sets).unwrap();
    let a = manager.scope("a").unwrap();
    let hook = hook::once("finishes b", move |_| {
        drop(c);
        let finished = b.finish_blocking();
        Ok(sender.send((std::thread::current().id(), finished.is_ok()))?)
    });
    a.register(hook).unwrap();
    Queued { a, seen }
}

/// A wait on the cleanup thread runs the cleanup that is queued behind it: else it would wait for ever.
fn the_cleanup_thread_serves_others(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let queued = queue_up(&manager);
    drop(queued.a);
    let c = receive(&queued.seen);
    let a = receive(&queued.seen);
    assert!(c.1 && a.1);
    assert_eq!(c.0, a.0, "one cleanup thread does it all");
    assert_ne!(a.0, std::thread::current().id());
    assert!(manager.close().unwrap().is_clean());
}

/// Where there is no cleanup thread, whoever waits does its work.
fn without_threads_a_wait_serves_others(bed: &Bed) {
    let Rig { manager, .. } = bed.open_with(super::support::threadless());
    let queued = queue_up(&manager);
    queued.a.finish_blocking().unwrap();
    let seen = [receive(&queued.seen), receive(&queued.seen)];
    assert!(seen.iter().all(|(thread, ok)| *ok && *thread == std::thread::current().id()));
    assert!(manager.close().unwrap().is_clean());
}

/// Two threads finish two scopes, and each one's hook waits for the other scope: a cycle that only a deadline ends. The
/// hook whose time is over is told as such, and everything comes back.
fn two_hooks_wait_for_each_other(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let scopes = ["a", "b"].map(|label| Arc::new(manager.scope(label).unwrap()));
    let both = Arc::new(std::sync::Barrier::new(2));
    let (sender, answers) = mpsc::channel();
    for (own, other) in [(0, 1), (1, 0)] {
        let (other, both, sender) = (scopes[other].clone(), both.clone(), sender.clone());
        let hook = hook::once("waits", move |context| {
            both.wait();
            let answer = other.finish_blocking();
            Ok(sender.send((context.scope().label().to_owned(), answer))?)
        });
        let hook = if own == 0 { hook.deadline(SOON) } else { hook };
        scopes[own].register(hook).unwrap();
    }
    let [a, b] = &scopes;
    let (a, b) = std::thread::scope(|threads| {
        let a = threads.spawn(|| a.finish_blocking());
        let b = threads.spawn(|| b.finish_blocking());
        (a.join().unwrap(), b.join().unwrap())
    });
    let a = cleanup_failure(a);
    assert_eq!((culprits(all_errors(&a)), a.primary.kind), (vec!["waits"], CleanupErrorKind::TimedOut));
    assert_eq!(b.unwrap().outcome, Outcome::Completed);
    for _ in 0..2 {
        let (hook_of, answer) = receive(&answers);
        match (&*hook_of, answer) {
            ("a", Ok(report)) => assert_eq!(&*report.scope, "b"),
            ("b", Err(Error::Cleanup(failure))) => assert!(Arc::ptr_eq(&failure, &a)),
            // It asked when the other scope was over.
            (_, Err(Error::ScopeFinished { .. })) => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(manager.close().unwrap().detached_hooks.is_empty());
}

/// A hook waits for a thread of the user's, which waits for the hook's scope. Nobody can see that; the hook's deadline
/// ends it, and all three come back.
fn a_cycle_through_a_thread(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let scope = Arc::new(manager.scope("s").unwrap());
    scope.register(order.once("last")).unwrap();
    let (sender, joined) = mpsc::channel();
    let own = scope.clone();
    let hook = hook::once("joins", move |_| {
        let thread = std::thread::spawn(move || own.finish_blocking());
        sender.send(thread.join().map_err(|_| "the thread panicked")?)?;
        Ok(())
    });
    scope.register(hook.deadline(SOON)).unwrap();
    let failure = cleanup_failure(scope.finish_blocking());
    assert_eq!((culprits(all_errors(&failure)), order.seen()), (vec!["joins"], vec!["last".into()]));
    assert_eq!(failure.primary.kind, CleanupErrorKind::TimedOut);
    match receive(&joined) {
        Err(Error::Cleanup(theirs)) => assert!(Arc::ptr_eq(&theirs, &failure)),
        // It came after the end.
        Err(Error::ScopeFinished { .. }) => {}
        other => panic!("{other:?}"),
    }
    assert!(manager.close().unwrap().detached_hooks.is_empty());
}
