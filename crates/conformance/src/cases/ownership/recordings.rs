//! Cases about recordings as handles: what a recording keeps, and when it lets go (L5).
//!
//! Not here: what ends a tensor's life under a recording (`overrides.rs`).

use tenure_core::{ManagedScope, ManagedSequence, SequenceState, op};

use super::support::{LEN, assert_given_back, given_back, mebibytes, settled, untrimmed};
use crate::bed::{Bed, Rig};

/// Nobody holds the tensors but a recording: it can be evaluated again and again, and a reset lets go of them at once.
pub(super) fn a_recording_counts_as_a_handle(bed: &Bed) {
    let Rig { manager, probe } = bed.open_with(untrimmed());
    let scope = manager.scope("s").unwrap();
    let data: Vec<u32> = (0..LEN as u32).collect();
    let source = manager.tensor_from("source", &data).unwrap();
    let target = manager.tensor::<u32>(LEN).unwrap();
    let (download, values) = op::download(&target);
    let sequence = scope.named("copy").unwrap();
    sequence.record(op::copy(&source, &target)).unwrap().record(download).unwrap();
    drop((source, target));
    for _ in 0..3 {
        sequence.run().unwrap();
        assert_eq!(values.get().unwrap(), data);
        assert_eq!((settled(&manager).tensors, mebibytes(&manager)), (2, [2, 0, 0]));
        assert_eq!(manager.trim().unwrap().blocks, 0);
    }
    sequence.reset().unwrap();
    assert_eq!((sequence.state(), sequence.len()), (SequenceState::Recording, 0));
    assert_eq!((settled(&manager).tensors, mebibytes(&manager)), (0, [0, 0, 2]));
    assert_eq!(values.get().unwrap(), data, "what was downloaded is the host's");
    scope.finish_blocking().unwrap();
    assert_given_back(&manager);
    assert!(given_back(&probe) > 0);
}

/// Two recordings name one tensor, one of them twice: it goes with the second reset.
pub(super) fn each_recording_is_a_handle_of_its_own(bed: &Bed) {
    let manager = bed.open_with(untrimmed()).manager;
    let scope = manager.scope("s").unwrap();
    let tensor = manager.tensor::<u32>(LEN).unwrap();
    let [first, second] = ["first", "second"].map(|name| scope.named(name).unwrap());
    first.record(op::fill(&tensor, 1)).unwrap().record(op::fill(&tensor, 2)).unwrap();
    second.record(op::fill(&tensor, 3)).unwrap();
    drop(tensor);
    first.run().unwrap();
    first.reset().unwrap();
    assert_eq!(mebibytes(&manager), [1, 0, 0]);
    second.run().unwrap();
    second.reset().unwrap();
    assert_eq!(mebibytes(&manager), [0, 0, 1]);
    scope.finish_blocking().unwrap();
    assert_given_back(&manager);
}

/// What was recorded and never evaluated is let go by a reset, by a destroy, by the last handle of an anonymous
/// sequence, and by the scope's end, with no driver call but the free.
pub(super) fn what_was_never_evaluated_is_let_go(bed: &Bed) {
    let ends: [fn(&ManagedScope, ManagedSequence); 4] = [
        |_, sequence| sequence.reset().unwrap(),
        |_, sequence| sequence.destroy().unwrap(),
        |_, sequence| drop(sequence),
        |scope, _sequence| drop(scope.finish_blocking().unwrap()),
    ];
    let Rig { manager, probe } = bed.open_with(untrimmed());
    for end in ends {
        let scope = manager.scope("s").unwrap();
        let tensor = scope.tensor::<u32>(LEN).unwrap();
        tensor.promote().unwrap();
        let sequence = scope.sequence().unwrap();
        sequence.record(op::fill(&tensor, 1)).unwrap();
        drop(tensor);
        assert_eq!(mebibytes(&manager), [1, 0, 0]);
        end(&scope, sequence);
        assert_eq!(mebibytes(&manager), [0, 0, 1]);
    }
    assert_eq!(given_back(&probe), 0);
    assert_given_back(&manager);
}

