//! The host forms against naive references, for sizes and numbers that proptest makes up, through a manager.
//!
//! Not here: chosen sizes, on every backend; those are cases of the conformance suite.

use proptest::prelude::*;
use tenure_backend_host::HostBackend;
use tenure_conformance::reference::{self, Picture, assert_near, values, whole};
use tenure_core::{Manager, ManagerOptions, Op, Tensor};
use tenure_kernels::{
    Axis, Blur, CopyElements, Fill, Histogram, ImageSize, Matmul, MatmulSize, PrefixSum, Resize, Saxpy,
    Sharpness, Sum, Unsharp, gaussian_weights,
};

fn open() -> Manager {
    Manager::open_with(HostBackend::new(), ManagerOptions::default()).unwrap()
}

fn run<O: Into<Op>>(manager: &Manager, operations: impl IntoIterator<Item = O>) {
    let scope = manager.scope("test").unwrap();
    scope.evaluate(operations).unwrap().wait().unwrap();
    scope.finish_blocking().unwrap();
}

fn pixels(manager: &Manager, numbers: &[f32]) -> Tensor<f32> {
    manager.tensor_from("picture", numbers).unwrap()
}

fn image_size([width, height, channels]: [usize; 3]) -> ImageSize {
    ImageSize::new(width as u32, height as u32, channels as u32)
}

/// Extents of small pictures that are not empty.
fn extents() -> impl Strategy<Value = [usize; 3]> {
    (1..24_usize, 1..24_usize, 1..5_usize).prop_map(|(width, height, channels)| [width, height, channels])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn fill_and_copy(length in 0..3000_usize, bits: u32, seed: u32) {
        let manager = open();
        let numbers = whole(seed, length, u32::MAX);
        let source = manager.tensor_from("source", &numbers).unwrap();
        let target = manager.tensor_from("target", &vec![0_u32; length]).unwrap();
        run(&manager, [CopyElements::compile(&manager).unwrap().dispatch(&source, &target).unwrap()]);
        prop_assert_eq!(target.read().unwrap(), numbers);
        run(&manager, [Fill::compile(&manager).unwrap().dispatch(&target, bits).unwrap()]);
        prop_assert_eq!(target.read().unwrap(), vec![bits; length]);
    }

    #[test]
    fn saxpy(length in 0..3000_usize, a in -4.0..4.0_f32, seed: u32) {
        let manager = open();
        let (x, y) = (values(seed, length), values(seed ^ 1, length));
        let (on_x, on_y) = (manager.tensor_from("x", &x).unwrap(), manager.tensor_from("y", &y).unwrap());
        run(&manager, [Saxpy::compile(&manager).unwrap().dispatch(a, &on_x, &on_y).unwrap()]);
        assert_near("saxpy", &on_y.read().unwrap(), &reference::saxpy(a, &x, &y), 1e-6);
    }

    #[test]
    fn sum(length in 0..20_000_usize, seed: u32) {
        let manager = open();
        let numbers = values(seed, length);
        let input = manager.tensor_from("input", &numbers).unwrap();
        let scratch = vec![f32::NAN; Sum::scratch_len(length as u64) as usize];
        let scratch = manager.tensor_from("scratch", &scratch).unwrap();
        let output = manager.tensor_from("output", &[f32::NAN]).unwrap();
        run(&manager, Sum::compile(&manager).unwrap().dispatch(&input, &scratch, &output).unwrap());
        let tolerance = 26.0 * length as f64 * 2_f64.powi(-24);
        assert_near("sum", &output.read().unwrap(), &[reference::sum(&numbers)], tolerance);
    }

    #[test]
    fn prefix_sum(length in 0..10_000_usize, seed: u32) {
        let manager = open();
        let numbers = whole(seed, length, u32::MAX);
        let input = manager.tensor_from("input", &numbers).unwrap();
        let output = manager.tensor_from("output", &vec![1_u32; length]).unwrap();
        let scratch = vec![1_u32; PrefixSum::scratch_len(length as u64) as usize];
        let scratch = manager.tensor_from("scratch", &scratch).unwrap();
        run(&manager, PrefixSum::compile(&manager).unwrap().dispatch(&input, &output, &scratch).unwrap());
        prop_assert_eq!(output.read().unwrap(), reference::prefix_sum(&numbers));
    }

    #[test]
    fn histogram(length in 0..3000_usize, bins in 0..100_usize, seed: u32) {
        let manager = open();
        let numbers = whole(seed, length, 100);
        let input = manager.tensor_from("values", &numbers).unwrap();
        let counts = manager.tensor_from("counts", &vec![0_u32; bins]).unwrap();
        run(&manager, [Histogram::compile(&manager).unwrap().dispatch(&input, &counts).unwrap()]);
        prop_assert_eq!(counts.read().unwrap(), reference::histogram(&numbers, bins));
    }

    #[test]
    fn matmul(m in 0..40_usize, k in 0..40_usize, n in 0..40_usize, seed: u32) {
        let manager = open();
        let (a, b) = (values(seed, m * k), values(seed ^ 1, k * n));
        let (on_a, on_b) = (manager.tensor_from("a", &a).unwrap(), manager.tensor_from("b", &b).unwrap());
        let on_c = manager.tensor_from("c", &vec![f32::NAN; m * n]).unwrap();
        let size = MatmulSize { m: m as u32, k: k as u32, n: n as u32 };
        run(&manager, [Matmul::compile(&manager).unwrap().dispatch(&on_a, &on_b, &on_c, size).unwrap()]);
        let tolerance = (k * k) as f64 * 2_f64.powi(-23);
        assert_near("matmul", &on_c.read().unwrap(), &reference::matmul(&a, &b, [m, k, n]), tolerance);
    }

    #[test]
    fn resize(from in extents(), width in 0..40_usize, height in 0..40_usize, seed: u32) {
        let manager = open();
        let numbers = values(seed, from.iter().product());
        let to = [width, height, from[2]];
        let source = pixels(&manager, &numbers);
        let target = pixels(&manager, &vec![f32::NAN; to.iter().product()]);
        let resize = Resize::compile(&manager).unwrap();
        run(&manager, [resize.dispatch(&source, image_size(from), &target, image_size(to)).unwrap()]);
        let expected = Picture { elements: &numbers, size: from }.resize(width, height);
        assert_near("resize", &target.read().unwrap(), &expected, 2e-6);
    }

    #[test]
    fn blur(size in extents(), sigma in 0.2..6.0_f32, vertical: bool, seed: u32) {
        let manager = open();
        let numbers = values(seed, size.iter().product());
        let weights = gaussian_weights(sigma);
        let source = pixels(&manager, &numbers);
        let target = pixels(&manager, &vec![f32::NAN; numbers.len()]);
        let on_weights = manager.tensor_from("weights", &weights).unwrap();
        let axis = if vertical { Axis::Vertical } else { Axis::Horizontal };
        let blur = Blur::compile(&manager).unwrap();
        run(&manager, [blur.dispatch(&source, &on_weights, &target, image_size(size), axis).unwrap()]);
        let expected = Picture { elements: &numbers, size }.blur(&weights, !vertical);
        assert_near("blur", &target.read().unwrap(), &expected, 5e-6);
    }

    #[test]
    fn unsharp(size in extents(), amount in 0.0..3.0_f32, threshold in 0.0..2.0_f32, seed: u32) {
        let manager = open();
        let count = size.iter().product();
        let (numbers, smooth) = (values(seed, count), values(seed ^ 1, count));
        let (original, blurred) = (pixels(&manager, &numbers), pixels(&manager, &smooth));
        let target = pixels(&manager, &vec![f32::NAN; count]);
        let unsharp = Unsharp::compile(&manager).unwrap();
        let sharpness = Sharpness { amount, threshold };
        run(&manager, [unsharp.dispatch(&original, &blurred, &target, image_size(size), sharpness).unwrap()]);
        let expected = Picture { elements: &numbers, size }.unsharp(&smooth, amount, threshold);
        assert_near("unsharp", &target.read().unwrap(), &expected, 2e-6);
    }
}

