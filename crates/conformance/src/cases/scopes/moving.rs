//! `move_out`: entries and running work go to another handle, and no hook runs (L17).
//!
//! Not here: the same seen as a stack's (`stack/moving.rs`).

use std::sync::mpsc;

use tenure_core::{
    Error, ExecutionStatus, ManagedScope, Outcome, RunError, ScopeOptions, ScopeState, hook, op,
};

use crate::bed::{Bed, Rig};
use crate::case::Case;
use crate::cases::hooks::support::{
    DRIVER_WORK, MIB, Order, SOON, assert_given_back, case, fill, outcome, poll_once, receive, runs, work,
};
use crate::instrument::CallKind;

pub(super) const CASES: &[Case] = &[
    case("scopes/move_out_runs_no_hook", &["L17", "L11"], move_out_runs_no_hook),
    case("scopes/move_out_detaches_from_the_parent", &["L17", "L12", "L2"], move_out_detaches),
    case("scopes/a_moved_scope_is_a_root", &["L17", "L21"], a_moved_scope_is_a_root),
    case("scopes/a_moved_out_handle_refuses_to_finish", &["L17"], a_moved_out_handle_refuses),
    case("scopes/move_out_is_refused_once_the_scope_ends", &["L17", "L10"], move_out_is_refused),
    case("scopes/a_moved_scope_can_move_on", &["L17"], a_moved_scope_can_move_on),
    case("scopes/a_moved_scope_ends_like_any_other", &["L17"], a_moved_scope_ends_like_any_other),
    case("scopes/a_cancelled_scope_stays_cancelled_when_moved", &["L17", "L16"], a_cancelled_scope_moves),
];

/// Moving a scope out calls no driver and runs nothing; the work goes on, and the new handle's finish does it all,
/// once.
fn move_out_runs_no_hook(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let order = Order::default();
    let scope = manager.scope("s").unwrap();
    scope.register(order.once("once")).unwrap();
    scope.register(order.each("each")).unwrap();
    scope.register(order.after("after")).unwrap();
    order.adopt(&scope, "adopted");
    let tensor = scope.tensor::<u32>(64).unwrap();
    let named = scope.named("named").unwrap();
    named.record(op::fill(&tensor, 7)).unwrap();
    probe.hold();
    let execution = named.evaluate().unwrap();
    let moved = {
        let _no_driver_work = probe.forbid_here(DRIVER_WORK);
        let moved = scope.move_out().unwrap();
        drop(scope);
        moved
    };
    assert_eq!((moved.label(), moved.state()), ("s", ScopeState::Open));
    assert_eq!((moved.live_bytes(), moved.named_sequences().len()), (256, 1));
    assert_eq!(execution.status(), ExecutionStatus::Running);
    probe.release_all();
    execution.wait().unwrap();
    assert_eq!(tensor.read().unwrap(), [7; 64]);
    moved.find("named").unwrap().run().unwrap();
    fill(&moved, &tensor, 8);
    assert!(order.seen().iter().all(|note| note.starts_with("each")), "only executions had their hooks");
    let report = moved.finish_blocking().unwrap();
    let expected = ["each #1", "each #2", "each #3", "adopted", "once", "after"];
    assert_eq!(order.seen(), expected);
    assert_eq!((report.executions, report.released_tensors, report.outcome), (3, 1, Outcome::Completed));
    drop((tensor, named));
    assert_given_back(&manager);
}

/// The parent finishes without the child that was moved out, and is no ancestor of it any more: what the child
/// promotes goes to the manager.
fn move_out_detaches(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let order = Order::default();
    let parent = manager.scope("parent").unwrap();
    parent.register(order.outcome("parent")).unwrap();
    let child = parent.scope("child").unwrap();
    child.register(order.outcome("child")).unwrap();
    let tensor = child.tensor::<u32>(64).unwrap();
    let grandchild = child.scope("grandchild").unwrap();
    probe.hold();
    let execution = fill(&child, &tensor, 1);
    let moved = child.move_out().unwrap();
    assert!(matches!(
        moved.register_on(&parent, order.once("refused")).unwrap_err().error,
        Error::NotAnAncestor { .. }
    ));
    grandchild.register_on(&moved, order.outcome("from below")).unwrap();
    parent.cancel();
    assert!(!moved.is_cancelled(), "a moved-out scope is under its parent no more");
    // It waits for nobody's work.
    assert_eq!(parent.finish_blocking().unwrap().outcome, Outcome::Cancelled);
    assert_eq!(
        (order.seen(), execution.status()),
        (vec!["parent Cancelled".into()], ExecutionStatus::Running)
    );
    probe.release_all();
    execution.wait().unwrap();
    tensor.promote().unwrap();
    assert_eq!(moved.finish_blocking().unwrap().released_tensors, 0);
    assert_eq!(order.seen()[1..], ["from below Completed", "child Completed"]);
    assert_eq!(tensor.read().unwrap(), [1; 64]);
    drop(tensor);
    assert_given_back(&manager);
}

