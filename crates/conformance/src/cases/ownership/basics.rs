//! Cases about the plain life of a tensor: clones, the last drop, the scope's end, uses that defer the free (L1 to L6).
//!
//! Not here: each of these in every variation (the other files of this folder).

use tenure_core::{Error, op};

use crate::bed::{Bed, Rig};

/// The last handle goes while the device works: the tensor is retired at once, its memory comes back after.
pub(super) fn last_drop_retires(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let scope = manager.scope("s").unwrap();
    let tensor = manager.tensor::<u8>(1 << 20).unwrap();
    probe.hold();
    let execution = scope.evaluate([op::fill(&tensor, 1)]).unwrap();
    drop(tensor);
    assert_eq!(manager.memory().live.bytes, 1 << 20, "the running recording is a handle");
    probe.release_all();
    execution.wait().unwrap();
    let memory = manager.memory();
    assert_eq!((memory.live.bytes, memory.retired.bytes, memory.cached.bytes), (0, 0, 1 << 20));
}

/// Clones count together: the tensor lives until the last.
pub(super) fn clones_are_one_hold(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let tensor = manager.tensor_from("data", &[1_u32; 4]).unwrap();
    let clones: Vec<_> = (0..10).map(|_| tensor.clone()).collect();
    drop(tensor);
    for clone in clones {
        assert_eq!(clone.read().unwrap(), [1; 4]);
    }
    assert_eq!(manager.memory().tensors, 0);
}

/// Finishing retires local tensors under their handles, and names the scope.
pub(super) fn a_scope_ends_its_tensors(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let scope = manager.scope("job").unwrap();
    let tensor = scope.tensor::<u32>(4).unwrap();
    let kept = manager.tensor::<u32>(4).unwrap();
    let report = scope.finish_blocking().unwrap();
    assert_eq!((report.released_tensors, report.released_bytes), (1, 16));
    let error = tensor.read().unwrap_err();
    assert!(error.to_string().contains("scope `job` has finished"), "{error}");
    assert!(kept.is_live());
}

/// A handle keeps answering after scope and manager are gone: its facts, and `Stale` for the rest.
pub(super) fn handles_are_valid_for_ever(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let scope = manager.scope("s").unwrap();
    let tensor = scope.tensor::<u32>(4).unwrap();
    let sequence = scope.named("q").unwrap();
    let scope_ref = (*scope).clone();
    let execution = sequence.evaluate().unwrap();
    scope.finish_blocking().unwrap();
    manager.close().unwrap();
    drop((scope, manager));
    assert_eq!((tensor.len(), tensor.label(), tensor.is_live()), (4, "tensor", false));
    assert!(matches!(tensor.read(), Err(Error::Stale { .. })));
    assert!(matches!(sequence.evaluate(), Err(Error::Stale { .. })));
    assert!(matches!(scope_ref.manager(), Err(Error::Closed { .. })));
    assert!(matches!(scope_ref.sequence(), Err(Error::Closed { .. } | Error::ScopeFinished { .. })));
    execution.wait().unwrap();
}

/// A second destroy, and one after the scope or manager is gone, is Ok.
pub(super) fn destroyed_twice_is_ok(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let scope = manager.scope("s").unwrap();
    let tensor = scope.tensor::<u32>(4).unwrap();
    tensor.destroy().unwrap();
    tensor.destroy().unwrap();
    scope.finish_blocking().unwrap();
    manager.close().unwrap();
    tensor.destroy().unwrap();
}

/// A sequence of one scope names a tensor of another that finishes: evaluating is `Stale`.
pub(super) fn finish_overrides_a_recording_elsewhere(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let [a, b] = [manager.scope("a").unwrap(), manager.scope("b").unwrap()];
    let tensor = a.tensor::<u32>(4).unwrap();
    let sequence = b.named("q").unwrap();
    sequence.record(op::fill(&tensor, 1)).unwrap();
    sequence.run().unwrap();
    a.finish_blocking().unwrap();
    let error = sequence.evaluate().unwrap_err();
    assert!(error.to_string().contains("scope `a` has finished"), "{error}");
}

/// A tensor that is destroyed under two executions is freed after both.
pub(super) fn a_use_in_flight_defers_the_free(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let scope = manager.scope("s").unwrap();
    let tensor = manager.tensor::<u8>(1 << 20).unwrap();
    probe.hold();
    let executions = [1, 2].map(|value| scope.evaluate([op::fill(&tensor, value)]).unwrap());
    tensor.destroy().unwrap();
    probe.release_one(executions[0].point().queue);
    executions[0].wait().unwrap();
    manager.trim().unwrap();
    assert_eq!(manager.memory().retired.bytes, 1 << 20);
    probe.release_all();
    executions[1].wait().unwrap();
    assert_eq!(manager.memory().cached.bytes, 1 << 20);
}
