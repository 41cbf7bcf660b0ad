//! Cases about memory: accounting, reuse, trimming, budgets and limits, running out (L19 to L22).
//!
//! Not here: who owns a tensor (`ownership.rs`) and wrong sizes as input (`input.rs`).

use tenure_core::{Error, ManagerOptions, TrimPolicy};

use crate::bed::Bed;
use crate::case::Case;
use crate::instrument::{CallKind, Limits};

/// The cases of this topic.
pub const CASES: &[Case] = &[Case {
    id: "memory/room_in_the_cache_is_found",
    rules: &["L20"],
    requires: &[],
    run: room_in_the_cache_is_found,
}];

/// A driver that is full of cached blocks of other sizes: one trim, one retry, and it fits. What cannot fit is an
/// error with the figures.
fn room_in_the_cache_is_found(bed: &Bed) {
    const MIB: u64 = 1 << 20;
    let limits = Limits { capacity_bytes: Some(8 * MIB), ..Limits::default() };
    let options = ManagerOptions::builder().trim(TrimPolicy::Never).build();
    let rig = bed.open_limited(limits, options);
    for mib in [1, 2, 4] {
        drop(rig.manager.tensor::<u8>(mib * MIB).unwrap());
    }
    let tensor = rig.manager.tensor::<u8>(6 * MIB).unwrap();
    let memory = rig.manager.memory();
    assert_eq!((memory.retries, memory.failed_allocations), (1, 0));
    let too_much = rig.manager.tensor::<u8>(6 * MIB);
    assert!(matches!(&too_much, Err(Error::OutOfMemory(figures)) if figures.requested == 6 * MIB));
    assert_eq!(rig.manager.memory().failed_allocations, 1);
    assert!(tensor.is_live());
    assert!(rig.probe.calls(CallKind::Free) >= 3);
}
