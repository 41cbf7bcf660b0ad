//! Cases about reuse: what is served from the cache, what is not, and that contents survive everything around them
//! (L19, L21).
//!
//! Not here: giving cached memory back (`trim.rs`).

use std::sync::Arc;

use tenure_core::{Error, ManagerOptions, OutOfMemoryRequest, Tensor, TrimPolicy, op};

use crate::bed::{Bed, Rig};
use crate::cases::ownership::support::{
    LEN, MIB, assert_given_back, mebibytes, settled, small_grant, untrimmed,
};
use crate::instrument::{CallKind, Limits};

/// A tensor of a size that was dropped before costs no driver call, and is counted as a cache hit.
pub(super) fn a_hit_costs_no_driver_call(bed: &Bed) {
    let Rig { manager, probe } = bed.open_with(untrimmed());
    for size in [300, MIB, 3 * MIB] {
        let before = settled(&manager);
        drop(manager.tensor::<u8>(size).unwrap());
        let asked = probe.calls(CallKind::Allocate);
        {
            let _no_blocks = probe.forbid_here(CallKind::Allocate | CallKind::Free | CallKind::Trim);
            for _ in 0..50 {
                drop(manager.tensor::<u8>(size).unwrap());
            }
        }
        let after = settled(&manager);
        assert_eq!(after.cache_hits - before.cache_hits, 50);
        assert_eq!((after.allocations - before.allocations, probe.calls(CallKind::Allocate)), (1, asked));
    }
    assert_given_back(&manager);
}

/// Small tensors are cut from one block, each its own piece, whatever is made and dropped between.
pub(super) fn small_tensors_share_a_block(bed: &Bed) {
    let Rig { manager, probe } = bed.open_with(untrimmed());
    let mut tensors: Vec<Tensor<u32>> = Vec::new();
    for round in 0..4_u32 {
        for value in 0..25 {
            tensors.push(manager.tensor_from("small", &[round * 25 + value; 64]).unwrap());
        }
        // Every second one goes, and its place is taken in the next round.
        let mut at = 0;
        tensors.retain(|_| {
            at += 1;
            at % 2 == 0
        });
        for tensor in &tensors {
            let values = tensor.read().unwrap();
            assert!(values.iter().all(|value| *value == values[0]), "two tensors share bytes");
        }
    }
    let memory = settled(&manager);
    assert_eq!((memory.allocations, memory.reserved.blocks), (1, 1));
    assert_eq!(memory.cache_hits, 99);
    assert_eq!(memory.live.bytes, tensors.len() as u64 * small_grant(&manager, 256));
    drop(tensors);
    assert_eq!(probe.calls(CallKind::Free), 0);
    assert_given_back(&manager);
    assert_eq!(probe.calls(CallKind::Free), 1);
}

/// Where blocks cannot be cut, each tensor has one of its own, and is served from the cache by size all the same.
pub(super) fn whole_blocks_are_reused_by_size(bed: &Bed) {
    let limits = Limits { sub_allocation: Some(false), ..Limits::default() };
    let Rig { manager, probe } = bed.open_limited(limits, untrimmed());
    let tensors = [(); 3].map(|()| manager.tensor::<u32>(64).unwrap());
    let memory = settled(&manager);
    assert_eq!((memory.live.blocks, memory.live.bytes), (3, 3 * small_grant(&manager, 256)));
    drop(tensors);
    let again = [(); 3].map(|()| manager.tensor::<u32>(64).unwrap());
    let memory = settled(&manager);
    assert_eq!((memory.live.blocks, memory.cached.blocks, memory.cache_hits), (3, 0, 3));
    assert_eq!(probe.calls(CallKind::Allocate), 3);
    drop(again);
    assert_given_back(&manager);
}

/// A tensor is never given a block that is much too large for it, and never one that is too small: the padding stays
/// below a quarter.
pub(super) fn a_small_request_takes_no_large_block(bed: &Bed) {
    let manager = bed.open_with(untrimmed()).manager;
    drop(manager.tensor::<u8>(16 * MIB).unwrap());
    for bytes in [MIB, MIB + 1, 3 * MIB - 5, 5 * MIB + 77, 15 * MIB + 1] {
        let before = settled(&manager).live.bytes;
        let tensor = manager.tensor_from("odd", &vec![7_u8; bytes as usize]).unwrap();
        let taken = settled(&manager).live.bytes - before;
        assert!(taken >= bytes && taken - bytes < bytes / 4, "{bytes} bytes took {taken}");
        assert!(tensor.read().unwrap().iter().all(|byte| *byte == 7));
    }
    assert_given_back(&manager);
}

/// Memory that the device still uses is not handed out again, however often it is asked for; once it has finished it
/// is, without a driver call.
pub(super) fn memory_in_flight_is_not_handed_out(bed: &Bed) {
    let Rig { manager, probe } = bed.open_with(untrimmed());
    let scope = manager.scope("s").unwrap();
    probe.hold();
    let mut executions = Vec::new();
    for round in 1..=3 {
        let tensor = manager.tensor::<u32>(LEN).unwrap();
        executions.push(scope.evaluate([op::fill(&tensor, 1)]).unwrap());
        tensor.destroy().unwrap();
        assert_eq!(mebibytes(&manager), [0, round, 0]);
    }
    assert_eq!((probe.calls(CallKind::Allocate), manager.memory().cache_hits), (3, 0));
    probe.release_all();
    manager.wait_idle().unwrap();
    assert_eq!(mebibytes(&manager), [0, 0, 3]);
    let again = [(); 3].map(|()| manager.tensor::<u32>(LEN).unwrap());
    assert_eq!((probe.calls(CallKind::Allocate), manager.memory().cache_hits), (3, 3));
    scope.finish_blocking().unwrap();
    drop((again, executions));
    assert_given_back(&manager);
}

/// A tensor that is held keeps its contents and costs one allocation in all, through trims of every policy, through
/// running out of memory, and through a callback that gives other memory up.
pub(super) fn contents_survive_every_trim(bed: &Bed) {
    let policies = [
        TrimPolicy::OnFinish,
        TrimPolicy::EveryExecution,
        TrimPolicy::Watermark { high: MIB, low: 0 },
        TrimPolicy::Never,
    ];
    for trim in policies {
        let options = ManagerOptions::builder()
            .trim(trim)
            .budget(8 * MIB)
            .threads(false)
            .on_out_of_memory(Arc::new(|_: &OutOfMemoryRequest| Ok(())))
            .build();
        let manager = bed.open_with(options).manager;
        let data: Vec<u32> = (0..LEN as u32).collect();
        let held = manager.tensor_from("held", &data).unwrap();
        let own = manager.memory().allocations;
        for round in 0..5_u64 {
            let scope = manager.scope("s").unwrap();
            let other = scope.tensor::<u32>((round + 1) * LEN / 2).unwrap();
            scope.evaluate([op::fill(&other, 9), op::fill(held.view(0..1).unwrap(), 0)]).unwrap();
            scope.finish_blocking().unwrap();
            assert!(matches!(manager.tensor::<u8>(8 * MIB), Err(Error::OutOfMemory(_))));
            manager.trim().unwrap();
            assert_eq!(manager.memory().reserved.bytes, MIB, "{trim:?}: only what is held");
        }
        assert_eq!((own, held.read().unwrap() == data), (1, true), "{trim:?}");
        drop(held);
        assert_given_back(&manager);
    }
}
