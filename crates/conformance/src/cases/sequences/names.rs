//! Sequences, part 2: names, lists, replacing, destroying and clearing (L8).
//!
//! Not here: anonymous sequences that go by themselves (`anonymous.rs`).

use tenure_core::{Error, Execution, ManagedScope, ManagedSequence, SequenceState, op};

use super::{open, settled};
use crate::bed::Bed;
use crate::case::Case;
use crate::cases::hooks::support::{DRIVER_WORK, MIB, case};
use crate::instrument::{CallKind, ObjectKind};

pub(super) const CASES: &[Case] = &[
    case("sequences/a_name_is_taken_once", &["L8"], a_name_is_taken_once),
    case("sequences/any_text_is_a_name", &["L8"], any_text_is_a_name),
    case("sequences/replace_destroys_the_old_one", &["L8", "L3"], replace_destroys_the_old_one),
    case("sequences/replace_while_running", &["L8", "L4"], replace_while_running),
    case("sequences/many_of_one_name_in_flight", &["L8", "L4"], many_of_one_name_in_flight),
    case("sequences/a_replaced_handle_cannot_touch_the_new_one", &["L8"], a_replaced_handle_is_powerless),
    case("sequences/unknown_names_are_named", &["L8"], unknown_names_are_named),
    case("sequences/both_kinds_are_listed_in_creation_order", &["L8"], listed_in_creation_order),
    case("sequences/clear_anonymous_leaves_named_ones", &["L8"], clear_anonymous_leaves_named_ones),
    case("sequences/clear_destroys_both_kinds", &["L8", "L3"], clear_destroys_both_kinds),
    case("sequences/ended_while_running_by_any_call", &["L4", "L5", "L8"], ended_while_running),
    case("sequences/a_named_one_outlives_its_handles", &["L8", "L1"], a_named_one_outlives_its_handles),
    case("sequences/destroyed_twice_is_ok", &["L8"], destroyed_twice_is_ok),
    case("sequences/names_end_with_their_scope", &["L8", "L3"], names_end_with_their_scope),
];

/// A live name cannot be used again; once the sequence is destroyed it can.
fn a_name_is_taken_once(bed: &Bed) {
    let (_rig, scope, _tensor) = open(bed);
    let first = scope.named("blur").unwrap();
    let error = scope.named("blur").unwrap_err();
    assert!(
        matches!(&error, Error::NameTaken { name, scope } if &**name == "blur" && &**scope == "s"),
        "{error}"
    );
    assert_eq!(scope.named_sequences().len(), 1);
    let child = scope.scope("child").unwrap();
    child.named("blur").unwrap();
    first.destroy().unwrap();
    scope.named("blur").unwrap();
}

/// No text is special: not the empty one, and not the one that anonymous sequences are shown by.
fn any_text_is_a_name(bed: &Bed) {
    let (_rig, scope, tensor) = open(bed);
    let _hidden = scope.sequence().unwrap();
    let names = ["", " ", "anonymous", "größer als `x`", "a/b\nc"];
    for name in names {
        let sequence = scope.named(name).unwrap();
        assert_eq!((sequence.name(), sequence.is_named()), (name, true));
        sequence.record(op::fill(&tensor, 1)).unwrap();
        assert!(matches!(scope.named(name), Err(Error::NameTaken { .. })));
    }
    let listed = scope.named_sequences();
    assert_eq!(listed.iter().map(|info| &*info.name).collect::<Vec<_>>(), names);
    assert_eq!(scope.anonymous_sequences().len(), 1);
    for name in names {
        scope.find(name).unwrap().run().unwrap();
        scope.destroy(name).unwrap();
    }
    assert_eq!((scope.named_sequences().len(), scope.anonymous_sequences().len()), (0, 1));
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
    assert_eq!((new.is_empty(), new.state()), (true, SequenceState::Recording));
    assert_eq!(scope.named_sequences().len(), 1);
    assert_eq!(rig.probe.lifetimes(ObjectKind::Sequence).live(), 0);
    scope.replace("not there yet").unwrap();
    assert_eq!(scope.named_sequences().len(), 2);
}

/// A running sequence is replaced: its work completes, then what it held goes.
fn replace_while_running(bed: &Bed) {
    let (rig, scope, tensor) = open(bed);
    let held = scope.tensor::<u8>(MIB).unwrap();
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
    assert_eq!(settled(&rig.manager).tensors, 1);
    assert_eq!(tensor.read().unwrap(), [9; 64]);
    new.run().unwrap();
    assert_eq!(tensor.read().unwrap(), [10; 64]);
}

