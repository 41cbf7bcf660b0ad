//! Cases C20 to C23: limits of the device, memory of every kind that is given back, and tensors of no size.
//!
//! Not here: a budget of the manager's own (`allocator.rs`, `pressure.rs`).

use tenure_core::{Error, Manager, ManagerOptions, Tensor, TrimPolicy, op};

use super::support::{Count, MIB, assert_given_back, case, case_with, settled, untrimmed};
use crate::bed::{Bed, Rig};
use crate::case::{Case, FIRST, Requirement, SECOND};
use crate::instrument::{CallKind, Limits, ObjectKind};
use crate::kernels::groups_for;

pub(super) const CASES: &[Case] = &[
    case_with(
        "field/c20_small_tensors_share_blocks",
        &["L22", "L19"],
        &[Requirement::SubAllocation],
        c20_small_tensors_share_blocks,
    ),
    case("field/c20_threads_meet_the_limit_of_blocks", &["L22", "L20"], c20_threads_meet_the_limit_of_blocks),
    case("field/c21_a_live_and_cached_are_told_apart", &["L19", "L21"], c21_a_live_and_cached_are_told_apart),
    case("field/c21_b_a_trim_reaches_everything", &["L21", "L19"], c21_b_a_trim_reaches_everything),
    case("field/c21_c_a_spike_ends_with_the_last_scope", &["L21"], c21_c_a_spike_ends_with_the_last_scope),
    case("field/c21_d_a_spike_ends_at_the_watermark", &["L21"], c21_d_a_spike_ends_at_the_watermark),
    case("field/c22_a_empty_tensors_work", &["L22"], c22_a_empty_tensors_work),
    case_with(
        "field/c22_b_empty_tensors_are_bound",
        &["L22"],
        &[Requirement::Kernels],
        c22_b_empty_tensors_are_bound,
    ),
    case("field/c22_c_many_empty_tensors", &["L22", "L19"], c22_c_many_empty_tensors),
    case("field/c23_a_largest_block", &["L22"], c23_a_largest_block),
    case_with("field/c23_b_largest_binding", &["L22", "L3"], &[Requirement::Kernels], c23_b_largest_binding),
    case("field/c23_c_offsets_are_aligned", &["L22"], c23_c_offsets_are_aligned),
    case("field/c23_d_capacity_is_usable", &["L22", "L19"], c23_d_capacity_is_usable),
];

const MAX_BLOCKS: u64 = 64;

fn few_blocks() -> Limits {
    Limits { max_blocks: Some(MAX_BLOCKS), ..Limits::default() }
}

/// Ten thousand small tensors need a few blocks, and large ones fail at the limit with an error of its own, without a
/// driver call beyond it (Traverse-Research/gpu-allocator#125).
fn c20_small_tensors_share_blocks(bed: &Bed) {
    let Rig { manager, probe } = bed.open_limited(few_blocks(), untrimmed());
    // A quarter of the blocks, whatever a tensor is rounded to.
    let count = 10_000.min(MAX_BLOCKS / 4 * MIB / bed.capabilities().alignment);
    let small: Vec<Tensor<u8>> = (0..count).map(|_| manager.tensor(256).unwrap()).collect();
    let pages = probe.lifetimes(ObjectKind::Block).live();
    assert!(pages <= MAX_BLOCKS / 2, "{count} tensors of 256 bytes took {pages} blocks");

    let mut large = Vec::new();
    let error = loop {
        match manager.tensor::<u8>(MIB) {
            Ok(tensor) => large.push(tensor),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::TooManyBlocks { limit: MAX_BLOCKS, .. }), "{error}");
    assert_eq!(large.len() as u64, MAX_BLOCKS - pages);
    assert_eq!(probe.calls(CallKind::Allocate), MAX_BLOCKS, "the driver was never asked for one more");
    // A small one still fits where there is room, and a large one where one has gone.
    drop(large.pop());
    drop(manager.tensor::<u8>(MIB).unwrap());
    drop((small, large));
    assert_given_back(&manager);
}

