//! The states of a stack, and what it refuses (L10, L15, L16).
//!
//! Not here: what a refusal looks like in detail (`scopes/refusing.rs`).

use std::sync::Arc;
use std::sync::mpsc;

use tenure_core::{CleanupContext, Error, Outcome, ScopeState, hook};

use crate::bed::{Bed, Rig};
use crate::case::Case;
use crate::cases::hooks::support::{Order, case, poll_once, receive};

pub(super) const CASES: &[Case] = &[
    case("stack/the_state_is_told", &["L10"], the_state_is_told),
    case("stack/an_ended_stack_takes_no_hook", &["L10"], an_ended_stack_takes_no_hook),
    case("stack/an_ended_stack_takes_no_value", &["L10"], an_ended_stack_takes_no_value),
    case("stack/an_ended_stack_takes_no_child", &["L10"], an_ended_stack_takes_no_child),
    case("stack/entries_are_not_run_again", &["L11", "L10"], entries_are_not_run_again),
    case("stack/a_stack_that_has_begun_is_not_begun_again", &["L10", "L11"], a_stack_that_has_begun),
    case("stack/an_entry_cannot_finish_its_own_stack", &["L15", "L10"], an_entry_cannot_finish_its_own_stack),
    case("stack/closed_in_the_middle_of_its_body", &["L16", "L17"], closed_in_the_middle_of_its_body),
];

/// After test262's `disposed/getter` and `dispose/sets-state-to-disposed`: open, finishing while entries run,
/// finished.
fn the_state_is_told(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let (sender, states) = mpsc::channel();
    let scope = manager.scope("s").unwrap();
    for _ in 0..2 {
        let sender = sender.clone();
        let hook = hook::once("tells", move |context| Ok(sender.send(context.scope().state())?));
        scope.register(hook).unwrap();
    }
    let hook = hook::after_release("tells", move |context| Ok(sender.send(context.scope().state())?));
    scope.register(hook).unwrap();
    assert_eq!(scope.state(), ScopeState::Open);
    scope.finish_blocking().unwrap();
    assert_eq!(states.iter().collect::<Vec<_>>(), [ScopeState::Finishing; 3]);
    assert_eq!(scope.state(), ScopeState::Finished(Outcome::Completed));
}

/// After test262's `defer/throws-if-disposed`; the hook comes back.
fn an_ended_stack_takes_no_hook(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let scope = manager.scope("s").unwrap();
    scope.finish_blocking().unwrap();
    for hook in [order.once("late"), order.each("late"), order.after("late"), order.future("late")] {
        let refused = scope.register(hook).unwrap_err();
        assert!(matches!(refused.error, Error::ScopeFinished { outcome: Outcome::Completed, .. }));
        assert_eq!(refused.value.label(), "late");
    }
    assert_eq!(order.seen().len(), 0);
}

/// After test262's `adopt/throws-if-disposed`; the value comes back.
fn an_ended_stack_takes_no_value(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let scope = manager.scope("s").unwrap();
    scope.finish_blocking().unwrap();
    let value = Arc::new(());
    let release = |_: Arc<()>, _: &CleanupContext| panic!("the release of a refused value ran");
    let refused = scope.adopt("late", value.clone(), release).unwrap_err();
    assert!(matches!(refused.error, Error::ScopeFinished { .. }));
    assert!(Arc::ptr_eq(&refused.value, &value));
    drop(refused);
    assert_eq!(Arc::strong_count(&value), 1);
}

/// After test262's `use/throws-if-disposed`: no child, sequence or tensor.
fn an_ended_stack_takes_no_child(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let scope = manager.scope("s").unwrap();
    scope.finish_with::<(), _>(Err("body")).unwrap_err();
    let refusals = [
        scope.scope("late").unwrap_err(),
        scope.sequence().unwrap_err(),
        scope.named("late").unwrap_err(),
        scope.tensor::<u32>(1).unwrap_err(),
    ];
    for refusal in refusals {
        assert!(matches!(refusal, Error::ScopeFinished { outcome: Outcome::Failed, .. }), "{refusal}");
    }
}

/// After test262's `dispose/does-not-reinvoke-disposers-if-already-disposed`. Where a second dispose does nothing
/// there, it is an error here that says how the scope ended: a caller who waits for an outcome gets one.
fn entries_are_not_run_again(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let scope = manager.scope("s").unwrap();
    scope.register(order.once("once")).unwrap();
    order.adopt(&scope, "adopted");
    scope.register(order.after("after")).unwrap();
    scope.finish_blocking().unwrap();
    for _ in 0..2 {
        let again = [scope.finish_blocking(), pollster::block_on(scope.finish())];
        for again in again {
            assert!(
                matches!(again, Err(Error::ScopeFinished { outcome: Outcome::Completed, .. })),
                "{again:?}"
            );
        }
    }
    drop(scope);
    manager.close().unwrap();
    assert_eq!(order.seen(), ["adopted", "once", "after"]);
}

/// After test262's `disposeAsync/does-not-reinvoke-disposers-if-dispose-already-started`: while the first finish is
/// inside an async entry, a second one begins nothing. Unlike there, it is not over before the first: both have the
/// same end.
fn a_stack_that_has_begun(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let signal = crate::cases::hooks::support::Signal::default();
    let scope = manager.scope("s").unwrap();
    scope.register(order.once("below")).unwrap();
    let (noted, wait) = (order.clone(), signal.clone());
    let hook = hook::future("async", move |_| async move {
        noted.note("begins");
        wait.wait().await;
        noted.note("ends");
        Ok(())
    });
    scope.register(hook).unwrap();
    let (mut first, mut second) = (scope.finish(), scope.finish());
    assert!(poll_once(&mut first).is_pending());
    assert!(poll_once(&mut second).is_pending());
    assert_eq!(order.seen(), ["begins"]);
    signal.set();
    let second = pollster::block_on(second).unwrap();
    let first = pollster::block_on(first).unwrap();
    assert_eq!(order.seen(), ["begins", "ends", "below"]);
    assert_eq!((first.hooks.len(), first.duration), (second.hooks.len(), second.duration));
}

/// After test262's `disposable-stack-re-entry`, where a disposer that disposes its own stack does nothing: here it is
/// told that this would deadlock, and the rest of the stack runs once.
fn an_entry_cannot_finish_its_own_stack(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let scope = Arc::new(manager.scope("s").unwrap());
    scope.register(order.once("below")).unwrap();
    let (sender, answers) = mpsc::channel();
    let own = scope.clone();
    let release = move |(), _: &CleanupContext| Ok(sender.send(own.finish_blocking())?);
    scope.adopt("re-enters", (), release).unwrap();
    scope.register(order.once("above")).unwrap();
    scope.finish_blocking().unwrap();
    assert!(matches!(receive(&answers), Err(Error::WouldDeadlock { .. })));
    assert_eq!(order.seen(), ["above", "below"]);
}

/// After CPython's `test_close`: a body finishes its scope by hand and goes on; the end of the handle does nothing
/// more.
fn closed_in_the_middle_of_its_body(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    {
        let scope = manager.scope("s").unwrap();
        scope.register(order.once("1 entry")).unwrap();
        scope.finish_blocking().unwrap();
        order.note("2 body");
    }
    order.note("3 after");
    manager.close().unwrap();
    assert_eq!(order.seen(), ["1 entry", "2 body", "3 after"]);
}
