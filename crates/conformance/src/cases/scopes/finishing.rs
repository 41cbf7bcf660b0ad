//! Finishing: its order, several who finish at once, and the trim at the end (L10, L16, L21).
//!
//! Not here: what is refused meanwhile (`refusing.rs`), and ends that nobody asked for (`ending.rs`).

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::mpsc;

use tenure_core::{Error, Outcome, RunError, ScopeReport, ScopeState, hook, op};

use crate::bed::{Bed, Rig};
use crate::case::{Case, FIRST};
use crate::cases::hooks::support::{
    Count, Latch, MIB, Order, all_errors, assert_given_back, case, cleanup_failure, fill, poll_once, receive,
    work,
};
use crate::instrument::CallKind;

pub(super) const CASES: &[Case] = &[
    case("scopes/finish_keeps_its_order", &["L16", "L10"], finish_keeps_its_order),
    case(
        "scopes/finish_waits_for_its_executions_alone",
        &["L16", "L7"],
        finish_waits_for_its_executions_alone,
    ),
    case("scopes/all_ways_to_finish_do_the_same", &["L16"], all_ways_to_finish_do_the_same),
    case("scopes/an_empty_scope_finishes", &["L16", "L11"], an_empty_scope_finishes),
    case("scopes/finish_does_nothing_before_it_is_polled", &["L16", "L18"], finish_does_nothing_unpolled),
    case("scopes/a_second_finish_awaits_the_same_outcome", &["L10", "L11"], a_second_finish_awaits),
    case("scopes/many_finish_at_once", &["L10", "L11", "L16"], many_finish_at_once),
    case("scopes/a_late_finish_is_refused", &["L10", "L13"], a_late_finish_is_refused),
    case("scopes/local_tensors_live_until_the_stack_has_run", &["L16", "L2", "L3"], local_tensors_live_on),
    case("scopes/tensors_of_after_release_hooks_go_too", &["L16", "L2"], tensors_of_after_release_hooks_go),
    case("scopes/only_the_last_root_trims", &["L21", "L16"], only_the_last_root_trims),
];

/// Executions retire and their hooks run; the stack runs in reverse with the tensors still there; tensors are
/// released; `AfterRelease` hooks run in reverse; then the policy trims.
fn finish_keeps_its_order(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let order = Order::default();
    let scope = manager.scope("s").unwrap();
    let tensor = scope.tensor::<u8>(MIB).unwrap();
    for label in ["after 1", "after 2"] {
        let (order, tensor, probe) = (order.clone(), tensor.clone(), probe.clone());
        let hook = hook::after_release(label, move |context| {
            let memory = context.manager()?.memory();
            // Released, and not given back to the driver yet.
            assert!(!tensor.is_live());
            assert_eq!((memory.live.bytes, memory.cached.bytes, memory.trims), (0, MIB, 0));
            assert_eq!(probe.calls(CallKind::Free), 0);
            order.note(label);
            Ok(())
        });
        scope.register(hook).unwrap();
    }
    let (noted, watched) = (order.clone(), tensor.clone());
    let stack = move |label: &'static str| {
        let (order, tensor) = (noted.clone(), watched.clone());
        move |_: &tenure_core::CleanupContext| {
            assert!(tensor.is_live(), "the stack runs before tensors go");
            order.note(label);
            Ok(())
        }
    };
    scope.register(hook::once("bottom", stack("bottom"))).unwrap();
    let child = scope.scope("child").unwrap();
    child.register(hook::once("child", stack("child"))).unwrap();
    scope.register(hook::once("top", stack("top"))).unwrap();
    scope.register(order.each("each")).unwrap();

    probe.hold();
    for value in 1..=2 {
        scope.evaluate([op::fill(tensor.view(0..64).unwrap(), value)]).unwrap();
    }
    let mut finish = scope.finish();
    assert!(poll_once(&mut finish).is_pending());
    assert_eq!(order.seen(), Vec::<String>::new(), "nothing runs before the executions have retired");
    probe.release_all();
    let report = pollster::block_on(finish).unwrap();
    let expected = ["each #1", "each #2", "top", "child", "bottom", "after 2", "after 1"];
    assert_eq!(order.seen(), expected);
    assert_eq!((manager.memory().trims, manager.memory().reserved.bytes), (1, 0));
    assert_eq!((report.released_bytes, probe.calls(CallKind::Free)), (MIB, 1));
}

