//! Submissions that use the same memory: which order between them the checker asks for, and which it does not.
//!
//! Not here: host access (`objects.rs`).

use tenure_core::Access;
use tenure_core::backend::Scope;

use super::bench::{Bench, dispatch, point, range, reader, submit, writer};

#[test]
fn another_queue_waits_for_what_was_written() {
    let bench = Bench::new();
    let block = bench.block();
    let mut write = writer(&mut bench.arena(0), &block);
    let mut read = reader(&mut bench.arena(1), &block);
    submit(&mut write, point(0, 1), &[]).unwrap();
    submit(&mut read, point(1, 1), &[]).unwrap_err();
    bench.expect_violation(
        "is submitted without waiting for point 1 of queue 0, which writes bytes 0..64 of block 1 `x`; this reads",
    );
    submit(&mut read, point(1, 1), &[point(0, 1)]).unwrap();
    assert_eq!(bench.probe.violations().len(), 1);
}

#[test]
fn writing_waits_for_readers() {
    let bench = Bench::new();
    let block = bench.block();
    let mut read = reader(&mut bench.arena(0), &block);
    let mut write = writer(&mut bench.arena(1), &block);
    submit(&mut read, point(0, 1), &[]).unwrap();
    submit(&mut write, point(1, 1), &[]).unwrap_err();
    bench.expect_violation("this writes bytes 0..64");
}

#[test]
fn the_same_queue_needs_a_barrier() {
    let bench = Bench::new();
    let block = bench.block();
    let mut arena = bench.arena(0);
    let mut first = writer(&mut arena, &block);
    let mut second = reader(&mut arena, &block);
    submit(&mut first, point(0, 1), &[]).unwrap();
    submit(&mut second, point(0, 2), &[]).unwrap_err();
    bench.expect_violation("without waiting for point 1 of queue 0");
    submit(&mut second, point(0, 2), &[point(0, 1)]).unwrap();
}

#[test]
fn a_barrier_holds_for_all_that_follows() {
    let bench = Bench::new();
    let block = bench.block();
    let mut arena = bench.arena(0);
    let mut write = writer(&mut arena, &block);
    let mut between = arena.open_sequence("between").unwrap();
    let mut read = reader(&mut arena, &block);
    submit(&mut write, point(0, 1), &[]).unwrap();
    submit(&mut between, point(0, 2), &[point(0, 1)]).unwrap();
    submit(&mut read, point(0, 3), &[]).unwrap();
    bench.expect_clean();
}

#[test]
fn order_goes_through_other_queues() {
    let bench = Bench::new();
    let block = bench.block();
    let mut write = writer(&mut bench.arena(0), &block);
    let mut relay = bench.arena(1).open_sequence("relay").unwrap();
    let mut again = writer(&mut bench.arena(0), &block);
    submit(&mut write, point(0, 1), &[]).unwrap();
    submit(&mut relay, point(1, 1), &[point(0, 1)]).unwrap();
    submit(&mut again, point(0, 2), &[point(1, 1)]).unwrap();
    bench.expect_clean();
}

#[test]
fn what_is_reported_complete_needs_no_wait() {
    let bench = Bench::new();
    let block = bench.block();
    let mut write = writer(&mut bench.arena(0), &block);
    let mut relay = bench.arena(1).open_sequence("relay").unwrap();
    let mut read = reader(&mut bench.arena(1), &block);
    submit(&mut write, point(0, 1), &[]).unwrap();
    submit(&mut relay, point(1, 1), &[point(0, 1)]).unwrap();
    // Only queue 1 was asked; its point came after that of queue 0.
    assert_eq!(bench.completed(1), 1);
    submit(&mut read, point(1, 2), &[]).unwrap();
    bench.expect_clean();
}

#[test]
fn readers_and_other_ranges_need_no_order() {
    let bench = Bench::new();
    let (block, kernel) = (bench.block(), bench.kernel());
    let mut first = reader(&mut bench.arena(0), &block);
    let mut second = reader(&mut bench.arena(1), &block);
    submit(&mut first, point(0, 1), &[]).unwrap();
    submit(&mut second, point(1, 1), &[]).unwrap();

    let halves = bench.block();
    let (mut left, mut right) = (bench.arena(0), bench.arena(1));
    let mut left = left.open_sequence("left").unwrap();
    let mut right = right.open_sequence("right").unwrap();
    dispatch(&mut left, &kernel, &[(range(&halves, 0, 32), Access::Write)]).unwrap();
    dispatch(&mut right, &kernel, &[(range(&halves, 32, 32), Access::Write)]).unwrap();
    submit(&mut left, point(0, 2), &[]).unwrap();
    submit(&mut right, point(1, 2), &[]).unwrap();
    bench.expect_clean();
}
