//! Injected faults and injected loss, on the wire.
//!
//! Not here: the plan alone (`faults.rs`).

use std::sync::atomic::Ordering;

use tenure_core::BackendErrorKind::{self, DeviceLost, Driver, OutOfMemory};
use tenure_core::backend::{Backend, Scope, Sequence, Submission};
use tenure_core::{BackendError, QueueId};

use super::bench::{Bench, point, submit, writer};
use super::ffi;
use crate::case::FIRST;
use crate::instrument::{CallKind, CallSet, Limits, ObjectKind};

fn kind<T>(result: Result<T, BackendError>) -> BackendErrorKind {
    result.map(|_| ()).unwrap_err().kind
}

#[test]
fn a_failing_call_does_not_reach_the_device() {
    let bench = Bench::new();
    bench.probe.fail_nth(CallKind::Allocate, 1, OutOfMemory);
    assert_eq!(kind(bench.allocate(64)), OutOfMemory);
    assert_eq!((bench.device.calls("allocate"), bench.probe.lifetimes(ObjectKind::Block).made), (0, 0));
    assert_eq!((bench.probe.faults_hit(), bench.probe.last_fault()), (1, Some(CallKind::Allocate)));
    bench.probe.fail_always(CallKind::Allocate | CallKind::Trim, Driver);
    assert_eq!(kind(bench.allocate(64)), Driver);
    assert_eq!(kind(bench.backend.trim()), Driver);
    bench.probe.clear_faults();
    ffi::free(&bench.backend, bench.block()).unwrap();
    bench.expect_clean();
}

#[test]
fn what_is_given_back_reaches_the_device_all_the_same() {
    let bench = Bench::new();
    let (block, kernel, arena) = (bench.block(), bench.kernel(), bench.arena(0));
    bench.probe.fail_always(CallSet::FALLIBLE, Driver);
    assert_eq!(kind(ffi::free(&bench.backend, block)), Driver);
    assert_eq!(kind(ffi::destroy_kernel(&bench.backend, kernel)), Driver);
    assert_eq!(kind(ffi::close_scope(&bench.backend, arena)), Driver);
    assert_eq!(kind(ffi::shutdown(&bench.backend)), Driver);
    for call in ["free", "destroy_kernel", "close_scope", "shutdown"] {
        assert_eq!(bench.device.calls(call), 1, "{call}");
    }
    assert!(bench.probe.is_shut_down());
    bench.expect_clean();
}

#[test]
fn a_submission_that_is_told_to_fail_was_none() {
    let bench = Bench::new();
    let block = bench.block();
    let mut sequence = writer(&mut bench.arena(0), &block);
    bench.probe.fail_nth(CallKind::Submit, 1, OutOfMemory);
    assert_eq!(kind(submit(&mut sequence, point(0, 1), &[])), OutOfMemory);
    assert_eq!((bench.device.calls("submit"), bench.probe.submitted(FIRST)), (0, 0));
    ffi::free(&bench.backend, block).unwrap();
    bench.expect_clean();
}

#[test]
fn an_execution_that_is_told_to_fail_is_collected() {
    let bench = Bench::new();
    let block = bench.block();
    let mut sequence = writer(&mut bench.arena(0), &block);
    submit(&mut sequence, point(0, 1), &[]).unwrap();
    bench.completed(0);
    bench.probe.fail_nth(CallKind::Collect, 1, BackendErrorKind::Execution);
    assert_eq!(kind(sequence.collect()), BackendErrorKind::Execution);
    assert_eq!(bench.device.calls("collect"), 1);
    submit(&mut sequence, point(0, 2), &[]).unwrap();
    bench.expect_clean();
}

