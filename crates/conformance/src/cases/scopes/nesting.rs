//! Scopes in scopes: order, errors and outcomes of children, hooks on ancestors (L10, L12, L13, L16).
//!
//! Not here: children that are moved out (`moving.rs`).

use std::sync::Arc;
use std::sync::mpsc;

use tenure_core::{CleanupErrorKind, Error, ManagedScope, Outcome, RunError, ScopeState, hook, op};

use crate::bed::{Bed, Rig};
use crate::case::Case;
use crate::cases::hooks::support::{
    Count, Fault, Latch, MIB, Order, all_errors, assert_given_back, case, cleanup_failure, culprits,
    poll_once, receive, runs, work,
};

pub(super) const CASES: &[Case] = &[
    case("scopes/nested_scopes_finish_in_reverse", &["L10", "L16"], nested_scopes_finish_in_reverse),
    case("scopes/a_child_that_has_finished_is_left_alone", &["L10", "L11"], a_child_that_has_finished),
    case(
        "scopes/a_childs_executions_are_awaited_in_its_turn",
        &["L10", "L16"],
        a_childs_executions_are_awaited,
    ),
    case("scopes/a_childs_errors_are_not_lost", &["L13", "L16"], a_childs_errors_are_not_lost),
    case("scopes/errors_that_the_child_told_are_not_told_again", &["L13"], errors_are_told_once),
    case("scopes/children_end_as_their_parent_does", &["L10", "L17"], children_end_as_their_parent),
    case(
        "scopes/a_child_that_finishes_elsewhere_is_awaited",
        &["L10", "L11"],
        a_child_that_finishes_elsewhere,
    ),
    case(
        "scopes/hooks_of_a_child_use_what_its_parent_holds",
        &["L16", "L2"],
        hooks_of_a_child_use_the_parents,
    ),
    case("scopes/hooks_of_a_child_register_with_its_parent", &["L10", "L12"], hooks_of_a_child_register),
    case("scopes/depth_costs_no_stack", &["L10", "L11"], depth_costs_no_stack),
    case("scopes/many_children_leave_nothing_behind", &["L8", "L10"], many_children_leave_nothing),
    case("scopes/a_hundred_nodes_register_one_hook", &["L12", "L11"], a_hundred_nodes_register_one_hook),
];

/// Children are entries like others: the stack runs strictly in reverse, each child to its end before the next entry.
fn nested_scopes_finish_in_reverse(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let fill_up = |scope: &ManagedScope, labels: [&'static str; 3]| {
        scope.register(order.after(labels[0])).unwrap();
        scope.register(order.once(labels[1])).unwrap();
        scope.register(order.future(labels[2])).unwrap();
    };
    let root = manager.scope("root").unwrap();
    root.register(order.once("root 1")).unwrap();
    let first = root.scope("first").unwrap();
    fill_up(&first, ["first after", "first", "first async"]);
    root.register(order.once("root 2")).unwrap();
    let second = root.scope("second").unwrap();
    let grandchild = second.scope("grandchild").unwrap();
    fill_up(&grandchild, ["grandchild after", "grandchild", "grandchild async"]);
    second.register(order.once("second")).unwrap();
    root.register(order.once("root 3")).unwrap();
    root.register(order.after("root after")).unwrap();
    let report = root.finish_blocking().unwrap();
    let expected = [
        "root 3",
        "second",
        "grandchild async begins",
        "grandchild async ends",
        "grandchild",
        "grandchild after",
        "root 2",
        "first async begins",
        "first async ends",
        "first",
        "first after",
        "root 1",
        "root after",
    ];
    assert_eq!(order.seen(), expected);
    assert_eq!(report.hooks.len(), 4, "a child's hooks are in its own report");
    for scope in [&first, &second, &grandchild] {
        assert_eq!(scope.state(), ScopeState::Finished(Outcome::Completed));
    }
}

/// A child that finished on its own is no entry any more.
fn a_child_that_has_finished(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let root = manager.scope("root").unwrap();
    root.register(order.once("root")).unwrap();
    let child = root.scope("child").unwrap();
    child.register(order.once("child")).unwrap();
    let tensor = root.tensor::<u8>(MIB).unwrap();
    child.finish_blocking().unwrap();
    assert_eq!(order.seen(), ["child"]);
    assert!(tensor.is_live());
    root.finish_blocking().unwrap();
    assert_eq!(order.seen(), ["child", "root"]);
    assert!(matches!(child.finish_blocking(), Err(Error::ScopeFinished { .. })));
}

