//! Cases about dispatches that do not fit their kernel: bindings, aliases, sizes, parameters, and kernels that do not
//! fit the device (L3, L13, L22).
//!
//! Not here: foreign kernels (`foreign.rs`).

use std::ops::Range;

use tenure_core::{BackendErrorKind, Dispatch, Error, KernelSource, Tensor, op};

use crate::bed::{Bed, Rig};
use crate::cases::ownership::support::{Snapshot, assert_given_back, assert_names, untrimmed};
use crate::instrument::{CallKind, Limits};
use crate::kernels::groups_for;

/// Too few, too many and no bindings: the error names the kernel and both numbers, and nothing is recorded.
pub(super) fn wrong_number_of_bindings(bed: &Bed) {
    let rig = bed.open_with(untrimmed());
    let scope = rig.manager.scope("s").unwrap();
    let tensors: [Tensor<f32>; 4] = std::array::from_fn(|_| scope.tensor_from("t", &[1.0; 64]).unwrap());
    let kernel = rig.manager.kernel(&bed.kernels().add).unwrap();
    let sequence = scope.sequence().unwrap();
    let before = Snapshot::of(&rig);
    for given in [0, 1, 2, 4] {
        let dispatch = tensors[..given].iter().fold(op::dispatch(&kernel), |dispatch, t| dispatch.bind(t));
        let error = sequence.record(dispatch.groups(groups_for(64))).map(|_| ()).unwrap_err();
        assert!(matches!(&error, Error::Binding { kernel, .. } if &**kernel == "add"), "{error}");
        assert_names(&error, &["add", "3", &given.to_string()]);
    }
    assert!(sequence.is_empty());
    before.assert_unchanged(&rig);
    let dispatch = tensors[..3].iter().fold(op::dispatch(&kernel), |dispatch, t| dispatch.bind(t));
    sequence.record(dispatch.groups(groups_for(64))).unwrap().run().unwrap();
    assert_eq!(tensors[2].read().unwrap(), [2.0; 64]);
    scope.finish_blocking().unwrap();
    drop((tensors, kernel));
    assert_given_back(&rig.manager);
}

/// Asserts that the dispatch is refused because two of its ranges overlap.
#[track_caller]
fn assert_aliased(answer: Result<(), Error>, kernel: &str) {
    let error = answer.expect_err("the ranges overlap");
    match &error {
        Error::Aliased { tensor, operation } => assert_eq!((&**tensor, &**operation), ("row", kernel)),
        other => panic!("the ranges overlap: {other}"),
    }
    assert_names(&error, &["row", kernel]);
}

/// One range bound for reading and for writing, whole or in part, by handle or view, is `Aliased`. Reading it twice is
/// not, nor are ranges beside each other, nor one binding that is declared for both.
pub(super) fn aliased_bindings(bed: &Bed) {
    let rig = bed.open_with(untrimmed());
    let scope = rig.manager.scope("s").unwrap();
    // Halves begin where the device can bind them.
    let half = rig.manager.capabilities().alignment.max(256) / 4;
    let all = 2 * half;
    let row = scope.tensor_from("row", &vec![3_f32; all as usize]).unwrap();
    let ints = scope.tensor_from("row", &vec![7_u32; all as usize]).unwrap();
    let other = scope.tensor_from("other", &vec![0_f32; all as usize]).unwrap();
    let [add, copy, increment] = [&bed.kernels().add, &bed.kernels().copy_u32, &bed.kernels().increment]
        .map(|source| rig.manager.kernel(source).unwrap());
    let sequence = scope.sequence().unwrap();
    let record = |dispatch: Dispatch| sequence.record(dispatch.groups(groups_for(all))).map(|_| ());
    let before = Snapshot::of(&rig);
    let part = |range: Range<u64>| ints.view(range).unwrap();
    assert_aliased(record(op::dispatch(&copy).bind(&ints).bind(&ints)), "copy_u32");
    assert_aliased(record(op::dispatch(&copy).bind(part(0..all)).bind(&ints)), "copy_u32");
    assert_aliased(record(op::dispatch(&copy).bind(part(0..half)).bind(part(half - 1..all - 1))), "copy_u32");
    assert_aliased(record(op::dispatch(&copy).bind(part(half..all)).bind(part(half..half + 1))), "copy_u32");
    assert_aliased(record(op::dispatch(&add).bind(&row).bind(&other).bind(&row)), "add");
    assert_aliased(record(op::dispatch(&add).bind(&other).bind(&row).bind(&row)), "add");
    assert!(sequence.is_empty());
    before.assert_unchanged(&rig);

    record(op::dispatch(&add).bind(&row).bind(&row).bind(&other)).unwrap();
    record(op::dispatch(&increment).bind(part(0..half))).unwrap();
    let halves = op::dispatch(&copy).bind(part(0..half)).bind(part(half..all));
    sequence.record(halves.groups(groups_for(half))).unwrap();
    sequence.run().unwrap();
    assert_eq!(other.read().unwrap(), vec![6.0; all as usize]);
    assert_eq!(ints.read().unwrap(), vec![8; all as usize]);
    scope.finish_blocking().unwrap();
    drop((row, ints, other, add, copy, increment));
    assert_given_back(&rig.manager);
}

