//! Without threads: managers whose last handle goes where nobody can close them, and polls inside hooks (L4, L6, L15).
//!
//! Not here: what a finish does without threads (`threadless.rs`).

use std::sync::Arc;

use parking_lot::Mutex;
use tenure_core::{Error, Manager, Outcome, ScopeRef, hook};

use crate::bed::{Bed, Rig};
use crate::case::Case;
use crate::cases::hooks::support::{
    Count, Order, SOON, Signal, WATCHDOG, assert_given_back, case, poll_once, threadless, work,
};

pub(super) const CASES: &[Case] = &[
    case("scopes/the_last_manager_goes_inside_a_hook", &["L6", "L17"], the_last_manager_goes_inside_a_hook),
    case("scopes/the_last_manager_goes_after_a_close_timed_out", &["L6", "L11"], after_a_close_timed_out),
    case("scopes/a_poll_inside_a_hook_keeps_the_close", &["L6", "L15"], a_poll_inside_a_hook),
    case("scopes/polls_inside_hooks_do_not_recurse", &["L15", "L17"], polls_inside_hooks_do_not_recurse),
    case("scopes/a_finish_does_not_wait_for_other_work", &["L16"], a_finish_does_not_wait_for_other_work),
];

/// The last handle is dropped by a hook: the finish that runs it closes the manager when it is done.
fn the_last_manager_goes_inside_a_hook(bed: &Bed) {
    let Rig { manager, probe } = bed.open_with(threadless());
    let scope = manager.scope("s").unwrap();
    let order = Order::default();
    scope.register(order.once("below")).unwrap();
    let drops = hook::once("drops", move |_| {
        drop(manager);
        Ok(())
    });
    scope.register(drops).unwrap();
    work(&scope);
    assert_eq!(scope.finish_blocking().unwrap().outcome, Outcome::Completed);
    assert_eq!(order.seen(), ["below"]);
    assert!(probe.wait_shutdown(WATCHDOG));
}

/// Closing is out of time, and then the last handle goes: that drop closes.
fn after_a_close_timed_out(bed: &Bed) {
    let Rig { manager, probe } = bed.open_with(threadless());
    let order = Order::default();
    let scope = manager.scope("s").unwrap();
    scope.register(order.once("once")).unwrap();
    probe.hold();
    work(&scope);
    let timed_out = manager.close_deadline(SOON);
    assert!(matches!(timed_out, Err(Error::CloseTimedOut { .. })), "{timed_out:?}");
    probe.release_all();
    drop(scope);
    drop(manager);
    assert_eq!(order.seen(), ["once"]);
    assert!(probe.wait_shutdown(WATCHDOG));
}

/// A close that timed out is queued. A poll inside a hook leaves it there; one outside takes it up.
fn a_poll_inside_a_hook(bed: &Bed) {
    let Rig { manager, probe } = bed.open_with(threadless());
    let scope = manager.scope("s").unwrap();
    let polled = Arc::new(Mutex::new(None::<Manager>));
    let own = polled.clone();
    let hook = hook::once("polls", move |_| {
        let manager = own.lock().take().ok_or("no manager")?;
        manager.poll()?;
        Ok(())
    });
    scope.register(hook).unwrap();
    *polled.lock() = Some(manager.clone());
    probe.hold();
    work(&scope);
    let timed_out = manager.close_deadline(SOON);
    assert!(matches!(timed_out, Err(Error::CloseTimedOut { .. })), "{timed_out:?}");
    probe.release_all();
    let _ = scope.finish_blocking();
    for _ in 0..3 {
        let _ = manager.poll();
    }
    assert!(probe.wait_shutdown(WATCHDOG), "it closes itself");
}

/// Thousands of abandoned scopes, each with a hook that polls: they do not run inside each other without an end.
fn polls_inside_hooks_do_not_recurse(bed: &Bed) {
    const SCOPES: usize = 3_000;
    let Rig { manager, .. } = bed.open_with(threadless());
    let runs = Count::default();
    for _ in 0..SCOPES {
        let scope = manager.scope("s").unwrap();
        let (own, run) = (ScopeRef::clone(&scope), runs.clone());
        let hook = hook::once("polls", move |_| {
            run.add();
            own.manager()?.poll()?;
            Ok(())
        });
        scope.register(hook).unwrap();
    }
    while manager.poll().unwrap().jobs > 0 {}
    assert_eq!(runs.get() as usize, SCOPES);
    assert_given_back(&manager);
}

/// A scope's hook waits for another thread while unrelated work is in flight: the finish ends when that thread wakes it,
/// not when the device has done the rest.
fn a_finish_does_not_wait_for_other_work(bed: &Bed) {
    let Rig { manager, probe } = bed.open_with(threadless());
    let other = manager.scope("other").unwrap();
    probe.hold();
    let mut unrelated = work(&other);
    let scope = manager.scope("s").unwrap();
    let signal = Signal::default();
    let wait = signal.clone();
    let hook = hook::future("waits", move |_| async move {
        wait.wait().await;
        Ok(())
    });
    scope.register(hook).unwrap();
    std::thread::scope(|threads| {
        let waits = probe.calls(crate::instrument::CallKind::WaitAny);
        let finishing = threads.spawn(|| scope.finish_blocking());
        assert!(probe.wait_calls(crate::instrument::CallKind::WaitAny, waits + 1, WATCHDOG));
        signal.set();
        assert_eq!(finishing.join().unwrap().unwrap().outcome, Outcome::Completed);
    });
    assert!(poll_once(&mut unrelated).is_pending());
    probe.release_all();
    unrelated.wait().unwrap();
    other.finish_blocking().unwrap();
    assert_given_back(&manager);
}
