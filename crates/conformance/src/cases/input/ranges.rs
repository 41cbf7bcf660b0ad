//! Cases about types, lengths and ranges that do not fit, and copies between ranges (L3, L22).
//!
//! Not here: ranges bound to a kernel (`dispatches.rs`).

use std::ops::Range;

use tenure_core::{Error, Op, View, op};

use crate::bed::Bed;
use crate::cases::ownership::support::{Snapshot, assert_given_back, assert_names, untrimmed};

/// An erased handle gives back the type that the tensor holds and no other, not even one of the same size; the error
/// names both. The tensor stays what it is.
pub(super) fn wrong_element_type(bed: &Bed) {
    let rig = bed.open_with(untrimmed());
    let tensor = rig.manager.tensor_from("floats", &[1_f32, 2.0]).unwrap();
    let erased = tensor.erase();
    let before = Snapshot::of(&rig);
    let errors = [
        erased.cast::<u32>().unwrap_err(),
        erased.cast::<i32>().unwrap_err(),
        erased.cast::<[u8; 4]>().unwrap_err(),
        erased.cast::<[f32; 1]>().unwrap_err(),
        erased.cast::<f64>().unwrap_err(),
        erased.cast::<u8>().unwrap_err(),
    ];
    for (error, asked) in errors.iter().zip(["u32", "i32", "[u8; 4]", "[f32; 1]", "f64", "u8"]) {
        match error {
            Error::WrongType { label, expected, actual } => {
                assert_eq!((&**label, *expected, *actual), ("floats", "f32", asked));
            }
            other => panic!("the tensor holds no {asked}: {other}"),
        }
        assert_names(error, &["floats", "f32", asked]);
    }
    before.assert_unchanged(&rig);
    let same = erased.clone().cast::<f32>().unwrap();
    assert!(same == tensor);
    assert_eq!((erased.label(), erased.bytes(), erased.id()), ("floats", 8, tensor.id()));
    assert_eq!(same.read().unwrap(), [1.0, 2.0]);
    drop((tensor, erased, same));
    assert_given_back(&rig.manager);
}

#[track_caller]
fn assert_length(answer: Result<(), Error>, name: &str, elements: u64, given: u64) {
    let error = answer.expect_err("the length does not fit");
    match &error {
        Error::Length { label, expected, actual } => {
            assert_eq!((&**label, *expected, *actual), (name, elements, given));
        }
        other => panic!("{given} elements for {elements}: {other}"),
    }
    assert_names(&error, &[name, &elements.to_string(), &given.to_string()]);
}

/// Too much, too little and nothing, written and read, whole and by a view: the error has both lengths, and not one
/// element was copied.
pub(super) fn wrong_length_from_the_host(bed: &Bed) {
    let rig = bed.open_with(untrimmed());
    let tensor = rig.manager.tensor_from("row", &[5_u32; 64]).unwrap();
    let view = tensor.view(8..16).unwrap();
    let before = Snapshot::of(&rig);
    for given in [0, 1, 63, 65, 1000] {
        let mut data = vec![9_u32; given];
        assert_length(tensor.write(&data), "row", 64, given as u64);
        assert_length(tensor.read_into(&mut data), "row", 64, given as u64);
        assert_length(view.write(&data), "row", 8, given as u64);
        assert_length(view.read_into(&mut data), "row", 8, given as u64);
        assert!(data.iter().all(|value| *value == 9), "nothing was read");
    }
    before.assert_unchanged(&rig);
    assert_eq!(tensor.read().unwrap(), [5; 64]);
    let mut data = [0; 8];
    view.read_into(&mut data).unwrap();
    assert_eq!(data, [5; 8]);
    drop((tensor, view));
    assert_given_back(&rig.manager);
}

/// Uploads and copies of other lengths: the error is there when it is recorded, and nothing is recorded. After
/// Kompute's TestOpCopyTensor: tensors of different sizes.
pub(super) fn wrong_length_in_a_recording(bed: &Bed) {
    let rig = bed.open_with(untrimmed());
    let scope = rig.manager.scope("s").unwrap();
    let long = scope.tensor_from("long", &[1_u32; 64]).unwrap();
    let short = scope.tensor_from("short", &[2_u32; 32]).unwrap();
    let sequence = scope.sequence().unwrap();
    sequence.record(op::fill(&short, 3)).unwrap();
    let before = Snapshot::of(&rig);
    let wrong: [(Op, &str, u64, u64); 7] = [
        (op::upload(&long, &[0; 63]), "long", 64, 63),
        (op::upload(&long, &[0; 65]), "long", 64, 65),
        (op::upload(&long, &[]), "long", 64, 0),
        (op::upload(long.view(0..2).unwrap(), &[0; 64]), "long", 2, 64),
        (op::copy(&long, &short), "short", 32, 64),
        (op::copy(&short, &long), "long", 64, 32),
        (op::copy(long.view(0..31).unwrap(), &short), "short", 32, 31),
    ];
    for (operation, name, elements, given) in wrong {
        assert_length(sequence.record(operation.clone()).map(|_| ()), name, elements, given);
        assert_length(scope.evaluate([operation]).map(drop), name, elements, given);
    }
    assert_eq!((sequence.len(), scope.anonymous_sequences().len()), (1, 1));
    before.assert_unchanged(&rig);
    sequence.record(op::copy(long.view(0..32).unwrap(), &short)).unwrap().run().unwrap();
    assert_eq!((long.read().unwrap(), short.read().unwrap()), (vec![1; 64], vec![1; 32]));
    scope.finish_blocking().unwrap();
    drop((long, short));
    assert_given_back(&rig.manager);
}

