//! Cases about sizes and shapes: too large, overflowing, empty (L22).
//!
//! Not here: what a budget or the driver refuses (`memory`).

use tenure_core::{Error, ManagedScope, Manager, Tensor, TensorOptions, op};

use crate::bed::{Bed, Rig};
use crate::cases::ownership::support::{MIB, Snapshot, assert_given_back, assert_names, settled, untrimmed};
use crate::instrument::{CallKind, Limits};

/// A tensor `big` of this shape, of the manager or of the scope.
fn big<T: tenure_core::tensor::Element>(
    manager: &Manager,
    scope: Option<&ManagedScope>,
    shape: &[u64],
) -> Result<Tensor<T>, Error> {
    let options = TensorOptions::builder().shape(shape).label("big").build();
    match scope {
        None => manager.tensor_with(options),
        Some(scope) => scope.tensor_with(options),
    }
}

/// Shapes whose bytes do not fit 64 bits, of the manager and of a scope: the error has label, shape and element size.
pub(super) fn sizes_that_overflow(bed: &Bed) {
    let rig = bed.open_with(untrimmed());
    let manager = &rig.manager;
    let scope = manager.scope("s").unwrap();
    let before = Snapshot::of(&rig);
    for scope in [None, Some(&scope)] {
        for shape in [&[u64::MAX, 2][..], &[1 << 32, 1 << 32], &[2, 1 << 63], &[u64::MAX, u64::MAX, 1]] {
            match big::<u8>(manager, scope, shape) {
                Err(Error::SizeOverflow { label, shape: told, element_bytes: 1 }) => {
                    assert_eq!((&*label, &*told), ("big", shape));
                }
                other => panic!("{shape:?} overflows: {other:?}"),
            }
        }
        // The number of elements fits, their bytes do not.
        let error = big::<u64>(manager, scope, &[1 << 61]).unwrap_err();
        assert!(matches!(error, Error::SizeOverflow { element_bytes: 8, .. }), "{error}");
        assert_names(&error, &["big", "2305843009213693952", "8-byte"]);
        let error = big::<[u8; 3]>(manager, scope, &[u64::MAX / 2]).unwrap_err();
        assert!(matches!(error, Error::SizeOverflow { element_bytes: 3, .. }), "{error}");
    }
    assert_eq!(scope.live_bytes(), 0);
    before.assert_unchanged(&rig);
    scope.finish_blocking().unwrap();
    assert_given_back(manager);
}

/// A byte more than the largest block: the error names the tensor, the limit and both sizes; 0 driver calls, no retry.
/// By every way to make a tensor, with data too.
pub(super) fn sizes_above_the_largest_block(bed: &Bed) {
    let limits = Limits { max_block_bytes: Some(MIB), ..Limits::default() };
    let rig = bed.open_limited(limits, untrimmed());
    let manager = &rig.manager;
    let scope = manager.scope("s").unwrap();
    let limit = manager.capabilities().max_block_bytes;
    let data = vec![1_u8; limit as usize + 1];
    let before = Snapshot::of(&rig);
    let answers = [
        big::<u8>(manager, None, &[limit + 1]),
        big::<u8>(manager, Some(&scope), &[limit + 1]),
        manager.tensor_from("big", &data),
        scope.tensor_from("big", &data),
    ];
    for answer in answers {
        let error = answer.unwrap_err();
        match &error {
            Error::TooLarge { label, requested, limit: told, which } => {
                assert_eq!((&**label, *requested, *told, *which), ("big", limit + 1, limit, "largest block"));
            }
            other => panic!("the size passes the limit: {other}"),
        }
        assert_names(&error, &["big", &limit.to_string(), &(limit + 1).to_string(), "largest block"]);
    }
    assert_eq!(scope.live_bytes(), 0);
    before.assert_unchanged(&rig);
    // To the byte it fits.
    let fits = manager.tensor_from("fits", &data[1..]).unwrap();
    assert_eq!(fits.read().unwrap(), data[1..]);
    scope.finish_blocking().unwrap();
    drop(fits);
    assert_given_back(manager);
}

