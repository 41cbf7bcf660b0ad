//! Moving a stack: its entries go on elsewhere, in their order, and nothing runs (L17).
//!
//! Not here: what a moved scope is to its old parent (`scopes/moving.rs`).

use std::sync::Arc;

use tenure_core::{Error, ManagedScope, Manager, Outcome, ScopeState, hook};

use crate::bed::{Bed, Rig};
use crate::case::Case;
use crate::cases::hooks::support::{Fault, Order, Signal, assert_given_back, case, poll_once, work};

pub(super) const CASES: &[Case] = &[
    case("stack/moving_runs_nothing", &["L17", "L11"], moving_runs_nothing),
    case("stack/a_moved_stack_has_its_entries_in_order", &["L17", "L10"], a_moved_stack_has_its_entries),
    case("stack/a_moved_stack_is_open", &["L17"], a_moved_stack_is_open),
    case("stack/the_handle_left_behind_is_closed", &["L17", "L11"], the_handle_left_behind),
    case("stack/an_ended_stack_does_not_move", &["L17", "L10"], an_ended_stack_does_not_move),
    case("stack/a_stack_that_is_finishing_does_not_move", &["L17", "L10"], a_finishing_stack_does_not_move),
    case("stack/all_or_nothing", &["L17", "L13"], all_or_nothing),
];

/// After test262's `move/does-not-dispose-resources`.
fn moving_runs_nothing(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let scope = manager.scope("s").unwrap();
    scope.register(order.once("once")).unwrap();
    scope.register(order.after("after")).unwrap();
    order.adopt(&scope, "adopted");
    let moved = scope.move_out().unwrap();
    drop(scope);
    assert_eq!((order.seen().len(), moved.state()), (0, ScopeState::Open));
    moved.finish_blocking().unwrap();
    assert_eq!(order.seen(), ["adopted", "once", "after"]);
}

/// After test262's `move/returns-new-disposablestack-that-contains-moved-resources`: old entries and new ones are one
/// stack.
fn a_moved_stack_has_its_entries(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let scope = manager.scope("s").unwrap();
    scope.register(order.once("1")).unwrap();
    order.adopt(&scope, "2");
    let child = scope.scope("child").unwrap();
    child.register(order.once("3")).unwrap();
    let moved = scope.move_out().unwrap();
    moved.register(order.once("4")).unwrap();
    let report = moved.finish_blocking().unwrap();
    assert_eq!(order.seen(), ["4", "3", "2", "1"]);
    assert_eq!((report.hooks.len(), child.state()), (3, ScopeState::Finished(Outcome::Completed)));
}

/// After test262's `move/returns-new-disposablestack-that-is-still-pending`: it takes entries of every kind and
/// evaluates.
fn a_moved_stack_is_open(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let moved = manager.scope("s").unwrap().move_out().unwrap();
    assert_eq!((moved.label(), moved.state()), ("s", ScopeState::Open));
    moved.register(order.each("each")).unwrap();
    order.adopt(&moved, "adopted");
    moved.scope("child").unwrap().register(order.once("child")).unwrap();
    work(&moved).wait().unwrap();
    let report = moved.finish_blocking().unwrap();
    assert_eq!((report.executions, report.outcome), (1, Outcome::Completed));
    let mut notes = order.seen();
    notes.sort();
    assert_eq!(notes, ["adopted", "child", "each #1"]);
    assert_given_back(&manager);
}

/// After test262's `move/sets-state-to-disposed`: the old handle finishes nothing, neither asked to nor dropped.
fn the_handle_left_behind(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let scope = manager.scope("s").unwrap();
    scope.register(order.once("once")).unwrap();
    let moved = scope.move_out().unwrap();
    assert!(matches!(scope.finish_blocking(), Err(Error::ScopeMoved { .. })));
    assert!(matches!(scope.move_out(), Err(Error::ScopeMoved { .. })));
    drop(scope);
    assert_eq!((order.seen().len(), moved.state()), (0, ScopeState::Open));
    moved.finish_blocking().unwrap();
    manager.close().unwrap();
    assert_eq!(order.seen(), ["once"]);
}

/// After test262's `move/throws-if-disposed`.
fn an_ended_stack_does_not_move(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let scope = manager.scope("s").unwrap();
    scope.register(order.failing("fails")).unwrap();
    scope.finish_blocking().unwrap_err();
    let refused = scope.move_out();
    assert!(matches!(refused, Err(Error::ScopeFinished { outcome: Outcome::Completed, .. })), "{refused:?}");
    assert_eq!(order.seen(), ["fails"]);
}

/// The same while an async entry is pending: the stack is in use, and stays where it is.
fn a_finishing_stack_does_not_move(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let (order, signal) = (Order::default(), Signal::default());
    let scope = Arc::new(manager.scope("s").unwrap());
    scope.register(order.once("below")).unwrap();
    let (wait, own) = (signal.clone(), scope.clone());
    let hook = hook::future("waits", move |_| async move {
        assert!(matches!(own.move_out(), Err(Error::ScopeFinishing { .. })), "not from inside either");
        wait.wait().await;
        Ok(())
    });
    scope.register(hook).unwrap();
    let mut finish = scope.finish();
    assert!(poll_once(&mut finish).is_pending());
    assert!(matches!(scope.move_out(), Err(Error::ScopeFinishing { .. })));
    signal.set();
    pollster::block_on(finish).unwrap();
    assert_eq!(order.seen(), ["below"]);
}

/// After CPython's `test_pop_all`, and the pattern that it is for: whoever acquires several things gives all of them
/// to the caller, or on the first failure none.
fn all_or_nothing(bed: &Bed) {
    fn acquire(manager: &Manager, order: &Order, works: u64) -> Result<ManagedScope, Fault> {
        let scope = manager.scope("bundle").unwrap();
        for (at, label) in [(0, "first"), (1, "second"), (2, "third")] {
            if at == works {
                scope.finish_blocking().unwrap();
                return Err(Fault(label));
            }
            order.adopt(&scope, label);
        }
        scope.register(order.once("body")).unwrap();
        Ok(scope.move_out().unwrap())
    }
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    assert_eq!(acquire(&manager, &order, 2).err(), Some(Fault("third")));
    assert_eq!(order.seen(), ["second", "first"]);
    let bundle = acquire(&manager, &order, 3).unwrap();
    assert_eq!(order.seen().len(), 2, "the function has returned, its scope has not ended");
    bundle.finish_blocking().unwrap();
    assert_eq!(order.seen()[2..], ["body", "third", "second", "first"]);
}
