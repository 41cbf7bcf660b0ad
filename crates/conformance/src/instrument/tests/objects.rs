//! Blocks, kernels, arenas and native sequences given back too early or to the wrong place; requests past a limit.
//!
//! Not here: submissions (`submissions.rs`) and the end (`lifetimes.rs`).

use tenure_core::backend::{Backend, Scope, Sequence};
use tenure_core::operation::{BlockRange, Operation};
use tenure_core::{Access, BackendErrorKind};

use super::bench::{Bench, dispatch, point, range, record_fill, runner, submit, writer};
use super::ffi;
use crate::instrument::{CallKind, CallSet, Limits};

#[test]
fn a_block_is_not_freed_in_flight() {
    let bench = Bench::new();
    let block = bench.block();
    let mut sequence = writer(&mut bench.arena(0), &block);
    bench.probe.hold();
    submit(&mut sequence, point(0, 1), &[]).unwrap();
    // The device has finished, but core was not told.
    assert_eq!(bench.completed(0), 0);
    ffi::free(&bench.backend, block).unwrap();
    bench.expect_violation("L4: block 1 `x` is freed while point 1 of queue 0 uses it");
}

#[test]
fn a_block_is_freed_once_reported_complete() {
    let bench = Bench::new();
    let block = bench.block();
    let mut sequence = writer(&mut bench.arena(0), &block);
    submit(&mut sequence, point(0, 1), &[]).unwrap();
    assert_eq!(bench.completed(0), 1);
    ffi::free(&bench.backend, block).unwrap();
    bench.expect_clean();
}

#[test]
fn adopted_memory_is_not_released_in_flight() {
    let bench = Bench::new();
    let block = bench.adopted();
    let mut sequence = writer(&mut bench.arena(0), &block);
    bench.probe.hold();
    submit(&mut sequence, point(0, 1), &[]).unwrap();
    ffi::release(&bench.backend, block).unwrap();
    bench.expect_violation("L4: block 1 `x` is freed while point 1 of queue 0 uses it");
}

#[test]
fn a_block_goes_back_as_what_it_came() {
    let bench = Bench::new();
    ffi::free(&bench.backend, bench.adopted()).unwrap();
    bench.expect_violation("goes back as block, it is adopted block");
    let bench = Bench::new();
    ffi::release(&bench.backend, bench.block()).unwrap();
    bench.expect_violation("goes back as adopted block, it is block");
}

#[test]
fn a_kernel_is_not_destroyed_in_flight() {
    let bench = Bench::new();
    let kernel = bench.kernel();
    let mut sequence = runner(&mut bench.arena(0), &kernel);
    submit(&mut sequence, point(0, 1), &[]).unwrap();
    ffi::destroy_kernel(&bench.backend, kernel).unwrap();
    bench.expect_violation("L4: kernel 1 `k` is destroyed while point 1 of queue 0 uses it");
}

#[test]
fn a_sequence_is_not_recycled_in_flight() {
    let bench = Bench::new();
    let block = bench.block();
    let mut arena = bench.arena(0);
    let mut sequence = writer(&mut arena, &block);
    submit(&mut sequence, point(0, 1), &[]).unwrap();
    ffi::recycle(&mut arena, sequence);
    bench.expect_violation("`writer` is recycled while point 1 of queue 0 runs it");
}

#[test]
fn a_sequence_is_collected_before_it_is_recycled() {
    let bench = Bench::new();
    let block = bench.block();
    let mut arena = bench.arena(0);
    let mut sequence = writer(&mut arena, &block);
    submit(&mut sequence, point(0, 1), &[]).unwrap();
    bench.completed(0);
    ffi::recycle(&mut arena, sequence);
    bench.expect_violation("is recycled before its execution was collected");
}

#[test]
fn a_sequence_goes_back_where_it_came_from() {
    let bench = Bench::new();
    let sequence = bench.arena(0).open_sequence("s").unwrap();
    ffi::recycle(&mut bench.arena(0), sequence);
    bench.expect_violation("of arena 1 is recycled into arena 3");
    assert_eq!(bench.device.calls("recycle"), 0);
}

#[test]
fn a_running_sequence_is_not_reset() {
    let bench = Bench::new();
    let block = bench.block();
    let mut sequence = writer(&mut bench.arena(0), &block);
    submit(&mut sequence, point(0, 1), &[]).unwrap();
    ffi::reset_sequence(&mut sequence).unwrap_err();
    bench.expect_violation("L4, L7: is reset while point 1 of queue 0 runs it");
    assert_eq!(bench.device.calls("sequence reset"), 0);
}

