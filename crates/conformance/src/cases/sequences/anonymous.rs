//! Sequences, part 3: anonymous ones, which go by themselves (L8, L5).
//!
//! Not here: clearing them by hand (`names.rs`).

use tenure_core::{ExecutionStatus, SequenceState, op};

use super::{open, settled};
use crate::bed::Bed;
use crate::case::Case;
use crate::cases::hooks::support::{MIB, case, threadless};
use crate::instrument::{CallKind, ObjectKind};

pub(super) const CASES: &[Case] = &[
    case("sequences/anonymous_ones_go_by_themselves", &["L8", "L5"], anonymous_ones_go),
    case("sequences/a_window_of_anonymous_ones_stays_bounded", &["L8", "L4"], a_window_stays_bounded),
    case("sequences/an_unused_one_goes_with_its_handle", &["L8", "L5"], an_unused_one_goes),
    case("sequences/a_held_one_stays", &["L8"], a_held_one_stays),
    case("sequences/dropped_while_running_it_goes_when_it_retires", &["L8", "L4"], dropped_while_running),
    case("sequences/executions_keep_no_sequence", &["L8", "L5"], executions_keep_no_sequence),
    case("sequences/a_refused_evaluation_leaves_none_behind", &["L8", "L3"], a_refused_evaluation),
    case("sequences/without_threads_they_go_too", &["L8"], without_threads_they_go_too),
];

/// Without a handle and retired, an anonymous sequence is gone, and so is what it kept alive.
fn anonymous_ones_go(bed: &Bed) {
    let (rig, scope, _tensor) = open(bed);
    for _ in 0..1000 {
        let tensor = rig.manager.tensor::<u8>(4096).unwrap();
        scope.evaluate([op::fill(&tensor, 1)]).unwrap().wait().unwrap();
    }
    assert!(scope.anonymous_sequences().is_empty());
    assert_eq!(settled(&rig.manager).tensors, 1);
    assert_eq!(rig.probe.lifetimes(ObjectKind::Sequence).peak, 1);
    assert_eq!(rig.probe.lifetimes(ObjectKind::Scope).made, 1);
}

/// Twenty thousand of them, in windows of a hundred in flight: lists and native objects stay bounded.
fn a_window_stays_bounded(bed: &Bed) {
    let (rig, scope, tensor) = open(bed);
    for window in 0..200 {
        rig.probe.hold();
        let executions: Vec<_> =
            (0..100).map(|_| scope.evaluate([op::fill(&tensor, window)]).unwrap()).collect();
        assert_eq!(scope.anonymous_sequences().len(), 100);
        rig.probe.release_all();
        for execution in executions {
            execution.wait().unwrap();
        }
        assert!(scope.anonymous_sequences().is_empty());
    }
    let native = rig.probe.lifetimes(ObjectKind::Sequence);
    assert_eq!((native.made, native.live(), native.peak), (20_000, 0, 100));
    assert_eq!(scope.finish_blocking().unwrap().executions, 20_000);
}

/// Recorded and never evaluated: it goes with its last handle, what it kept alive too, and the driver hears nothing.
fn an_unused_one_goes(bed: &Bed) {
    let (rig, scope, _tensor) = open(bed);
    let held = rig.manager.tensor::<u8>(MIB).unwrap();
    let sequence = scope.sequence().unwrap();
    sequence.record(op::fill(&held, 1)).unwrap();
    drop(held);
    let clone = sequence.clone();
    drop(sequence);
    assert_eq!((scope.anonymous_sequences().len(), rig.manager.memory().tensors), (1, 2));
    drop(clone);
    assert_eq!((scope.anonymous_sequences().len(), rig.manager.memory().tensors), (0, 1));
    assert_eq!(rig.probe.calls(CallKind::OpenSequence | CallKind::Record | CallKind::Submit), 0);
}

