//! Cases about sequences: states, names, recording, evaluating and evaluating again (L5, L7, L8, L9).
//!
//! Not here: what sequences of one scope have to do with its end (`scopes.rs`).

use std::time::Duration;

use tenure_core::{Error, ManagedScope, QueueId, ScopeOptions, SequenceState, Tensor, op};

use crate::bed::{Bed, Rig};
use crate::case::{Case, Requirement};
use crate::instrument::{CallKind, ObjectKind};

/// The cases of this topic.
pub const CASES: &[Case] = &[
    case("sequences/timeout_leaves_it_running", &["L7"], timeout_leaves_it_running),
    case("sequences/states_of_a_life", &["L7"], states_of_a_life),
    case("sequences/busy_while_running_and_nothing_changes", &["L7"], busy_while_running),
    case("sequences/an_empty_recording_evaluates", &["L7"], an_empty_recording_evaluates),
    case("sequences/a_name_is_taken_once", &["L8"], a_name_is_taken_once),
    case("sequences/replace_destroys_the_old_one", &["L8", "L3"], replace_destroys_the_old_one),
    case("sequences/replace_while_running", &["L8", "L4"], replace_while_running),
    case("sequences/unknown_names_are_named", &["L8"], unknown_names_are_named),
    case("sequences/both_kinds_are_listed_in_creation_order", &["L8"], listed_in_creation_order),
    case("sequences/clear_anonymous_leaves_named_ones", &["L8"], clear_anonymous_leaves_named_ones),
    case("sequences/clear_destroys_both_kinds", &["L8", "L3"], clear_destroys_both_kinds),
    case("sequences/anonymous_ones_go_by_themselves", &["L8", "L5"], anonymous_ones_go),
    case("sequences/a_window_of_anonymous_ones_stays_bounded", &["L8", "L4"], a_window_stays_bounded),
    case("sequences/a_named_one_outlives_its_handles", &["L8", "L1"], a_named_one_outlives_its_handles),
    case("sequences/destroyed_twice_is_ok", &["L8"], destroyed_twice_is_ok),
    case("sequences/reset_lets_go", &["L5"], reset_lets_go),
    case("sequences/a_recording_changed_is_encoded_again", &["L9"], changed_is_encoded_again),
    case("sequences/work_on_one_queue_needs_no_wait_for_reads", &["L9"], reads_need_no_wait),
    Case {
        id: "sequences/an_unchanged_recording_is_encoded_once",
        rules: &["L9"],
        requires: &[Requirement::ReusableRecordings],
        run: unchanged_is_encoded_once,
    },
    case("sequences/without_reuse_each_evaluation_encodes", &["L9"], without_reuse),
    Case {
        id: "sequences/a_failed_one_can_be_evaluated_again",
        rules: &["L7", "L13"],
        requires: &[Requirement::HostKernels],
        run: a_failed_one_can_be_evaluated_again,
    },
    Case {
        id: "sequences/another_queue_waits_for_the_write",
        rules: &["L4", "L9"],
        requires: &[Requirement::Queues(2)],
        run: another_queue_waits,
    },
];