/// A range above the device's largest binding: `TooLarge` names the tensor, which limit and both sizes, in whichever
/// place it is bound. Without a kernel the same tensor is used whole.
pub(super) fn bindings_above_the_largest(bed: &Bed) {
    const LARGEST: u64 = 64 << 10;
    let limits = Limits { max_binding_bytes: Some(LARGEST), ..Limits::default() };
    let rig = bed.open_limited(limits, untrimmed());
    let scope = rig.manager.scope("s").unwrap();
    let large = scope.tensor_from("large", &vec![1_u32; LARGEST as usize]).unwrap();
    let small = scope.tensor_from("small", &[0_u32; 64]).unwrap();
    let kernel = rig.manager.kernel(&bed.kernels().copy_u32).unwrap();
    let sequence = scope.sequence().unwrap();
    let before = Snapshot::of(&rig);
    let over = large.view(0..LARGEST / 4 + 1).unwrap();
    for dispatch in
        [op::dispatch(&kernel).bind(&over).bind(&small), op::dispatch(&kernel).bind(&small).bind(&over)]
    {
        let error = sequence.record(dispatch.groups(groups_for(64))).map(|_| ()).unwrap_err();
        match &error {
            Error::TooLarge { label, requested, limit, which } => assert_eq!(
                (&**label, *requested, *limit, *which),
                ("large", LARGEST + 4, LARGEST, "largest binding")
            ),
            other => panic!("the binding passes the limit: {other}"),
        }
        assert_names(&error, &["large", "largest binding", "65536", "65540"]);
    }
    assert!(sequence.is_empty());
    before.assert_unchanged(&rig);
    sequence.record(op::fill(&large, 2)).unwrap().run().unwrap();
    assert_eq!(large.read().unwrap(), vec![2; LARGEST as usize]);
    scope.finish_blocking().unwrap();
    drop((large, small, over, kernel));
    assert_given_back(&rig.manager);
}

/// More workgroups than the device runs, in any direction: refused when it is recorded, with the kernel, what was asked for
/// and the limits. As many as it runs are fine.
pub(super) fn more_workgroups_than_the_device_runs(bed: &Bed) {
    const MOST: [u32; 3] = [64, 3, 2];
    let limits = Limits { max_groups: Some(MOST), ..Limits::default() };
    let rig = bed.open_limited(limits, untrimmed());
    let most = rig.manager.capabilities().max_groups;
    assert_eq!(most, MOST, "every device runs as many");
    let scope = rig.manager.scope("s").unwrap();
    let tensor = scope.tensor_from("row", &[1_u32; 64]).unwrap();
    let kernel = rig.manager.kernel(&bed.kernels().increment).unwrap();
    let sequence = scope.sequence().unwrap();
    let dispatch = |groups| op::dispatch(&kernel).bind(&tensor).groups(groups);
    let before = Snapshot::of(&rig);
    for groups in [[65, 1, 1], [1, 4, 1], [1, 1, 3], [64, 3, 3], [u32::MAX; 3], [u32::MAX, 0, 1]] {
        let error = sequence.record(dispatch(groups)).map(|_| ()).unwrap_err();
        match &error {
            Error::TooManyGroups { kernel: label, groups: told, limit } => {
                assert_eq!((&**label, *told, *limit), (kernel.label(), groups, MOST));
            }
            other => panic!("{groups:?} pass the limit: {other}"),
        }
        assert_names(&error, &[kernel.label(), &format!("{groups:?}"), "[64, 3, 2]"]);
    }
    assert!(sequence.is_empty());
    before.assert_unchanged(&rig);

    sequence.record(dispatch([64, 1, 1])).unwrap().run().unwrap();
    assert_eq!(tensor.read().unwrap(), [2; 64]);
    scope.finish_blocking().unwrap();
    drop((tensor, kernel));
    assert_given_back(&rig.manager);
}

