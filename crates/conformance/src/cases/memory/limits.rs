//! Cases about limits: blocks at a time, bytes of a budget, alignment, and what the driver really has (L20, L22).
//!
//! Not here: sizes that are refused as input (`input`).

use tenure_core::{Error, ManagerOptions, Tensor, TrimPolicy, op};

use super::out_of_memory;
use super::out_of_memory::ask_and_release;
use crate::bed::{Bed, Rig};
use crate::cases::ownership::support::{
    MIB, assert_given_back, mebibytes, settled, small_grant, untrimmed, untrimmed_threadless,
};
use crate::instrument::{CallKind, Limits, ObjectKind};

/// Asserts that the device's limit of blocks was met, and which it is.
#[track_caller]
fn too_many<T: std::fmt::Debug>(answer: Result<T, Error>, expected: u64) {
    match answer {
        Err(Error::TooManyBlocks { label, limit }) => assert_eq!((&*label, limit), ("tensor", expected)),
        other => panic!("all {expected} blocks are in use: {other:?}"),
    }
}

fn at_most(max_blocks: u64) -> Limits {
    Limits { max_blocks: Some(max_blocks), ..Limits::default() }
}

/// A device that allows one block: as many tensors of one byte fit as it has units of alignment, to the last of them.
/// The next one is refused without asking the driver; when one goes its place is taken.
pub(super) fn one_block_serves_small_tensors(bed: &Bed) {
    let Rig { manager, probe } = bed.open_limited(Limits { alignment: Some(256), ..at_most(1) }, untrimmed());
    let mut tensors: Vec<Tensor<u8>> = Vec::new();
    let refused = loop {
        match manager.tensor::<u8>(1) {
            Ok(tensor) => tensors.push(tensor),
            refused => break refused,
        }
    };
    too_many(refused, 1);
    let memory = settled(&manager);
    assert_eq!(tensors.len() as u64, memory.reserved.bytes / small_grant(&manager, 1));
    assert_eq!((memory.cached.bytes, memory.largest_free_bytes), (0, 0));
    too_many(manager.tensor::<u8>(MIB), 1);
    tensors.swap_remove(tensors.len() / 2);
    tensors.push(manager.tensor(1).unwrap());
    too_many(manager.tensor::<u8>(1), 1);
    assert_eq!(probe.calls(CallKind::Allocate), 1);
    assert_eq!(manager.memory().failed_allocations, 3);
    // A large one has the block as soon as nobody else does.
    tensors.clear();
    drop(manager.tensor::<u8>(MIB).unwrap());
    assert_eq!(probe.lifetimes(ObjectKind::Block).peak, 1);
    assert_given_back(&manager);
}

/// Where blocks cannot be cut the limit is met by tensors: cached ones of other sizes are given up for a new one, those
/// in use never.
pub(super) fn whole_blocks_meet_the_limit(bed: &Bed) {
    let limits = Limits { sub_allocation: Some(false), ..at_most(3) };
    let Rig { manager, probe } = bed.open_limited(limits, untrimmed());
    let held = manager.tensor_from("held", &[1_u32; 64]).unwrap();
    drop((manager.tensor::<u8>(4096).unwrap(), manager.tensor::<u8>(MIB).unwrap()));
    assert_eq!(settled(&manager).reserved.blocks, 3);
    let large = manager.tensor::<u8>(4 * MIB).unwrap();
    let memory = settled(&manager);
    assert_eq!((memory.live.blocks, memory.cached.blocks, memory.retries), (2, 0, 1));
    let third = manager.tensor::<u8>(1).unwrap();
    too_many(manager.tensor::<u8>(1), 3);
    assert_eq!(held.read().unwrap(), [1; 64]);
    assert_eq!(probe.lifetimes(ObjectKind::Block).peak, 3);
    drop((held, large, third));
    assert_given_back(&manager);
}