const fn case(id: &'static str, rules: &'static [&'static str], run: fn(&Bed)) -> Case {
    Case { id, rules, requires: &[], run }
}

fn open(bed: &Bed) -> (Rig, ManagedScope, Tensor<u32>) {
    let rig = bed.open();
    let scope = rig.manager.scope("s").unwrap();
    let tensor = scope.tensor_from("data", &[1_u32; 64]).unwrap();
    (rig, scope, tensor)
}

/// A wait that times out changes nothing: the sequence runs on, and its result is right.
fn timeout_leaves_it_running(bed: &Bed) {
    let (rig, scope, tensor) = open(bed);
    let sequence = scope.named("fills").unwrap();
    sequence.record(op::fill(&tensor, 3)).unwrap();
    rig.probe.hold();
    let execution = sequence.evaluate().unwrap();
    let waited = execution.wait_timeout(Duration::from_millis(1));
    assert!(matches!(waited, Err(Error::TimedOut { .. })), "{waited:?}");
    assert_eq!(sequence.state(), SequenceState::Running);
    assert!(matches!(sequence.evaluate(), Err(Error::Busy { .. })));
    rig.probe.release_all();
    execution.wait().unwrap();
    assert_eq!(sequence.state(), SequenceState::Finished);
    assert_eq!(tensor.read().unwrap(), [3; 64]);
    scope.finish_blocking().unwrap();
}

/// Recording, Ready, Running, Finished, and back by recording or reset.
fn states_of_a_life(bed: &Bed) {
    let (rig, scope, tensor) = open(bed);
    let sequence = scope.named("s").unwrap();
    assert_eq!(sequence.state(), SequenceState::Recording);
    sequence.record(op::fill(&tensor, 1)).unwrap();
    assert_eq!(sequence.state(), SequenceState::Ready);
    rig.probe.hold();
    let execution = sequence.evaluate().unwrap();
    assert_eq!(sequence.state(), SequenceState::Running);
    rig.probe.release_all();
    execution.wait().unwrap();
    assert_eq!(sequence.state(), SequenceState::Finished);
    sequence.record(op::fill(&tensor, 2)).unwrap();
    assert_eq!(sequence.state(), SequenceState::Ready);
    sequence.reset().unwrap();
    assert_eq!(sequence.state(), SequenceState::Recording);
}

/// Recording, resetting and evaluating a running sequence is `Busy`, and the recording stays as it was.
fn busy_while_running(bed: &Bed) {
    let (rig, scope, tensor) = open(bed);
    let sequence = scope.named("s").unwrap();
    sequence.record(op::fill(&tensor, 5)).unwrap();
    rig.probe.hold();
    let execution = sequence.evaluate().unwrap();
    let submits = rig.probe.calls(CallKind::Submit);
    for refused in [
        sequence.record(op::fill(&tensor, 6)).map(drop),
        sequence.reset(),
        sequence.evaluate().map(drop),
        sequence.run(),
    ] {
        assert!(matches!(&refused, Err(Error::Busy { sequence }) if &**sequence == "s"), "{refused:?}");
    }
    assert_eq!((sequence.len(), rig.probe.calls(CallKind::Submit)), (1, submits));
    rig.probe.release_all();
    execution.wait().unwrap();
    assert_eq!(tensor.read().unwrap(), [5; 64]);
    assert_eq!(scope.finish_blocking().unwrap().executions, 1);
}

/// Nothing recorded is nothing to do: it is submitted, completes, and counts.
fn an_empty_recording_evaluates(bed: &Bed) {
    let (_rig, scope, _) = open(bed);
    scope.sequence().unwrap().run().unwrap();
    assert_eq!(scope.finish_blocking().unwrap().executions, 1);
}

/// A live name cannot be used again; once the sequence is destroyed it can.
fn a_name_is_taken_once(bed: &Bed) {
    let (_rig, scope, _) = open(bed);
    let first = scope.named("blur").unwrap();
    let error = scope.named("blur").unwrap_err();
    assert!(
        matches!(&error, Error::NameTaken { name, scope } if &**name == "blur" && &**scope == "s"),
        "{error}"
    );
    let child = scope.scope("child").unwrap();
    child.named("blur").unwrap();
    first.destroy().unwrap();
    scope.named("blur").unwrap();
}

/// `replace` ends the old sequence's life; its handles say where.
fn replace_destroys_the_old_one(bed: &Bed) {
    let (rig, scope, tensor) = open(bed);
    let old = scope.named("blur").unwrap();
    old.record(op::fill(&tensor, 1)).unwrap().run().unwrap();
    let line = line!() + 1;
    let new = scope.replace("blur").unwrap();
    let error = old.evaluate().unwrap_err();
    assert!(error.to_string().contains(&format!("replaced at {}:{line}:", file!())), "{error}");
    assert!(new.is_empty());
    assert_eq!(scope.named_sequences().len(), 1);
    assert_eq!(rig.probe.lifetimes(ObjectKind::Sequence).live(), 0);
}

/// A running sequence is replaced: its work completes, then what it held goes.
fn replace_while_running(bed: &Bed) {
    let (rig, scope, tensor) = open(bed);
    let held = scope.tensor::<u8>(1 << 20).unwrap();
    let old = scope.named("blur").unwrap();
    old.record(op::fill(&held, 1)).unwrap().record(op::fill(&tensor, 9)).unwrap();
    drop(held);
    rig.probe.hold();
    let execution = old.evaluate().unwrap();
    let new = scope.replace("blur").unwrap();
    new.record(op::fill(&tensor, 10)).unwrap();
    assert_eq!(
        rig.manager.memory().tensors,
        2,
        "the recording holds its tensor until its execution has retired"
    );
    rig.probe.release_all();
    execution.wait().unwrap();
    assert_eq!(rig.manager.memory().tensors, 1);
    assert_eq!(tensor.read().unwrap(), [9; 64]);
    new.run().unwrap();
    assert_eq!(tensor.read().unwrap(), [10; 64]);
}

/// `find` and `destroy` of a name that is not there name it and the scope.
fn unknown_names_are_named(bed: &Bed) {
    let (_rig, scope, _) = open(bed);
    for error in [scope.find("blurr").unwrap_err(), scope.destroy("blurr").unwrap_err()] {
        assert!(
            matches!(&error, Error::UnknownName { name, scope } if &**name == "blurr" && &**scope == "s"),
            "{error}"
        );
    }
}

/// Both lists are in the order in which the sequences were made, with state and place.
fn listed_in_creation_order(bed: &Bed) {
    let (_rig, scope, tensor) = open(bed);
    let _named = [scope.named("b").unwrap(), scope.named("a").unwrap()];
    let anonymous = [scope.sequence().unwrap(), scope.sequence().unwrap()];
    let _last = scope.named("c").unwrap();
    anonymous[1].record(op::fill(&tensor, 1)).unwrap();
    let names: Vec<_> = scope.named_sequences().into_iter().map(|info| info.name).collect();
    assert_eq!(names.iter().map(|name| &**name).collect::<Vec<_>>(), ["b", "a", "c"]);
    let states: Vec<_> = scope.anonymous_sequences().iter().map(|info| info.state).collect();
    assert_eq!(states, [SequenceState::Recording, SequenceState::Ready]);
    assert!(scope.named_sequences()[0].site.file().ends_with("sequences.rs"));
}

/// Anonymous sequences are destroyed under their handles, named ones stay.
fn clear_anonymous_leaves_named_ones(bed: &Bed) {
    let (_rig, scope, _) = open(bed);
    let named = scope.named("named").unwrap();
    let anonymous = [scope.sequence().unwrap(), scope.sequence().unwrap()];
    assert_eq!(scope.clear_anonymous(), 2);
    assert!(anonymous.iter().all(|sequence| matches!(sequence.evaluate(), Err(Error::Stale { .. }))));
    named.run().unwrap();
    assert_eq!(scope.clear_anonymous(), 0);
}

/// All sequences are destroyed, with the place where.
fn clear_destroys_both_kinds(bed: &Bed) {
    let (_rig, scope, _) = open(bed);
    let sequences = [scope.named("named").unwrap(), scope.sequence().unwrap()];
    let line = line!() + 1;
    assert_eq!(scope.clear(), 2);
    for sequence in &sequences {
        let error = sequence.evaluate().unwrap_err();
        assert!(error.to_string().contains(&format!("{}:{line}:", file!())), "{error}");
    }
    assert!(scope.named_sequences().is_empty() && scope.anonymous_sequences().is_empty());
}

/// Without a handle and retired, an anonymous sequence is gone, and so is what it kept alive.
fn anonymous_ones_go(bed: &Bed) {
    let (rig, scope, _tensor) = open(bed);
    for _ in 0..1000 {
        let tensor = rig.manager.tensor::<u8>(4096).unwrap();
        scope.evaluate([op::fill(&tensor, 1)]).unwrap().wait().unwrap();
    }
    assert!(scope.anonymous_sequences().is_empty());
    assert_eq!(rig.manager.memory().tensors, 1);
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
}

/// The scope owns it: handles come and go.
fn a_named_one_outlives_its_handles(bed: &Bed) {
    let (_rig, scope, tensor) = open(bed);
    scope.named("fill").unwrap().record(op::fill(&tensor, 4)).unwrap();
    assert_eq!(scope.find("fill").unwrap().len(), 1);
    scope.find("fill").unwrap().run().unwrap();
    assert_eq!(tensor.read().unwrap(), [4; 64]);
}

/// By handle and by name, before and after.
fn destroyed_twice_is_ok(bed: &Bed) {
    let (_rig, scope, _) = open(bed);
    let sequence = scope.named("s").unwrap();
    scope.destroy("s").unwrap();
    sequence.destroy().unwrap();
    sequence.destroy().unwrap();
    assert!(matches!(scope.destroy("s"), Err(Error::UnknownName { .. })));
}

/// A reset truly discards: what only the recording kept alive goes at once.
fn reset_lets_go(bed: &Bed) {
    let (rig, scope, _tensor) = open(bed);
    let sequence = scope.named("s").unwrap();
    let held = rig.manager.tensor::<u8>(1 << 20).unwrap();
    sequence.record(op::fill(&held, 1)).unwrap().run().unwrap();
    drop(held);
    assert_eq!(rig.manager.memory().tensors, 2);
    sequence.reset().unwrap();
    assert_eq!(rig.manager.memory().tensors, 1);
    sequence.run().unwrap();
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

/// Several sequences that only read one tensor are in flight together.
fn reads_need_no_wait(bed: &Bed) {
    let (rig, scope, tensor) = open(bed);
    rig.probe.hold();
    let reads: Vec<_> = (0..4)
        .map(|_| {
            let copy = scope.tensor::<u32>(64).unwrap();
            (scope.evaluate([op::copy(&tensor, &copy)]).unwrap(), copy)
        })
        .collect();
    rig.probe.release_all();
    for (execution, copy) in reads {
        execution.wait().unwrap();
        assert_eq!(copy.read().unwrap(), [1; 64]);
    }
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

/// Where the API cannot repeat a recording, core rebuilds it from its own data: the user sees no difference.
fn without_reuse(bed: &Bed) {
    let limits = crate::instrument::Limits { reusable_recordings: Some(false), ..Default::default() };
    let Rig { manager, probe } = bed.open_limited(limits, Default::default());
    let scope = manager.scope("s").unwrap();
    let tensor = scope.tensor::<u32>(64).unwrap();
    let sequence = scope.named("s").unwrap();
    sequence.record(op::fill(&tensor, 7)).unwrap();
    for _ in 0..5 {
        sequence.run().unwrap();
    }
    assert_eq!((probe.calls(CallKind::Record), sequence.len()), (5, 1));
    assert_eq!(tensor.read().unwrap(), [7; 64]);
}

/// A kernel that fails makes the sequence `Failed`, with the error naming sequence and execution; reset, it works again.
fn a_failed_one_can_be_evaluated_again(bed: &Bed) {
    let (rig, scope, tensor) = open(bed);
    let fail = rig.manager.kernel(&bed.kernels().fail).unwrap();
    let sequence = scope.named("risky").unwrap();
    sequence.record(op::dispatch(&fail).bind(&tensor)).unwrap();
    for number in 1..=2 {
        let error = sequence.run().unwrap_err();
        assert!(
            matches!(&error, Error::Execution { sequence, execution, .. } if &**sequence == "risky" && *execution == number),
            "{error}"
        );
        assert_eq!(sequence.state(), SequenceState::Failed);
    }
    sequence.reset().unwrap();
    sequence.record(op::fill(&tensor, 8)).unwrap().run().unwrap();
    assert_eq!((sequence.state(), tensor.read().unwrap()), (SequenceState::Finished, vec![8; 64]));
}

/// A read on another queue waits on the device for the write, and not on the host.
fn another_queue_waits(bed: &Bed) {
    let (rig, scope, tensor) = open(bed);
    let other = rig.manager.scope_with(ScopeOptions::builder().label("q").queue(QueueId(1)).build()).unwrap();
    let copy = other.tensor::<u32>(64).unwrap();
    for value in 0..100 {
        scope.evaluate([op::fill(&tensor, value)]).unwrap();
        other.evaluate([op::copy(&tensor, &copy)]).unwrap().wait().unwrap();
        assert_eq!(copy.read().unwrap(), [value; 64]);
    }
}