#[test]
fn loss_is_told_only_when_the_device_has_finished() {
    let bench = Bench::new();
    bench.device.manual.store(true, Ordering::SeqCst);
    bench.probe.hold();
    let block = bench.block();
    let mut arena = bench.arena(0);
    let mut sequence = writer(&mut arena, &block);
    submit(&mut sequence, point(0, 1), &[]).unwrap();
    bench.probe.fail_nth(CallKind::Trim, 1, DeviceLost);
    std::thread::scope(|scope| {
        let losing = scope.spawn(|| bench.backend.trim());
        bench.device.wait_for_call("wait_any");
        // Others are not told before, whatever they ask.
        let asking = scope.spawn(|| bench.backend.completed(QueueId(0)));
        assert!(bench.probe.wait_calls(CallKind::Completed, 1, std::time::Duration::from_secs(3600)));
        assert!(!losing.is_finished() && !asking.is_finished() && !bench.probe.is_lost());
        bench.device.finish();
        let first = losing.join().unwrap().unwrap_err();
        assert_eq!((first.kind, first.operation, &*first.message), (DeviceLost, "trim", "injected loss"));
        assert_eq!(kind(asking.join().unwrap()), DeviceLost);
    });
    assert!(bench.probe.is_lost());
    // For ever, and with another message than the first cause.
    let later = bench.backend.wait_any(&[point(0, 1)], None).unwrap_err();
    assert_eq!((later.kind, &*later.message), (DeviceLost, "the device was lost before"));
    assert_eq!(kind(bench.allocate(64)), DeviceLost);
    assert_eq!(kind(bench.backend.open_scope(QueueId(0), "a")), DeviceLost);
    assert_eq!(kind(arena.open_sequence("s")), DeviceLost);
    let submission = Submission { point: point(0, 2), waits: &[], label: "s" };
    assert_eq!(kind(ffi::submit(&mut sequence, &submission)), DeviceLost);
    assert_eq!(kind(ffi::reset_sequence(&mut sequence)), DeviceLost);
    // All points have ended with it: what was in flight may go, and goes to the device.
    ffi::recycle(&mut arena, sequence);
    ffi::free(&bench.backend, block).unwrap();
    ffi::close_scope(&bench.backend, arena).unwrap();
    ffi::shutdown(&bench.backend).unwrap();
    assert_eq!((bench.device.calls("recycle"), bench.device.calls("free")), (1, 1));
    bench.expect_clean();
}

#[test]
fn loss_wakes_who_waits() {
    let bench = Bench::new();
    bench.probe.hold();
    let mut sequence = bench.arena(0).open_sequence("s").unwrap();
    submit(&mut sequence, point(0, 1), &[]).unwrap();
    std::thread::scope(|scope| {
        let at_the_gate = scope.spawn(|| bench.backend.wait_any(&[point(0, 1)], None));
        let inside = scope.spawn(|| bench.backend.wait_any(&[], None));
        bench.device.wait_for_call("wait_any");
        bench.probe.lose_device();
        assert_eq!(kind(at_the_gate.join().unwrap()), DeviceLost);
        assert_eq!(kind(inside.join().unwrap()), DeviceLost);
    });
    assert_eq!(bench.probe.calls(CallKind::WaitAny), 2);
}

#[test]
fn objects_of_a_lost_device_are_abandoned_where_they_must_be() {
    let bench = Bench::with(Limits { abandons_on_loss: Some(true), ..Limits::default() });
    let _kept = bench.block();
    ffi::free(&bench.backend, bench.block()).unwrap();
    bench.probe.lose_device();
    ffi::shutdown(&bench.backend).unwrap();
    let balance = bench.probe.lifetimes(ObjectKind::Block);
    assert_eq!((balance.made, balance.given_back, balance.abandoned), (2, 1, 1));
    assert_eq!((balance.abandoned_bytes, balance.is_balanced()), (64, true));
    bench.expect_clean();
}

#[test]
fn objects_of_a_lost_device_are_destroyed_where_they_can_be() {
    let bench = Bench::new();
    let _kept = bench.block();
    bench.probe.lose_device();
    ffi::shutdown(&bench.backend).unwrap();
    bench.expect_violation("L19: shutdown with 1 of kind block out: 1 `x`");
}

#[test]
fn a_silent_loss_ends_all_points_and_no_call() {
    let bench = Bench::new();
    let block = bench.block();
    let mut sequence = writer(&mut bench.arena(0), &block);
    submit(&mut sequence, point(0, 1), &[]).unwrap();
    bench.probe.lose_silently();
    assert!(!bench.probe.is_lost());
    assert_eq!(bench.backend.trim().unwrap(), 0);
    ffi::free(&bench.backend, block).unwrap();
    bench.expect_clean();
}
