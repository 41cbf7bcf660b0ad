//! Sequences, part 4: when a recording is encoded for the driver, and what a reset discards (L9, L5).
//!
//! Not here: what a failed driver call leaves behind (`faults.rs`).

use tenure_core::{Error, ManagerOptions, SequenceState, op};

use super::{open, settled};
use crate::bed::{Bed, Rig};
use crate::case::{Case, Requirement};
use crate::cases::hooks::support::{MIB, case, case_with};
use crate::instrument::{CallKind, Limits, ObjectKind};

pub(super) const CASES: &[Case] = &[
    case("sequences/recording_touches_no_driver", &["L9"], recording_touches_no_driver),
    case("sequences/reset_lets_go", &["L5"], reset_lets_go),
    case("sequences/a_reset_recording_is_encoded_anew", &["L5", "L9"], a_reset_recording_is_encoded_anew),
    case("sequences/a_discarded_download_gets_nothing_new", &["L5"], a_discarded_download),
    case("sequences/a_recording_changed_is_encoded_again", &["L9"], changed_is_encoded_again),
    case("sequences/a_long_recording_of_many_tensors", &["L5", "L9"], a_long_recording),
    case("sequences/without_reuse_each_evaluation_encodes", &["L9"], without_reuse),
    case_with(
        "sequences/an_unchanged_recording_is_encoded_once",
        &["L9"],
        &[Requirement::ReusableRecordings],
        unchanged_is_encoded_once,
    ),
    case_with(
        "sequences/one_that_changes_leaves_others_encoded",
        &["L9"],
        &[Requirement::ReusableRecordings],
        others_stay_encoded,
    ),
];

/// A recording is core's own data: making, filling, resetting and destroying sequences makes no driver call.
fn recording_touches_no_driver(bed: &Bed) {
    let (rig, scope, tensor) = open(bed);
    {
        let _no_driver_call = rig.probe.forbid_calls_here();
        let sequence = scope.named("s").unwrap();
        for value in 0..10 {
            sequence.record(op::fill(&tensor, value)).unwrap();
        }
        sequence.reset().unwrap();
        sequence.record(op::fill(&tensor, 2)).unwrap();
        scope.replace("s").unwrap().destroy().unwrap();
        scope.sequence().unwrap().record(op::fill(&tensor, 3)).unwrap();
    }
    assert_eq!(rig.probe.lifetimes(ObjectKind::Scope).made, 0);
    assert_eq!(tensor.read().unwrap(), [1; 64]);
}

/// A reset truly discards: what only the recording kept alive goes at once.
fn reset_lets_go(bed: &Bed) {
    let (rig, scope, _tensor) = open(bed);
    let sequence = scope.named("s").unwrap();
    let held = rig.manager.tensor::<u8>(MIB).unwrap();
    sequence.record(op::fill(&held, 1)).unwrap().run().unwrap();
    drop(held);
    assert_eq!(settled(&rig.manager).tensors, 2);
    sequence.reset().unwrap();
    assert_eq!(rig.manager.memory().tensors, 1);
    sequence.run().unwrap();
}

/// After a reset only what was recorded since is encoded and evaluated.
fn a_reset_recording_is_encoded_anew(bed: &Bed) {
    let (rig, scope, tensor) = open(bed);
    let sequence = scope.named("s").unwrap();
    for value in 2..5 {
        sequence.record(op::fill(&tensor, value)).unwrap();
    }
    sequence.run().unwrap();
    assert_eq!(rig.probe.calls(CallKind::Record), 3);
    sequence.reset().unwrap();
    tensor.write(&[9; 64]).unwrap();
    sequence.record(op::fill(tensor.view(0..1).unwrap(), 7)).unwrap().run().unwrap();
    assert_eq!(rig.probe.calls(CallKind::Record), 4);
    let mut expected = [9; 64];
    expected[0] = 7;
    assert_eq!(tensor.read().unwrap(), expected);
    assert_eq!(rig.probe.lifetimes(ObjectKind::Sequence).live(), 1);
}

/// A download that was discarded keeps what it had and gets nothing more, whatever the sequence does next.
fn a_discarded_download(bed: &Bed) {
    let (_rig, scope, tensor) = open(bed);
    let sequence = scope.named("s").unwrap();
    let (first, discarded) = op::download(&tensor);
    sequence.record(first).unwrap().run().unwrap();
    sequence.reset().unwrap();
    let (never, unused) = op::download(&tensor);
    sequence.record(never).unwrap();
    sequence.reset().unwrap();
    tensor.write(&[2; 64]).unwrap();
    let (second, kept) = op::download(&tensor);
    sequence.record(second).unwrap().run().unwrap();
    assert_eq!(discarded.get().unwrap(), [1; 64]);
    assert_eq!(kept.get().unwrap(), [2; 64]);
    assert!(matches!(unused.get(), Err(Error::NotReady { .. })));
    // Destroyed is discarded too; what was delivered outlives the sequence.
    sequence.destroy().unwrap();
    drop(sequence);
    assert_eq!(kept.get().unwrap(), [2; 64]);
}