type Destroy = fn(&ManagedScope, &ManagedSequence);

/// However a sequence is destroyed, what it recorded goes with it: at once when it is idle, and when its execution has
/// retired if it is running.
pub(super) fn a_destroyed_sequence_lets_go(bed: &Bed) {
    let ways: [(&str, Destroy); 4] = [
        ("its handle", |_, sequence| sequence.destroy().unwrap()),
        ("its name", |scope, _| scope.destroy("fill").unwrap()),
        ("a new one of its name", |scope, _| drop(scope.replace("fill").unwrap())),
        ("clearing the scope", |scope, _| assert_eq!(scope.clear(), 1)),
    ];
    let Rig { manager, probe } = bed.open_with(untrimmed());
    for (way, destroy) in ways {
        for running in [false, true] {
            let scope = manager.scope("s").unwrap();
            let tensor = manager.tensor::<u32>(LEN).unwrap();
            let sequence = scope.named("fill").unwrap();
            sequence.record(op::fill(&tensor, 1)).unwrap();
            drop(tensor);
            let execution = running.then(|| {
                probe.hold();
                sequence.evaluate().unwrap()
            });
            destroy(&scope, &sequence);
            if let Some(execution) = execution {
                let [live, retired, _] = mebibytes(&manager);
                assert_eq!(live + retired, 1, "destroyed by {way}, and the device is busy with it");
                assert_eq!(manager.trim().unwrap().blocks, 0);
                probe.release_all();
                execution.wait().unwrap();
            }
            assert_eq!(settled(&manager).tensors, 0, "destroyed by {way}");
            assert_eq!(mebibytes(&manager), [0, 0, 1], "destroyed by {way}");
            scope.finish_blocking().unwrap();
        }
    }
    assert_given_back(&manager);
}

/// An anonymous sequence without a handle lets go of what it recorded when its execution retires, by itself.
pub(super) fn an_anonymous_sequence_lets_go_by_itself(bed: &Bed) {
    let Rig { manager, probe } = bed.open_with(untrimmed());
    let scope = manager.scope("s").unwrap();
    probe.hold();
    for _ in 0..3 {
        let tensor = manager.tensor::<u32>(LEN).unwrap();
        scope.evaluate([op::fill(&tensor, 1)]).unwrap();
    }
    let [live, retired, cached] = mebibytes(&manager);
    assert_eq!((live + retired, cached, scope.anonymous_sequences().len()), (3, 0, 3));
    probe.release_all();
    manager.wait_idle().unwrap();
    assert_eq!((mebibytes(&manager), scope.anonymous_sequences().len()), ([0, 0, 3], 0));
    scope.finish_blocking().unwrap();
    assert_given_back(&manager);
}

/// A recording that a hook's execution or a child evaluates is no different: the scope that owns the sequence counts.
/// What a child's sequence recorded is let go by the child's finish, and the parent's recording of the same keeps it.
pub(super) fn a_childs_recording_ends_with_the_child(bed: &Bed) {
    let manager = bed.open_with(untrimmed()).manager;
    let outer = manager.scope("outer").unwrap();
    let inner = outer.scope("inner").unwrap();
    let shared = manager.tensor::<u32>(LEN).unwrap();
    let only_inner = manager.tensor::<u32>(LEN).unwrap();
    let kept = outer.named("kept").unwrap();
    kept.record(op::fill(&shared, 1)).unwrap();
    let ended = inner.named("ended").unwrap();
    ended.record(op::copy(&shared, &only_inner)).unwrap();
    drop((shared, only_inner));
    ended.run().unwrap();
    assert_eq!(mebibytes(&manager), [2, 0, 0]);
    inner.finish_blocking().unwrap();
    assert_eq!(mebibytes(&manager), [1, 0, 1]);
    kept.run().unwrap();
    outer.finish_blocking().unwrap();
    assert_eq!(mebibytes(&manager), [0, 0, 2]);
    assert_given_back(&manager);
}