/// Finishing waits for the scope's own executions, not for another scope's.
fn finish_waits_for_its_executions_alone(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let (first, second) = (manager.scope("first").unwrap(), manager.scope("second").unwrap());
    probe.hold();
    work(&first);
    let pending = work(&second);
    probe.release(FIRST, 1);
    assert_eq!(first.finish_blocking().unwrap().executions, 1);
    assert_eq!(pending.status(), tenure_core::ExecutionStatus::Running);
    assert_eq!(second.state(), ScopeState::Open);
    probe.release_all();
    assert_eq!(second.finish_blocking().unwrap().executions, 1);
    assert_given_back(&manager);
}

/// A finish that is awaited, one that blocks, one with a result, blocking or not, and both ways to run a body: the
/// same hooks in the same order, and the same report.
fn all_ways_to_finish_do_the_same(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let kept = RefCell::new(Vec::new());
    let prepare = |scope: &tenure_core::ScopeRef, order: &Order| {
        scope.register(order.after("after")).unwrap();
        scope.register(order.once("once")).unwrap();
        scope.register(order.each("each")).unwrap();
        let tensor = scope.tensor::<u32>(64).unwrap();
        fill(scope, &tensor, 1);
        fill(scope, &tensor, 2);
        kept.borrow_mut().push(tensor);
    };
    type Way<'a> = Box<dyn Fn(&Order) -> ScopeReport + 'a>;
    let open = |order: &Order| {
        let scope = manager.scope("s").unwrap();
        prepare(&scope, order);
        scope
    };
    let nothing = Ok::<(), Error>(());
    let ways: [Way<'_>; 6] = [
        Box::new(|order| pollster::block_on(open(order).finish()).unwrap()),
        Box::new(|order| open(order).finish_blocking().unwrap()),
        Box::new(|order| open(order).finish_with(nothing.clone()).unwrap().1),
        Box::new(|order| pollster::block_on(open(order).finish_with_async(nothing.clone())).unwrap().1),
        Box::new(|order| {
            let body = |scope: &tenure_core::ManagedScope| {
                prepare(scope, order);
                nothing.clone()
            };
            manager.run("s", body).unwrap().1
        }),
        Box::new(|order| {
            let body = async |scope: Arc<tenure_core::ManagedScope>| {
                prepare(&scope, order);
                nothing.clone()
            };
            pollster::block_on(manager.run_async("s", body)).unwrap().1
        }),
    ];
    for (at, way) in ways.iter().enumerate() {
        let order = Order::default();
        let report = way(&order);
        assert_eq!(order.seen(), ["each #1", "each #2", "once", "after"], "way {at}");
        let rows: Vec<_> = report.hooks.iter().map(|row| (&*row.label, row.runs, row.failed)).collect();
        assert_eq!(rows, [("after", 1, 0), ("once", 1, 0), ("each", 2, 0)], "way {at}");
        let figures = (report.outcome, report.executions, report.released_tensors, report.released_bytes);
        assert_eq!(figures, (Outcome::Completed, 2, 1, 256), "way {at}");
        assert_eq!((&*report.scope, report.error_count), ("s", 0), "way {at}");
    }
    drop(ways);
    drop(kept);
    assert_given_back(&manager);
}

/// A scope that holds nothing finishes at once, with an empty report and without a driver call for it.
fn an_empty_scope_finishes(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let report = manager.scope("empty").unwrap().finish_blocking().unwrap();
    assert_eq!((report.outcome, report.executions, report.hooks.len()), (Outcome::Completed, 0, 0));
    assert_eq!((report.released_tensors, report.released_bytes, report.peak_bytes), (0, 0, 0));
    assert_eq!((report.errors.len(), report.error_count), (0, 0));
    assert_eq!(probe.calls(CallKind::OpenScope | CallKind::Submit | CallKind::Allocate), 0);
}

/// A finish that nobody polls leaves the scope open; dropped, it is as if it had not been asked for.
fn finish_does_nothing_unpolled(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let scope = manager.scope("s").unwrap();
    scope.register(order.once("first")).unwrap();
    let finish = scope.finish();
    assert_eq!(scope.state(), ScopeState::Open);
    scope.register(order.once("second")).unwrap();
    drop(finish);
    assert_eq!(scope.state(), ScopeState::Open);
    work(&scope).wait().unwrap();
    assert_eq!(order.seen(), Vec::<String>::new());
    assert_eq!(pollster::block_on(scope.finish()).unwrap().outcome, Outcome::Completed);
    assert_eq!(order.seen(), ["second", "first"]);
}

