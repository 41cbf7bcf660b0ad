//! Cases about the figures: the sum, what each state counts, high-water marks, after success and after failure (L19).
//!
//! Not here: what makes memory move between the states (`trim.rs`, `out_of_memory.rs`).

use tenure_core::{BackendErrorKind, Error, Tensor, op};

use crate::bed::{Bed, Rig};
use crate::cases::ownership::support::{
    Count, LEN, MIB, assert_given_back, assert_sums, mebibytes, settled, small_grant, untrimmed,
};
use crate::instrument::{CallKind, ObjectKind};

/// One tensor after the other goes through live, retired and cached: in every step the sum holds, in bytes and blocks,
/// and each figure is exact. A failed request between the steps changes none.
pub(super) fn the_sum_holds_at_every_step(bed: &Bed) {
    let Rig { manager, probe } = bed.open_with(untrimmed());
    let scope = manager.scope("s").unwrap();
    let expect = |live: u64, retired: u64, cached: u64| {
        let memory = settled(&manager);
        assert_eq!(mebibytes(&manager), [live, retired, cached]);
        let blocks = [memory.live.blocks, memory.retired.blocks, memory.cached.blocks];
        assert_eq!(blocks, [live, retired, cached], "each block has one mebibyte");
        assert_eq!(memory.reserved.bytes, probe.lifetimes(ObjectKind::Block).live_bytes());
    };
    expect(0, 0, 0);
    let [a, b, c] = [(); 3].map(|()| manager.tensor::<u32>(LEN).unwrap());
    expect(3, 0, 0);
    probe.hold();
    let execution = scope.evaluate([op::fill(&a, 1)]).unwrap();
    expect(3, 0, 0);
    drop(b);
    expect(2, 0, 1);
    a.destroy().unwrap();
    expect(1, 1, 1);
    let d = manager.tensor::<u32>(LEN).unwrap();
    expect(2, 1, 0);
    probe.fail_nth(CallKind::Allocate, 1, BackendErrorKind::Driver);
    assert!(matches!(manager.tensor::<u32>(LEN), Err(Error::Backend(_))));
    expect(2, 1, 0);
    assert_eq!(manager.trim().unwrap().blocks, 0);
    expect(2, 1, 0);
    probe.release_all();
    execution.wait().unwrap();
    expect(2, 0, 1);
    drop((c, d));
    expect(0, 0, 3);
    assert_eq!(manager.trim().unwrap().blocks, 3);
    expect(0, 0, 0);
    scope.finish_blocking().unwrap();
    assert_eq!(manager.memory().cache_hits, 1);
    drop(a);
    assert_given_back(&manager);
}

/// Whatever the driver answers to a request for a block, the figures are as before but for the counters of failures,
/// and the same request succeeds afterwards.
pub(super) fn a_failed_request_changes_no_figure(bed: &Bed) {
    const KINDS: [BackendErrorKind; 6] = [
        BackendErrorKind::OutOfMemory,
        BackendErrorKind::Unavailable,
        BackendErrorKind::Unsupported,
        BackendErrorKind::Compile,
        BackendErrorKind::Execution,
        BackendErrorKind::Driver,
    ];
    let Rig { manager, probe } = bed.open_with(untrimmed());
    let scope = manager.scope("s").unwrap();
    let kept = manager.tensor_from("kept", &vec![1_u32; LEN as usize]).unwrap();
    for bytes in [1000, MIB] {
        for (failed, kind) in (1..).zip(KINDS) {
            let before = settled(&manager);
            probe.fail_always(CallKind::Allocate, kind);
            // Twice as much, so that no cached block serves it.
            let error = scope.tensor::<u8>(2 * bytes).unwrap_err();
            probe.clear_faults();
            match (&error, kind) {
                (Error::OutOfMemory(error), BackendErrorKind::OutOfMemory) => {
                    assert_eq!(error.driver.as_ref().map(|error| error.kind), Some(kind));
                }
                (Error::Backend(error), _) => assert_eq!(error.kind, kind),
                (error, kind) => panic!("{kind} was answered as {error}"),
            }
            let after = settled(&manager);
            assert_eq!(
                (after.live, after.retired, after.cached, after.reserved),
                (before.live, before.retired, before.cached, before.reserved),
                "{kind}"
            );
            assert_eq!((after.tensors, after.peak_live_bytes), (before.tensors, before.peak_live_bytes));
            assert_eq!((after.allocations, after.frees), (before.allocations, before.frees));
            assert_eq!(after.failed_allocations - before.failed_allocations, 1, "{kind}, {failed}");
            assert_eq!(scope.live_bytes(), 0);
        }
        drop(scope.tensor::<u8>(2 * bytes).unwrap());
        manager.trim().unwrap();
    }
    assert_eq!(kept.read().unwrap(), vec![1; LEN as usize]);
    scope.finish_blocking().unwrap();
    drop(kept);
    assert_given_back(&manager);
}