/// All blocks are in flight: a request for another one waits for the device to finish with one, with a budget and
/// without.
fn blocks_in_flight(bed: &Bed, options: ManagerOptions) {
    let Rig { manager, probe } = bed.open_limited(at_most(1), options);
    let scope = manager.scope("s").unwrap();
    let tensor = manager.tensor::<u8>(MIB).unwrap();
    probe.hold();
    let execution = scope.evaluate([op::fill(tensor.view(0..64).unwrap(), 1)]).unwrap();
    tensor.destroy().unwrap();
    let other = ask_and_release(&probe, &execution, || manager.tensor::<u8>(4 * MIB)).unwrap();
    assert_eq!((mebibytes(&manager), manager.memory().failed_allocations), ([4, 0, 0], 0));
    execution.wait().unwrap();
    scope.finish_blocking().unwrap();
    drop((tensor, other));
    assert_given_back(&manager);
}

/// Without a budget.
pub(super) fn blocks_in_flight_are_waited_for(bed: &Bed) {
    blocks_in_flight(bed, untrimmed_threadless());
}

/// With a budget that has room: the bytes fit, the blocks do not.
pub(super) fn blocks_in_flight_are_waited_for_within_a_budget(bed: &Bed) {
    let options = ManagerOptions::builder().trim(TrimPolicy::Never).threads(false).budget(64 * MIB).build();
    blocks_in_flight(bed, options);
}

/// Tensors of one byte take one unit of the device's alignment each, begin at a multiple of it, and share no byte. The
/// decorator judges every range that is recorded.
pub(super) fn pieces_are_aligned(bed: &Bed) {
    for alignment in [16, 256, 4096] {
        let limits = Limits { alignment: Some(alignment), ..Limits::default() };
        let manager = bed.open_limited(limits, untrimmed()).manager;
        let unit = manager.capabilities().alignment;
        assert!(unit >= alignment);
        let scope = manager.scope("s").unwrap();
        let tensors: Vec<Tensor<u8>> = (0..10).map(|_| scope.tensor(1).unwrap()).collect();
        assert_eq!(settled(&manager).live.bytes, 10 * unit);
        for (value, tensor) in (1..).zip(&tensors) {
            scope.evaluate([op::fill(tensor, value)]).unwrap();
        }
        for (value, tensor) in (1..).zip(&tensors) {
            assert_eq!(tensor.read().unwrap(), [value]);
        }
        let larger = scope.tensor::<u8>(unit + 1).unwrap();
        assert_eq!(settled(&manager).live.bytes, 12 * unit);
        scope.finish_blocking().unwrap();
        drop((tensors, larger));
        assert_given_back(&manager);
    }
}

/// A budget that is smaller than the blocks that small tensors are cut from: it is usable to its last unit of
/// alignment, and `reserved` stays within it.
pub(super) fn a_small_budget_is_usable(bed: &Bed) {
    const BUDGET: u64 = 128 << 10;
    let options = ManagerOptions::builder().trim(TrimPolicy::Never).budget(BUDGET).build();
    let limits = Limits { alignment: Some(256), ..Limits::default() };
    let Rig { manager, probe } = bed.open_limited(limits, options);
    for _ in 0..3 {
        let mut tensors: Vec<Tensor<u8>> = Vec::new();
        let error = loop {
            match manager.tensor::<u8>(1) {
                Ok(tensor) => tensors.push(tensor),
                Err(error) => break error,
            }
        };
        let error = out_of_memory::<()>(Err(error));
        assert_eq!((error.budget, error.requested), (Some(BUDGET), 1));
        assert_eq!(tensors.len() as u64, BUDGET / small_grant(&manager, 1));
        let memory = settled(&manager);
        assert_eq!((memory.live.bytes, memory.reserved.bytes), (BUDGET, BUDGET));
    }
    assert_eq!(probe.lifetimes(ObjectKind::Block).peak_bytes, BUDGET);
    assert_given_back(&manager);
}

