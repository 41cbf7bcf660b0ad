//! Cases about what ends a tensor's life under a recording: destroy, the scope's finish and the manager's close. The
//! recording is stale then, and holds nothing up (L3, L5).
//!
//! Not here: what the error says in each operation (`stale.rs`).

use std::time::Duration;

use tenure_core::{EndOfLife, Error, ResourceKind, SequenceState, op};

use super::support::{
    Count, LEN, WATCHDOG, assert_given_back, given_back, mebibytes, settled, stale, untrimmed,
};
use crate::bed::{Bed, Rig};
use crate::instrument::CallKind;

/// Destroyed while a recording of it runs: the memory is reclaimed after that execution without a reset, and goes back
/// to the driver though the recording still names it. Evaluating again is stale and submits nothing, runs no hook and
/// counts no execution. After a reset the sequence works.
pub(super) fn destroy_overrides_a_recording(bed: &Bed) {
    let Rig { manager, probe } = bed.open_with(untrimmed());
    let scope = manager.scope("s").unwrap();
    let each = Count::default();
    scope.register(each.each("each")).unwrap();
    let tensor = manager.tensor::<u32>(LEN).unwrap();
    let sequence = scope.named("fill").unwrap();
    sequence.record(op::fill(&tensor, 1)).unwrap();
    probe.hold();
    let execution = sequence.evaluate().unwrap();
    tensor.destroy().unwrap();
    assert_eq!((settled(&manager).tensors, mebibytes(&manager)), (0, [0, 1, 0]));
    assert_eq!((manager.trim().unwrap().blocks, given_back(&probe)), (0, 0));
    probe.release_all();
    execution.wait().unwrap();
    assert_eq!(mebibytes(&manager), [0, 0, 1]);
    assert_eq!(manager.trim().unwrap().blocks, 1, "the recording holds nothing up");

    let (submits, state) = (probe.calls(CallKind::Submit), sequence.state());
    for _ in 0..2 {
        let why = stale(sequence.evaluate(), ResourceKind::Tensor, "tensor");
        assert!(matches!(why, EndOfLife::Destroyed(_)), "{why}");
    }
    assert_eq!((probe.calls(CallKind::Submit), sequence.state(), sequence.len()), (submits, state, 1));
    sequence.reset().unwrap();
    let other = manager.tensor_from("other", &[0_u32; 64]).unwrap();
    sequence.record(op::fill(&other, 2)).unwrap().run().unwrap();
    assert_eq!(other.read().unwrap(), [2; 64]);
    drop((tensor, other));
    let report = scope.finish_blocking().unwrap();
    assert_eq!((report.executions, each.get()), (2, 2));
    assert_given_back(&manager);
}

/// Destroyed while nothing runs: the memory is cached at once, recorded or not, encoded or not.
pub(super) fn destroy_of_what_is_recorded_is_at_once(bed: &Bed) {
    let Rig { manager, probe } = bed.open_with(untrimmed());
    let scope = manager.scope("s").unwrap();
    for encoded in [false, true] {
        let tensor = manager.tensor::<u32>(LEN).unwrap();
        let sequence = scope.sequence().unwrap();
        sequence.record(op::fill(&tensor, 1)).unwrap();
        if encoded {
            sequence.run().unwrap();
        }
        tensor.destroy().unwrap();
        assert_eq!(mebibytes(&manager), [0, 0, 1]);
        assert_eq!(manager.trim().unwrap().blocks, 1);
        let submits = probe.calls(CallKind::Submit);
        stale(sequence.evaluate(), ResourceKind::Tensor, "tensor");
        assert_eq!(probe.calls(CallKind::Submit), submits);
    }
    scope.finish_blocking().unwrap();
    assert_given_back(&manager);
}