/// What was added is encoded with the rest at the next evaluation, once.
fn changed_is_encoded_again(bed: &Bed) {
    let (rig, scope, tensor) = open(bed);
    let sequence = scope.named("s").unwrap();
    sequence.record(op::fill(&tensor, 1)).unwrap().run().unwrap();
    assert_eq!(rig.probe.calls(CallKind::Record), 1);
    sequence.record(op::fill(tensor.view(0..4).unwrap(), 2)).unwrap().run().unwrap();
    assert_eq!(rig.probe.calls(CallKind::Record), 3);
    assert_eq!(rig.probe.lifetimes(ObjectKind::Sequence).made, 1);
}

/// Two thousand operations over forty tensors in one recording: all of them run, in order, and all tensors are kept and
/// let go.
fn a_long_recording(bed: &Bed) {
    let (rig, scope, _tensor) = open(bed);
    let tensors: Vec<_> = (0..40).map(|_| rig.manager.tensor::<u32>(64).unwrap()).collect();
    let sequence = scope.named("long").unwrap();
    for step in 0..1000_u32 {
        let at = step as usize % 40;
        sequence.record(op::fill(&tensors[at], step)).unwrap();
        sequence.record(op::copy(&tensors[at], &tensors[(at + 1) % 40])).unwrap();
    }
    assert_eq!((sequence.len(), sequence.state()), (2000, SequenceState::Ready));
    sequence.run().unwrap();
    assert_eq!(rig.probe.calls(CallKind::Record), 2000);
    let values: Vec<u32> = tensors.iter().map(|tensor| tensor.read().unwrap()[63]).collect();
    // Step 999 filled tensor 39 and copied it to tensor 0; the last fills of the others stand.
    let expected: Vec<u32> = std::iter::once(999).chain(961..1000).collect();
    assert_eq!(values, expected);
    drop(tensors);
    assert_eq!(settled(&rig.manager).tensors, 41);
    sequence.destroy().unwrap();
    assert_eq!(settled(&rig.manager).tensors, 1);
}

/// Where the API cannot repeat a recording, core rebuilds it from its own data: the user sees no difference.
fn without_reuse(bed: &Bed) {
    let limits = Limits { reusable_recordings: Some(false), ..Default::default() };
    let Rig { manager, probe } = bed.open_limited(limits, ManagerOptions::default());
    let scope = manager.scope("s").unwrap();
    let tensor = scope.tensor_from("data", &[1_u32; 64]).unwrap();
    let (download, values) = op::download(&tensor);
    let sequence = scope.named("s").unwrap();
    sequence.record(download).unwrap().record(op::fill(&tensor, 7)).unwrap();
    for round in 0..5 {
        sequence.run().unwrap();
        assert_eq!(values.get().unwrap(), [if round == 0 { 1 } else { 7 }; 64]);
    }
    assert_eq!((probe.calls(CallKind::Record), sequence.len()), (10, 2));
    assert_eq!(tensor.read().unwrap(), [7; 64]);
}

/// Ten thousand evaluations of one unchanged recording encode it once.
fn unchanged_is_encoded_once(bed: &Bed) {
    let (rig, scope, tensor) = open(bed);
    let sequence = scope.named("s").unwrap();
    sequence.record(op::fill(&tensor, 1)).unwrap().record(op::fill(&tensor, 2)).unwrap();
    for _ in 0..10_000 {
        sequence.run().unwrap();
    }
    assert_eq!(rig.probe.calls(CallKind::Record), 2);
    assert_eq!(rig.probe.calls(CallKind::Submit), 10_000);
    assert_eq!(rig.probe.lifetimes(ObjectKind::Sequence).made, 1);
}

/// Of two recordings in turn one changes each time: only that one is encoded each time.
fn others_stay_encoded(bed: &Bed) {
    let (rig, scope, tensor) = open(bed);
    let other = scope.tensor::<u32>(64).unwrap();
    let steady = scope.named("steady").unwrap();
    let changing = scope.named("changing").unwrap();
    let (download, values) = op::download(&tensor);
    steady.record(op::copy(&tensor, &other)).unwrap().record(download).unwrap();
    for value in 0..10 {
        changing.reset().unwrap();
        changing.record(op::fill(&tensor, value)).unwrap().run().unwrap();
        steady.run().unwrap();
        assert_eq!((values.get().unwrap(), other.read().unwrap()), (vec![value; 64], vec![value; 64]));
    }
    assert_eq!(rig.probe.calls(CallKind::Record), 2 + 10);
    assert_eq!(rig.probe.calls(CallKind::Submit), 20);
}
