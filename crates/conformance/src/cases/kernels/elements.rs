//! Cases about kernels of vectors and matrices.
//!
//! Not here: pictures (`pictures.rs`).

use tenure_core::op;
use tenure_kernels::{CopyElements, Fill, Histogram, Matmul, MatmulSize, PrefixSum, Saxpy, Sum};

use super::{LENGTHS, tensor};
use crate::bed::Bed;
use crate::cases::ownership::support::assert_given_back;
use crate::reference::{self, assert_near, values, whole};

/// Every element is set and copied, and nothing beside it.
pub(super) fn fill_and_copy(bed: &Bed) {
    let manager = bed.open().manager;
    let (fill, copy) = (Fill::compile(&manager).unwrap(), CopyElements::compile(&manager).unwrap());
    for length in LENGTHS {
        let scope = manager.scope("s").unwrap();
        let numbers = values(3, length);
        let source = tensor(&scope, "source", &numbers);
        let target = tensor(&scope, "target", &vec![0_f32; length]);
        scope.evaluate([copy.dispatch(&source, &target).unwrap()]).unwrap().wait().unwrap();
        assert_eq!(target.read().unwrap(), numbers, "{length} elements");
        // Bits that are no number are kept too.
        let odd = f32::from_bits(0x7fc0_1234);
        scope.evaluate([fill.dispatch(&target, odd).unwrap()]).unwrap().wait().unwrap();
        let read = target.read().unwrap();
        assert!(read.iter().all(|value| value.to_bits() == odd.to_bits()), "{length} elements");
        assert_eq!(source.read().unwrap(), numbers);
        scope.finish_blocking().unwrap();
    }
    drop((fill, copy));
    assert_given_back(&manager);
}

/// Twice from one recording: the second evaluation adds to what the first one made.
pub(super) fn saxpy(bed: &Bed) {
    let manager = bed.open().manager;
    let saxpy = Saxpy::compile(&manager).unwrap();
    for length in LENGTHS {
        let scope = manager.scope("s").unwrap();
        let (x, y) = (values(1, length), values(2, length));
        let (on_x, on_y) = (tensor(&scope, "x", &x), tensor(&scope, "y", &y));
        let sequence = scope.sequence().unwrap();
        sequence.record(saxpy.dispatch(-0.75, &on_x, &on_y).unwrap()).unwrap();
        sequence.run().unwrap();
        sequence.run().unwrap();
        let expected = reference::saxpy(-1.5, &x, &y);
        assert_near(&format!("saxpy of {length}"), &on_y.read().unwrap(), &expected, 1e-6);
        assert_eq!(on_x.read().unwrap(), x);
        scope.finish_blocking().unwrap();
    }
    drop(saxpy);
    assert_given_back(&manager);
}

/// Near the exact sum, and 0 for no element; what scratch and output held before does not matter.
pub(super) fn sum(bed: &Bed) {
    let manager = bed.open().manager;
    let sum = Sum::compile(&manager).unwrap();
    for length in LENGTHS.into_iter().chain([600_011]) {
        let scope = manager.scope("s").unwrap();
        let numbers = values(4, length);
        let input = tensor(&scope, "input", &numbers);
        let scratch = tensor(&scope, "scratch", &[f32::NAN; 256]);
        let output = tensor(&scope, "output", &[f32::NAN]);
        scope.evaluate(sum.dispatch(&input, &scratch, &output).unwrap()).unwrap().wait().unwrap();
        let magnitude: f64 = numbers.iter().map(|value| f64::from(value.abs())).sum();
        let expected = [reference::sum(&numbers)];
        // The depth of the additions, each of which rounds once.
        let depth = (length as f64 / 65_536.0).max(8.0) + 18.0;
        let tolerance = depth * magnitude * 2_f64.powi(-24);
        assert_near(&format!("sum of {length}"), &output.read().unwrap(), &expected, tolerance);
        scope.finish_blocking().unwrap();
    }
    drop(sum);
    assert_given_back(&manager);
}

/// Exact, across blocks, and across steps of the second kernel, which takes 256 blocks at a time.
pub(super) fn prefix_sum(bed: &Bed) {
    let manager = bed.open().manager;
    let prefix_sum = PrefixSum::compile(&manager).unwrap();
    for length in LENGTHS.into_iter().chain([1024 * 256 + 1, 600_011]) {
        let scope = manager.scope("s").unwrap();
        let numbers = whole(5, length, u32::MAX);
        let input = tensor(&scope, "input", &numbers);
        let output = tensor(&scope, "output", &vec![7_u32; length]);
        let scratch = tensor(&scope, "scratch", &vec![9_u32; PrefixSum::scratch_len(length as u64) as usize]);
        let dispatches = prefix_sum.dispatch(&input, &output, &scratch).unwrap();
        scope.evaluate(dispatches).unwrap().wait().unwrap();
        assert!(output.read().unwrap() == reference::prefix_sum(&numbers), "running sums of {length}");
        scope.finish_blocking().unwrap();
    }
    drop(prefix_sum);
    assert_given_back(&manager);
}

/// Exact; values beyond the last count are left out, and a second evaluation counts on.
pub(super) fn histogram(bed: &Bed) {
    let manager = bed.open().manager;
    let histogram = Histogram::compile(&manager).unwrap();
    for length in LENGTHS {
        for bins in [0, 1, 61, 256] {
            let scope = manager.scope("s").unwrap();
            let numbers = whole(6, length, 80);
            let input = tensor(&scope, "values", &numbers);
            let counts = tensor(&scope, "counts", &vec![5_u32; bins]);
            let sequence = scope.sequence().unwrap();
            sequence.record(histogram.dispatch(&input, &counts).unwrap()).unwrap();
            scope.evaluate([op::fill(&counts, 0)]).unwrap().wait().unwrap();
            sequence.run().unwrap();
            sequence.run().unwrap();
            let twice: Vec<u32> = reference::histogram(&numbers, bins).iter().map(|n| 2 * n).collect();
            assert_eq!(counts.read().unwrap(), twice, "{length} values in {bins} bins");
            scope.finish_blocking().unwrap();
        }
    }
    drop(histogram);
    assert_given_back(&manager);
}

/// Extents of none, one, a prime number and around a tile of 16.
pub(super) fn matmul(bed: &Bed) {
    let manager = bed.open().manager;
    let matmul = Matmul::compile(&manager).unwrap();
    let sizes = [
        [1, 1, 1],
        [16, 16, 16],
        [17, 15, 33],
        [13, 97, 7],
        [1, 300, 1],
        [64, 1, 50],
        [0, 3, 4],
        [3, 0, 4],
        [3, 4, 0],
        [0, 0, 0],
    ];
    for [m, k, n] in sizes {
        let scope = manager.scope("s").unwrap();
        let (a, b) = (values(7, m * k), values(8, k * n));
        let (on_a, on_b) = (tensor(&scope, "a", &a), tensor(&scope, "b", &b));
        let on_c = tensor(&scope, "c", &vec![f32::NAN; m * n]);
        let size = MatmulSize { m: m as u32, k: k as u32, n: n as u32 };
        scope.evaluate([matmul.dispatch(&on_a, &on_b, &on_c, size).unwrap()]).unwrap().wait().unwrap();
        let expected = reference::matmul(&a, &b, [m, k, n]);
        let tolerance = k as f64 * k.max(1) as f64 * 2_f64.powi(-23);
        assert_near(&format!("{m}x{k} by {k}x{n}"), &on_c.read().unwrap(), &expected, tolerance);
        scope.finish_blocking().unwrap();
    }
    drop(matmul);
    assert_given_back(&manager);
}
