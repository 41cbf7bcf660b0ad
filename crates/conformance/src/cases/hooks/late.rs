//! Late hooks among others: of several scopes, of children, of dropped scopes, inside each other (L16, L15).
//!
//! Not here: one late hook of one scope (`deadlines.rs`).

use std::sync::Arc;
use std::sync::mpsc;

use tenure_core::{CleanupErrorKind, Error, Outcome, ScopeOptions, hook};

use super::deadlines::{Late, assert_timed_out};
use super::support::{
    FAR, Latch, MIB, OnDrop, Order, SOON, Signal, all_errors, assert_given_back, case, cleanup_failure,
    culprits, receive, tell, untrimmed,
};
use crate::bed::{Bed, Rig};
use crate::case::Case;

pub(super) const CASES: &[Case] = &[
    case("hooks/two_late_hooks_both_have_to_come_back", &["L16"], two_late_hooks),
    case("hooks/late_hooks_of_two_scopes", &["L16"], late_hooks_of_two_scopes),
    case("hooks/a_late_hook_inside_another_late_hook", &["L16", "L15"], a_late_hook_inside_another),
    case("hooks/a_late_hook_serves_nobody", &["L16", "L15"], a_late_hook_serves_nobody),
    case("hooks/a_late_hook_of_a_child_holds_up_no_parent", &["L16", "L10"], a_late_hook_of_a_child),
    case("hooks/a_late_hook_of_a_dropped_scope", &["L16", "L17"], a_late_hook_of_a_dropped_scope),
];

/// Two hooks of a scope are late, one after the other: the second one does not wait for the first, and the memory
/// waits for both.
fn two_late_hooks(bed: &Bed) {
    let Rig { manager, .. } = bed.open_with(untrimmed());
    let order = Order::default();
    let scope = manager.scope("s").unwrap();
    scope.register(order.once("below")).unwrap();
    let (second, hook) = Late::new(&order, "second");
    scope.register(hook.deadline(SOON)).unwrap();
    let (first, hook) = Late::new(&order, "first");
    scope.register(hook.deadline(SOON)).unwrap();
    drop(scope.tensor::<u8>(MIB).unwrap());
    let tensor = scope.tensor::<u8>(MIB).unwrap();
    let failure = cleanup_failure(scope.finish_blocking());
    assert_eq!(culprits(all_errors(&failure)), ["first", "second"]);
    assert!(all_errors(&failure).iter().all(|error| error.kind == CleanupErrorKind::TimedOut));
    assert_eq!(order.seen(), ["below"]);
    drop(tensor);
    assert_eq!(manager.memory().retired.bytes, MIB);
    first.come_back();
    assert_eq!(manager.memory().retired.bytes, MIB, "the second one is still out");
    second.come_back();
    assert_eq!(manager.memory().retired.bytes, 0);
    assert_eq!(order.seen(), ["below", "first is back", "second is back"]);
    assert_given_back(&manager);
}

/// Hooks of two scopes are late at the same time: each scope goes on, a third one is served, and the hooks come back
/// in the other order.
fn late_hooks_of_two_scopes(bed: &Bed) {
    let Rig { manager, .. } = bed.open_with(untrimmed());
    let order = Order::default();
    let mut late = Vec::new();
    for label in ["first", "second"] {
        let scope = manager.scope(label).unwrap();
        let tensor = scope.tensor::<u8>(MIB).unwrap();
        let (hook, registered) = Late::new(&order, label);
        scope.register(registered.deadline(SOON)).unwrap();
        let failure = cleanup_failure(scope.finish_blocking());
        assert_timed_out(&failure, label);
        assert!(!tensor.is_live());
        late.push(hook);
    }
    let (sender, served) = mpsc::channel();
    let third = manager.scope("third").unwrap();
    third.register(hook::once("third", move |_| Ok(sender.send(())?))).unwrap();
    drop(third);
    receive(&served);
    assert_eq!(manager.memory().retired.bytes, 2 * MIB);
    late[1].come_back();
    assert_eq!(manager.memory().retired.bytes, MIB);
    late[0].come_back();
    assert_eq!(manager.memory().retired.bytes, 0);
    assert_eq!(order.seen(), ["second is back", "first is back"]);
    assert_given_back(&manager);
}

