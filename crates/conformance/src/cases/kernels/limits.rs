//! Cases about what the shipped kernels refuse.
//!
//! Not here: results.

use tenure_core::{Error, ManagedSequence, Op};
use tenure_kernels::{
    Axis, Blur, CopyElements, Fill, Histogram, ImageSize, Matmul, MatmulSize, PrefixSum, Resize, Saxpy,
    Sharpness, Sum, Unsharp,
};

use super::tensor;
use crate::bed::Bed;
use crate::cases::ownership::support::{Snapshot, assert_given_back, assert_names, untrimmed};
use crate::instrument::Limits;

/// Every shipped kernel has a form that the backend compiles.
pub(super) fn every_source_compiles(bed: &Bed) {
    let manager = bed.open().manager;
    Fill::compile(&manager).unwrap();
    CopyElements::compile(&manager).unwrap();
    Saxpy::compile(&manager).unwrap();
    Sum::compile(&manager).unwrap();
    Matmul::compile(&manager).unwrap();
    Resize::compile(&manager).unwrap();
    Blur::compile(&manager).unwrap();
    Unsharp::compile(&manager).unwrap();
    Histogram::compile(&manager).unwrap();
    PrefixSum::compile(&manager).unwrap();
    assert_given_back(&manager);
}

/// Records into a sequence and asserts the answer `TooLarge` for this tensor.
#[track_caller]
fn assert_too_large(sequence: &ManagedSequence, operation: impl Into<Op>, tensor: &str, bytes: u64) {
    let error = sequence.record(operation).map(|_| ()).unwrap_err();
    match &error {
        Error::TooLarge { label, requested, which, .. } => {
            assert_eq!((&**label, *requested, *which), (tensor, bytes, "largest binding"));
        }
        other => panic!("`{tensor}` passes the largest binding: {other}"),
    }
}

/// A tensor above the largest binding is refused when it is recorded, by name, in whichever place; no driver call is
/// made.
pub(super) fn larger_than_one_binding(bed: &Bed) {
    const LARGEST: u64 = 64 << 10;
    let limits = Limits { max_binding_bytes: Some(LARGEST), ..Limits::default() };
    let rig = bed.open_limited(limits, untrimmed());
    let scope = rig.manager.scope("s").unwrap();
    let length = LARGEST as usize / 4 + 1;
    let large = tensor(&scope, "large", &vec![1_f32; length]);
    let other = tensor(&scope, "other", &vec![1_f32; length]);
    let counts = tensor(&scope, "counts", &vec![1_u32; length]);
    let small = tensor(&scope, "small", &[1_u32; 64]);
    let scratch = tensor(&scope, "scratch", &[0_f32; 256]);
    let output = tensor(&scope, "output", &[0_f32]);
    let saxpy = Saxpy::compile(&rig.manager).unwrap();
    let sum = Sum::compile(&rig.manager).unwrap();
    let histogram = Histogram::compile(&rig.manager).unwrap();
    let sequence = scope.sequence().unwrap();
    let before = Snapshot::of(&rig);
    let bytes = LARGEST + 4;
    assert_too_large(&sequence, saxpy.dispatch(1.0, &large, &other).unwrap(), "large", bytes);
    let [first, _] = sum.dispatch(&large, &scratch, &output).unwrap();
    assert_too_large(&sequence, first, "large", bytes);
    assert_too_large(&sequence, histogram.dispatch(&small, &counts).unwrap(), "counts", bytes);
    assert_too_large(&sequence, histogram.dispatch(&counts, &small).unwrap(), "counts", bytes);
    assert!(sequence.is_empty());
    before.assert_unchanged(&rig);

    // As much as one binding takes is fine.
    let most = |tensor: &tenure_core::Tensor<f32>| tensor.view(0..LARGEST / 4).unwrap();
    sequence.record(saxpy.dispatch(1.0, most(&large), most(&other)).unwrap()).unwrap().run().unwrap();
    let mut expected = vec![2_f32; length];
    expected[length - 1] = 1.0;
    assert!(other.read().unwrap() == expected);
    scope.finish_blocking().unwrap();
    drop((large, other, counts, small, scratch, output, saxpy, sum, histogram));
    assert_given_back(&rig.manager);
}