#[test]
fn a_running_sequence_does_not_record() {
    let bench = Bench::new();
    let block = bench.block();
    let mut sequence = writer(&mut bench.arena(0), &block);
    submit(&mut sequence, point(0, 1), &[]).unwrap();
    record_fill(&mut sequence, &block).unwrap_err();
    bench.expect_violation("L4, L7: records while point 1 of queue 0 runs it");
}

#[test]
fn an_arena_is_reset_and_closed_whole() {
    let bench = Bench::new();
    let mut arena = bench.arena(0);
    let _out = arena.open_sequence("s").unwrap();
    ffi::reset_scope(&mut arena).unwrap_err();
    bench.expect_violation("scope reset of arena 1 `arena` while 1 sequences are out");

    let bench = Bench::new();
    let mut arena = bench.arena(0);
    let _out = arena.open_sequence("s").unwrap();
    ffi::close_scope(&bench.backend, arena).unwrap();
    bench.expect_violation("close_scope of arena 1 `arena` while 1 sequences are out");
    // Its sequence may still be used: the inner arena stays open.
    assert_eq!(bench.device.calls("close_scope"), 0);
}

#[test]
fn the_host_leaves_busy_ranges_alone() {
    let bench = Bench::new();
    let block = bench.block();
    let kernel = bench.kernel();
    let mut sequence = bench.arena(0).open_sequence("reads and writes").unwrap();
    let ranges = [(range(&block, 0, 16), Access::Read), (range(&block, 16, 16), Access::ReadWrite)];
    dispatch(&mut sequence, &kernel, &ranges).unwrap();
    submit(&mut sequence, point(0, 1), &[]).unwrap();
    // Beside both ranges, and reading what is only read.
    ffi::write_block(&bench.backend, &block, 32, &[0; 16]).unwrap();
    ffi::read_block(&bench.backend, &block, 0, &mut [0; 16]).unwrap();
    bench.expect_clean();
    ffi::write_block(&bench.backend, &block, 8, &[0; 4]).unwrap();
    bench.expect_violation("L4: write_block of bytes 8..12 in block 1 `x` while point 1 of queue 0 uses it");
    ffi::read_block(&bench.backend, &block, 20, &mut [0; 4]).unwrap();
    assert_eq!(bench.probe.violations().len(), 2);
    // Once core knows that it is complete, all is allowed.
    bench.completed(0);
    ffi::write_block(&bench.backend, &block, 0, &[0; 64]).unwrap();
    assert_eq!(bench.probe.violations().len(), 2);
}

#[test]
fn the_host_stays_inside_the_block() {
    let bench = Bench::new();
    let block = bench.block();
    ffi::write_block(&bench.backend, &block, 60, &[0; 8]).unwrap_err();
    bench.expect_violation("bytes 60..68 is outside block 1 of 64 bytes");
    assert_eq!(bench.device.calls("write_block"), 0);
}

#[test]
fn requests_keep_the_limits() {
    for (bytes, text) in [
        (0, "L22: a block of 0 bytes"),
        (1 << 21, "L22: a block of 2097152 bytes, the largest has 1048576"),
        (24, "a block of 24 bytes, which is no multiple of 16"),
    ] {
        let bench = Bench::new();
        bench.allocate(bytes).unwrap_err();
        bench.expect_violation(text);
        assert_eq!(bench.device.calls("allocate"), 0);
    }
    let bench = Bench::with(Limits { max_blocks: Some(2), ..Limits::default() });
    let _two = (bench.block(), bench.block());
    bench.allocate(16).unwrap_err();
    bench.expect_violation("L22: 3 blocks at a time, 2 are allowed");
}

#[test]
fn limits_only_narrow() {
    let bench = Bench::with(Limits {
        queues: Some(9),
        max_blocks: Some(1 << 40),
        max_binding_bytes: Some(128),
        alignment: Some(8),
        sub_allocation: Some(false),
        reusable_recordings: Some(true),
        abandons_on_loss: Some(true),
        ..Limits::default()
    });
    let capabilities = bench.backend.capabilities();
    assert_eq!((capabilities.queues, capabilities.max_blocks, capabilities.alignment), (2, 8, 16));
    assert_eq!(capabilities.max_binding_bytes, 128);
    assert!(
        !capabilities.sub_allocation && capabilities.reusable_recordings && capabilities.abandons_on_loss
    );
}