/// The same by the device's own limits, in each direction that has one.
pub(super) fn one_workgroup_above_the_devices_own_limit(bed: &Bed) {
    let rig = bed.open_with(untrimmed());
    let most = rig.manager.capabilities().max_groups;
    assert!(most.iter().all(|most| *most > 0), "{most:?}");
    let scope = rig.manager.scope("s").unwrap();
    let tensor = scope.tensor_from("row", &[1_u32; 64]).unwrap();
    let kernel = rig.manager.kernel(&bed.kernels().increment).unwrap();
    let sequence = scope.sequence().unwrap();
    let dispatch = |groups| op::dispatch(&kernel).bind(&tensor).groups(groups);
    for direction in 0..3 {
        let mut groups = [1; 3];
        if let Some(over) = most[direction].checked_add(1) {
            groups[direction] = over;
            let error = sequence.record(dispatch(groups)).map(|_| ()).unwrap_err();
            assert!(matches!(&error, Error::TooManyGroups { limit, .. } if *limit == most), "{error}");
        }
    }
    assert!(sequence.is_empty());
    scope.finish_blocking().unwrap();
    drop((tensor, kernel));
    assert_given_back(&rig.manager);
}

/// A binding may begin at any element where the device allows it. Where it does not, the error comes when it is
/// recorded and names kernel or tensor: never a wrong result, never a failed execution.
pub(super) fn a_binding_at_any_element(bed: &Bed) {
    let Rig { manager, .. } = bed.open_with(untrimmed());
    let scope = manager.scope("s").unwrap();
    let tensor = scope.tensor_from("row", &[1_u32; 128]).unwrap();
    let kernel = manager.kernel(&bed.kernels().increment).unwrap();
    let mut expected = [1_u32; 128];
    for start in [0, 1, 2, 3, 5, 16, 63] {
        let sequence = scope.sequence().unwrap();
        let dispatch = op::dispatch(&kernel).bind(tensor.view(start..start + 64).unwrap());
        match sequence.record(dispatch.groups(groups_for(64))) {
            Ok(sequence) => {
                sequence.run().unwrap();
                expected[start as usize..][..64].iter_mut().for_each(|value| *value += 1);
            }
            Err(error) => {
                assert!(start != 0, "a whole tensor's first element can be bound: {error}");
                let text = error.to_string();
                assert!(text.contains("row") || text.contains("increment"), "{text}");
            }
        }
        assert_eq!(tensor.read().unwrap(), expected, "bound from element {start}");
    }
    scope.finish_blocking().unwrap();
    drop((tensor, kernel));
    assert_given_back(&manager);
}

/// A kernel of no form at all fits no device: the error says so and names the kernel, and no kernel is made.
pub(super) fn a_kernel_of_no_form(bed: &Bed) {
    let Rig { manager, probe } = bed.open_with(untrimmed());
    let source = KernelSource::new("formless", &[]);
    for _ in 0..2 {
        let error = manager.kernel(&source).unwrap_err();
        match &error {
            Error::Backend(error) => assert_eq!(error.kind, BackendErrorKind::Unsupported, "{error}"),
            other => panic!("the kernel has no form: {other}"),
        }
        assert_names(&error, &["formless"]);
    }
    assert_eq!(probe.lifetimes(crate::instrument::ObjectKind::Kernel).made, 0);
    assert!(manager.close().unwrap().is_clean());
}

/// Parameters of another size than the kernel's: that execution fails and names kernel's want and the bytes given, and
/// the next one with the right parameters completes.
pub(super) fn wrong_parameters(bed: &Bed) {
    let Rig { manager, probe } = bed.open_with(untrimmed());
    let scope = manager.scope("s").unwrap();
    let tensor = scope.tensor_from("row", &[2_f32; 64]).unwrap();
    let kernel = manager.kernel(&bed.kernels().scale).unwrap();
    let dispatch = || op::dispatch(&kernel).bind(&tensor).groups(groups_for(64));
    for (wrong, bytes) in
        [(dispatch(), 0), (dispatch().parameters(1_u8), 1), (dispatch().parameters(1_f64), 8)]
    {
        let error = scope.evaluate([wrong]).unwrap().wait().unwrap_err();
        assert!(matches!(&error, Error::Execution { .. }), "{error}");
        assert_names(&error, &["4 bytes of parameters", &format!("passed {bytes}")]);
    }
    scope.evaluate([dispatch().parameters(3_f32)]).unwrap().wait().unwrap();
    assert_eq!(tensor.read().unwrap(), [6.0; 64]);
    assert_eq!(probe.calls(CallKind::Submit), 4);
    // The failures were seen: finishing does not tell them again.
    let report = scope.finish_blocking().unwrap();
    assert_eq!((report.executions, report.error_count), (4, 0));
    drop((tensor, kernel));
    assert_given_back(&manager);
}