/// A child's tensor in a sequence of its parent: the child finishes while that sequence runs. It does not wait for the
/// parent's work, the tensor is retired at once and reclaimed after it, and the recording is stale by the child's end.
pub(super) fn a_scopes_finish_overrides_a_recording(bed: &Bed) {
    let Rig { manager, probe } = bed.open_with(untrimmed());
    let outer = manager.scope("outer").unwrap();
    let inner = outer.scope("inner").unwrap();
    let tensor = inner.tensor::<u32>(LEN).unwrap();
    let sequence = outer.named("fill").unwrap();
    sequence.record(op::fill(&tensor, 1)).unwrap();
    probe.hold();
    let execution = sequence.evaluate().unwrap();
    let report = inner.finish_blocking().unwrap();
    assert_eq!((report.released_tensors, report.executions), (1, 0));
    assert_eq!((sequence.state(), mebibytes(&manager)), (SequenceState::Running, [0, 1, 0]));
    assert_eq!(given_back(&probe), 0);
    probe.release_all();
    execution.wait().unwrap();
    assert_eq!(mebibytes(&manager), [0, 0, 1]);
    let why = stale(sequence.evaluate(), ResourceKind::Tensor, "tensor");
    assert_eq!(why, EndOfLife::ScopeFinished("inner".into()));
    assert_eq!(probe.calls(CallKind::Submit), 1);
    outer.finish_blocking().unwrap();
    assert_given_back(&manager);
}

/// The manager begins to close while a recording runs: from then on tensors and idle sequences are stale, and nothing
/// is given back before the work is done.
pub(super) fn close_overrides_a_recording(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let scope = manager.scope("s").unwrap();
    let tensor = manager.tensor::<u32>(LEN).unwrap();
    let [running, idle] = ["running", "idle"].map(|name| scope.named(name).unwrap());
    running.record(op::fill(&tensor, 1)).unwrap();
    idle.record(op::fill(&tensor, 2)).unwrap();
    probe.hold();
    let execution = running.evaluate().unwrap();
    match manager.close_deadline(Duration::ZERO) {
        Err(Error::CloseTimedOut { .. }) => {}
        other => panic!("the device is busy: {other:?}"),
    }
    let why = stale(tensor.read(), ResourceKind::Tensor, "tensor");
    assert_eq!(why, EndOfLife::ManagerClosed("manager".into()));
    assert!(matches!(idle.evaluate(), Err(Error::Stale { .. })));
    assert!(matches!(idle.record(op::fill(&tensor, 3)).map(drop), Err(Error::Stale { .. })));
    assert_eq!((given_back(&probe), probe.calls(CallKind::Submit)), (0, 1));
    probe.release_all();
    execution.wait().unwrap();
    let report = manager.close().unwrap();
    assert_eq!(report.memory.reserved.bytes, 0);
    assert_eq!(report.leaks.len(), 1, "the tensor had its handle and two recordings");
    for sequence in [running, idle] {
        assert!(matches!(sequence.evaluate(), Err(Error::Stale { .. })));
        assert!(matches!(sequence.reset(), Err(Error::Stale { .. })));
    }
    drop((manager, tensor));
    assert!(probe.wait_shutdown(WATCHDOG));
    assert_eq!(probe.calls(CallKind::Submit), 1);
}

/// A recording of two tensors, one of which is destroyed: the error names that one, the other is kept all the same and
/// not held up by the refused evaluation. A reset lets go of it.
pub(super) fn a_stale_recording_keeps_the_rest(bed: &Bed) {
    let Rig { manager, probe } = bed.open_with(untrimmed());
    let scope = manager.scope("s").unwrap();
    let sequence = scope.sequence().unwrap();
    for dropped in [true, false] {
        let kept = manager.tensor_from("kept", &vec![1_u32; LEN as usize]).unwrap();
        let gone = manager.tensor_from("gone", &vec![2_u32; LEN as usize]).unwrap();
        sequence.record(op::copy(&kept, &gone)).unwrap();
        gone.destroy().unwrap();
        stale(sequence.evaluate(), ResourceKind::Tensor, "gone");
        assert_eq!(probe.calls(CallKind::Submit), 0);
        assert_eq!(mebibytes(&manager), [1, 0, 1]);
        if dropped {
            drop(kept);
            assert_eq!(mebibytes(&manager), [1, 0, 1], "the recording keeps it");
            sequence.reset().unwrap();
        } else {
            // The refused evaluation has let go of it: destroying is at once.
            kept.destroy().unwrap();
            stale(sequence.evaluate(), ResourceKind::Tensor, "kept");
            sequence.reset().unwrap();
        }
        assert_eq!(mebibytes(&manager), [0, 0, 2]);
    }
    scope.finish_blocking().unwrap();
    assert_given_back(&manager);
}