/// A child that was moved out counts as a root: the last root's trim waits for it.
fn a_moved_scope_is_a_root(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let parent = manager.scope("parent").unwrap();
    let child = parent.scope("child").unwrap();
    let moved = child.move_out().unwrap();
    drop(parent.tensor::<u8>(MIB).unwrap());
    assert_eq!(parent.finish_blocking().unwrap().trimmed_bytes, 0);
    assert_eq!((manager.memory().cached.bytes, probe.calls(CallKind::Trim)), (MIB, 0));
    assert!(moved.finish_blocking().unwrap().trimmed_bytes >= MIB);
    assert_eq!((manager.memory().reserved.bytes, probe.calls(CallKind::Trim)), (0, 1));
}

/// The old handle can neither finish nor move the scope, and says why; dropping it is nothing.
fn a_moved_out_handle_refuses(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let scope = manager.scope("s").unwrap();
    scope.register(order.once("once")).unwrap();
    let moved = scope.move_out().unwrap();
    let with_result = |result: Result<((), tenure_core::ScopeReport), RunError<Error>>| match result {
        Err(RunError::Scope(error)) => error,
        other => panic!("{other:?}"),
    };
    let refusals = [
        ("finish", pollster::block_on(scope.finish()).unwrap_err()),
        ("finish_blocking", scope.finish_blocking().unwrap_err()),
        ("finish_with", with_result(scope.finish_with(Ok(())))),
        ("finish_with_async", with_result(pollster::block_on(scope.finish_with_async(Ok(()))))),
        ("move_out", scope.move_out().unwrap_err()),
    ];
    for (call, refusal) in refusals {
        let named = matches!(&refusal, Error::ScopeMoved { scope } if &**scope == "s");
        assert!(named, "`{call}` of a moved-out handle answered {refusal:?}");
    }
    match scope.finish_with::<(), _>(Err("body")) {
        Err(RunError::Body { error: "body", report: None }) => {}
        other => panic!("{other:?}"),
    }
    drop(scope);
    assert_eq!((moved.state(), order.seen().len()), (ScopeState::Open, 0));
    let report = moved.finish_blocking().unwrap();
    assert_eq!(runs(&report), [("once", 1)]);
    assert_eq!(order.seen(), ["once"]);
}

/// A scope that finishes or has finished stays where it is.
fn move_out_is_refused(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let order = Order::default();
    let parent = manager.scope("parent").unwrap();
    let scope = parent.scope("s").unwrap();
    scope.register(order.once("once")).unwrap();
    probe.hold();
    work(&scope);
    let mut finish = scope.finish();
    assert!(poll_once(&mut finish).is_pending());
    assert!(matches!(scope.move_out(), Err(Error::ScopeFinishing { .. })));
    probe.release_all();
    pollster::block_on(finish).unwrap();
    assert!(matches!(scope.move_out(), Err(Error::ScopeFinished { outcome: Outcome::Completed, .. })));
    assert_eq!(order.seen(), ["once"]);
    assert_eq!(parent.finish_blocking().unwrap().outcome, Outcome::Completed);
}

/// Handed on again and again, its hooks still run once, in the scope of its last holder.
fn a_moved_scope_can_move_on(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let mut scope = manager.scope("s").unwrap();
    for label in ["first", "second", "third"] {
        scope.register(order.once(label)).unwrap();
        work(&scope);
        let (sender, receiver) = mpsc::channel::<ManagedScope>();
        let moved = scope.move_out().unwrap();
        // From thread to thread, as from request to request.
        let next = std::thread::spawn(move || sender.send(moved.move_out().unwrap()).unwrap());
        let taken = receive(&receiver);
        next.join().unwrap();
        assert!(matches!(scope.move_out(), Err(Error::ScopeMoved { .. })));
        scope = taken;
    }
    let report = scope.finish_blocking().unwrap();
    assert_eq!((report.executions, report.hooks.len()), (3, 3));
    assert_eq!(order.seen(), ["third", "second", "first"]);
    assert_given_back(&manager);
}

/// The new handle abandons when it is dropped, and keeps the options of the scope: here its deadline.
fn a_moved_scope_ends_like_any_other(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let (sender, seen) = mpsc::channel();
    let scope = manager.scope("s").unwrap();
    let hook = hook::once("once", move |context| Ok(sender.send(outcome(context))?));
    scope.register(hook).unwrap();
    drop(scope.move_out().unwrap());
    assert_eq!(receive(&seen), Outcome::Abandoned);
    drop(scope);
    let scope = manager.scope_with(ScopeOptions::builder().finish_deadline(SOON).build()).unwrap();
    let moved = scope.move_out().unwrap();
    probe.hold();
    work(&moved);
    assert_eq!(moved.finish_blocking().unwrap().outcome, Outcome::TimedOut);
    probe.release_all();
    assert!(manager.close().unwrap().is_clean());
}

/// Cancelling is of the scope, not of the handle.
fn a_cancelled_scope_moves(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let scope = manager.scope("s").unwrap();
    let tensor = scope.tensor::<u32>(64).unwrap();
    scope.cancel();
    let moved = scope.move_out().unwrap();
    assert!(moved.is_cancelled());
    let refused = moved.evaluate([op::fill(&tensor, 1)]);
    assert!(matches!(refused, Err(Error::Cancelled { .. })), "{refused:?}");
    assert_eq!(moved.finish_blocking().unwrap().outcome, Outcome::Cancelled);
}