#[test]
fn a_full_device_is_no_violation() {
    let bench = Bench::with(Limits { capacity_bytes: Some(96), ..Limits::default() });
    let block = bench.block();
    let error = bench.allocate(64).unwrap_err();
    assert_eq!(error.kind, BackendErrorKind::OutOfMemory);
    ffi::free(&bench.backend, block).unwrap();
    let again = bench.allocate(64).unwrap();
    ffi::free(&bench.backend, again).unwrap();
    bench.probe.set_capacity(Some(16));
    bench.allocate(64).unwrap_err();
    bench.expect_clean();
}

#[test]
fn operations_are_in_range_and_apart() {
    type Wrong<'a> = &'a dyn Fn(&Bench) -> Vec<&'static str>;
    let outside: Wrong<'_> = &|bench| {
        let (block, mut sequence) = (bench.block(), bench.arena(0).open_sequence("s").unwrap());
        let operation = Operation::Fill { target: range(&block, 32, 64), pattern: &[0; 4] };
        ffi::record(&mut sequence, &operation).unwrap_err();
        vec!["bytes 32..96 is outside block 1 of 64 bytes"]
    };
    let overlapping: Wrong<'_> = &|bench| {
        let (block, mut sequence) = (bench.block(), bench.arena(0).open_sequence("s").unwrap());
        let operation = Operation::Copy { source: range(&block, 0, 32), target: range(&block, 16, 32) };
        ffi::record(&mut sequence, &operation).unwrap_err();
        vec!["bytes 0..32 and bytes 16..48 of block 1 overlap"]
    };
    let uneven: Wrong<'_> = &|bench| {
        let (block, mut sequence) = (bench.block(), bench.arena(0).open_sequence("s").unwrap());
        let operation = Operation::Copy { source: range(&block, 0, 32), target: range(&block, 32, 16) };
        ffi::record(&mut sequence, &operation).unwrap_err();
        vec!["32 bytes are copied to 16"]
    };
    let large: Wrong<'_> = &|bench| {
        let (block, kernel) = (bench.allocate(2048).unwrap(), bench.kernel());
        let mut sequence = bench.arena(0).open_sequence("s").unwrap();
        dispatch(&mut sequence, &kernel, &[(range(&block, 0, 2048), Access::Read)]).unwrap_err();
        vec!["L22: a binding of 2048 bytes, the largest has 1024"]
    };
    let nowhere: Wrong<'_> = &|bench| {
        let mut sequence = bench.arena(0).open_sequence("s").unwrap();
        let target = BlockRange { block: None, offset: 0, bytes: 4 };
        ffi::record(&mut sequence, &Operation::Fill { target, pattern: &[0; 4] }).unwrap_err();
        vec!["a range of some bytes in no block"]
    };
    for wrong in [outside, overlapping, uneven, large, nowhere] {
        let bench = Bench::new();
        for text in wrong(&bench) {
            bench.expect_violation(text);
        }
        assert_eq!(bench.device.calls("record"), 0);
    }
}

#[test]
fn collecting_is_once_a_submission() {
    let bench = Bench::new();
    let block = bench.block();
    let mut sequence = writer(&mut bench.arena(0), &block);
    sequence.collect().unwrap();
    bench.expect_violation("is collected, and nothing was submitted since the last time");
    assert_eq!(bench.device.calls("collect"), 0);

    let bench = Bench::new();
    let block = bench.block();
    let mut sequence = writer(&mut bench.arena(0), &block);
    bench.probe.hold();
    submit(&mut sequence, point(0, 1), &[]).unwrap();
    bench.completed(0);
    sequence.collect().unwrap();
    bench.expect_violation("is collected, and point 1 of queue 0 is not reported complete");
}

#[test]
fn calls_can_be_forbidden_on_a_thread() {
    let bench = Bench::new();
    {
        let _guard = bench.probe.forbid_here(CallKind::Trim);
        bench.backend.memory().unwrap();
        // Elsewhere it is allowed.
        std::thread::scope(|scope| scope.spawn(|| bench.backend.trim().unwrap()).join().unwrap());
        bench.expect_clean();
        bench.backend.trim().unwrap();
    }
    bench.expect_violation("trim on thread");
    bench.backend.trim().unwrap();
    bench.expect_violation("where it is forbidden");
    let _all = bench.probe.forbid_calls_here();
    bench.backend.interrupt();
    assert_eq!(bench.probe.violations().len(), 2);
    assert!(CallSet::ALL.contains(CallKind::Interrupt));
}
