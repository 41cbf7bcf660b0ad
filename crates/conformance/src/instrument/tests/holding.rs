//! Completions held by hand: what is reported, and what waiting does.
//!
//! A thread is known to wait once the call was counted; where a test must not depend on whether it already sleeps, both
//! orders give the same result. Not here: gates alone (`gate.rs`).

use std::sync::atomic::Ordering;
use std::time::Duration;

use tenure_core::backend::{Backend, Scope, WaitStatus};

use super::bench::{Bench, Recording, point, submit};
use crate::case::{FIRST, SECOND};
use crate::instrument::CallKind;

const SOON: Duration = Duration::from_millis(1);
const LONG: Duration = Duration::from_secs(3600);

/// `count` empty sequences, submitted to a queue.
fn submitted(bench: &Bench, queue: u32, count: u64) -> Vec<Recording> {
    let mut arena = bench.arena(queue);
    let last = bench.probe.submitted(tenure_core::QueueId(queue));
    (last + 1..=last + count)
        .map(|value| {
            let mut sequence = arena.open_sequence("s").unwrap();
            submit(&mut sequence, point(queue, value), &[]).unwrap();
            sequence
        })
        .collect()
}

#[test]
fn held_points_are_reported_as_they_are_released() {
    let bench = Bench::new();
    submitted(&bench, 0, 1);
    bench.probe.hold();
    submitted(&bench, 0, 4);
    submitted(&bench, 1, 1);
    // What was submitted before holding is not held.
    assert_eq!((bench.completed(0), bench.completed(1)), (1, 0));
    assert_eq!(bench.probe.held(FIRST), [2, 3, 4, 5]);
    assert_eq!(bench.probe.release_one(FIRST), Some(2));
    assert_eq!(bench.completed(0), 2);
    bench.probe.release(FIRST, 4);
    assert_eq!((bench.completed(0), bench.completed(1)), (4, 0));
    bench.probe.release_all();
    assert_eq!((bench.completed(0), bench.completed(1)), (5, 1));
    assert_eq!(bench.probe.release_one(FIRST), None);
    assert_eq!((bench.probe.reported(FIRST), bench.probe.reported(SECOND)), (5, 1));
    bench.expect_clean();
}

#[test]
fn one_queue_is_held_alone() {
    let bench = Bench::new();
    bench.probe.hold_queue(SECOND);
    submitted(&bench, 0, 1);
    submitted(&bench, 1, 1);
    assert_eq!((bench.completed(0), bench.completed(1)), (1, 0));
    // A target of the open queue is enough.
    let status = bench.backend.wait_any(&[point(1, 1), point(0, 1)], None).unwrap();
    assert_eq!(status, WaitStatus::Woken);
}

#[test]
fn a_held_point_may_be_released_before_it_is_submitted() {
    let bench = Bench::new();
    bench.probe.hold();
    bench.probe.release(FIRST, 2);
    submitted(&bench, 0, 3);
    assert_eq!((bench.completed(0), bench.probe.held(FIRST)), (2, vec![3]));
}

#[test]
fn a_wait_for_a_held_point_times_out() {
    let bench = Bench::new();
    bench.probe.hold();
    submitted(&bench, 0, 1);
    assert_eq!(bench.backend.wait_any(&[point(0, 1)], Some(SOON)).unwrap(), WaitStatus::TimedOut);
    // The inner backend was not asked: it has completed the point and would answer at once, for ever.
    assert_eq!(bench.device.calls("wait_any"), 0);
}

#[test]
fn a_release_wakes() {
    let bench = Bench::new();
    bench.probe.hold();
    submitted(&bench, 0, 1);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| bench.backend.wait_any(&[point(0, 1)], None));
        assert!(bench.probe.wait_calls(CallKind::WaitAny, 1, LONG));
        bench.probe.release_one(FIRST);
        assert_eq!(waiting.join().unwrap().unwrap(), WaitStatus::Woken);
    });
    assert_eq!(bench.completed(0), 1);
}

#[test]
fn an_interrupt_wakes_at_the_gate() {
    let bench = Bench::new();
    bench.probe.hold();
    submitted(&bench, 0, 1);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| bench.backend.wait_any(&[point(0, 1)], None));
        assert!(bench.probe.wait_calls(CallKind::WaitAny, 1, LONG));
        bench.backend.interrupt();
        assert_eq!(waiting.join().unwrap().unwrap(), WaitStatus::Woken);
    });
    assert_eq!(bench.completed(0), 0);
}

#[test]
fn an_interrupt_is_kept_for_the_next_wait() {
    let bench = Bench::new();
    bench.probe.hold();
    submitted(&bench, 0, 1);
    bench.backend.interrupt();
    assert_eq!(bench.backend.wait_any(&[point(0, 1)], Some(LONG)).unwrap(), WaitStatus::Woken);
    assert_eq!(bench.backend.wait_any(&[point(0, 1)], Some(SOON)).unwrap(), WaitStatus::TimedOut);
}

#[test]
fn an_interrupt_reaches_the_inner_backend() {
    let bench = Bench::new();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| bench.backend.wait_any(&[], None));
        bench.device.wait_for_call("wait_any");
        bench.backend.interrupt();
        assert_eq!(waiting.join().unwrap().unwrap(), WaitStatus::Woken);
    });
}

#[test]
fn a_release_wakes_who_waits_in_the_inner_backend() {
    let bench = Bench::new();
    bench.device.manual.store(true, Ordering::SeqCst);
    bench.probe.hold_queue(SECOND);
    submitted(&bench, 0, 1);
    submitted(&bench, 1, 1);
    std::thread::scope(|scope| {
        // Queue 0 is busy, queue 1 is held: the thread waits in the inner backend, for queue 0 only.
        let waiting = scope.spawn(|| bench.backend.wait_any(&[point(0, 1), point(1, 1)], None));
        bench.device.wait_for_call("wait_any");
        bench.probe.release_all();
        assert_eq!(waiting.join().unwrap().unwrap(), WaitStatus::Woken);
    });
}

#[test]
fn settling_waits_for_the_device_and_releases_nothing() {
    let bench = Bench::new();
    bench.device.manual.store(true, Ordering::SeqCst);
    bench.probe.hold();
    submitted(&bench, 0, 1);
    std::thread::scope(|scope| {
        let settling = scope.spawn(|| bench.probe.settle());
        bench.device.wait_for_call("wait_any");
        bench.device.finish();
        settling.join().unwrap();
    });
    assert_eq!((bench.completed(0), bench.probe.held(FIRST)), (0, vec![1]));
}

#[test]
fn submissions_can_be_waited_for() {
    let bench = Bench::new();
    assert!(!bench.probe.wait_submitted(FIRST, 1, SOON));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| bench.probe.wait_submitted(FIRST, 1, LONG));
        submitted(&bench, 0, 1);
        assert!(waiting.join().unwrap());
    });
}
