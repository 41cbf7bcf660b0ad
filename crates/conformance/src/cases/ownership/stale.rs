//! Cases about stale handles: every operation that names one says label, kind and how its life ended, before any driver
//! call (L3).
//!
//! Not here: recordings that become stale (`overrides.rs`) and closed managers (`closed.rs`).

use tenure_core::{EndOfLife, Error, ManagedSequence, Op, ResourceKind, op};

use super::support::{DRIVER_WORK, assert_given_back, stale, untrimmed};
use crate::bed::{Bed, Rig};
use crate::instrument::CallKind;
use crate::kernels::groups_for;

/// A destroyed tensor in every operation that can name it: read, write, view, promote, record and evaluate. Each
/// answers `Stale` with its label and the place where it was destroyed, records nothing and calls no driver.
pub(super) fn every_operation_names_label_and_site(bed: &Bed) {
    let Rig { manager, probe } = bed.open_with(untrimmed());
    let scope = manager.scope("s").unwrap();
    let tensor = scope.tensor_from("weights", &[1_u32; 64]).unwrap();
    let other = scope.tensor_from("other", &[1_u32; 64]).unwrap();
    let view = tensor.view(0..32).unwrap();
    let erased = tensor.erase();
    let kernel = bed.facts().kernels.then(|| manager.kernel(&bed.kernels().copy_u32).unwrap());
    let recorded = scope.named("recorded").unwrap();
    recorded.record(op::fill(&tensor, 1)).unwrap();
    let empty = scope.named("empty").unwrap();
    let mut poll = tensor.read_async();
    let wait = tensor.read_async();

    let line = line!() + 1;
    tensor.destroy().unwrap();
    let check = |operation: &str, answer: Result<(), Error>| {
        let text = answer.as_ref().err().map(ToString::to_string).unwrap_or_default();
        match answer {
            Err(Error::Stale { kind: ResourceKind::Tensor, label, why: EndOfLife::Destroyed(site) }) => {
                assert_eq!(&*label, "weights", "{operation}");
                assert_eq!((site.file(), site.line()), (file!(), line), "{operation}");
            }
            other => panic!("{operation} of a destroyed tensor: {other:?}"),
        }
        let place = format!("{}:{line}", file!());
        assert!(text.contains("`weights`") && text.contains(&place), "{operation}: {text}");
    };
    let record = |operation: Op| empty.record(operation).map(|_| ());

    let no_driver_work = probe.forbid_here(DRIVER_WORK);
    check("write", tensor.write(&[0; 64]));
    check("read", tensor.read().map(drop));
    check("read_into", tensor.read_into(&mut [0; 64]));
    check("a polled read", pollster::block_on(&mut poll).map(drop));
    check("a waited read", wait.wait().map(drop));
    check("a new read", tensor.read_async().wait().map(drop));
    check("view", tensor.view(0..1).map(drop));
    check("a write of a view", view.write(&[0; 32]));
    check("a read of a view", view.read().map(drop));
    check("a read of a view into a slice", view.read_into(&mut [0; 32]));
    check("promote", tensor.promote());
    check("promote_to_manager", tensor.promote_to_manager());
    check("a read of a cast handle", erased.cast::<u32>().unwrap().read().map(drop));
    check("recording an upload", record(op::upload(&tensor, &[0; 64])));
    check("recording a download", record(op::download(&tensor).0));
    check("recording a fill", record(op::fill(&tensor, 0)));
    check("recording a fill of a view", record(op::fill(&view, 0)));
    check("recording a copy from it", record(op::copy(&tensor, &other)));
    check("recording a copy to it", record(op::copy(&other, &tensor)));
    if let Some(kernel) = &kernel {
        let groups = groups_for(64);
        let reads = op::dispatch(kernel).bind(&tensor).bind(&other).groups(groups);
        let writes = op::dispatch(kernel).bind(&other).bind(&tensor).groups(groups);
        check("recording a dispatch that reads it", record(reads.into()));
        check("recording a dispatch that writes it", record(writes.into()));
    }
    check("evaluating it in a scope", scope.evaluate([op::fill(&tensor, 0)]).map(drop));
    check("evaluating a recording of it", recorded.evaluate().map(drop));
    check("running a recording of it", recorded.run());
    assert_eq!((empty.len(), recorded.len()), (0, 1));
    assert!(scope.anonymous_sequences().is_empty());
    assert_eq!(probe.calls(CallKind::Record | CallKind::Submit), 0);
    drop(no_driver_work);

    assert_eq!(other.read().unwrap(), [1; 64], "the rest goes on");
    scope.finish_blocking().unwrap();
    drop((tensor, other, view, erased, poll));
    assert_given_back(&manager);
}

