//! Cancellation, part 2: from a hook, during a finish, and while other threads are at work (L16, L10, L11).
//!
//! Not here: the same at random points under a report from the field (`field/abort.rs`).

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use tenure_core::{Error, ManagedScope, Outcome, ScopeState, hook, op};

use crate::bed::{Bed, Rig};
use crate::case::Case;
use crate::cases::hooks::support::{Count, Latch, Order, case, poll_once, receive};
use crate::cases::sequences::settled;
use crate::instrument::CallKind;

pub(super) const CASES: &[Case] = &[
    case("cancellation/from_a_hook", &["L10", "L16"], from_a_hook),
    case("cancellation/from_an_execution_hook", &["L11", "L16"], from_an_execution_hook),
    case("cancellation/during_a_finish", &["L10", "L11", "L16"], during_a_finish),
    case("cancellation/a_child_that_is_finishing_is_reached", &["L16"], a_finishing_child_is_reached),
    case("cancellation/below_a_child_that_is_finishing", &["L16"], below_a_finishing_child),
    case("cancellation/against_an_evaluation", &["L16", "L7"], against_an_evaluation),
    case("cancellation/against_the_opening_of_children", &["L16"], against_opening),
    case("cancellation/against_a_finish", &["L10", "L16"], against_a_finish),
    case("cancellation/against_a_drop", &["L16", "L17"], against_a_drop),
    case("cancellation/ten_scopes_one_canceller", &["L4", "L11", "L16"], ten_scopes_one_canceller),
];

/// A scope hook cancels its own scope: the hooks that come after run, and learn of it.
fn from_a_hook(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let scope = manager.scope("s").unwrap();
    scope.register(order.outcome("last")).unwrap();
    scope
        .register(hook::once("cancels", |context| {
            context.scope().cancel();
            Ok(())
        }))
        .unwrap();
    scope.register(order.outcome("first")).unwrap();
    let report = scope.finish_blocking().unwrap();
    assert_eq!(report.outcome, Outcome::Cancelled);
    assert_eq!(order.seen(), ["first Completed", "last Cancelled"]);
    assert!(report.hooks.iter().all(|row| row.runs == 1));
}

/// The hook of one execution cancels the scope: what was submitted behind it completes, with its hooks; no more starts.
fn from_an_execution_hook(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let runs = Count::default();
    let scope = manager.scope("s").unwrap();
    let seen = runs.clone();
    scope
        .register(hook::each("cancels", move |context| {
            context.scope().cancel();
            seen.add();
            Ok(())
        }))
        .unwrap();
    let tensor = scope.tensor::<u32>(4).unwrap();
    probe.hold();
    let executions: Vec<_> =
        (1..=3).map(|value| scope.evaluate([op::fill(&tensor, value)]).unwrap()).collect();
    probe.release_all();
    for execution in &executions {
        execution.wait().unwrap();
    }
    assert_eq!(tensor.read().unwrap(), [3; 4]);
    let report = scope.finish_blocking().unwrap();
    assert_eq!((report.outcome, report.executions, runs.get()), (Outcome::Cancelled, 3, 3));
}

/// While a finish waits for the device the scope is cancelled: the finish ends as cancelled, everything runs once.
fn during_a_finish(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let order = Order::default();
    let scope = manager.scope("s").unwrap();
    scope.register(order.outcome("once")).unwrap();
    scope.register(order.each("each")).unwrap();
    let tensor = scope.tensor::<u32>(4).unwrap();
    probe.hold();
    scope.evaluate([op::fill(&tensor, 1)]).unwrap();
    let mut finish = scope.finish();
    assert!(poll_once(&mut finish).is_pending());
    assert_eq!(scope.state(), ScopeState::Finishing);
    std::thread::scope(|threads| {
        threads.spawn(|| scope.cancel());
    });
    assert_eq!(scope.state(), ScopeState::Finishing);
    probe.release_all();
    let report = pollster::block_on(finish).unwrap();
    assert_eq!((report.outcome, report.executions), (Outcome::Cancelled, 1));
    assert_eq!(order.seen(), ["each #1", "once Cancelled"]);
}

/// A parent that is finishing has begun to finish its child; cancelled from the child's own hook, both end as cancelled.
fn a_finishing_child_is_reached(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let parent = manager.scope("parent").unwrap();
    parent.register(order.outcome("parent")).unwrap();
    let child = parent.scope("child").unwrap();
    child.register(order.outcome("child")).unwrap();
    let outer = (*parent).clone();
    child
        .register(hook::once("cancels the parent", move |_| {
            outer.cancel();
            Ok(())
        }))
        .unwrap();
    assert_eq!(parent.finish_blocking().unwrap().outcome, Outcome::Cancelled);
    assert_eq!(child.state(), ScopeState::Finished(Outcome::Cancelled));
    assert_eq!(order.seen(), ["child Cancelled", "parent Cancelled"]);
}

