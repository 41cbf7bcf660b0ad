//! Cases about drop order: tensor, sequence, execution, scope and manager go in each of their 120 orders while the
//! device works (L4, L6).
//!
//! Not here: one handle dropped in flight (`handles.rs`).

use std::any::Any;

use tenure_core::{ManagedScope, ManagedSequence, Manager, ManagerOptions, Tensor, op};

use super::support::{Count, DRIVER_WORK, WATCHDOG, given_back};
use crate::bed::{Bed, Rig};
use crate::case::FIRST;
use crate::instrument::ObjectKind;

/// Kinds of handles that are dropped.
const HANDLES: usize = 5;

/// All orders of `0..HANDLES`.
fn orders() -> Vec<[usize; HANDLES]> {
    fn extend(start: [usize; HANDLES], fixed: usize, orders: &mut Vec<[usize; HANDLES]>) {
        if fixed == HANDLES {
            orders.push(start);
            return;
        }
        for at in fixed..HANDLES {
            let mut order = start;
            order.swap(fixed, at);
            extend(order, fixed + 1, orders);
        }
    }
    let mut orders = Vec::new();
    extend(std::array::from_fn(|at| at), 0, &mut orders);
    assert_eq!(orders.len(), 120);
    orders
}

type Make = fn(&Manager, &ManagedScope) -> (Tensor<u32>, ManagedSequence);

/// Drops the handles in every order while the probe holds the work: no drop calls the driver or waits, nothing is
/// given back before the work is released, everything after it, once, and the hooks ran.
fn in_every_order(bed: &Bed, make: Make) {
    const NAMES: [&str; HANDLES] = ["tensor", "sequence", "execution", "scope", "manager"];
    for order in orders() {
        let told = order.map(|at| NAMES[at]).join(", ");
        // The label, so that a violation tells the order.
        let options = ManagerOptions::builder().label(told.as_str()).build();
        let Rig { manager, probe } = bed.open_with(options);
        let (each, once) = (Count::default(), Count::default());
        let scope = manager.scope("s").unwrap();
        scope.register(each.each("each")).unwrap();
        scope.register(once.once("once")).unwrap();
        let (tensor, sequence) = make(&manager, &scope);
        sequence.record(op::fill(&tensor, 1)).unwrap();
        probe.hold();
        let execution = sequence.evaluate().unwrap();
        let mut handles: [Option<Box<dyn Any>>; HANDLES] = [
            Some(Box::new(tensor)),
            Some(Box::new(sequence)),
            Some(Box::new(execution)),
            Some(Box::new(scope)),
            Some(Box::new(manager)),
        ];
        {
            let _no_driver_work = probe.forbid_here(DRIVER_WORK);
            for at in order {
                drop(handles[at].take());
            }
        }
        assert_eq!(probe.held(FIRST), [1], "{told}: the work is in flight");
        assert_eq!(given_back(&probe), 0, "{told}: nothing goes back before the work is done");
        assert!(!probe.is_shut_down(), "{told}");
        probe.release_all();
        assert!(probe.wait_shutdown(WATCHDOG), "{told}: the device ends when it is idle");
        assert_eq!((each.get(), once.get()), (1, 1), "{told}: the hooks");
        for kind in ObjectKind::ALL {
            let balance = probe.lifetimes(kind);
            assert!(balance.is_balanced(), "{told}: of kind {kind} {} are left", balance.live());
        }
        assert_eq!(probe.violations(), [] as [String; 0], "{told}");
    }
}

/// All 120 orders, with the scope's own tensor in an anonymous sequence (KomputeProject/kompute#214).
pub(super) fn every_drop_order_with_work_in_flight(bed: &Bed) {
    in_every_order(bed, |_, scope| (scope.tensor(64).unwrap(), scope.sequence().unwrap()));
}

/// All 120 orders, with the manager's tensor in a named sequence.
pub(super) fn every_drop_order_of_a_managers_tensor(bed: &Bed) {
    in_every_order(bed, |manager, scope| (manager.tensor(64).unwrap(), scope.named("fill").unwrap()));
}