/// The executions of a child are waited for when its turn comes, not before the parent's newer entries.
fn a_childs_executions_are_awaited(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let order = Order::default();
    let root = manager.scope("root").unwrap();
    root.register(order.once("old")).unwrap();
    let child = root.scope("child").unwrap();
    child.register(order.each("child")).unwrap();
    root.register(order.once("new")).unwrap();
    probe.hold();
    work(&child);
    let mut finish = root.finish();
    assert!(poll_once(&mut finish).is_pending());
    assert_eq!(order.seen(), ["new"]);
    assert_eq!(child.state(), ScopeState::Finishing);
    probe.release_all();
    let report = pollster::block_on(finish).unwrap();
    assert_eq!(order.seen(), ["new", "child #1", "old"]);
    assert_eq!(report.executions, 0, "an execution counts in its own scope");
}

/// The errors of a child that the parent finishes are the parent's, in run order, with the child's name; those beyond
/// the first 64 are counted.
fn a_childs_errors_are_not_lost(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let root = manager.scope("root").unwrap();
    root.register(order.failing("root's last")).unwrap();
    let child = root.scope("child").unwrap();
    let grandchild = child.scope("grandchild").unwrap();
    grandchild.register(order.panicking("grandchild's")).unwrap();
    child.register(order.failing("child's")).unwrap();
    root.register(order.failing("root's first")).unwrap();
    let failure = cleanup_failure(root.finish_blocking());
    let errors: Vec<_> = all_errors(&failure)
        .into_iter()
        .map(|error| (error.hook.as_deref().unwrap(), &*error.scope, error.kind))
        .collect();
    let expected = [
        ("root's first", "root", CleanupErrorKind::Failed),
        ("child's", "child", CleanupErrorKind::Failed),
        ("grandchild's", "grandchild", CleanupErrorKind::Panicked),
        ("root's last", "root", CleanupErrorKind::Failed),
    ];
    assert_eq!(errors, expected);
    assert_eq!((failure.report.error_count, failure.report.errors.len()), (4, 4));
    assert!(manager.take_errors().is_empty(), "they have a reader");

    let root = manager.scope("root").unwrap();
    root.register(order.failing("one more")).unwrap();
    let child = root.scope("child").unwrap();
    for _ in 0..100 {
        child.register(hook::once("many", |_| Err(Fault("many").into()))).unwrap();
    }
    let failure = cleanup_failure(root.finish_blocking());
    assert_eq!((failure.report.error_count, failure.report.errors.len()), (101, 64));
    assert!(failure.report.errors.iter().all(|error| &*error.scope == "child"));
}

/// A child whose own finish came back with its errors does not hand them on to the parent.
fn errors_are_told_once(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let root = manager.scope("root").unwrap();
    let child = root.scope("child").unwrap();
    child.register(order.failing("child's")).unwrap();
    assert_eq!(culprits(&cleanup_failure(child.finish_blocking()).report.errors), ["child's"]);
    assert_eq!(root.finish_blocking().unwrap().error_count, 0);
    assert!(manager.take_errors().is_empty());
}

/// A child that is open when its parent ends, ends the same way: completed, failed, panicked, abandoned.
fn children_end_as_their_parent(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let open = || {
        let root = manager.scope("root").unwrap();
        let child = root.scope("child").unwrap();
        child.register(order.outcome("child")).unwrap();
        (root, child)
    };
    let (root, child) = open();
    root.finish_blocking().unwrap();
    assert_eq!(child.state(), ScopeState::Finished(Outcome::Completed));
    let (root, child) = open();
    let failed = root.finish_with::<(), _>(Err(Fault("body")));
    assert!(matches!(failed, Err(RunError::Body { .. })));
    assert_eq!(child.state(), ScopeState::Finished(Outcome::Failed));
    let (root, child) = open();
    root.cancel();
    assert!(child.is_cancelled());
    assert_eq!(root.finish_blocking().unwrap().outcome, Outcome::Cancelled);
    assert_eq!(child.state(), ScopeState::Finished(Outcome::Cancelled));
    let (root, child) = open();
    drop(root);
    manager.close().unwrap();
    assert_eq!(child.state(), ScopeState::Finished(Outcome::Abandoned));
    assert_eq!(order.seen(), ["child Completed", "child Failed", "child Cancelled", "child Abandoned"]);
}

