//! Submissions that may not be made: points, waits, what they name, and how often.
//!
//! Not here: order between submissions that use the same memory (`hazards.rs`).

use std::sync::atomic::Ordering;

use tenure_core::BackendErrorKind;
use tenure_core::backend::{Scope, Sequence};

use super::bench::{Bench, point, record_fill, runner, submit, writer};
use super::ffi;
use crate::instrument::{CallKind, Limits};

#[test]
fn a_running_sequence_is_not_submitted() {
    let bench = Bench::new();
    let block = bench.block();
    let mut sequence = writer(&mut bench.arena(0), &block);
    submit(&mut sequence, point(0, 1), &[]).unwrap();
    submit(&mut sequence, point(0, 2), &[point(0, 1)]).unwrap_err();
    bench.expect_violation("L4, L7: is submitted while point 1 of queue 0 runs it");
    assert_eq!((bench.device.calls("submit"), bench.probe.submitted(crate::case::FIRST)), (1, 1));
}

#[test]
fn a_sequence_is_collected_before_it_is_submitted() {
    let bench = Bench::new();
    let block = bench.block();
    let mut sequence = writer(&mut bench.arena(0), &block);
    submit(&mut sequence, point(0, 1), &[]).unwrap();
    bench.completed(0);
    submit(&mut sequence, point(0, 2), &[]).unwrap_err();
    bench.expect_violation("is submitted before its last execution was collected");
}

#[test]
fn a_recording_names_nothing_that_is_gone() {
    let bench = Bench::new();
    let block = bench.block();
    let mut sequence = writer(&mut bench.arena(0), &block);
    ffi::free(&bench.backend, block).unwrap();
    // Only submitting it is wrong.
    bench.expect_clean();
    submit(&mut sequence, point(0, 1), &[]).unwrap_err();
    bench.expect_violation("L4: is submitted and names block 1, which was freed");

    let bench = Bench::new();
    let kernel = bench.kernel();
    let mut sequence = runner(&mut bench.arena(0), &kernel);
    ffi::destroy_kernel(&bench.backend, kernel).unwrap();
    submit(&mut sequence, point(0, 1), &[]).unwrap_err();
    bench.expect_violation("L4: is submitted and names kernel 1, which was destroyed");
}

#[test]
fn a_reset_recording_names_nothing() {
    let bench = Bench::new();
    let block = bench.block();
    let mut sequence = writer(&mut bench.arena(0), &block);
    ffi::free(&bench.backend, block).unwrap();
    ffi::reset_sequence(&mut sequence).unwrap();
    submit(&mut sequence, point(0, 1), &[]).unwrap();
    bench.expect_clean();
}

#[test]
fn points_rise() {
    for value in [1, 2] {
        let bench = Bench::new();
        let mut arena = bench.arena(0);
        let mut first = arena.open_sequence("first").unwrap();
        let mut second = arena.open_sequence("second").unwrap();
        submit(&mut first, point(0, 2), &[]).unwrap();
        submit(&mut second, point(0, value), &[]).unwrap_err();
        bench.expect_violation("does not rise, 2 was submitted last");
        submit(&mut second, point(0, 3), &[]).unwrap();
    }
}

#[test]
fn waits_are_for_what_was_submitted() {
    let bench = Bench::new();
    let mut sequence = bench.arena(0).open_sequence("s").unwrap();
    submit(&mut sequence, point(0, 1), &[point(1, 1)]).unwrap_err();
    bench.expect_violation("waits for point 1 of queue 1, which was never submitted");
}

#[test]
fn a_sequence_is_submitted_to_its_arenas_queue() {
    let bench = Bench::new();
    let mut sequence = bench.arena(0).open_sequence("s").unwrap();
    submit(&mut sequence, point(1, 1), &[]).unwrap_err();
    bench.expect_violation("is submitted to queue 1, its arena is of queue 0");
}

#[test]
fn one_submission_to_a_queue_at_a_time() {
    let bench = Bench::new();
    let mut arena = bench.arena(0);
    let mut first = arena.open_sequence("first").unwrap();
    let mut second = arena.open_sequence("second").unwrap();
    bench.device.block_submissions(true);
    std::thread::scope(|scope| {
        let submitting = scope.spawn(|| submit(&mut first, point(0, 1), &[]));
        bench.device.wait_for_call("submit");
        submit(&mut second, point(0, 2), &[]).unwrap_err();
        bench.device.block_submissions(false);
        submitting.join().unwrap().unwrap();
    });
    bench.expect_violation("two submissions to queue 0 at a time");
}

#[test]
fn an_incomplete_recording_is_not_submitted() {
    let bench = Bench::new();
    let block = bench.block();
    let mut sequence = writer(&mut bench.arena(0), &block);
    bench.probe.fail_nth(CallKind::Record, 1, BackendErrorKind::OutOfMemory);
    record_fill(&mut sequence, &block).unwrap_err();
    submit(&mut sequence, point(0, 1), &[]).unwrap_err();
    bench.expect_violation("is submitted with an incomplete recording");
    ffi::reset_sequence(&mut sequence).unwrap();
    submit(&mut sequence, point(0, 1), &[]).unwrap();
}

#[test]
fn a_recording_is_reused_only_where_that_is_possible() {
    let bench = Bench::with(Limits { reusable_recordings: Some(false), ..Limits::default() });
    let block = bench.block();
    let mut sequence = writer(&mut bench.arena(0), &block);
    submit(&mut sequence, point(0, 1), &[]).unwrap();
    bench.completed(0);
    sequence.collect().unwrap();
    submit(&mut sequence, point(0, 2), &[]).unwrap_err();
    bench.expect_violation("L9: is submitted again, and recordings cannot be reused");
}

#[test]
fn a_refused_submission_leaves_no_trace() {
    let bench = Bench::new();
    let (block, kernel) = (bench.block(), bench.kernel());
    let mut arena = bench.arena(0);
    let mut writing = writer(&mut arena, &block);
    let mut running = runner(&mut arena, &kernel);
    for sequence in [&mut writing, &mut running] {
        bench.device.refuses.store(true, Ordering::SeqCst);
        submit(sequence, point(0, 1), &[]).unwrap_err();
    }
    assert_eq!(bench.probe.submitted(crate::case::FIRST), 0);
    ffi::recycle(&mut arena, writing);
    ffi::free(&bench.backend, block).unwrap();
    ffi::destroy_kernel(&bench.backend, kernel).unwrap();
    ffi::reset_sequence(&mut running).unwrap();
    // The point was not used up.
    submit(&mut running, point(0, 1), &[]).unwrap();
    bench.expect_clean();
}

#[test]
fn a_backend_that_lies_is_found_out() {
    let bench = Bench::new();
    bench.device.claim(0, 3);
    bench.completed(0);
    bench.expect_violation("the backend says that queue 0 has completed 3, and 0 was submitted last");

    let bench = Bench::new();
    let mut sequence = bench.arena(0).open_sequence("s").unwrap();
    submit(&mut sequence, point(0, 5), &[]).unwrap();
    assert_eq!(bench.completed(0), 5);
    bench.device.claim(0, 4);
    assert_eq!(bench.completed(0), 5);
    bench.expect_violation("the backend says that queue 0 went back from 5 to 4");
}
