//! Cases about trimming when it is asked for: what it returns, what it leaves, and where it never happens (L21).
//!
//! Not here: policies (`policies.rs`).

use tenure_core::{ManagerOptions, Tensor, op};

use crate::bed::{Bed, Rig};
use crate::cases::ownership::support::{LEN, MIB, assert_given_back, mebibytes, settled, untrimmed};
use crate::instrument::CallKind;

/// A trim returns what `reserved` fell by, in bytes and blocks, and every block of that is a driver free. With nothing
/// cached it returns nothing.
pub(super) fn a_trim_returns_what_reserved_fell_by(bed: &Bed) {
    let Rig { manager, probe } = bed.open_with(untrimmed());
    // What the backend itself may cache is no block of the pool's: it goes first.
    manager.trim().unwrap();
    let kept = manager.tensor::<u8>(MIB).unwrap();
    for sizes in [&[1, 2, 4][..], &[8], &[1, 1, 1, 1, 1]] {
        let tensors: Vec<Tensor<u8>> = sizes.iter().map(|size| manager.tensor(size * MIB).unwrap()).collect();
        drop(tensors);
        let (before, frees) = (settled(&manager), probe.calls(CallKind::Free));
        let report = manager.trim().unwrap();
        let after = settled(&manager);
        assert_eq!(report.bytes, before.reserved.bytes - after.reserved.bytes);
        assert_eq!(report.blocks, before.reserved.blocks - after.reserved.blocks);
        assert_eq!((report.bytes, report.blocks), (sizes.iter().sum::<u64>() * MIB, sizes.len() as u64));
        assert_eq!(probe.calls(CallKind::Free) - frees, report.blocks);
        let again = manager.trim().unwrap();
        assert_eq!((again.bytes, again.blocks, mebibytes(&manager)), (0, 0, [1, 0, 0]));
    }
    drop(kept);
    assert_given_back(&manager);
}

/// A trim gives back what is cached and nothing else: not what is held, not what is recorded, not what the device
/// uses.
pub(super) fn a_trim_leaves_what_is_in_use(bed: &Bed) {
    let Rig { manager, probe } = bed.open_with(untrimmed());
    let scope = manager.scope("s").unwrap();
    let [held, recorded, running, cached] = [(); 4].map(|()| manager.tensor::<u32>(LEN).unwrap());
    let sequence = scope.named("recorded").unwrap();
    sequence.record(op::fill(&recorded, 1)).unwrap();
    probe.hold();
    let execution = scope.evaluate([op::fill(&running, 1)]).unwrap();
    running.destroy().unwrap();
    drop((recorded, cached));
    assert_eq!(mebibytes(&manager), [2, 1, 1]);
    assert_eq!(manager.trim().unwrap().blocks, 1);
    assert_eq!(mebibytes(&manager), [2, 1, 0]);
    probe.release_all();
    execution.wait().unwrap();
    assert_eq!(manager.trim().unwrap().blocks, 1);
    sequence.run().unwrap();
    sequence.reset().unwrap();
    assert_eq!(manager.trim().unwrap().blocks, 1);
    assert_eq!(mebibytes(&manager), [1, 0, 0]);
    scope.finish_blocking().unwrap();
    drop((held, running));
    assert_given_back(&manager);
}

/// A recording does not hold trimming up: not one that is being made, not one that is encoded, and not one whose tensor
/// was destroyed under it.
pub(super) fn a_recording_holds_no_trim_up(bed: &Bed) {
    let Rig { manager, probe } = bed.open_with(untrimmed());
    let scope = manager.scope("s").unwrap();
    let [other, destroyed] = [(); 2].map(|()| manager.tensor::<u32>(LEN).unwrap());
    let recording = scope.named("recording").unwrap();
    recording.record(op::fill(&other, 1)).unwrap();
    let encoded = scope.named("encoded").unwrap();
    encoded.record(op::copy(&destroyed, &other)).unwrap().run().unwrap();
    destroyed.destroy().unwrap();
    drop(manager.tensor::<u8>(2 * MIB).unwrap());
    assert_eq!(mebibytes(&manager), [1, 0, 3]);
    assert_eq!(manager.trim().unwrap().blocks, 2);
    assert_eq!((mebibytes(&manager), probe.calls(CallKind::Free)), ([1, 0, 0], 2));
    assert_eq!((recording.len(), encoded.len()), (1, 1), "the recordings are as they were");
    recording.run().unwrap();
    scope.finish_blocking().unwrap();
    drop((other, destroyed));
    assert_given_back(&manager);
}

/// A block that tensors share goes back only when the last of them has gone.
pub(super) fn a_shared_block_goes_with_its_last_tensor(bed: &Bed) {
    let Rig { manager, probe } = bed.open_with(untrimmed());
    let mut tensors: Vec<Tensor<u32>> =
        (0..10).map(|value| manager.tensor_from("small", &[value; 64]).unwrap()).collect();
    let reserved = settled(&manager).reserved.bytes;
    while tensors.len() > 1 {
        tensors.pop();
        assert_eq!(manager.trim().unwrap().blocks, 0);
        assert_eq!(settled(&manager).reserved.bytes, reserved);
    }
    assert_eq!(tensors[0].read().unwrap(), [0; 64]);
    assert_eq!(probe.calls(CallKind::Free), 0);
    tensors.clear();
    assert_eq!(manager.trim().unwrap().blocks, 1);
    assert_given_back(&manager);
}

/// Making, recording, evaluating, waiting and dropping trim nothing by the default policy: only the finish does.
pub(super) fn nothing_is_trimmed_on_the_hot_path(bed: &Bed) {
    let Rig { manager, probe } = bed.open_with(ManagerOptions::default());
    let scope = manager.scope("s").unwrap();
    {
        let _no_trim = probe.forbid_here(CallKind::Trim | CallKind::Free | CallKind::CloseScope);
        let sequence = scope.named("again").unwrap();
        let target = scope.tensor::<u32>(LEN).unwrap();
        sequence.record(op::fill(&target, 1)).unwrap();
        for size in [1, 2, 4] {
            let tensor = scope.tensor::<u32>(size * LEN).unwrap();
            tensor.view(0..1).unwrap().write(&[1]).unwrap();
            scope.evaluate([op::fill(&tensor, 2)]).unwrap().wait().unwrap();
            assert_eq!(tensor.view(0..1).unwrap().read().unwrap(), [2]);
            drop(tensor);
            sequence.run().unwrap();
            scope.scope("child").unwrap().finish_blocking().unwrap();
        }
        manager.wait_idle().unwrap();
    }
    assert_eq!(probe.calls(CallKind::Trim | CallKind::Free), 0, "by no thread");
    assert_eq!((manager.memory().trims, mebibytes(&manager)), (0, [1, 0, 7]));
    let report = scope.finish_blocking().unwrap();
    assert!(report.trimmed_bytes >= 8 * MIB, "{report}");
    assert_eq!((manager.memory().trims, manager.memory().reserved.bytes), (1, 0));
    assert_given_back(&manager);
}