/// Another thread is inside a child's finish: the parent waits for it, runs none of its hooks, and goes on after it.
fn a_child_that_finishes_elsewhere(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let (order, latch) = (Order::default(), Latch::default());
    let root = manager.scope("root").unwrap();
    root.register(order.once("old")).unwrap();
    let child = root.scope("child").unwrap();
    child.register(order.failing("child's last")).unwrap();
    let (sender, begun) = mpsc::channel();
    let (noted, wait) = (order.clone(), latch.clone());
    let hook = hook::once("child's first", move |_| {
        sender.send(())?;
        wait.wait();
        noted.note("child's first");
        Ok(())
    });
    child.register(hook).unwrap();
    root.register(order.once("new")).unwrap();
    std::thread::scope(|threads| {
        let inner = threads.spawn(|| child.finish_blocking());
        receive(&begun);
        let mut outer = root.finish();
        assert!(poll_once(&mut outer).is_pending());
        assert_eq!(order.seen(), ["new"], "the child's turn has come, and it is at it already");
        latch.open();
        let outer = cleanup_failure(pollster::block_on(outer));
        assert_eq!(culprits(all_errors(&outer)), ["child's last"]);
        assert_eq!(culprits(&cleanup_failure(inner.join().unwrap()).report.errors), ["child's last"]);
    });
    assert_eq!(order.seen(), ["new", "child's first", "child's last", "old"]);
    assert_given_back(&manager);
}

/// While a child is cleaned up, the parent's tensors and older sequences are there; its newer sequences are gone.
fn hooks_of_a_child_use_the_parents(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let root = manager.scope("root").unwrap();
    let tensor = root.tensor_from("parent's", &[1_u32; 64]).unwrap();
    let old = root.named("old").unwrap();
    old.record(op::fill(&tensor, 2)).unwrap();
    let child = root.scope("child").unwrap();
    let new = root.named("new").unwrap();
    new.record(op::fill(&tensor, 3)).unwrap();
    let (used, sequences) = (tensor.clone(), (old.clone(), new.clone()));
    let hook = hook::after_release("child's", move |context| {
        let (old, new) = &sequences;
        assert!(matches!(new.evaluate(), Err(Error::Stale { .. })));
        old.run()?;
        context.scope().evaluate([op::fill(used.view(0..1)?, 5)])?.wait()?;
        assert_eq!(used.read()?[..2], [5, 2]);
        Ok(())
    });
    child.register(hook).unwrap();
    let report = root.finish_blocking().unwrap();
    assert_eq!((report.executions, report.released_tensors), (1, 1));
    drop((tensor, old, new));
    assert_given_back(&manager);
}

/// A hook of a child registers with the finishing parent: on top of its stack, after the child.
fn hooks_of_a_child_register(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let root = manager.scope("root").unwrap();
    root.register(order.once("old")).unwrap();
    let child = root.scope("child").unwrap();
    child.register(order.once("child's last")).unwrap();
    let (noted, above) = (order.clone(), tenure_core::ScopeRef::clone(&root));
    let hook = hook::once("child's first", move |context| {
        noted.note("child's first");
        context.scope().register_on(&above, noted.once("on top"))?;
        context.register(noted.once("next"))?;
        Ok(())
    });
    child.register(hook).unwrap();
    let report = root.finish_blocking().unwrap();
    assert_eq!(order.seen(), ["child's first", "next", "child's last", "on top", "old"]);
    assert_eq!(runs(&report), [("old", 1), ("on top", 1)]);
}

