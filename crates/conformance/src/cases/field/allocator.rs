//! Cases C14, C15 and C17 to C19: what the pool keeps, gives back, counts, and how threads share it.
//!
//! Not here: requests that fail (`pressure.rs`) and the device's limits (`limits.rs`).

use std::sync::mpsc;

use tenure_core::{
    BackendErrorKind, Error, ManagerOptions, MemoryReport, ScopeOptions, Tensor, TrimPolicy, op,
};

use super::support::{Count, MIB, assert_given_back, assert_sums, case, case_with, settled, untrimmed};
use crate::bed::{Bed, Rig};
use crate::case::{Case, FIRST, Requirement, SECOND};
use crate::instrument::{CallKind, Limits};

pub(super) const CASES: &[Case] = &[
    case("field/c14_the_cache_goes_first", &["L20", "L19"], c14_the_cache_goes_first),
    case("field/c15_trim_in_every_step", &["L21", "L19"], c15_trim_in_every_step),
    case("field/c15_what_is_held_survives_trims", &["L21"], c15_what_is_held_survives_trims),
    case("field/c15_a_watermark_keeps_what_is_reused", &["L21"], c15_a_watermark_keeps_what_is_reused),
    case("field/c17_counters_are_exact", &["L19", "L20", "L22"], c17_counters_are_exact),
    case_with(
        "field/c18_no_loss_to_fragmentation",
        &["L20", "L21", "L4"],
        &[Requirement::Queues(2)],
        c18_no_loss_to_fragmentation,
    ),
    case("field/c19_threads_come_and_go", &["L2", "L19", "L21"], c19_threads_come_and_go),
];

const BUDGET: u64 = 64 * MIB;

fn with_budget(bytes: u64) -> ManagerOptions {
    ManagerOptions::builder().budget(bytes).trim(TrimPolicy::Never).build()
}

/// Sizes that were used once stay cached in classes of their own. A new size that does not fit beside them is met by one
/// trim and one retry; live tensors are left alone, and what cannot fit fails after one retry more
/// (tracel-ai/cubecl#1438). With a budget, and with a driver that has no more.
fn c14_the_cache_goes_first(bed: &Bed) {
    let by_driver = Limits { capacity_bytes: Some(BUDGET), ..Limits::default() };
    for (limits, options) in [(Limits::default(), with_budget(BUDGET)), (by_driver, untrimmed())] {
        let Rig { manager, .. } = bed.open_limited(limits, options);
        let live = manager.tensor_from("live", &[5_u8; MIB as usize]).unwrap();
        for size in [1, 2, 4, 8, 16, 24] {
            drop(manager.tensor::<u8>(size * MIB).unwrap());
        }
        let before = settled(&manager);
        assert_eq!((before.live.bytes, before.cached.bytes, before.retries), (MIB, 55 * MIB, 0));

        let large = manager.tensor::<u8>(48 * MIB).unwrap();
        let after = settled(&manager);
        assert_eq!((after.trims - before.trims, after.retries, after.failed_allocations), (1, 1, 0));
        assert_eq!((after.live.bytes, after.cached.bytes), (49 * MIB, 0));
        drop(large);

        let error = match manager.tensor::<u8>(64 * MIB) {
            Err(Error::OutOfMemory(error)) => error,
            other => panic!("64 MiB do not fit beside 1 MiB: {other:?}"),
        };
        assert_eq!((error.requested, error.live, error.cached), (64 * MIB, MIB, 0));
        let last = settled(&manager);
        assert_eq!((last.retries, last.failed_allocations), (2, 1));
        assert_eq!(last.live, before.live);
        assert_eq!(live.read().unwrap(), [5; MIB as usize]);
        drop(live);
        assert_given_back(&manager);
    }
}

/// Three tensors of odd sizes, used and dropped.
fn three_odd_sizes(bed: &Rig) {
    let tensors: Vec<Tensor<u8>> =
        [300_001, 777_777, 1_234_567].map(|size| bed.manager.tensor(size).unwrap()).into();
    let scope = bed.manager.scope("step").unwrap();
    let fills = tensors.iter().map(|tensor| op::fill(tensor.view(0..64).unwrap(), 1));
    scope.evaluate(fills).unwrap().wait().unwrap();
    scope.finish_blocking().unwrap();
}