/// A budget of nothing: empty tensors are all that there is, and the driver is never asked.
pub(super) fn a_budget_of_nothing(bed: &Bed) {
    let options = ManagerOptions::builder().budget(0).build();
    let Rig { manager, probe } = bed.open_with(options);
    let empty = manager.tensor_from::<u32>("empty", &[]).unwrap();
    let error = out_of_memory(manager.tensor::<u8>(1));
    assert_eq!((error.budget, error.requested, error.live), (Some(0), 1, 0));
    assert!(error.largest.is_empty(), "an empty tensor holds nothing");
    assert_eq!(empty.read().unwrap(), [0_u32; 0]);
    assert_eq!((manager.memory().budget, manager.memory().tensors), (Some(0), 1));
    assert_eq!(probe.calls(CallKind::Allocate), 0);
    drop(empty);
    assert_given_back(&manager);
}

/// The largest block need not be a multiple of the alignment. A tensor that fits it either has a block or is too large;
/// never is the driver asked for more than the device allows. The decorator judges that.
pub(super) fn a_largest_block_of_odd_size(bed: &Bed) {
    let limit = MIB + 100;
    let limits = Limits { max_block_bytes: Some(limit), ..Limits::default() };
    let Rig { manager, probe } = bed.open_limited(limits, untrimmed());
    for bytes in [MIB, MIB + 1, limit - 1, limit] {
        match manager.tensor::<u8>(bytes) {
            Ok(tensor) => {
                tensor.write(&vec![1; bytes as usize]).unwrap();
                assert_eq!(tensor.read().unwrap().len() as u64, bytes);
            }
            Err(Error::TooLarge { requested, .. }) => assert_eq!(requested, bytes),
            Err(error) => panic!("{bytes} bytes where {limit} are the most: {error}"),
        }
    }
    assert!(matches!(manager.tensor::<u8>(limit + 1), Err(Error::TooLarge { .. })));
    assert_eq!(probe.violations(), [] as [String; 0]);
    assert_given_back(&manager);
}

/// The driver has room for a small tensor, though not for a block to cut many from: the small tensor is had.
pub(super) fn a_small_tensor_has_the_drivers_rest(bed: &Bed) {
    let limits = Limits { capacity_bytes: Some(MIB + (128 << 10)), ..Limits::default() };
    let manager = bed.open_limited(limits, untrimmed()).manager;
    let large = manager.tensor::<u8>(MIB).unwrap();
    let small = manager.tensor_from("small", &[5_u8; 1024]).unwrap();
    assert_eq!(small.read().unwrap(), [5; 1024]);
    drop((large, small));
    assert_given_back(&manager);
}

/// The driver has no room for a block to cut small tensors from: each has one of its own size, whatever that is, and
/// it is used again.
pub(super) fn small_tensors_in_blocks_of_their_own(bed: &Bed) {
    let limits = Limits { capacity_bytes: Some(512 << 10), ..Limits::default() };
    let Rig { manager, probe } = bed.open_limited(limits, untrimmed());
    for bytes in [120_000, 1, 5000, 77_777] {
        let tensor = manager.tensor::<u8>(bytes).unwrap();
        tensor.write(&vec![1; bytes as usize]).unwrap();
        drop(tensor);
        let asked = probe.calls(CallKind::Allocate);
        drop(manager.tensor::<u8>(bytes).unwrap());
        assert_eq!(probe.calls(CallKind::Allocate), asked, "it is in the cache");
    }
    assert_given_back(&manager);
}

/// The driver has room for a large tensor to the byte: rounding for reuse does not make it fail.
pub(super) fn rounding_takes_no_room_that_is_not_there(bed: &Bed) {
    let bytes = 8 * MIB + bed.capabilities().alignment;
    let limits = Limits { capacity_bytes: Some(bytes), ..Limits::default() };
    let manager = bed.open_limited(limits, untrimmed()).manager;
    let tensor = manager.tensor::<u8>(bytes).unwrap();
    assert_eq!(settled(&manager).reserved.bytes, bytes);
    drop(tensor);
    assert_given_back(&manager);
}
