//! Cases about who owns what: handles, retiring, drop order, handles that outlive their manager (L1 to L6).
//!
//! Not here: memory figures (`memory.rs`) and scopes as such (`scopes.rs`).

use tenure_core::op;

use crate::bed::Bed;
use crate::case::{Case, FIRST};
use crate::instrument::{CallKind, CallSet};

/// The cases of this topic.
pub const CASES: &[Case] = &[
    Case { id: "ownership/last_drop_retires", rules: &["L2", "L19"], requires: &[], run: last_drop_retires },
    Case {
        id: "ownership/drop_in_flight_frees_later",
        rules: &["L4"],
        requires: &[],
        run: drop_in_flight_frees_later,
    },
];

/// The last handle retires the tensor, and no earlier one.
fn last_drop_retires(bed: &Bed) {
    let manager = bed.open().manager;
    let tensor = manager.tensor::<u32>(256).unwrap();
    let other = tensor.clone();
    drop(tensor);
    assert_eq!(manager.memory().tensors, 1);
    drop(other);
    let memory = manager.memory();
    assert_eq!((memory.tensors, memory.live.bytes, memory.retired.bytes), (0, 0, 0));
    manager.trim().unwrap();
    assert_eq!(manager.memory().reserved.bytes, 0);
}

/// Handles that are dropped while the device is busy: no wait then, no free before completion, one after.
fn drop_in_flight_frees_later(bed: &Bed) {
    let rig = bed.open();
    let (manager, probe) = (rig.manager, rig.probe);
    let scope = manager.scope("drops").unwrap();
    let tensor = scope.tensor::<u32>(256).unwrap();
    probe.hold();
    let execution = scope.evaluate([op::fill(&tensor, 7)]).unwrap();
    let bytes = tensor.bytes();
    {
        let _no_driver_work = probe.forbid_here(CallSet::ALL.without(CallKind::Interrupt.into()));
        drop(tensor);
    }
    manager.trim().unwrap();
    assert_eq!(probe.calls(CallKind::Free), 0);
    assert!(manager.memory().live.bytes + manager.memory().retired.bytes >= bytes);
    assert_eq!(probe.release_one(FIRST), Some(1));
    execution.wait().unwrap();
    scope.finish_blocking().unwrap();
    assert_eq!(manager.memory().reserved.bytes, 0);
    assert_eq!(probe.calls(CallKind::Free), 1);
    probe.release_all();
}
