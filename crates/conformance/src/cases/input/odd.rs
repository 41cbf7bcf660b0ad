//! Cases about input that looks wrong and is not: elements and ranges whose bytes are no multiple of what a device
//! likes to copy, and elements that are large (L22).
//!
//! Not here: ranges bound to a kernel (`dispatches.rs`).

use tenure_core::{Error, Manager, op, tensor::Element};

use crate::bed::Bed;
use crate::cases::ownership::support::{assert_given_back, assert_names, untrimmed};

/// Writes, reads, uploads, copies, fills and downloads `data`.
fn in_every_operation<T: Element + PartialEq + std::fmt::Debug>(manager: &Manager, data: &[T]) {
    let scope = manager.scope("s").unwrap();
    let len = data.len() as u64;
    let first = scope.tensor_from("first", data).unwrap();
    assert_eq!((first.len(), first.bytes()), (len, len * size_of::<T>() as u64));
    assert_eq!(first.read().unwrap(), data);
    let second = scope.tensor::<T>(len).unwrap();
    let (download, values) = op::download(&second);
    scope.evaluate([op::copy(&first, &second), download]).unwrap().wait().unwrap();
    assert_eq!((values.get().unwrap(), second.read().unwrap()), (data.to_vec(), data.to_vec()));
    let last = data[data.len() - 1];
    let tail = first.view(1..len).unwrap();
    scope.evaluate([op::fill(&second, last), op::upload(&tail, &data[1..])]).unwrap().wait().unwrap();
    assert_eq!((second.read().unwrap(), first.read().unwrap()), (vec![last; data.len()], data.to_vec()));
    scope.finish_blocking().unwrap();
}

/// Elements of 1, 2, 3, 5, 12 and 24 bytes, of lengths that make odd sums of them.
pub(super) fn elements_of_odd_size(bed: &Bed) {
    let manager = bed.open_with(untrimmed()).manager;
    in_every_operation(&manager, &[1_u8, 2, 3, 4, 5]);
    in_every_operation(&manager, &[1_u16, 2, 3]);
    in_every_operation(&manager, &[[1_u8, 2, 3], [4, 5, 6], [7, 8, 9]]);
    in_every_operation(&manager, &[[1_u8, 2, 3, 4, 5]; 7]);
    in_every_operation(&manager, &[[1_f32, 2.0, 3.0], [4.0, 5.0, 6.0]]);
    in_every_operation(&manager, &[[1_u64, 2, 3], [4, 5, 6], [7, 8, 9]]);
    assert_given_back(&manager);
}

/// Views that begin and end at any byte: what is copied, filled, uploaded and downloaded is that range, and its
/// neighbours keep what they have.
pub(super) fn views_at_odd_bytes(bed: &Bed) {
    let manager = bed.open_with(untrimmed()).manager;
    let scope = manager.scope("s").unwrap();
    let mut expected: Vec<u8> = (0..64).collect();
    let tensor = scope.tensor_from("bytes", &expected).unwrap();
    let source = scope.tensor_from("source", &(100..164).collect::<Vec<u8>>()).unwrap();
    for (start, end) in [(0, 1), (1, 2), (1, 4), (3, 8), (5, 6), (7, 13), (31, 33), (61, 64)] {
        let (from, to) = (start as usize, end as usize);
        let view = tensor.view(start..end).unwrap();
        let (download, values) = op::download(&view);
        scope.evaluate([op::fill(&view, 255), download]).unwrap().wait().unwrap();
        expected[from..to].fill(255);
        assert_eq!((tensor.read().unwrap(), values.get().unwrap()), (expected.clone(), vec![255; to - from]));
        scope.evaluate([op::upload(&view, &vec![200; to - from])]).unwrap().wait().unwrap();
        expected[from..to].fill(200);
        assert_eq!(tensor.read().unwrap(), expected, "uploaded {start}..{end}");
        // From another offset than to.
        let other = 64 - end..64 - start;
        scope.evaluate([op::copy(source.view(other.clone()).unwrap(), &view)]).unwrap().wait().unwrap();
        for (at, value) in expected[from..to].iter_mut().zip(other) {
            *at = 100 + value as u8;
        }
        assert_eq!(tensor.read().unwrap(), expected, "copied to {start}..{end}");
        view.write(&vec![1; to - from]).unwrap();
        expected[from..to].fill(1);
        assert_eq!((tensor.read().unwrap(), view.read().unwrap()), (expected.clone(), vec![1; to - from]));
    }
    scope.finish_blocking().unwrap();
    drop((tensor, source));
    assert_given_back(&manager);
}

/// An element of 128 bytes: a fill by it is right, or an error that names the tensor when it is recorded. The decorator
/// judges what reaches the backend.
pub(super) fn a_fill_by_a_large_element(bed: &Bed) {
    let manager = bed.open_with(untrimmed()).manager;
    let scope = manager.scope("s").unwrap();
    let element: [u64; 16] = std::array::from_fn(|at| at as u64);
    let tensor = scope.tensor_from("large", &[[0; 16]; 3]).unwrap();
    let sequence = scope.sequence().unwrap();
    match sequence.record(op::fill(&tensor, element)) {
        Ok(sequence) => {
            sequence.run().unwrap();
            assert_eq!(tensor.read().unwrap(), [element; 3]);
        }
        Err(Error::Backend(error)) => panic!("the driver is not asked when it is recorded: {error}"),
        Err(error) => {
            assert_names(&error, &["large"]);
            assert!(sequence.is_empty());
        }
    }
    // Everything else can be done with it.
    scope.evaluate([op::upload(&tensor, &[element; 3])]).unwrap().wait().unwrap();
    assert_eq!(tensor.read().unwrap(), [element; 3]);
    scope.finish_blocking().unwrap();
    drop(tensor);
    assert_given_back(&manager);
}