/// Below a child that is finishing there is a scope still open: cancelling the parent reaches it, and it starts nothing.
fn below_a_finishing_child(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let latch = Latch::default();
    let (begin, begun) = mpsc::channel();
    let parent = manager.scope("parent").unwrap();
    let child = parent.scope("child").unwrap();
    let inner = child.scope("inner").unwrap();
    let inside = latch.clone();
    child
        .register(hook::once("blocks", move |_| {
            begin.send(()).unwrap();
            inside.wait();
            Ok(())
        }))
        .unwrap();
    let tensor = manager.tensor::<u32>(4).unwrap();
    std::thread::scope(|threads| {
        let finishing = threads.spawn(|| parent.finish_blocking());
        receive(&begun);
        assert_eq!((child.state(), inner.state()), (ScopeState::Finishing, ScopeState::Open));
        parent.cancel();
        let refused = inner.evaluate([op::fill(&tensor, 1)]).map(drop);
        latch.open();
        assert!(matches!(refused, Err(Error::Cancelled { .. })), "{refused:?}");
        assert_eq!(finishing.join().unwrap().unwrap().outcome, Outcome::Cancelled);
    });
    assert_eq!(inner.state(), ScopeState::Finished(Outcome::Cancelled));
    assert_eq!(probe.calls(CallKind::Submit), 0);
}

/// One thread evaluates until it is refused, another cancels: what was submitted has completed, what was refused left no
/// trace, and after the first refusal all are.
fn against_an_evaluation(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let mut submitted_before = 0;
    for round in 0..100_u32 {
        let scope = manager.scope("s").unwrap();
        let each = Count::default();
        scope.register(each_hook(&each)).unwrap();
        let tensor = scope.tensor_from("count", &[0_u32; 4]).unwrap();
        let sequence = scope.named("again").unwrap();
        let (reached, reach) = mpsc::channel();
        let submitted = std::thread::scope(|threads| {
            let target = &scope;
            threads.spawn(move || {
                receive(&reach);
                target.cancel();
            });
            let mut submitted = 0_u32;
            loop {
                if submitted == round % 8 {
                    let _ = reached.send(());
                }
                let next = sequence
                    .reset()
                    .and_then(|()| sequence.record(op::fill(&tensor, submitted + 1)).map(drop));
                match next.and_then(|()| sequence.run()) {
                    Ok(()) => submitted += 1,
                    Err(Error::Cancelled { .. }) => return submitted,
                    Err(error) => panic!("a cancelled scope answered {error}"),
                }
            }
        });
        assert!(matches!(sequence.evaluate(), Err(Error::Cancelled { .. })));
        assert!(matches!(scope.evaluate([op::fill(&tensor, 0)]), Err(Error::Cancelled { .. })));
        assert_eq!(tensor.read().unwrap(), [submitted; 4]);
        let report = scope.finish_blocking().unwrap();
        assert_eq!((report.outcome, report.executions), (Outcome::Cancelled, u64::from(submitted)));
        assert_eq!(each.get(), u64::from(submitted));
        submitted_before += u64::from(submitted);
        assert_eq!(probe.calls(CallKind::Submit), submitted_before);
    }
}

fn each_hook(count: &Count) -> tenure_core::Hook {
    let count = count.clone();
    hook::each("each", move |_| {
        count.add();
        Ok(())
    })
}

/// One thread opens scopes in scopes, another cancels the outermost: whichever comes first, every one of them is cancelled.
fn against_opening(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let tensor = manager.tensor::<u32>(4).unwrap();
    for _ in 0..50 {
        let outer = manager.scope("outer").unwrap();
        let start = Barrier::new(2);
        let opened: Vec<ManagedScope> = std::thread::scope(|threads| {
            threads.spawn(|| {
                start.wait();
                outer.cancel();
            });
            start.wait();
            let mut opened: Vec<ManagedScope> = Vec::new();
            for _ in 0..20 {
                let next = opened.last().map_or_else(|| outer.scope("inner"), |last| last.scope("inner"));
                opened.push(next.unwrap());
            }
            opened
        });
        for scope in &opened {
            assert!(scope.is_cancelled());
            assert!(matches!(scope.evaluate([op::fill(&tensor, 1)]), Err(Error::Cancelled { .. })));
        }
        assert_eq!(outer.finish_blocking().unwrap().outcome, Outcome::Cancelled);
        for scope in opened {
            assert_eq!(scope.state(), ScopeState::Finished(Outcome::Cancelled));
        }
    }
}