/// What the driver refused was never reserved: it is not in the high-water mark either.
pub(super) fn a_refused_block_leaves_the_high_water_mark(bed: &Bed) {
    let Rig { manager, probe } = bed.open_with(untrimmed());
    let kept = manager.tensor::<u8>(MIB).unwrap();
    for kind in [BackendErrorKind::Driver, BackendErrorKind::OutOfMemory] {
        probe.fail_always(CallKind::Allocate, kind);
        assert!(manager.tensor::<u8>(8 * MIB).is_err());
        probe.clear_faults();
        assert_eq!(probe.lifetimes(ObjectKind::Block).peak_bytes, MIB);
        assert_eq!(manager.memory().peak_reserved_bytes, MIB, "no more was ever taken from the driver");
    }
    drop(kept);
    assert_given_back(&manager);
}

/// The high-water marks are the most that was live and reserved at a time; nothing lowers them.
pub(super) fn high_water_marks(bed: &Bed) {
    let Rig { manager, probe } = bed.open_with(untrimmed());
    let peaks = || {
        let memory = settled(&manager);
        assert_eq!(memory.peak_reserved_bytes, probe.lifetimes(ObjectKind::Block).peak_bytes);
        (memory.peak_live_bytes / MIB, memory.peak_reserved_bytes / MIB)
    };
    let mut tensors: Vec<Tensor<u8>> = (0..4).map(|_| manager.tensor(MIB).unwrap()).collect();
    assert_eq!(peaks(), (4, 4));
    tensors.truncate(2);
    assert_eq!(peaks(), (4, 4));
    tensors.push(manager.tensor(MIB).unwrap());
    assert_eq!((peaks(), mebibytes(&manager)), ((4, 4), [3, 0, 1]));
    // What is cached counts as reserved: 3 live, 1 cached, 8 new.
    tensors.push(manager.tensor(8 * MIB).unwrap());
    assert_eq!((peaks(), mebibytes(&manager)), ((11, 12), [11, 0, 1]));
    manager.trim().unwrap();
    tensors.push(manager.tensor(MIB).unwrap());
    assert_eq!((peaks(), mebibytes(&manager)), ((12, 12), [12, 0, 0]));
    drop(tensors);
    assert_given_back(&manager);
    assert_eq!(peaks(), (12, 12));
    assert_eq!(manager.close().unwrap().memory.peak_reserved_bytes, 12 * MIB);
}

/// A block that several tensors share counts once, by the most alive of them, and its bytes by what each piece is.
pub(super) fn a_shared_block_counts_once(bed: &Bed) {
    let Rig { manager, probe } = bed.open_with(untrimmed());
    let scope = manager.scope("s").unwrap();
    let [a, b, c] = [(); 3].map(|()| manager.tensor::<u32>(64).unwrap());
    let piece = small_grant(&manager, 256);
    let page = settled(&manager).reserved.bytes;
    let expect = |live: (u64, u64), retired: (u64, u64), cached_blocks: u64| {
        let memory = settled(&manager);
        assert_eq!((memory.live.bytes, memory.live.blocks), (live.0 * piece, live.1), "live");
        assert_eq!((memory.retired.bytes, memory.retired.blocks), (retired.0 * piece, retired.1), "retired");
        assert_eq!(memory.cached.bytes, page - (live.0 + retired.0) * piece, "cached");
        assert_eq!((memory.cached.blocks, memory.reserved.blocks), (cached_blocks, 1));
    };
    expect((3, 1), (0, 0), 0);
    probe.hold();
    let execution = scope.evaluate([op::fill(&a, 1)]).unwrap();
    a.destroy().unwrap();
    expect((2, 1), (1, 0), 0);
    drop((b, c));
    expect((0, 0), (1, 1), 0);
    assert_eq!(manager.trim().unwrap().blocks, 0, "a part of it is in use");
    probe.release_all();
    execution.wait().unwrap();
    expect((0, 0), (0, 0), 1);
    scope.finish_blocking().unwrap();
    assert_eq!((manager.trim().unwrap().blocks, manager.memory().reserved.bytes), (1, 0));
    drop(a);
    assert_given_back(&manager);
}

/// A scope's own figures are those that were asked for, not what the pool rounds them to: live, peak and released.
pub(super) fn scope_figures_are_as_asked_for(bed: &Bed) {
    let manager = bed.open_with(untrimmed()).manager;
    let scope = manager.scope("s").unwrap();
    let a = scope.tensor::<u8>(1000).unwrap();
    let b = scope.tensor::<u16>(1500).unwrap();
    let empty = scope.tensor::<u64>(0).unwrap();
    assert_eq!(scope.live_bytes(), 4000);
    drop(a);
    assert_eq!(scope.live_bytes(), 3000);
    let c = scope.tensor::<u8>(500).unwrap();
    let gone = scope.tensor::<u8>(7).unwrap();
    gone.destroy().unwrap();
    assert!(scope.tensor::<u64>(u64::MAX).is_err());
    assert_eq!(scope.live_bytes(), 3500);
    let report = scope.finish_blocking().unwrap();
    assert_eq!((report.peak_bytes, report.released_bytes, report.released_tensors), (4000, 3500, 3));
    assert_eq!(scope.live_bytes(), 0);
    drop((b, c, empty, gone));
    assert_given_back(&manager);
}