/// Large enough for several threads, and for rows that are taken whole: more than made-up sizes come to.
#[test]
fn large_pictures() {
    let manager = open();
    for size in [[300, 230, 4], [40, 2500, 3], [40_000, 3, 1]] {
        let numbers = values(5, size.iter().product());
        let picture = Picture { elements: &numbers, size };
        let source = pixels(&manager, &numbers);
        let weights = gaussian_weights(1.5);
        let on_weights = manager.tensor_from("weights", &weights).unwrap();
        let target = pixels(&manager, &vec![f32::NAN; numbers.len()]);
        let blur = Blur::compile(&manager).unwrap();
        for axis in [Axis::Horizontal, Axis::Vertical] {
            run(&manager, [blur.dispatch(&source, &on_weights, &target, image_size(size), axis).unwrap()]);
            let expected = picture.blur(&weights, axis == Axis::Horizontal);
            assert_near("blur", &target.read().unwrap(), &expected, 5e-6);
        }

        let smooth = target.read().unwrap();
        let sharpness = Sharpness { amount: 1.5, threshold: 0.4 };
        let sharpened = pixels(&manager, &vec![f32::NAN; numbers.len()]);
        let unsharp = Unsharp::compile(&manager).unwrap();
        run(&manager, [unsharp.dispatch(&source, &target, &sharpened, image_size(size), sharpness).unwrap()]);
        let expected = picture.unsharp(&smooth, sharpness.amount, sharpness.threshold);
        assert_near("unsharp", &sharpened.read().unwrap(), &expected, 2e-6);

        let to = [size[0] / 2 + 1, size[1] * 3, size[2]];
        let resized = pixels(&manager, &vec![f32::NAN; to.iter().product()]);
        let resize = Resize::compile(&manager).unwrap();
        run(&manager, [resize.dispatch(&source, image_size(size), &resized, image_size(to)).unwrap()]);
        assert_near("resize", &resized.read().unwrap(), &picture.resize(to[0], to[1]), 2e-6);
    }
}

/// A source without pixels is no place to look, even for the columns of a target without rows.
#[test]
fn nothing_is_made_of_nothing() {
    let manager = open();
    let (source, target) = (pixels(&manager, &[]), pixels(&manager, &[]));
    let resize = Resize::compile(&manager).unwrap();
    let (from, to) = (ImageSize::new(0, 0, 4), ImageSize::new(5, 0, 4));
    run(&manager, [resize.dispatch(&source, from, &target, to).unwrap()]);
}