/// Ten of one name in flight, each replaced by the next: all complete, in order, and the list has the last.
fn many_of_one_name_in_flight(bed: &Bed) {
    let (rig, scope, tensor) = open(bed);
    rig.probe.hold();
    let mut running: Vec<(ManagedSequence, Execution)> = Vec::new();
    for value in 0..10_u64 {
        let sequence = scope.replace("blur").unwrap();
        let place = tensor.view(value..value + 1).unwrap();
        sequence.record(op::fill(tensor.view(10..11).unwrap(), value as u32)).unwrap();
        sequence.record(op::copy(tensor.view(10..11).unwrap(), place)).unwrap();
        let execution = sequence.evaluate().unwrap();
        running.push((sequence, execution));
    }
    assert_eq!(scope.named_sequences().len(), 1);
    assert_eq!(rig.probe.lifetimes(ObjectKind::Sequence).live(), 10);
    for (sequence, _) in &running[..9] {
        assert!(matches!(sequence.evaluate(), Err(Error::Stale { .. })));
    }
    rig.probe.release_all();
    for (_, execution) in &running {
        execution.wait().unwrap();
    }
    assert_eq!(tensor.read().unwrap()[..11], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 9]);
    assert_eq!(rig.probe.lifetimes(ObjectKind::Sequence).live(), 1);
}

/// A handle of a replaced sequence is of no use against the new one of its name.
fn a_replaced_handle_is_powerless(bed: &Bed) {
    let (_rig, scope, tensor) = open(bed);
    let old = scope.named("blur").unwrap();
    let new = scope.replace("blur").unwrap();
    new.record(op::fill(&tensor, 7)).unwrap();
    old.destroy().unwrap();
    assert!(matches!(old.reset(), Err(Error::Stale { .. })));
    assert!(matches!(old.record(op::fill(&tensor, 8)), Err(Error::Stale { .. })));
    drop(old);
    assert_eq!((new.state(), new.len()), (SequenceState::Ready, 1));
    scope.find("blur").unwrap().run().unwrap();
    assert_eq!(tensor.read().unwrap(), [7; 64]);
}

/// `find` and `destroy` of a name that is not there name it and the scope.
fn unknown_names_are_named(bed: &Bed) {
    let (_rig, scope, _tensor) = open(bed);
    let _near = scope.named("blur").unwrap();
    for error in [scope.find("blurr").unwrap_err(), scope.destroy("blurr").unwrap_err()] {
        assert!(
            matches!(&error, Error::UnknownName { name, scope } if &**name == "blurr" && &**scope == "s"),
            "{error}"
        );
    }
}

/// Both lists are in the order in which the sequences were made, with state and place.
fn listed_in_creation_order(bed: &Bed) {
    let (rig, scope, tensor) = open(bed);
    let named = [scope.named("b").unwrap(), scope.named("a").unwrap()];
    let anonymous = [scope.sequence().unwrap(), scope.sequence().unwrap(), scope.sequence().unwrap()];
    let line = line!() + 1;
    let last = scope.named("c").unwrap();
    let names = || scope.named_sequences().iter().map(|info| info.name.to_string()).collect::<Vec<_>>();
    let states = || scope.anonymous_sequences().iter().map(|info| info.state).collect::<Vec<_>>();
    assert_eq!(names(), ["b", "a", "c"]);
    let site = scope.named_sequences()[2].site;
    assert_eq!((site.file(), site.line()), (file!(), line));
    anonymous[1].record(op::fill(&tensor, 1)).unwrap();
    anonymous[2].record(op::fill(&tensor, 1)).unwrap().run().unwrap();
    assert_eq!(states(), [SequenceState::Recording, SequenceState::Ready, SequenceState::Finished]);
    rig.probe.hold();
    let execution = anonymous[1].evaluate().unwrap();
    assert_eq!(states(), [SequenceState::Recording, SequenceState::Running, SequenceState::Finished]);
    rig.probe.release_all();
    execution.wait().unwrap();
    // One that was made anew is the newest, whatever its name was before.
    let again = scope.replace("b").unwrap();
    assert_eq!(names(), ["a", "c", "b"]);
    named[1].destroy().unwrap();
    assert_eq!(names(), ["c", "b"]);
    drop((last, again));
    assert_eq!(names(), ["c", "b"]);
}

/// Anonymous sequences are destroyed under their handles, named ones stay.
fn clear_anonymous_leaves_named_ones(bed: &Bed) {
    let (_rig, scope, _tensor) = open(bed);
    let named = scope.named("named").unwrap();
    let anonymous = [scope.sequence().unwrap(), scope.sequence().unwrap()];
    assert_eq!(scope.clear_anonymous(), 2);
    assert!(anonymous.iter().all(|sequence| matches!(sequence.evaluate(), Err(Error::Stale { .. }))));
    named.run().unwrap();
    assert_eq!(scope.clear_anonymous(), 0);
}