/// Whoever finishes while another does gets the very same result, blocking or not, and no hook runs twice.
fn a_second_finish_awaits(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let (order, latch) = (Order::default(), Latch::default());
    let scope = manager.scope("s").unwrap();
    scope.register(order.failing("last")).unwrap();
    let (sender, begun) = mpsc::channel();
    let (noted, wait) = (order.clone(), latch.clone());
    let hook = hook::once("waits", move |_| {
        sender.send(())?;
        wait.wait();
        noted.note("waits");
        Ok(())
    });
    scope.register(hook).unwrap();
    std::thread::scope(|threads| {
        let first = threads.spawn(|| scope.finish_blocking());
        receive(&begun);
        let mut awaited = scope.finish();
        assert!(poll_once(&mut awaited).is_pending(), "the first finish is inside a hook");
        let second = threads.spawn(|| scope.finish_blocking());
        // Another outcome cannot be asked for any more.
        let mut third = Box::pin(scope.finish_with_async::<(), _>(Err("too late")));
        assert!(poll_once(&mut third).is_pending());
        assert_eq!((scope.state(), order.seen().len()), (ScopeState::Finishing, 0));
        latch.open();
        let awaited = cleanup_failure(pollster::block_on(awaited));
        let first = cleanup_failure(first.join().unwrap());
        assert!(Arc::ptr_eq(&first, &awaited), "one finish, one result");
        match second.join().unwrap() {
            Err(Error::Cleanup(failure)) => assert!(Arc::ptr_eq(&failure, &awaited)),
            // It came when all was over.
            Err(Error::ScopeFinished { .. }) => {}
            other => panic!("{other:?}"),
        }
        assert_eq!((awaited.report.outcome, awaited.report.error_count), (Outcome::Completed, 1));
        let RunError::Body { error, report } = pollster::block_on(third).unwrap_err() else {
            panic!("the body's error stays the first one")
        };
        assert_eq!((error, report.unwrap().outcome), ("too late", Outcome::Completed));
    });
    assert_eq!(order.seen(), ["waits", "last"]);
}

/// Eight threads finish the same scopes at the same time: one of them runs each hook, once, and nobody is left
/// waiting.
fn many_finish_at_once(bed: &Bed) {
    const THREADS: usize = 8;
    let Rig { manager, .. } = bed.open();
    for round in 0..50 {
        let runs = Count::default();
        let scope = manager.scope("s").unwrap();
        for label in ["a", "b", "c"] {
            let runs = runs.clone();
            let hook = hook::once(label, move |_| {
                runs.add();
                Ok(())
            });
            scope.register(hook).unwrap();
        }
        let seen = runs.clone();
        let hook = hook::each("each", move |_| {
            seen.add();
            Ok(())
        });
        scope.register(hook).unwrap();
        work(&scope);
        let barrier = std::sync::Barrier::new(THREADS);
        let finished = std::thread::scope(|threads| {
            let all: Vec<_> = (0..THREADS)
                .map(|at| {
                    let (scope, barrier) = (&scope, &barrier);
                    threads.spawn(move || {
                        barrier.wait();
                        if at % 2 == 0 { scope.finish_blocking() } else { pollster::block_on(scope.finish()) }
                    })
                })
                .collect();
            all.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        });
        let mut reports = 0;
        for result in finished {
            match result {
                Ok(report) => {
                    reports += 1;
                    assert_eq!((report.executions, report.hooks.len()), (1, 4));
                }
                // It came when all was over.
                Err(Error::ScopeFinished { outcome, .. }) => assert_eq!(outcome, Outcome::Completed),
                Err(other) => panic!("{other}"),
            }
        }
        assert!(reports >= 1);
        assert_eq!(runs.get(), 4, "round {round}");
    }
    assert_given_back(&manager);
}

/// A finish after the end says how the scope ended; with a body's error, that error still comes back.
fn a_late_finish_is_refused(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let scope = manager.scope("s").unwrap();
    scope.register(order.once("once")).unwrap();
    let failed = scope.finish_with::<(), _>(Err("first"));
    assert_eq!(failed.unwrap_err().body(), Some("first"));
    let late = [
        scope.finish_blocking(),
        pollster::block_on(scope.finish()),
        match scope.finish_with::<_, Error>(Ok(())) {
            Err(RunError::Scope(error)) => Err(error),
            other => panic!("{other:?}"),
        },
    ];
    for late in late {
        let named =
            matches!(&late, Err(Error::ScopeFinished { scope, outcome: Outcome::Failed }) if &**scope == "s");
        assert!(named, "{late:?}");
    }
    match scope.finish_with::<(), _>(Err("second")) {
        Err(RunError::Body { error: "second", report: None }) => {}
        other => panic!("{other:?}"),
    }
    assert_eq!((scope.state(), order.seen().len()), (ScopeState::Finished(Outcome::Failed), 1));
}