/// A trim in every step gives back exactly what it says, and nothing drifts (tracel-ai/cubecl#1191, for all of C15).
fn c15_trim_in_every_step(bed: &Bed) {
    let rig = bed.open_with(untrimmed());
    let mut constant = None;
    for _ in 0..300 {
        three_odd_sizes(&rig);
        let before = settled(&rig.manager);
        assert_eq!((before.live.bytes, before.retired.bytes), (0, 0));
        assert_eq!(*constant.get_or_insert(before.reserved.bytes), before.reserved.bytes, "no drift");
        let report = rig.manager.trim().unwrap();
        assert_eq!(report.blocks, before.reserved.blocks);
        assert!(report.bytes >= before.reserved.bytes, "a backend may give back more of its own");
        assert_eq!(rig.manager.memory().reserved.bytes, 0);
    }
    assert_given_back(&rig.manager);
}

/// What is held is found where it was, however often the rest is trimmed.
fn c15_what_is_held_survives_trims(bed: &Bed) {
    let rig = bed.open_with(untrimmed());
    let held = rig.manager.tensor_from("held", &[9_u8; MIB as usize]).unwrap();
    let own = rig.probe.calls(CallKind::Allocate);
    assert_eq!(own, 1);
    for _ in 0..100 {
        three_odd_sizes(&rig);
        rig.manager.trim().unwrap();
        assert_eq!(settled(&rig.manager).reserved.bytes, MIB);
    }
    assert_eq!(held.read().unwrap(), [9; MIB as usize]);
    drop(held);
    let allocations = rig.probe.calls(CallKind::Allocate);
    let again = rig.manager.tensor::<u8>(MIB).unwrap();
    assert_eq!(rig.probe.calls(CallKind::Allocate), allocations, "its block is cached like any other");
    drop(again);
    assert_given_back(&rig.manager);
}

/// With a watermark above what is reused, steady work asks the driver once for each size.
fn c15_a_watermark_keeps_what_is_reused(bed: &Bed) {
    let trim = TrimPolicy::Watermark { high: 8 * MIB, low: 4 * MIB };
    let rig = bed.open_with(ManagerOptions::builder().trim(trim).build());
    for _ in 0..300 {
        three_odd_sizes(&rig);
    }
    assert_eq!(rig.probe.calls(CallKind::Allocate), 3);
    assert_eq!(rig.probe.calls(CallKind::Free), 0);
    assert_given_back(&rig.manager);
}

/// Requests that fail by size, requests that the driver fails, and requests of eight threads: at rest every figure is
/// exact, and no figure is ever out of bounds (rapidsai/rmm#575).
fn c17_counters_are_exact(bed: &Bed) {
    const THREADS: u64 = 8;
    const REQUESTS: u64 = 150;
    const SAMPLES: u64 = 2000;
    let Rig { manager, probe } = bed.open_with(with_budget(BUDGET));
    probe.fail_every(CallKind::Allocate, 3, BackendErrorKind::Driver);
    let (made, refused) = (Count::default(), Count::default());
    let check = |memory: &MemoryReport| {
        assert_sums(memory);
        assert!(memory.live.bytes <= memory.peak_live_bytes);
        assert!(memory.peak_live_bytes <= memory.peak_reserved_bytes);
        assert!(memory.peak_reserved_bytes <= BUDGET, "{memory}");
        assert!(memory.frees <= memory.allocations);
    };
    std::thread::scope(|threads| {
        for _ in 0..THREADS {
            threads.spawn(|| {
                let mut held = Vec::new();
                for request in 0..REQUESTS {
                    match manager.tensor::<u8>(MIB) {
                        Ok(tensor) => {
                            made.add();
                            held.push(tensor);
                        }
                        Err(_) => refused.add(),
                    }
                    if request % 4 == 3 {
                        held.clear();
                    }
                }
            });
        }
        threads.spawn(|| {
            for _ in 0..REQUESTS {
                assert!(matches!(manager.tensor::<u8>(65 * MIB), Err(Error::OutOfMemory(_))));
                refused.add();
            }
        });
        for _ in 0..SAMPLES {
            check(&manager.memory());
            std::thread::yield_now();
        }
    });
    let memory = settled(&manager);
    check(&memory);
    assert_eq!((memory.live.bytes, memory.retired.bytes), (0, 0));
    assert_eq!(memory.reserved, memory.cached);
    assert_eq!(memory.failed_allocations, refused.get());
    assert_eq!(memory.allocations + memory.cache_hits, made.get(), "each tensor had one block");
    probe.clear_faults();
    let all = manager.tensor::<u8>(BUDGET).unwrap();
    assert_eq!(manager.memory().live.bytes, BUDGET, "nothing of the budget was lost");
    drop(all);
    assert_given_back(&manager);
}