/// The driver's own figures can be asked for beside core's, or are `Unsupported`; asking and failing to ask change
/// nothing.
pub(super) fn the_drivers_figures_are_beside(bed: &Bed) {
    let Rig { manager, probe } = bed.open_with(untrimmed());
    let tensor = manager.tensor::<u8>(MIB).unwrap();
    let before = settled(&manager);
    match manager.driver_memory() {
        Ok(_) => {}
        Err(Error::Backend(error)) => assert_eq!(error.kind, BackendErrorKind::Unsupported),
        Err(error) => panic!("{error}"),
    }
    assert_eq!(probe.calls(CallKind::Memory), 1, "core's own figures ask nobody");
    probe.fail_nth(CallKind::Memory, 1, BackendErrorKind::Driver);
    match manager.driver_memory() {
        Err(Error::Backend(error)) => assert_eq!(error.kind, BackendErrorKind::Driver),
        other => panic!("the driver failed: {other:?}"),
    }
    assert_eq!(settled(&manager), before);
    drop(tensor);
    assert_given_back(&manager);
}

/// Eight threads make, use and drop tensors of many sizes: at every moment the sum holds, and at the end every request
/// was either an allocation or a cache hit, exactly.
pub(super) fn counters_are_exact_after_many_threads(bed: &Bed) {
    const SIZES: [u64; 6] = [0, 4, 1000, 40_000, 300_000, MIB];
    const ROUNDS: usize = 25;
    let Rig { manager, probe } = bed.open_with(untrimmed());
    let (made, empty) = (Count::default(), Count::default());
    std::thread::scope(|threads| {
        for thread in 0..8_usize {
            let (manager, made, empty) = (&manager, &made, &empty);
            threads.spawn(move || {
                let scope = manager.scope("s").unwrap();
                let mut held = Vec::new();
                for round in 0..ROUNDS {
                    for at in 0..SIZES.len() {
                        let bytes = SIZES[(at + thread) % SIZES.len()];
                        let tensor = manager.tensor::<u8>(bytes).unwrap();
                        if bytes == 0 {
                            empty.add()
                        } else {
                            made.add()
                        }
                        if (at + round) % 3 == 0 {
                            scope.evaluate([op::fill(&tensor, 1)]).unwrap();
                        }
                        held.push(tensor);
                    }
                    assert_sums(&manager.memory());
                    held.drain(..held.len() / 2);
                }
                drop(held);
                scope.finish_blocking().unwrap();
            });
        }
    });
    manager.wait_idle().unwrap();
    let memory = settled(&manager);
    assert_eq!(made.get() + empty.get(), (8 * ROUNDS * SIZES.len()) as u64);
    assert_eq!(memory.allocations + memory.cache_hits, made.get());
    assert_eq!((memory.failed_allocations, memory.retries, memory.frees), (0, 0, 0));
    assert_eq!(memory.allocations, probe.calls(CallKind::Allocate));
    assert_eq!(memory.reserved.bytes, probe.lifetimes(ObjectKind::Block).live_bytes());
    assert_given_back(&manager);
}

/// What a close reports at last: nothing is reserved, every allocation was freed, and the counters are those of the
/// manager's life.
pub(super) fn closing_ends_the_books(bed: &Bed) {
    let Rig { manager, probe } = bed.open_with(untrimmed());
    let held = [(); 3].map(|()| manager.tensor::<u8>(MIB).unwrap());
    drop(manager.tensor::<u8>(4 * MIB).unwrap());
    let small = manager.tensor::<u8>(100).unwrap();
    let before = settled(&manager);
    let report = manager.close().unwrap();
    let last = report.memory;
    assert_eq!((last.live, last.retired, last.cached), Default::default());
    assert_eq!((last.reserved.bytes, last.reserved.blocks, last.tensors), (0, 0, 0));
    assert_eq!((last.allocations, last.frees, last.abandoned), (before.allocations, before.allocations, 0));
    assert_eq!(last.frees, probe.calls(CallKind::Free));
    assert_eq!(last.peak_reserved_bytes, before.peak_reserved_bytes);
    assert_eq!(report.leaks.len(), 4);
    assert_eq!(manager.memory(), last);
    drop((held, small));
    assert_eq!(manager.memory(), last, "a handle that comes after has nothing to give");
}