/// The stack's hooks read and evaluate the scope's tensors; `AfterRelease` hooks find them stale, with the scope
/// named.
fn local_tensors_live_on(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let scope = manager.scope("s").unwrap();
    let tensor = scope.tensor_from("data", &[1_u32; 64]).unwrap();
    let sequence = scope.sequence().unwrap();
    sequence.record(op::fill(&tensor, 2)).unwrap();
    let (noted, stale, kept) = (order.clone(), tensor.clone(), sequence.clone());
    let hook = hook::after_release("after", move |context| {
        let why = |error: Error| match error {
            Error::Stale { label, why, .. } => format!("{label}: {why}"),
            other => panic!("{other}"),
        };
        assert_eq!(why(stale.read().unwrap_err()), "data: scope `s` has finished");
        assert_eq!(why(stale.write(&[0; 64]).unwrap_err()), "data: scope `s` has finished");
        assert_eq!(why(kept.evaluate().unwrap_err()), "anonymous: scope `s` has finished");
        assert_eq!(
            why(context.scope().evaluate([op::fill(&stale, 3)]).unwrap_err()),
            "data: scope `s` has finished"
        );
        noted.note("after");
        Ok(())
    });
    scope.register(hook).unwrap();
    let (noted, live) = (order.clone(), tensor.clone());
    let hook = hook::once("once", move |context| {
        assert_eq!(live.read()?, [1; 64]);
        context.scope().evaluate([op::fill(&live, 7)])?.wait()?;
        assert_eq!(live.read()?, [7; 64]);
        noted.note("once");
        Ok(())
    });
    scope.register(hook).unwrap();
    let report = scope.finish_blocking().unwrap();
    assert_eq!(order.seen(), ["once", "after"]);
    assert_eq!((report.executions, report.released_tensors, report.released_bytes), (1, 1, 256));
    drop((tensor, sequence));
    assert_given_back(&manager);
}

/// What an `AfterRelease` hook makes in its scope is released before the next one runs, and counted.
fn tensors_of_after_release_hooks_go(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let scope = manager.scope("s").unwrap();
    let (sender, made) = mpsc::channel();
    let hook = hook::after_release("second", move |context| {
        let tensor: tenure_core::Tensor<u8> = receive(&made);
        assert!(!tensor.is_live());
        assert_eq!(context.manager()?.memory().live.bytes, 0);
        Ok(())
    });
    scope.register(hook).unwrap();
    let hook = hook::after_release("first", move |context| {
        let tensor = context.scope().tensor::<u8>(MIB)?;
        context.scope().evaluate([op::fill(tensor.view(0..64)?, 1)])?;
        sender.send(tensor)?;
        Ok(())
    });
    scope.register(hook).unwrap();
    let report = scope.finish_blocking().unwrap();
    assert_eq!((report.executions, report.released_tensors, report.released_bytes), (1, 1, MIB));
    assert_given_back(&manager);
}

/// With two roots and a child open, only the end of the last root trims, and says how much.
fn only_the_last_root_trims(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let first = manager.scope("first").unwrap();
    let last = manager.scope("last").unwrap();
    let child = first.scope("child").unwrap();
    for scope in [&child, &first, &last] {
        scope.register(hook::once("fails", |_| Err("an error changes nothing".into()))).unwrap();
        scope.tensor::<u8>(MIB).unwrap();
    }
    // Each tensor takes what the last one left: one block in all.
    assert_eq!(manager.memory().cached.bytes, MIB);
    for scope in [child, first] {
        let failure = cleanup_failure(scope.finish_blocking());
        assert_eq!((failure.report.trimmed_bytes, all_errors(&failure).len()), (0, 1));
        assert_eq!((manager.memory().trims, probe.calls(CallKind::Free | CallKind::Trim)), (0, 0));
    }
    let reserved = manager.memory().reserved.bytes;
    assert_eq!(reserved, MIB);
    let report = cleanup_failure(last.finish_blocking()).report.clone();
    // The backend may have cached something of its own besides.
    assert!(report.trimmed_bytes >= reserved, "{report}");
    assert_eq!((manager.memory().trims, manager.memory().reserved.bytes), (1, 0));
    assert_eq!((probe.calls(CallKind::Free), probe.calls(CallKind::Trim)), (1, 1));
}