/// Views that end too late, begin too late, end before they begin, or use the largest numbers: the error has range and
/// length. A view of a view is judged by that view, not by the tensor.
pub(super) fn views_out_of_range(bed: &Bed) {
    let rig = bed.open_with(untrimmed());
    let tensor = rig.manager.tensor_from("row", &[1_u32; 64]).unwrap();
    let view = tensor.view(16..48).unwrap();
    let before = Snapshot::of(&rig);
    let check = |answer: Result<View<u32>, Error>, range: Range<u64>, length: u64| {
        let error = answer.expect_err("the range is not inside");
        match &error {
            Error::OutOfRange { label, start, end, length: told } => {
                assert_eq!((&**label, *start..*end, *told), ("row", range.clone(), length));
            }
            other => panic!("{range:?} of {length}: {other}"),
        }
        assert_names(&error, &["row", &format!("{}..{}", range.start, range.end), &length.to_string()]);
    };
    for (start, end) in [
        (0, 65),
        (64, 65),
        (65, 65),
        (33, 32),
        (64, 0),
        (0, u64::MAX),
        (u64::MAX, u64::MAX),
        (u64::MAX, 0),
        (u64::MAX / 4, u64::MAX / 4 + 1),
    ] {
        check(tensor.view(start..end), start..end, 64);
        check(view.view(start..end), start..end, 32);
    }
    // Inside the tensor, outside the view.
    check(view.view(0..33), 0..33, 32);
    before.assert_unchanged(&rig);
    let inner = view.view(0..32).unwrap();
    assert_eq!((inner.len(), view.view(32..32).unwrap().len()), (32, 0));
    inner.write(&[2; 32]).unwrap();
    let mut expected = [1; 64];
    expected[16..48].fill(2);
    assert_eq!(tensor.read().unwrap(), expected);
    drop((tensor, view, inner));
    assert_given_back(&rig.manager);
}

/// After Kompute's TestOpCopyTensor (one tensor alone): copying a range onto itself or onto one that overlaps it is
/// `Aliased` and names the tensor and the operation; ranges beside each other are fine.
pub(super) fn kompute_copy_overlapping(bed: &Bed) {
    let rig = bed.open_with(untrimmed());
    let scope = rig.manager.scope("s").unwrap();
    let data: Vec<u32> = (0..64).collect();
    let tensor = scope.tensor_from("row", &data).unwrap();
    let sequence = scope.sequence().unwrap();
    let copy =
        |from: Range<u64>, to: Range<u64>| op::copy(tensor.view(from).unwrap(), tensor.view(to).unwrap());
    let before = Snapshot::of(&rig);
    for (from, to) in [(0..64, 0..64), (0..32, 31..63), (31..63, 0..32), (8..16, 8..16), (0..1, 0..1)] {
        let error = sequence.record(copy(from, to)).map(|_| ()).unwrap_err();
        match &error {
            Error::Aliased { tensor, operation } => assert_eq!((&**tensor, &**operation), ("row", "copy")),
            other => panic!("the ranges overlap: {other}"),
        }
        assert_names(&error, &["row", "copy"]);
    }
    assert!(sequence.is_empty());
    before.assert_unchanged(&rig);
    sequence.record(copy(0..32, 32..64)).unwrap().record(copy(33..34, 0..1)).unwrap().run().unwrap();
    let mut expected: Vec<u32> = (0..32).chain(0..32).collect();
    expected[0] = 1;
    assert_eq!(tensor.read().unwrap(), expected);
    scope.finish_blocking().unwrap();
    drop(tensor);
    assert_given_back(&rig.manager);
}

/// After Kompute's TestOpCopyTensor: values go from host to device, device to device, and device to host, in one
/// recording and each in its own, to one tensor and to several.
pub(super) fn kompute_copy_pairs(bed: &Bed) {
    let rig = bed.open_with(untrimmed());
    let scope = rig.manager.scope("s").unwrap();
    let [a, b, c] = ["a", "b", "c"].map(|label| scope.tensor_from(label, &[0_u32; 5]).unwrap());
    let (download, values) = op::download(&c);
    let all: [Op; 4] = [op::upload(&a, &[9, 8, 7, 6, 5]), op::copy(&a, &b), op::copy(&a, &c), download];
    for operation in &all {
        scope.evaluate([operation.clone()]).unwrap().wait().unwrap();
    }
    for _ in 0..2 {
        assert_eq!(values.get().unwrap(), [9, 8, 7, 6, 5]);
        for tensor in [&a, &b, &c] {
            assert_eq!(tensor.read().unwrap(), [9, 8, 7, 6, 5]);
            tensor.write(&[0; 5]).unwrap();
        }
        scope.evaluate(all.clone()).unwrap().wait().unwrap();
    }
    scope.finish_blocking().unwrap();
    drop((a, b, c, all));
    assert_given_back(&rig.manager);
}