/// As long as there is a handle it can be evaluated again; its native recording goes with the handle.
fn a_held_one_stays(bed: &Bed) {
    let (rig, scope, tensor) = open(bed);
    let sequence = scope.sequence().unwrap();
    sequence.record(op::fill(&tensor, 2)).unwrap();
    for _ in 0..3 {
        sequence.run().unwrap();
    }
    assert_eq!(scope.anonymous_sequences().len(), 1);
    assert_eq!(rig.probe.lifetimes(ObjectKind::Sequence).live(), 1);
    assert_eq!((sequence.name(), sequence.is_named()), ("anonymous", false));
    drop(sequence);
    assert!(scope.anonymous_sequences().is_empty());
    assert_eq!(rig.probe.lifetimes(ObjectKind::Sequence).live(), 0);
}

/// The last handle goes while it runs: it is listed as running until its execution retires, with nobody waiting for it.
fn dropped_while_running(bed: &Bed) {
    let (rig, scope, _tensor) = open(bed);
    let held = rig.manager.tensor::<u8>(MIB).unwrap();
    rig.probe.hold();
    drop(scope.evaluate([op::fill(&held, 1)]).unwrap());
    drop(held);
    let states: Vec<_> = scope.anonymous_sequences().iter().map(|info| info.state).collect();
    assert_eq!(states, [SequenceState::Running]);
    assert_eq!(rig.manager.memory().tensors, 2);
    rig.probe.release_all();
    let memory = settled(&rig.manager);
    assert_eq!((memory.tensors, memory.retired.bytes), (1, 0));
    assert!(scope.anonymous_sequences().is_empty());
    assert_eq!(rig.probe.lifetimes(ObjectKind::Sequence).live(), 0);
}

/// The handle of an execution keeps its result, not its sequence nor what that kept alive.
fn executions_keep_no_sequence(bed: &Bed) {
    let (rig, scope, _tensor) = open(bed);
    let executions: Vec<_> = (0..10)
        .map(|_| {
            let tensor = rig.manager.tensor::<u8>(4096).unwrap();
            scope.evaluate([op::fill(&tensor, 1)]).unwrap()
        })
        .collect();
    let memory = settled(&rig.manager);
    assert_eq!(memory.tensors, 1);
    assert!(scope.anonymous_sequences().is_empty());
    assert_eq!(rig.probe.lifetimes(ObjectKind::Sequence).live(), 0);
    assert!(executions.iter().all(|execution| execution.status() == ExecutionStatus::Completed));
}

/// `evaluate` of operations that are refused makes a sequence and takes it back.
fn a_refused_evaluation(bed: &Bed) {
    let (rig, scope, tensor) = open(bed);
    let gone = scope.tensor::<u32>(64).unwrap();
    gone.destroy().unwrap();
    for _ in 0..100 {
        scope.evaluate([op::fill(&tensor, 1), op::copy(&gone, &tensor)]).unwrap_err();
    }
    assert!(scope.anonymous_sequences().is_empty());
    assert_eq!(rig.probe.calls(CallKind::OpenSequence | CallKind::Submit), 0);
    assert_eq!(scope.finish_blocking().unwrap().executions, 0);
}

/// Without tenure's threads a poll, or anybody's wait, is what lets them go.
fn without_threads_they_go_too(bed: &Bed) {
    let rig = bed.open_with(threadless());
    let scope = rig.manager.scope("s").unwrap();
    let tensor = scope.tensor::<u32>(64).unwrap();
    rig.probe.hold();
    let executions: Vec<_> =
        (0..10).map(|value| scope.evaluate([op::fill(&tensor, value)]).unwrap()).collect();
    rig.probe.settle();
    rig.manager.poll().unwrap();
    assert_eq!(scope.anonymous_sequences().len(), 10, "held back, they are running");
    rig.probe.release_all();
    rig.manager.poll().unwrap();
    assert!(executions.iter().all(|execution| execution.status() == ExecutionStatus::Completed));
    assert!(scope.anonymous_sequences().is_empty());
    assert_eq!(rig.probe.lifetimes(ObjectKind::Sequence).live(), 0);
    scope.evaluate([op::fill(&tensor, 11)]).unwrap().wait().unwrap();
    assert!(scope.anonymous_sequences().is_empty());
}
