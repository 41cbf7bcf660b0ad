//! Cases after Kompute's TestDestroy, TestOpTensorCreate and TestOpSync about who has which values when tensors are
//! synchronised and destroyed, restated.
//!
//! Not here: the rest of Kompute's tests (the topic `kompute`).

use tenure_core::{Error, Tensor, op};

use super::support::{assert_given_back, untrimmed};
use crate::bed::{Bed, Rig};
use crate::kernels::groups_for;

/// After TestDestroy: a tensor that a kernel has worked on is destroyed: it has its values until then and is dead
/// after.
pub(super) fn kompute_destroy_tensor_single(bed: &Bed) {
    let manager = bed.open_with(untrimmed()).manager;
    let scope = manager.scope("s").unwrap();
    let tensor = manager.tensor_from("single", &[0_u32; 3]).unwrap();
    let kernel = manager.kernel(&bed.kernels().increment).unwrap();
    scope.evaluate([op::dispatch(&kernel).bind(&tensor).groups(groups_for(3))]).unwrap().wait().unwrap();
    assert!(tensor.is_live());
    assert_eq!(tensor.read().unwrap(), [1, 1, 1]);
    tensor.destroy().unwrap();
    assert!(!tensor.is_live());
    scope.finish_blocking().unwrap();
    assert_given_back(&manager);
}

/// After TestOpTensorCreate: tensors that were destroyed before the manager goes are no error to it, used or not.
pub(super) fn kompute_no_error_if_tensor_freed_before(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let scope = manager.scope("s").unwrap();
    let tensors: [Tensor<u32>; 3] = [
        manager.tensor_from("used", &[1, 2, 3]).unwrap(),
        manager.tensor_from("unused", &[4, 5, 6]).unwrap(),
        scope.tensor_from("local", &[7, 8, 9]).unwrap(),
    ];
    scope.evaluate([op::fill(&tensors[0], 0)]).unwrap();
    for tensor in &tensors {
        tensor.destroy().unwrap();
    }
    scope.finish_blocking().unwrap();
    let report = manager.close().unwrap();
    assert!(report.is_clean(), "{report}");
    assert_eq!(probe.violations(), [] as [String; 0]);
    drop(tensors);
}

/// After TestOpSync: values go to one tensor, and to several by one sequence; each evaluation takes those that were
/// recorded, not those that the host has by then.
pub(super) fn kompute_sync_to_device(bed: &Bed) {
    let manager = bed.open_with(untrimmed()).manager;
    let scope = manager.scope("s").unwrap();
    let tensors: [Tensor<u32>; 3] = std::array::from_fn(|_| scope.tensor_from("data", &[0; 5]).unwrap());
    let mut values = vec![9_u32, 8, 7, 6, 5];
    let one = scope.named("one").unwrap();
    one.record(op::upload(&tensors[0], &values)).unwrap().run().unwrap();
    assert_eq!(tensors[0].read().unwrap(), values);
    assert_eq!(tensors[1].read().unwrap(), [0; 5]);
    let all = scope.named("all").unwrap();
    for tensor in &tensors {
        all.record(op::upload(tensor, &values)).unwrap();
    }
    values.fill(0);
    for _ in 0..2 {
        for tensor in &tensors {
            tensor.write(&values).unwrap();
        }
        all.run().unwrap();
        for tensor in &tensors {
            assert_eq!(tensor.read().unwrap(), [9, 8, 7, 6, 5]);
        }
    }
    scope.finish_blocking().unwrap();
    drop(tensors);
    assert_given_back(&manager);
}

/// After TestOpSync: the host sees what the device has written when it is synchronised, and not before.
pub(super) fn kompute_sync_local(bed: &Bed) {
    let manager = bed.open_with(untrimmed()).manager;
    let scope = manager.scope("s").unwrap();
    let first = scope.tensor_from("first", &[1_u32, 2, 3]).unwrap();
    let second = scope.tensor_from("second", &[0_u32, 0, 0]).unwrap();
    let (download, values) = op::download(&second);
    let copy = scope.named("copy").unwrap();
    copy.record(op::copy(&first, &second)).unwrap();
    let sync = scope.named("sync").unwrap();
    sync.record(download).unwrap();
    copy.run().unwrap();
    assert!(matches!(values.get(), Err(Error::NotReady { .. })), "nothing was synchronised yet");
    sync.run().unwrap();
    assert_eq!(values.get().unwrap(), [1, 2, 3]);
    first.write(&[4, 5, 6]).unwrap();
    copy.run().unwrap();
    assert_eq!(values.get().unwrap(), [1, 2, 3], "the host keeps what it had until the next one");
    sync.run().unwrap();
    assert_eq!(values.get().unwrap(), [4, 5, 6]);
    scope.finish_blocking().unwrap();
    drop((first, second));
    assert_given_back(&manager);
}