/// Half of the memory is free in pieces that two queues have used: a request larger than any piece is met without
/// passing the budget, and what a queue still uses stays (rapidsai/rmm#2039).
fn c18_no_loss_to_fragmentation(bed: &Bed) {
    const PIECE: u64 = 8 * MIB;
    let Rig { manager, probe } = bed.open_with(with_budget(16 * PIECE));
    let open = |queue| manager.scope_with(ScopeOptions::builder().queue(queue).build()).unwrap();
    let (first, second) = (open(FIRST), open(SECOND));
    let mut pieces = Vec::new();
    for _ in 0..8 {
        for scope in [&first, &second] {
            let piece = manager.tensor::<u8>(PIECE).unwrap();
            scope.evaluate([op::fill(piece.view(0..64).unwrap(), 1)]).unwrap();
            pieces.push(piece);
        }
    }
    manager.wait_idle().unwrap();
    let busy = pieces.pop().unwrap();
    drop(pieces);
    probe.hold_queue(SECOND);
    let execution = second.evaluate([op::fill(busy.view(0..64).unwrap(), 2)]).unwrap();
    busy.destroy().unwrap();
    let memory = settled(&manager);
    assert_eq!((memory.retired.bytes, memory.cached.bytes), (PIECE, 15 * PIECE));
    assert_eq!(memory.largest_free_bytes, PIECE, "the figure that shows fragmentation");

    let large = manager.tensor::<u8>(12 * PIECE).unwrap();
    let memory = settled(&manager);
    assert_eq!(memory.retired.bytes, PIECE);
    assert_eq!((memory.retries, memory.failed_allocations), (1, 0));
    assert!(memory.peak_reserved_bytes <= 16 * PIECE);
    drop(large);
    probe.release_all();
    execution.wait().unwrap();
    drop(busy);
    for scope in [first, second] {
        scope.finish_blocking().unwrap();
    }
    assert_given_back(&manager);
}

/// Tensors are made by threads that end, dropped by others, while a third runs out of memory and trims: every block is
/// in one list, and none is stranded with a thread (rapidsai/rmm#1393).
fn c19_threads_come_and_go(bed: &Bed) {
    const ROUNDS: u64 = 150;
    let Rig { manager, .. } = bed.open_with(with_budget(8 * MIB));
    for round in 0..ROUNDS {
        let (send, receive) = mpsc::channel();
        let manager = &manager;
        std::thread::scope(|threads| {
            threads.spawn(move || {
                for size in [1024, 100_000, MIB] {
                    send.send(manager.tensor::<u8>(size).unwrap()).unwrap();
                }
            });
        });
        std::thread::scope(|threads| {
            threads.spawn(|| match manager.tensor::<u8>(8 * MIB) {
                Ok(tensor) => drop(tensor),
                Err(Error::OutOfMemory(_)) => {}
                Err(error) => panic!("{error}"),
            });
            threads.spawn(move || receive.into_iter().for_each(drop));
            threads.spawn(|| drop(manager.tensor::<u8>(2048)));
        });
        let memory = settled(manager);
        assert_eq!((memory.live.bytes, memory.retired.bytes, memory.tensors), (0, 0, 0), "round {round}");
        assert_eq!(memory.reserved, memory.cached);
        assert!(memory.reserved.bytes <= 8 * MIB);
    }
    assert_given_back(&manager);
}