/// The largest numbers there are: each is an error of size or memory that names the tensor, none a panic, and the
/// manager goes on.
pub(super) fn the_largest_numbers(bed: &Bed) {
    let Rig { manager, probe } = bed.open_with(untrimmed());
    for len in [u64::MAX, u64::MAX - 1, u64::MAX / 2 + 1, u64::MAX / 2, 1 << 62, u64::from(u32::MAX) << 24] {
        for error in [
            big::<u8>(&manager, None, &[len]).unwrap_err(),
            big::<u32>(&manager, None, &[len]).unwrap_err(),
            big::<[u64; 64]>(&manager, None, &[len, 1]).unwrap_err(),
        ] {
            let known =
                matches!(error, Error::TooLarge { .. } | Error::SizeOverflow { .. } | Error::OutOfMemory(_));
            assert!(known, "{len} elements: {error}");
            assert_names(&error, &["big"]);
        }
    }
    let memory = settled(&manager);
    assert_eq!((memory.reserved.bytes, memory.tensors, memory.peak_live_bytes), (0, 0, 0));
    drop(manager.tensor_from("small", &[1_u8]).unwrap());
    assert_eq!(probe.violations(), [] as [String; 0]);
    assert_given_back(&manager);
}

/// A shape with an extent of nothing has no elements, whatever the other extents are and in whatever order they come.
pub(super) fn an_empty_shape_in_any_order(bed: &Bed) {
    let Rig { manager, probe } = bed.open_with(untrimmed());
    for shape in
        [&[0][..], &[3, 0, 5], &[0, u64::MAX], &[0, 1 << 40, 1 << 40], &[u64::MAX, 0], &[1 << 62, 4, 0]]
    {
        let tensor = big::<u64>(&manager, None, shape).unwrap_or_else(|error| panic!("{shape:?}: {error}"));
        assert_eq!((tensor.len(), tensor.bytes(), tensor.shape(), tensor.is_empty()), (0, 0, shape, true));
        assert_eq!(tensor.read().unwrap(), [0_u64; 0]);
    }
    assert_eq!(probe.calls(CallKind::Allocate), 0);
    assert_given_back(&manager);
}

/// Shapes are kept as they were given, a scalar's too, and do not change what is copied.
pub(super) fn shapes_are_kept(bed: &Bed) {
    let manager = bed.open_with(untrimmed()).manager;
    for (shape, len) in [(&[][..], 1), (&[1], 1), (&[2, 3, 4], 24), (&[1, 1, 1, 1, 1, 1, 7], 7)] {
        let tensor = big::<u16>(&manager, None, shape).unwrap();
        assert_eq!((tensor.shape(), tensor.len(), tensor.bytes()), (shape, len, 2 * len));
        let data: Vec<u16> = (0..len as u16).collect();
        tensor.write(&data).unwrap();
        assert_eq!(tensor.read().unwrap(), data);
    }
    assert_given_back(&manager);
}

/// An empty tensor is legal in every operation beside one that is not, and where the sizes differ the error names it.
pub(super) fn empty_tensors_in_every_operation(bed: &Bed) {
    let Rig { manager, probe } = bed.open_with(untrimmed());
    let scope = manager.scope("s").unwrap();
    let empty = scope.tensor_from::<u32>("empty", &[]).unwrap();
    let other = scope.tensor_from::<u32>("other", &[]).unwrap();
    let full = scope.tensor_from("full", &[7_u32; 64]).unwrap();
    let (read_empty, nothing) = op::download(&empty);
    let (read_full, values) = op::download(&full);
    let sequence = scope.sequence().unwrap();
    for operation in [
        op::fill(&empty, 1),
        op::upload(&empty, &[]),
        op::copy(&empty, &other),
        op::copy(&empty, full.view(64..64).unwrap()),
        op::fill(full.view(0..0).unwrap(), 9),
        // Nothing overlaps nothing.
        op::copy(&empty, &empty),
        read_empty,
        read_full,
    ] {
        sequence.record(operation).unwrap();
    }
    sequence.run().unwrap();
    assert_eq!((nothing.get().unwrap(), values.get().unwrap()), (vec![], vec![7; 64]));
    let before = sequence.len();
    for (operation, names) in [
        (op::copy(&empty, &full), "full"),
        (op::copy(&full, &empty), "empty"),
        (op::upload(&empty, &[1]), "empty"),
    ] {
        let error = sequence.record(operation).map(|_| ()).unwrap_err();
        assert!(matches!(error, Error::Length { .. }), "{error}");
        assert_names(&error, &[names]);
    }
    assert_eq!(sequence.len(), before);
    assert_eq!(probe.lifetimes(crate::instrument::ObjectKind::Block).made, 1, "only `full` has memory");
    scope.finish_blocking().unwrap();
    drop((empty, other, full));
    assert_given_back(&manager);
}
