//! Scopes that become the cleanup thread's while they finish, and waits that are no cleanup thread's any more: somebody
//! always goes on (L16, L11).
//!
//! Not here: hooks that are merely late (`deadlines.rs`, `late.rs`).

use std::sync::mpsc;

use tenure_core::{CleanupContext, CleanupErrorKind, Error, ManagerOptions, Outcome, hook};

use super::support::{
    FAR, Order, SOON, Signal, Yield, all_errors, case, cleanup_failure, culprits, receive, tell, work,
};
use crate::bed::{Bed, Rig};
use crate::case::Case;

pub(super) const CASES: &[Case] = &[
    case(
        "hooks/a_deadline_that_comes_while_it_finishes",
        &["L16", "L10"],
        a_deadline_that_comes_while_it_finishes,
    ),
    case("hooks/a_childs_deadline_that_comes_while_it_finishes", &["L16", "L10"], a_childs_deadline),
    case("hooks/what_a_late_hook_waits_for_goes_on", &["L16", "L15"], what_a_late_hook_waits_for_goes_on),
    case(
        "hooks/closing_waits_for_a_late_hook_that_needs_others",
        &["L16", "L6"],
        closing_waits_for_a_late_hook,
    ),
];

/// An async hook registers one with a deadline, which only the cleanup thread may run, and is then pending once: the
/// finish goes on there, and comes back here.
fn a_deadline_that_comes_while_it_finishes(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let scope = manager.scope("s").unwrap();
    scope.register(order.once("below")).unwrap();
    let noted = order.clone();
    let hook = hook::future("registers", move |context: CleanupContext| async move {
        context.register(noted.once("bounded").deadline(FAR))?;
        Yield::default().await;
        noted.note("registers");
        Ok(())
    });
    scope.register(hook).unwrap();
    assert_eq!(scope.finish_blocking().unwrap().outcome, Outcome::Completed);
    assert_eq!(order.seen(), ["registers", "bounded", "below"]);
    assert!(manager.close().unwrap().is_clean());
}

/// The same for a child, whose parent is what is waited for; and registered on the parent from the child's hook.
fn a_childs_deadline(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    for on_parent in [false, true] {
        let order = Order::default();
        let parent = manager.scope("parent").unwrap();
        parent.register(order.once("below")).unwrap();
        let child = parent.scope("child").unwrap();
        let (noted, above) = (order.clone(), (*parent).clone());
        let hook = hook::future("registers", move |context: CleanupContext| async move {
            let bounded = noted.once("bounded").deadline(FAR);
            if on_parent {
                context.scope().register_on(&above, bounded)?;
            } else {
                context.register(bounded)?;
            }
            Yield::default().await;
            noted.note("registers");
            Ok(())
        });
        child.register(hook).unwrap();
        parent.finish_blocking().unwrap();
        assert_eq!(order.seen(), ["registers", "bounded", "below"]);
    }
    assert!(manager.close().unwrap().is_clean());
}

/// A hook on the cleanup thread finishes another scope and is late meanwhile: its thread is no cleanup thread any more,
/// and the other scope is finished by the one that took its place.
fn what_a_late_hook_waits_for_goes_on(bed: &Bed) {
    let Rig { manager, probe } = bed.open_with(ManagerOptions::builder().hook_deadline(SOON).build());
    let order = Order::default();
    let (sender, answers) = mpsc::channel();
    let other = manager.scope("other").unwrap();
    other.register(order.once("other's")).unwrap();
    let scope = manager.scope("s").unwrap();
    let held = probe.clone();
    let hook = hook::once("waits", move |_| {
        held.hold();
        work(&other);
        tell(&sender, other.finish_blocking());
        Ok(())
    });
    scope.register(hook).unwrap();
    let failure = cleanup_failure(scope.finish_blocking());
    assert_eq!(
        (culprits(all_errors(&failure)), failure.primary.kind),
        (vec!["waits"], CleanupErrorKind::TimedOut)
    );
    probe.release_all();
    assert_eq!(receive(&answers).unwrap().outcome, Outcome::Completed);
    assert_eq!(order.seen(), ["other's"]);
    assert!(manager.close().unwrap().detached_hooks.is_empty());
}

/// Closing is out of time while a hook is late, and goes on in the background. The late hook then finishes a scope whose
/// hook is the cleanup thread's: that is free for it, and closing ends.
fn closing_waits_for_a_late_hook(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let signal = Signal::default();
    let (sender, answers) = mpsc::channel();
    let scope = manager.scope("s").unwrap();
    let (wait, (began, begun)) = (signal.clone(), mpsc::channel());
    let own = manager.clone();
    let hook = hook::once("late", move |_| {
        let inner = own.scope("inner")?;
        inner.register(hook::once("bounded", |_| Ok(())).deadline(FAR))?;
        drop(own);
        tell(&began, ());
        pollster::block_on(wait.wait());
        tell(&sender, inner.finish_blocking().map(|report| report.outcome));
        Ok(())
    });
    scope.register(hook.deadline(SOON)).unwrap();
    assert_eq!(cleanup_failure(scope.finish_blocking()).primary.kind, CleanupErrorKind::TimedOut);
    receive(&begun);
    let timed_out = manager.close_deadline(SOON);
    assert!(matches!(timed_out, Err(Error::CloseTimedOut { .. })), "{timed_out:?}");
    signal.set();
    let outcome = receive(&answers);
    assert!(
        matches!(outcome, Ok(Outcome::Completed | Outcome::Abandoned) | Err(Error::ScopeFinished { .. })),
        "{outcome:?}"
    );
    drop(manager);
    assert!(probe.wait_shutdown(super::support::WATCHDOG));
}