/// Taking a view of a view names the tensor too.
pub(super) fn a_view_of_a_stale_view_is_stale(bed: &Bed) {
    let manager = bed.open().manager;
    let tensor = manager.tensor_from("base", &[1_u32; 64]).unwrap();
    let view = tensor.view(0..32).unwrap();
    tensor.destroy().unwrap();
    let why = stale(view.view(0..1), ResourceKind::Tensor, "base");
    assert!(matches!(why, EndOfLife::Destroyed(_)), "{why}");
}

/// A tensor whose scope has finished says which scope, also one that was promoted to it; one whose manager has closed
/// says which manager.
pub(super) fn ends_of_life_are_told_apart(bed: &Bed) {
    let manager = bed.open().manager;
    let outer = manager.scope("outer").unwrap();
    let inner = outer.scope("inner").unwrap();
    let local = inner.tensor_from("local", &[1_u32; 64]).unwrap();
    let promoted = inner.tensor_from("promoted", &[1_u32; 64]).unwrap();
    let owned = manager.tensor_from("owned", &[1_u32; 64]).unwrap();
    promoted.promote().unwrap();
    inner.finish_blocking().unwrap();
    let why = stale(local.read(), ResourceKind::Tensor, "local");
    assert_eq!(why, EndOfLife::ScopeFinished("inner".into()));
    // Destroying what has ended is nothing, and the first end stays.
    local.destroy().unwrap();
    assert_eq!(stale(local.read(), ResourceKind::Tensor, "local"), why);
    assert_eq!(promoted.read().unwrap(), [1; 64]);
    outer.finish_blocking().unwrap();
    let why = stale(promoted.read(), ResourceKind::Tensor, "promoted");
    assert_eq!(why, EndOfLife::ScopeFinished("outer".into()));
    assert_eq!(owned.read().unwrap(), [1; 64]);
    manager.close().unwrap();
    let why = stale(owned.read(), ResourceKind::Tensor, "owned");
    assert_eq!(why, EndOfLife::ManagerClosed("manager".into()));
}

/// A destroyed sequence in every operation: `Stale` with its name, and with how and where its life ended, by its
/// handle, by its name, replaced, cleared, or by its scope.
pub(super) fn a_stale_sequence_names_itself(bed: &Bed) {
    let Rig { manager, probe } = bed.open_with(untrimmed());
    let scope = manager.scope("s").unwrap();
    let tensor = manager.tensor_from("data", &[0_u32; 64]).unwrap();
    let open = || {
        let sequence = scope.named("fill").unwrap();
        sequence.record(op::fill(&tensor, 1)).unwrap();
        sequence
    };
    let ends = |sequence: &ManagedSequence| {
        let answers = [
            sequence.record(op::fill(&tensor, 2)).map(|_| ()),
            sequence.reset(),
            sequence.evaluate().map(drop),
            sequence.run(),
        ];
        sequence.destroy().unwrap();
        answers.map(|answer| stale(answer, ResourceKind::Sequence, "fill"))
    };
    let all = |why: EndOfLife| [why.clone(), why.clone(), why.clone(), why];
    let at = |why: &EndOfLife| match why {
        EndOfLife::Destroyed(site) => (site.file(), site.line()),
        other => panic!("the sequence was destroyed, not {other}"),
    };

    let by_handle = open();
    let line = line!() + 1;
    by_handle.destroy().unwrap();
    assert!(ends(&by_handle).iter().all(|why| at(why) == (file!(), line)));

    let by_name = open();
    let line = line!() + 1;
    scope.destroy("fill").unwrap();
    assert!(ends(&by_name).iter().all(|why| at(why) == (file!(), line)));

    let replaced = open();
    let line = line!() + 1;
    let new = scope.replace("fill").unwrap();
    for why in ends(&replaced) {
        match why {
            EndOfLife::Replaced(site) => assert_eq!((site.file(), site.line()), (file!(), line)),
            other => panic!("the sequence was replaced, not {other}"),
        }
    }
    let line = line!() + 1;
    assert_eq!(scope.clear(), 1);
    assert!(ends(&new).iter().all(|why| at(why) == (file!(), line)));

    let finished = open();
    scope.finish_blocking().unwrap();
    assert_eq!(ends(&finished), all(EndOfLife::ScopeFinished("s".into())));

    assert_eq!(probe.calls(CallKind::Submit), 0);
    assert_eq!(tensor.read().unwrap(), [0; 64]);
    drop(tensor);
    assert_given_back(&manager);
}