/// A hook with a deadline finishes another scope whose hook has one too, on the same thread: both are late, both
/// scopes go on without them, and one return brings both back.
fn a_late_hook_inside_another(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let inner = Arc::new(manager.scope("inner").unwrap());
    inner.register(order.once("inner below")).unwrap();
    let (late, hook) = Late::new(&order, "inner late");
    inner.register(hook.deadline(SOON)).unwrap();
    let outer = manager.scope("outer").unwrap();
    outer.register(order.once("outer below")).unwrap();
    let (sender, answers) = mpsc::channel();
    let waited_for = inner.clone();
    let hook = hook::once("outer late", move |_| Ok(sender.send(waited_for.finish_blocking())?));
    outer.register(hook.deadline(SOON)).unwrap();
    assert_timed_out(&cleanup_failure(outer.finish_blocking()), "outer late");
    // The inner scope finishes by itself; whoever asks now awaits the same end, or is told that it is over.
    match inner.finish_blocking() {
        Err(Error::Cleanup(failure)) => assert_timed_out(&failure, "inner late"),
        Err(Error::ScopeFinished { outcome, .. }) => assert_eq!(outcome, Outcome::Completed),
        other => panic!("{other:?}"),
    }
    let mut below = order.seen();
    below.sort();
    assert_eq!(below, ["inner below", "outer below"]);
    late.come_back();
    assert_timed_out(&cleanup_failure(receive(&answers)), "inner late");
    assert_eq!(order.seen().len(), 3);
    assert!(manager.close().unwrap().is_clean());
}

/// A hook that waits on the cleanup thread serves others meanwhile, until it is late: then its thread is no cleanup
/// thread any more. What is queued afterwards runs on the one that took its place, here a hook that waits for the
/// late one.
fn a_late_hook_serves_nobody(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    for _ in 0..5 {
        let (signal, back) = (Signal::default(), Latch::default());
        let pending = manager.scope("pending").unwrap();
        let wait = signal.clone();
        let waits = hook::future("waits", move |_| async move {
            wait.wait().await;
            Ok(())
        });
        pending.register(waits).unwrap();
        let scope = manager.scope("late").unwrap();
        let (opens, (sender, ran_on)) = (back.clone(), mpsc::channel());
        let ran = sender.clone();
        let hook = hook::once("late", move |_| {
            let finished = pending.finish_blocking().is_ok();
            tell(&ran, (std::thread::current().id(), finished));
            opens.open();
            Ok(())
        });
        scope.register(hook.deadline(SOON)).unwrap();
        assert_timed_out(&cleanup_failure(scope.finish_blocking()), "late");
        let other = manager.scope("other").unwrap();
        let hook = hook::once("other", move |_| {
            signal.set();
            back.wait();
            Ok(sender.send((std::thread::current().id(), true))?)
        });
        other.register(hook).unwrap();
        drop(other);
        let (late, other) = (receive(&ran_on), receive(&ran_on));
        assert!(late.1 && late.0 != other.0);
    }
    assert!(manager.close().unwrap().is_clean());
}

/// A child's hook is late: its parent, finishing inline or with a deadline of its own, goes on, and has the child's
/// error.
fn a_late_hook_of_a_child(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    for with_deadline in [false, true] {
        let order = Order::default();
        let options = ScopeOptions::builder().label("parent");
        let parent = if with_deadline {
            manager.scope_with(options.hook_deadline(FAR).build())
        } else {
            manager.scope_with(options.build())
        };
        let parent = parent.unwrap();
        parent.register(order.once("below")).unwrap();
        let child = parent.scope("child").unwrap();
        child.register(order.once("child's last")).unwrap();
        let (late, hook) = Late::new(&order, "late");
        child.register(hook.deadline(SOON)).unwrap();
        parent.register(order.once("above")).unwrap();
        let failure = cleanup_failure(parent.finish_blocking());
        assert_timed_out(&failure, "late");
        assert_eq!(&*failure.primary.scope, "child");
        assert_eq!(order.seen(), ["above", "child's last", "below"]);
        late.come_back();
    }
    assert!(manager.close().unwrap().is_clean());
}

/// A dropped scope's hook is late: the cleanup thread is replaced, serves the next scope, and the error is kept.
fn a_late_hook_of_a_dropped_scope(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let (late, hook) = Late::new(&order, "late");
    let (sender, over) = mpsc::channel();
    let scope = manager.scope("dropped").unwrap();
    let captured = sender.clone();
    let value = OnDrop(move || tell(&captured, "captured"));
    let keeps = hook::each("keeps", move |_| {
        let _ = &value;
        Ok(())
    });
    scope.register(keeps).unwrap();
    scope.register(hook.deadline(SOON)).unwrap();
    drop(scope);
    assert_eq!(receive(&over), "captured", "the scope is over with its hook outside");
    let next = manager.scope("next").unwrap();
    next.register(hook::once("tells", move |_| Ok(sender.send("next")?))).unwrap();
    drop(next);
    assert_eq!(receive(&over), "next");
    let errors = manager.take_errors();
    let [Error::Cleanup(failure)] = &errors[..] else { panic!("one failed scope, not {errors:?}") };
    assert_timed_out(failure, "late");
    assert_eq!(failure.report.outcome, Outcome::Abandoned);
    late.come_back();
    assert!(manager.close().unwrap().is_clean());
}