/// A scope in a scope in a scope, 3,000 deep, finishes from the outermost on a thread with a small stack, innermost
/// hook first, and is dropped there.
fn depth_costs_no_stack(bed: &Bed) {
    const DEPTH: usize = 3_000;
    let Rig { manager, .. } = bed.open();
    let (order, calls) = (Order::default(), Count::default());
    let inner = manager.clone();
    let (noted, counted) = (order.clone(), calls.clone());
    let nest = move || {
        let mut scopes = vec![inner.scope("0").unwrap()];
        for depth in 1..DEPTH {
            let next = scopes[depth - 1].scope(format!("{depth}")).unwrap();
            let (order, calls) = (noted.clone(), counted.clone());
            let hook = hook::once("deep", move |context| {
                calls.add();
                if context.scope().label().ends_with("999") {
                    order.note(context.scope().label());
                }
                Ok(())
            });
            next.register(hook).unwrap();
            scopes.push(next);
        }
        let report = scopes[0].finish_blocking().unwrap();
        assert_eq!((report.outcome, report.error_count), (Outcome::Completed, 0));
        drop(scopes);
        drop(inner);
    };
    let thread = std::thread::Builder::new().stack_size(256 << 10).spawn(nest).unwrap();
    thread.join().unwrap();
    assert_eq!(
        (calls.get(), order.seen()),
        (DEPTH as u64 - 1, vec!["2999".into(), "1999".into(), "999".into()])
    );
    assert_given_back(&manager);
}

/// Ten thousand children, one after the other, each with work: the parent keeps nothing of them.
fn many_children_leave_nothing(bed: &Bed) {
    const CHILDREN: u64 = 10_000;
    let Rig { manager, probe } = bed.open();
    let root = manager.scope("root").unwrap();
    let tensor = root.tensor::<u32>(64).unwrap();
    let ended = Count::default();
    for _ in 0..CHILDREN {
        let child = root.scope("child").unwrap();
        let ended = ended.clone();
        let hook = hook::once("once", move |_| {
            ended.add();
            Ok(())
        });
        child.register(hook).unwrap();
        child.evaluate([op::fill(&tensor, 1)]).unwrap();
        child.finish_blocking().unwrap();
    }
    let opened = probe.lifetimes(crate::instrument::ObjectKind::Scope);
    assert!(opened.made - opened.given_back <= 2, "arenas pile up: {opened:?}");
    let report = root.finish_blocking().unwrap();
    assert_eq!((ended.get(), report.hooks.len(), report.executions), (CHILDREN, 0, 0));
    drop(tensor);
    assert_given_back(&manager);
}

/// A hundred nodes on four threads register the same key with their chain: one registration, which runs once after
/// the last node. What the other ninety-nine captured goes at once.
fn a_hundred_nodes_register_one_hook(bed: &Bed) {
    const THREADS: usize = 4;
    const NODES: usize = 25;
    let Rig { manager, .. } = bed.open();
    let chain = manager.scope("chain").unwrap();
    let (sentinel, calls, nodes) = (Arc::new(()), Count::default(), Count::default());
    let ids: Vec<_> = std::thread::scope(|threads| {
        let all: Vec<_> = (0..THREADS)
            .map(|_| {
                threads.spawn(|| {
                    let register = |_| {
                        let (held, calls, nodes) = (sentinel.clone(), calls.clone(), nodes.clone());
                        let node = chain.scope("node").unwrap();
                        let seen = nodes.clone();
                        let hook = hook::after_release("clear cache", move |_| {
                            let _ = &held;
                            calls.add();
                            assert_eq!(nodes.get(), (THREADS * NODES) as u64, "after the last node");
                            Ok(())
                        });
                        let id = node.register_on(&chain, hook.key("cache")).unwrap();
                        work(&node);
                        node.finish_blocking().unwrap();
                        seen.add();
                        id
                    };
                    (0..NODES).map(register).collect::<Vec<_>>()
                })
            })
            .collect();
        all.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(ids.len(), THREADS * NODES);
    assert!(ids.iter().all(|id| *id == ids[0]), "one registration, one id");
    assert_eq!((Arc::strong_count(&sentinel), calls.get()), (2, 0));
    let report = chain.finish_blocking().unwrap();
    assert_eq!((runs(&report), calls.get()), (vec![("clear cache", 1)], 1));
    assert_eq!(Arc::strong_count(&sentinel), 1);
    assert_given_back(&manager);
}