/// One thread finishes, another cancels: it ends as one of the two, everybody says which, and hooks run once.
fn against_a_finish(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    for _ in 0..100 {
        let order = Order::default();
        let scope = manager.scope("s").unwrap();
        let inner = scope.scope("inner").unwrap();
        scope.register(order.once("once")).unwrap();
        let tensor = inner.tensor::<u32>(4).unwrap();
        inner.evaluate([op::fill(&tensor, 1)]).unwrap();
        let start = Barrier::new(2);
        let report = std::thread::scope(|threads| {
            threads.spawn(|| {
                start.wait();
                scope.cancel();
            });
            start.wait();
            scope.finish_blocking().unwrap()
        });
        assert!(matches!(report.outcome, Outcome::Completed | Outcome::Cancelled), "{report}");
        assert_eq!(scope.state(), ScopeState::Finished(report.outcome));
        assert_eq!(order.seen(), ["once"]);
        let memory = settled(&manager);
        assert_eq!((memory.tensors, memory.live.bytes, memory.retired.bytes), (0, 0, 0));
    }
}

/// One thread drops the scope, another cancels it by its reference: it ends as one of the two, with its hook run.
fn against_a_drop(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    for _ in 0..100 {
        let scope = manager.scope("s").unwrap();
        let reference = (*scope).clone();
        let (tell, told) = mpsc::channel();
        scope.register(hook::once("tells", move |context| Ok(tell.send(context.outcome())?))).unwrap();
        let start = Barrier::new(2);
        std::thread::scope(|threads| {
            threads.spawn(|| {
                start.wait();
                reference.cancel();
            });
            start.wait();
            drop(scope);
        });
        let outcome = receive(&told);
        assert!(matches!(outcome, Some(Outcome::Abandoned | Outcome::Cancelled)), "{outcome:?}");
        assert!(told.recv().is_err(), "once");
    }
}

/// Ten scopes on eight threads, twenty evaluations each, while another thread cancels three of them: those that were left
/// alone have all their results, every hook has run once an execution, and nothing is left. A hundred times.
fn ten_scopes_one_canceller(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    for round in 0..100_usize {
        let scopes: Vec<_> = (0..10).map(|at| manager.scope(format!("scope {at}")).unwrap()).collect();
        let hooks: Vec<_> = scopes
            .iter()
            .map(|scope| {
                let each = Count::default();
                scope.register(each_hook(&each)).unwrap();
                each
            })
            .collect();
        let victims: Vec<usize> = (0..3).map(|at| (round * 3 + at * 7) % 10).collect();
        let next = AtomicUsize::new(0);
        let work = || {
            let mut ended = Vec::new();
            loop {
                let at = next.fetch_add(1, Ordering::SeqCst);
                let Some(scope) = scopes.get(at) else { return ended };
                ended.push((at, evaluations_of(scope)));
            }
        };
        std::thread::scope(|threads| {
            let workers: Vec<_> = (0..8).map(|_| threads.spawn(work)).collect();
            threads.spawn(|| victims.iter().for_each(|victim| scopes[*victim].cancel()));
            for (at, evaluated) in workers.into_iter().flat_map(|worker| worker.join().unwrap()) {
                assert!(evaluated == 20 || victims.contains(&at), "scope {at} was not cancelled");
                let report = scopes[at].finish_blocking().unwrap();
                assert_eq!((report.executions, hooks[at].get()), (evaluated, evaluated));
            }
        });
        for (at, scope) in scopes.iter().enumerate() {
            // One that had finished before it was cancelled has completed.
            let ScopeState::Finished(outcome) = scope.state() else { panic!("{scope:?}") };
            assert_eq!(outcome == Outcome::Cancelled, scope.is_cancelled(), "scope {at}");
            assert!(victims.contains(&at) || outcome == Outcome::Completed, "scope {at}: {outcome}");
        }
        let memory = settled(&manager);
        assert_eq!((memory.tensors, memory.live.bytes, memory.retired.bytes), (0, 0, 0));
    }
}

/// Evaluates twenty times, or until it is cancelled; checks the last result. Returns how often it did.
fn evaluations_of(scope: &ManagedScope) -> u64 {
    let tensor = scope.tensor_from("data", &[0_u64; 16]).unwrap();
    let mut evaluated = 0;
    while evaluated < 20 {
        match scope.evaluate([op::fill(&tensor, evaluated + 1)]) {
            Ok(execution) => execution.wait().unwrap(),
            Err(Error::Cancelled { .. }) => break,
            Err(error) => panic!("a cancelled scope answered {error}"),
        }
        evaluated += 1;
    }
    assert_eq!(tensor.read().unwrap(), [evaluated; 16]);
    evaluated
}
