//! Waits inside hooks that can end: on the finishing thread, on the cleanup thread, which serves others meanwhile,
//! and in cycles that only a deadline ends (L15, L16).
//!
//! Not here: waits that are refused (`waiting.rs`).

use std::sync::Arc;
use std::sync::mpsc;

use tenure_core::{CleanupContext, CleanupErrorKind, Error, ManagedScope, Manager, Outcome, RunError, hook};

use super::support::{
    Order, SOON, Signal, all_errors, assert_given_back, case, cleanup_failure, culprits, fill, receive, work,
};
use crate::bed::{Bed, Rig};
use crate::case::{Case, FIRST};

pub(super) const CASES: &[Case] = &[
    case("hooks/waiting_for_others_works", &["L15"], waiting_for_others_works),
    case("hooks/waiting_for_held_work_of_its_own_scope_works", &["L15", "L16"], waiting_for_held_work),
    case("hooks/the_cleanup_thread_serves_others_while_it_waits", &["L15"], the_cleanup_thread_serves_others),
    case("hooks/without_threads_a_wait_serves_others", &["L15"], without_threads_a_wait_serves_others),
    case("hooks/waits_inside_each_other_end", &["L15"], waits_inside_each_other_end),
    case("hooks/deep_waits_end", &["L15"], deep_waits_end),
    case("hooks/two_hooks_wait_for_each_others_scopes", &["L15", "L16"], two_hooks_wait_for_each_other),
    case("hooks/a_cycle_through_a_thread_ends_by_deadline", &["L15", "L16"], a_cycle_through_a_thread),
];

/// A hook waits for another scope, for executions of another scope, for a read, and for the device to be idle: inline
/// on the thread that finishes, and on the cleanup thread.
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
                    inner.register(noted.once("inner's"))?;
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

/// A hook of `a` drops `c`, whose cleanup is now queued, and finishes `b`, whose hook is pending until that of `c`
/// runs.
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

/// Hooks of dropped scopes wait inside each other, each for what the next one does. Returns the depth of each hook and its
/// thread, in the order in which they ended.
fn nest(manager: &Manager, depths: usize) -> mpsc::Receiver<(usize, std::thread::ThreadId)> {
    let (sender, ends) = mpsc::channel();
    let mut next: Option<ManagedScope> = None;
    let mut inner = Signal::default();
    for depth in (0..depths).rev() {
        let below = next.take().map(|below| (below, manager.scope("pending").unwrap()));
        if let Some((_, pending)) = &below {
            let wait = inner.clone();
            let waits = hook::future("waits", move |_| async move {
                wait.wait().await;
                Ok(())
            });
            pending.register(waits).unwrap();
        }
        let mine = Signal::default();
        let (sets, tell) = (mine.clone(), sender.clone());
        let hook = hook::once("waits", move |_| {
            if let Some((below, pending)) = below {
                drop(below);
                pending.finish_blocking()?;
            }
            tell.send((depth, std::thread::current().id()))?;
            sets.set();
            Ok(())
        });
        let scope = manager.scope(format!("{depth}")).unwrap();
        scope.register(hook).unwrap();
        next = Some(scope);
        inner = mine;
    }
    drop(next);
    ends
}

/// Ten hooks on the cleanup thread: they end from the inside, on that one thread.
fn waits_inside_each_other_end(bed: &Bed) {
    const DEPTH: usize = 10;
    let Rig { manager, .. } = bed.open();
    let ends = nest(&manager, DEPTH);
    let ends: Vec<_> = (0..DEPTH).map(|_| receive(&ends)).collect();
    assert!(ends.iter().map(|end| end.0).eq((0..DEPTH).rev()), "{ends:?}");
    assert!(ends.iter().all(|end| end.1 == ends[0].1), "on one thread");
    assert!(manager.close().unwrap().is_clean());
}

/// Fifty hooks, more than one thread's stack is used for: other threads go on, and all end.
fn deep_waits_end(bed: &Bed) {
    const DEPTH: usize = 50;
    let Rig { manager, .. } = bed.open();
    let ends = nest(&manager, DEPTH);
    let mut ended: Vec<_> = (0..DEPTH).map(|_| receive(&ends).0).collect();
    assert_eq!(ended[0], DEPTH - 1);
    ended.sort();
    assert!(ended.into_iter().eq(0..DEPTH));
    assert!(manager.close().unwrap().is_clean());
    let Rig { manager, .. } = bed.open_with(super::support::threadless());
    let ends = nest(&manager, DEPTH);
    manager.poll().unwrap();
    assert!((0..DEPTH).all(|_| ends.try_recv().is_ok()), "whoever polls does it all");
    assert!(manager.close().unwrap().is_clean());
}

/// Two threads finish two scopes, and each one's hook waits for the other scope: a cycle that only a deadline ends.
/// The hook whose time is over is told as such, and everything comes back.
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

/// A hook waits for a thread of the user's, which waits for the hook's scope. Nobody can see that; the hook's
/// deadline ends it, and all three come back.
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
