//! Cases about kernels of pictures.
//!
//! Not here: vectors and matrices (`elements.rs`).

use tenure_kernels::{Axis, Blur, ImageSize, Resize, Sharpness, Unsharp, gaussian_weights};

use super::tensor;
use crate::bed::Bed;
use crate::cases::ownership::support::assert_given_back;
use crate::reference::{Picture, assert_near, values};

/// Width, height and channels: none, one, prime numbers, thin ones.
const SIZES: [[usize; 3]; 8] =
    [[0, 0, 4], [5, 0, 1], [1, 1, 1], [1, 1, 4], [17, 13, 3], [64, 4, 4], [1, 101, 2], [257, 1, 1]];

fn size([width, height, channels]: [usize; 3]) -> ImageSize {
    ImageSize::new(width as u32, height as u32, channels as u32)
}

fn elements(size: [usize; 3]) -> usize {
    size.iter().product()
}

/// Larger, smaller, the same, one direction of each.
pub(super) fn resize(bed: &Bed) {
    let manager = bed.open().manager;
    let resize = Resize::compile(&manager).unwrap();
    let targets = |[width, height, channels]: [usize; 3]| {
        let extents = [(2 * width, 2 * height), (width, height), (7, 3), (width.div_ceil(2), 40), (0, 9)];
        extents.map(|(width, height)| [width, height, channels])
    };
    for from in SIZES {
        for to in targets(from).into_iter().filter(|to| elements(from) > 0 || elements(*to) == 0) {
            let scope = manager.scope("s").unwrap();
            let numbers = values(9, elements(from));
            let source = tensor(&scope, "source", &numbers);
            let target = tensor(&scope, "target", &vec![f32::NAN; elements(to)]);
            let dispatch = resize.dispatch(&source, size(from), &target, size(to)).unwrap();
            scope.evaluate([dispatch]).unwrap().wait().unwrap();
            let picture = Picture { elements: &numbers, size: from };
            let expected = if elements(to) == 0 { Vec::new() } else { picture.resize(to[0], to[1]) };
            assert_near(&format!("{from:?} to {to:?}"), &target.read().unwrap(), &expected, 2e-6);
            scope.finish_blocking().unwrap();
        }
    }
    drop(resize);
    assert_given_back(&manager);
}

/// Along rows and along columns, with one weight, with three, and with more than the picture has pixels.
pub(super) fn blur(bed: &Bed) {
    let manager = bed.open().manager;
    let blur = Blur::compile(&manager).unwrap();
    for extents in SIZES {
        for weights in [vec![0.5], vec![0.25, 0.5, 0.25], gaussian_weights(7.0)] {
            let scope = manager.scope("s").unwrap();
            let numbers = values(10, elements(extents));
            let source = tensor(&scope, "source", &numbers);
            let on_weights = tensor(&scope, "weights", &weights);
            let picture = Picture { elements: &numbers, size: extents };
            for axis in [Axis::Horizontal, Axis::Vertical] {
                let target = tensor(&scope, "target", &vec![f32::NAN; numbers.len()]);
                let dispatch = blur.dispatch(&source, &on_weights, &target, size(extents), axis).unwrap();
                scope.evaluate([dispatch]).unwrap().wait().unwrap();
                let expected = picture.blur(&weights, axis == Axis::Horizontal);
                let what = format!("{extents:?} by {} weights, {axis:?}", weights.len());
                assert_near(&what, &target.read().unwrap(), &expected, 5e-6);
            }
            scope.finish_blocking().unwrap();
        }
    }
    drop(blur);
    assert_given_back(&manager);
}

/// All pixels, some, none, as the threshold says.
pub(super) fn unsharp(bed: &Bed) {
    let manager = bed.open().manager;
    let unsharp = Unsharp::compile(&manager).unwrap();
    for extents in SIZES.into_iter().chain([[70, 60, 4]]) {
        for (amount, threshold) in [(0.0, 0.0), (1.5, 0.0), (0.8, 0.75), (2.0, 3.0)] {
            let scope = manager.scope("s").unwrap();
            let (numbers, smooth) = (values(11, elements(extents)), values(12, elements(extents)));
            let original = tensor(&scope, "original", &numbers);
            let blurred = tensor(&scope, "blurred", &smooth);
            let target = tensor(&scope, "target", &vec![f32::NAN; numbers.len()]);
            let sharpness = Sharpness { amount, threshold };
            let dispatch = unsharp.dispatch(&original, &blurred, &target, size(extents), sharpness).unwrap();
            scope.evaluate([dispatch]).unwrap().wait().unwrap();
            let expected = Picture { elements: &numbers, size: extents }.unsharp(&smooth, amount, threshold);
            let what = format!("{extents:?}, amount {amount}, threshold {threshold}");
            assert_near(&what, &target.read().unwrap(), &expected, 2e-6);
            scope.finish_blocking().unwrap();
        }
    }
    drop(unsharp);
    assert_given_back(&manager);
}