/// Asserts that a dispatch is refused, by names and numbers.
#[track_caller]
fn assert_refused<T>(answer: Result<T, Error>, names: &[&str]) {
    let error = answer.err().expect("the sizes do not fit");
    assert!(matches!(&error, Error::Binding { .. }), "{error}");
    assert_names(&error, names);
}

/// Tensors whose sizes do not fit each other: the error names kernel, tensor and both numbers; nothing is recorded and
/// no driver call is made.
pub(super) fn sizes_that_do_not_fit(bed: &Bed) {
    let rig = bed.open_with(untrimmed());
    let manager = &rig.manager;
    let scope = manager.scope("s").unwrap();
    let five = tensor(&scope, "five", &[0_f32; 5]);
    let six = tensor(&scope, "six", &[0_f32; 6]);
    let whole = tensor(&scope, "whole", &vec![0_u32; 2000]);
    let one = tensor(&scope, "one", &[0_u32; 1]);
    let none = tensor(&scope, "none", &[] as &[f32]);
    let copy = CopyElements::compile(manager).unwrap();
    let saxpy = Saxpy::compile(manager).unwrap();
    let sum = Sum::compile(manager).unwrap();
    let prefix_sum = PrefixSum::compile(manager).unwrap();
    let matmul = Matmul::compile(manager).unwrap();
    let resize = Resize::compile(manager).unwrap();
    let blur = Blur::compile(manager).unwrap();
    let unsharp = Unsharp::compile(manager).unwrap();
    let before = Snapshot::of(&rig);

    assert_refused(copy.dispatch(&five, &six), &["copy", "`five`", "`six`", "5", "6"]);
    assert_refused(saxpy.dispatch(1.0, &five, &six), &["saxpy", "`five`", "`six`", "5", "6"]);
    assert_refused(sum.dispatch(&five, &none, &six), &["sum", "scratch `none`", "0", "1"]);
    assert_refused(sum.dispatch(&five, &six, &six), &["sum", "output `six`", "6", "1"]);
    assert_refused(prefix_sum.dispatch(&whole, &one, &one), &["`one`", "`whole`", "2000"]);
    assert_refused(prefix_sum.dispatch(&whole, &whole, &one), &["scratch `one`", "`whole`", "2"]);
    let product = MatmulSize { m: 2, k: 3, n: 2 };
    assert_refused(matmul.dispatch(&six, &five, &five, product), &["matmul", "b `five`", "3x2", "5", "6"]);

    let (three, five_pixels) = (ImageSize::new(3, 1, 2), ImageSize::new(5, 1, 1));
    let sharpness = Sharpness { amount: 1.0, threshold: 0.0 };
    let sharpen = unsharp.dispatch(&six, &five, &six, three, sharpness);
    assert_refused(sharpen, &["unsharp", "blurred `five`", "3x1", "2 channels", "5", "6"]);
    let one_row = |weights| blur.dispatch(&five, weights, &five, five_pixels, Axis::Horizontal);
    assert_refused(one_row(&six), &["blur", "weights `six`", "odd", "6"]);
    assert_refused(one_row(&none), &["blur", "weights `none`", "odd", "0"]);
    let channels = resize.dispatch(&six, three, &five, five_pixels);
    assert_refused(channels, &["resize", "target `five`", "source `six`", "channels"]);
    let nothing = resize.dispatch(&none, ImageSize::new(0, 9, 1), &five, five_pixels);
    assert_refused(nothing, &["resize", "target `five`", "source `none`"]);
    let no_channels = ImageSize::new(0, 0, 0);
    assert_refused(resize.dispatch(&none, no_channels, &none, no_channels), &["source `none`", "0 channels"]);
    let wide = ImageSize::new(u32::MAX, 0, 1);
    assert_refused(resize.dispatch(&none, wide, &none, wide), &["target `none`", "4294967295", "32 bits"]);

    before.assert_unchanged(&rig);
    scope.finish_blocking().unwrap();
    drop((five, six, whole, one, none));
    drop((copy, saxpy, sum, prefix_sum, matmul, resize, blur, unsharp));
    assert_given_back(manager);
}