/// All sequences are destroyed, with the place where; those of a child scope are its own.
fn clear_destroys_both_kinds(bed: &Bed) {
    let (_rig, scope, _tensor) = open(bed);
    let sequences = [scope.named("named").unwrap(), scope.sequence().unwrap()];
    let child = scope.scope("child").unwrap();
    let others = child.named("named").unwrap();
    let line = line!() + 1;
    assert_eq!(scope.clear(), 2);
    for sequence in &sequences {
        let error = sequence.evaluate().unwrap_err();
        assert!(error.to_string().contains(&format!("{}:{line}:", file!())), "{error}");
    }
    assert!(scope.named_sequences().is_empty() && scope.anonymous_sequences().is_empty());
    others.run().unwrap();
    assert_eq!(scope.clear(), 0);
}

/// By whichever call a running sequence ends: the call makes no driver call, the work completes, and what the recording
/// held goes after that.
fn ended_while_running(bed: &Bed) {
    type End = fn(&ManagedScope, &ManagedSequence);
    let ends: [(&str, bool, End); 5] = [
        ("its own destroy", true, |_, sequence| sequence.destroy().unwrap()),
        ("destroy by name", true, |scope, _| scope.destroy("runs").unwrap()),
        ("replace", true, |scope, _| drop(scope.replace("runs").unwrap())),
        ("clear", true, |scope, _| assert_eq!(scope.clear(), 1)),
        ("clear_anonymous", false, |scope, _| assert_eq!(scope.clear_anonymous(), 1)),
    ];
    for (how, named, end) in ends {
        let (rig, scope, tensor) = open(bed);
        let held = rig.manager.tensor::<u8>(MIB).unwrap();
        let sequence = if named { scope.named("runs") } else { scope.sequence() }.unwrap();
        sequence.record(op::fill(&held, 1)).unwrap().record(op::fill(&tensor, 9)).unwrap();
        drop(held);
        rig.probe.hold();
        let execution = sequence.evaluate().unwrap();
        {
            let _no_driver_work = rig.probe.forbid_here(DRIVER_WORK);
            end(&scope, &sequence);
        }
        assert!(matches!(sequence.evaluate(), Err(Error::Stale { .. })), "{how}");
        assert!(scope.anonymous_sequences().is_empty(), "{how}");
        assert_eq!(rig.manager.memory().tensors, 2, "{how}: still in flight");
        assert_eq!(rig.probe.lifetimes(ObjectKind::Sequence).given_back, 0, "{how}: still in flight");
        rig.probe.release_all();
        execution.wait().unwrap();
        let memory = settled(&rig.manager);
        assert_eq!((memory.tensors, memory.retired.bytes), (1, 0), "{how}");
        assert_eq!(rig.probe.lifetimes(ObjectKind::Sequence).live(), 0, "{how}");
        assert_eq!(tensor.read().unwrap(), [9; 64], "{how}");
        assert_eq!(rig.probe.calls(CallKind::Submit), 1, "{how}");
        assert_eq!(scope.finish_blocking().unwrap().executions, 1, "{how}");
    }
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
    let (_rig, scope, _tensor) = open(bed);
    let sequence = scope.named("s").unwrap();
    scope.destroy("s").unwrap();
    sequence.destroy().unwrap();
    sequence.destroy().unwrap();
    assert!(matches!(scope.destroy("s"), Err(Error::UnknownName { .. })));
}

/// A finished scope has no sequences and takes none; the old handles say which scope it was.
fn names_end_with_their_scope(bed: &Bed) {
    let (rig, scope, tensor) = open(bed);
    let sequence = scope.named("blur").unwrap();
    let anonymous = scope.sequence().unwrap();
    sequence.record(op::fill(&tensor, 1)).unwrap();
    let reference = (*scope).clone();
    scope.finish_blocking().unwrap();
    for sequence in [&sequence, &anonymous] {
        let error = sequence.evaluate().unwrap_err();
        assert!(error.to_string().contains("scope `s` has finished"), "{error}");
        sequence.destroy().unwrap();
    }
    assert!(matches!(reference.find("blur"), Err(Error::UnknownName { .. })));
    assert!(reference.named_sequences().is_empty() && reference.anonymous_sequences().is_empty());
    assert_eq!((reference.clear(), reference.clear_anonymous()), (0, 0));
    for refused in [reference.named("blur"), reference.replace("blur"), reference.sequence()] {
        assert!(matches!(refused, Err(Error::ScopeFinished { .. })), "{refused:?}");
    }
    // The name is free for another scope.
    rig.manager.scope("next").unwrap().named("blur").unwrap();
}