/// Threads that ask for blocks at the same time get as many as there are, and none too many.
fn c20_threads_meet_the_limit_of_blocks(bed: &Bed) {
    let Rig { manager, probe } = bed.open_limited(few_blocks(), untrimmed());
    let refused = Count::default();
    let tensors: Vec<Tensor<u8>> = std::thread::scope(|threads| {
        let ask = || -> Vec<_> {
            let answer = |_| match manager.tensor::<u8>(MIB) {
                Ok(tensor) => Some(tensor),
                Err(Error::TooManyBlocks { .. }) => {
                    refused.add();
                    None
                }
                Err(error) => panic!("{error}"),
            };
            (0..MAX_BLOCKS / 2).filter_map(answer).collect()
        };
        let workers: Vec<_> = (0..4).map(|_| threads.spawn(ask)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    assert_eq!((tensors.len() as u64, refused.get()), (MAX_BLOCKS, MAX_BLOCKS));
    let blocks = probe.lifetimes(ObjectKind::Block);
    assert_eq!((blocks.live(), blocks.peak), (MAX_BLOCKS, MAX_BLOCKS));
    assert_eq!(manager.memory().failed_allocations, MAX_BLOCKS);
    drop(tensors);
    assert_given_back(&manager);
}

/// What is in use and what is only kept are two figures, and the second goes to zero when asked
/// (huggingface/candle#3464, for all of C21).
fn c21_a_live_and_cached_are_told_apart(bed: &Bed) {
    let Rig { manager, .. } = bed.open_with(untrimmed());
    let tensors: Vec<Tensor<u8>> = (0..4).map(|_| manager.tensor(4 * MIB).unwrap()).collect();
    let memory = settled(&manager);
    assert_eq!((memory.live.bytes, memory.live.blocks, memory.cached.bytes), (16 * MIB, 4, 0));
    drop(tensors);
    let memory = settled(&manager);
    assert_eq!((memory.live.bytes, memory.cached.bytes, memory.cached.blocks), (0, 16 * MIB, 4));
    assert_eq!((memory.peak_live_bytes, memory.peak_reserved_bytes), (16 * MIB, 16 * MIB));
    assert_eq!(manager.trim().unwrap().blocks, 4);
    assert_eq!(manager.memory().reserved.bytes, 0);
    assert_given_back(&manager);
}

/// Uses memory of every kind, of one queue, from this thread.
fn use_everything(bed: &Bed, manager: &Manager, queue: tenure_core::QueueId) {
    let options = tenure_core::ScopeOptions::builder().label("worker").queue(queue).build();
    let scope = manager.scope_with(options).unwrap();
    let large = scope.tensor::<u32>(MIB).unwrap();
    let small = scope.tensor_from("uploaded", &[1_u32; 64]).unwrap();
    let target = large.view(100..164).unwrap();
    let (download, values) = op::download(&target);
    let sequence = scope.named("every kind").unwrap();
    sequence.record(op::upload(&small, &[2; 64])).unwrap().record(op::copy(&small, &target)).unwrap();
    if bed.facts().kernels {
        let kernel = manager.kernel(&bed.kernels().increment).unwrap();
        sequence.record(op::dispatch(&kernel).bind(&small).groups(groups_for(64))).unwrap();
        sequence.record(op::copy(&small, &target)).unwrap();
    }
    sequence.record(download).unwrap().run().unwrap();
    let expected = 2 + u32::from(bed.facts().kernels);
    assert_eq!(values.get().unwrap(), [expected; 64]);
    assert_eq!(pollster::block_on(small.read_async()).unwrap(), [expected; 64]);
    small.promote().unwrap();
    scope.finish_blocking().unwrap();
    small.write(&[4; 64]).unwrap();
    assert_eq!(small.read().unwrap(), [4; 64]);
}

/// Memory of every kind, used on every queue and by threads that have ended, is given back by one trim.
fn c21_b_a_trim_reaches_everything(bed: &Bed) {
    let Rig { manager, probe } = bed.open_with(untrimmed());
    let queues = if bed.capabilities().queues > 1 { vec![FIRST, SECOND] } else { vec![FIRST] };
    std::thread::scope(|threads| {
        for queue in queues {
            for _ in 0..2 {
                threads.spawn({
                    let manager = &manager;
                    move || use_everything(bed, manager, queue)
                });
            }
        }
    });
    manager.wait_idle().unwrap();
    let memory = settled(&manager);
    assert_eq!((memory.live.bytes, memory.retired.bytes, memory.tensors), (0, 0, 0));
    assert!(memory.cached.bytes > 0);
    let trims = probe.calls(CallKind::Trim);
    manager.trim().unwrap();
    assert_eq!(manager.memory().reserved.bytes, 0);
    assert_eq!(probe.lifetimes(ObjectKind::Block).live(), 0);
    assert_eq!(probe.lifetimes(ObjectKind::Scope).live(), 0, "arenas are a cache too");
    assert_eq!(probe.calls(CallKind::Trim), trims + 1, "the backend's own caches are trimmed with it");
    assert_given_back(&manager);
}

/// One spike of memory and then small work, in scopes of their own.
fn spike_then_small(manager: &Manager, each: impl Fn()) {
    drop(manager.tensor::<u8>(64 * MIB).unwrap());
    for _ in 0..500 {
        let scope = manager.scope("small").unwrap();
        let tensor = scope.tensor::<u32>(64).unwrap();
        scope.evaluate([op::fill(&tensor, 1)]).unwrap().wait().unwrap();
        scope.finish_blocking().unwrap();
        each();
    }
}

/// By default a spike is held until the last open scope finishes: here that is the first one.
fn c21_c_a_spike_ends_with_the_last_scope(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let check = || assert_eq!(manager.memory().reserved.bytes, 0);
    spike_then_small(&manager, check);
    assert_given_back(&manager);
}

/// With a watermark a spike is held until the next execution retires, and the small work's memory stays cached.
fn c21_d_a_spike_ends_at_the_watermark(bed: &Bed) {
    let trim = TrimPolicy::Watermark { high: 8 * MIB, low: 4 * MIB };
    // Without threads of tenure's, so that nothing trims beside this one.
    let Rig { manager, probe } = bed.open_with(ManagerOptions::builder().trim(trim).threads(false).build());
    spike_then_small(&manager, || assert!(settled(&manager).cached.bytes <= 4 * MIB));
    assert_eq!(probe.calls(CallKind::Free), 1, "only the spike goes");
    assert_eq!(probe.calls(CallKind::Allocate), 2);
    assert_given_back(&manager);
}

/// Everything that can be done with a tensor can be done with one of no size, and costs no memory
/// (tracel-ai/burn#1946, for all of C22).
fn c22_a_empty_tensors_work(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let scope = manager.scope("s").unwrap();
    let empty = scope.tensor::<u32>(0).unwrap();
    let other = scope.tensor::<u32>(0).unwrap();
    assert!(empty == empty.clone() && empty != other && empty.id() != other.id(), "each is itself only");
    assert_eq!((empty.len(), empty.bytes(), empty.is_empty(), empty.shape()), (0, 0, true, &[0_u64][..]));
    empty.write(&[]).unwrap();
    assert_eq!(empty.read().unwrap(), [0_u32; 0]);
    assert_eq!(pollster::block_on(empty.read_async()).unwrap(), [0_u32; 0]);
    assert!(matches!(empty.write(&[1]), Err(Error::Length { expected: 0, actual: 1, .. })));
    assert!(matches!(empty.view(0..1), Err(Error::OutOfRange { length: 0, .. })));
    let view = empty.view(0..0).unwrap();
    assert_eq!((view.len(), view.read().unwrap().len()), (0, 0));

    let (download, values) = op::download(&empty);
    let operations = [op::upload(&empty, &[]), op::fill(&empty, 1), op::copy(&empty, &other), download];
    scope.evaluate(operations).unwrap().wait().unwrap();
    assert_eq!(values.get().unwrap(), [0_u32; 0]);
    let memory = settled(&manager);
    assert_eq!((memory.live.bytes, memory.reserved.bytes, memory.tensors), (0, 0, 2));
    assert_eq!(probe.calls(CallKind::Allocate), 0);

    empty.destroy().unwrap();
    assert!(matches!(empty.read(), Err(Error::Stale { .. })));
    let report = scope.finish_blocking().unwrap();
    assert_eq!((report.released_tensors, report.released_bytes), (1, 0));
    assert_given_back(&manager);
}

/// An empty tensor is bound beside one that is not.
fn c22_b_empty_tensors_are_bound(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let scope = manager.scope("s").unwrap();
    let increment = manager.kernel(&bed.kernels().increment).unwrap();
    let add = manager.kernel(&bed.kernels().add).unwrap();
    let empty = scope.tensor::<u32>(0).unwrap();
    let nothing = [scope.tensor::<f32>(0).unwrap(), scope.tensor(0).unwrap(), scope.tensor(0).unwrap()];
    let values = scope.tensor_from("values", &[7_u32; 64]).unwrap();
    let [x, y, z] = &nothing;
    scope
        .evaluate([
            op::dispatch(&increment).bind(&empty).groups(groups_for(0)),
            op::dispatch(&increment).bind(values.view(64..64).unwrap()).groups(groups_for(0)),
            op::dispatch(&add).bind(x).bind(y).bind(z).groups(groups_for(0)),
            op::dispatch(&increment).bind(&values).groups(groups_for(64)),
        ])
        .unwrap()
        .wait()
        .unwrap();
    assert_eq!(values.read().unwrap(), [8; 64]);
    scope.finish_blocking().unwrap();
    drop((empty, nothing, values));
    assert_given_back(&manager);
}

/// Ten thousand empty tensors, used and dropped, leave nothing behind.
fn c22_c_many_empty_tensors(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    for _ in 0..10_000 {
        let empty = manager.tensor::<f64>(0).unwrap();
        empty.write(&[]).unwrap();
        assert!(empty.read().unwrap().is_empty());
    }
    assert_eq!(manager.memory().tensors, 0);
    assert_eq!(probe.calls(CallKind::Allocate | CallKind::WriteBlock | CallKind::ReadBlock), 0);
    assert_given_back(&manager);
}

/// A block may be as large as the device says. A byte more is an error that names the limit, before any driver call
/// (microsoft/onnxruntime#27853).
fn c23_a_largest_block(bed: &Bed) {
    let limits = Limits { max_block_bytes: Some(MIB), ..Limits::default() };
    let Rig { manager, probe } = bed.open_limited(limits, untrimmed());
    for bytes in [MIB - 1, MIB] {
        let tensor = manager.tensor_from("fits", &vec![3_u8; bytes as usize]).unwrap();
        assert_eq!(tensor.read().unwrap().len() as u64, bytes);
    }
    let before = (probe.calls(CallKind::Allocate | CallKind::Free), manager.memory());
    for bytes in [MIB + 1, u64::MAX / 2] {
        match manager.tensor::<u8>(bytes) {
            Err(Error::TooLarge { requested, limit, which, .. }) => {
                assert_eq!((requested, limit, which), (bytes, MIB, "largest block"));
            }
            other => panic!("{bytes} bytes are too many: {other:?}"),
        }
    }
    match manager.tensor::<u64>(u64::MAX / 2) {
        Err(Error::SizeOverflow { element_bytes: 8, .. }) => {}
        other => panic!("the size does not fit 64 bits: {other:?}"),
    }
    let after = (probe.calls(CallKind::Allocate | CallKind::Free), manager.memory());
    assert_eq!(after, before, "no driver call, no retry, no trim");
    assert_given_back(&manager);
}

/// A tensor may be larger than what one binding covers: binding it whole is the error, before a submission.
fn c23_b_largest_binding(bed: &Bed) {
    const LARGEST: u64 = 512 << 10;
    let limits = Limits { max_binding_bytes: Some(LARGEST), ..Limits::default() };
    let Rig { manager, probe } = bed.open_limited(limits, untrimmed());
    let scope = manager.scope("s").unwrap();
    let kernel = manager.kernel(&bed.kernels().iota).unwrap();
    let tensor = scope.tensor::<u32>(LARGEST / 4 + 1).unwrap();
    let sequence = scope.sequence().unwrap();
    let whole = op::dispatch(&kernel).bind(&tensor).groups(groups_for(tensor.len()));
    match sequence.record(whole).map(|_| ()) {
        Err(Error::TooLarge { requested, limit, which, .. }) => {
            assert_eq!((requested, limit, which), (LARGEST + 4, LARGEST, "largest binding"));
        }
        other => panic!("a binding is too large: {other:?}"),
    }
    assert!(sequence.is_empty());
    assert_eq!(probe.calls(CallKind::Record | CallKind::Submit), 0);
    let part = tensor.view(0..LARGEST / 4).unwrap();
    sequence.record(op::dispatch(&kernel).bind(&part).groups(groups_for(part.len()))).unwrap();
    sequence.run().unwrap();
    assert_eq!(tensor.view(1000..1002).unwrap().read().unwrap(), [1000, 1001]);
    scope.finish_blocking().unwrap();
    drop((tensor, part));
    assert_given_back(&manager);
}

/// Small tensors of odd sizes share a block where they may: each is where the device can bind it, and none overlaps
/// another. The decorator judges the offsets of every recorded range.
fn c23_c_offsets_are_aligned(bed: &Bed) {
    let limits = Limits { alignment: Some(256), ..Limits::default() };
    let Rig { manager, .. } = bed.open_limited(limits, untrimmed());
    let scope = manager.scope("s").unwrap();
    let tensors: Vec<Tensor<u32>> = [25, 1, 63, 65, 25].map(|len| scope.tensor(len).unwrap()).into();
    let kernel = bed.facts().kernels.then(|| manager.kernel(&bed.kernels().increment).unwrap());
    for (value, tensor) in (0..).zip(&tensors) {
        let sequence = scope.sequence().unwrap();
        sequence.record(op::fill(tensor, value)).unwrap();
        if let Some(kernel) = &kernel {
            let dispatch = op::dispatch(kernel).bind(tensor).groups(groups_for(tensor.len()));
            sequence.record(dispatch).unwrap();
        }
        sequence.run().unwrap();
    }
    let step = u32::from(kernel.is_some());
    for (value, tensor) in (0..).zip(&tensors) {
        assert_eq!(tensor.read().unwrap(), vec![value + step; tensor.len() as usize]);
    }
    scope.finish_blocking().unwrap();
    drop((tensors, kernel));
    assert_given_back(&manager);
}

/// A budget is bytes that can be used: two halves fit, to the byte, again and again (rapidsai/rmm#1664).
fn c23_d_capacity_is_usable(bed: &Bed) {
    let options = ManagerOptions::builder().budget(64 * MIB).trim(TrimPolicy::Never).build();
    let Rig { manager, probe } = bed.open_with(options);
    for _ in 0..10 {
        let halves = [manager.tensor::<u8>(32 * MIB).unwrap(), manager.tensor::<u8>(32 * MIB).unwrap()];
        let memory = settled(&manager);
        assert_eq!((memory.live.bytes, memory.reserved.bytes), (64 * MIB, 64 * MIB));
        assert!(matches!(manager.tensor::<u8>(1), Err(Error::OutOfMemory(_))));
        drop(halves);
    }
    // Asking for the one byte too many trimmed nothing that was in use.
    assert_eq!(probe.lifetimes(ObjectKind::Block).peak_bytes, 64 * MIB);
    assert_given_back(&manager);
}
