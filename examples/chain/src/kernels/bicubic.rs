//! Upscaling to twice the size by cubic convolution, with the parameter a = -0.5.
//!
//! The kernel is Keys' (R. Keys, "Cubic convolution interpolation for digital image processing", 1981), which with
//! that parameter reproduces polynomials up to degree 2. Pixels are areas: the centre of target pixel `i` lies at
//! `(i + 0.5) / 2 - 0.5` in the source, a quarter of a pixel before or after a source pixel's centre. So there
//! are two sets of four weights, and no more.
//!
//! Not here: other factors.

use tenure::{Access, KernelSource};

use super::rows::{add_scaled, clamped_row, each_row, with_margins};
use super::{CHANNELS, Size, check};

/// The kernel's parameter.
pub const A: f32 = -0.5;

/// Source pixels that a target pixel depends on, in each direction.
const TAPS: usize = 4;

/// Scales the picture `source` of `size` to `target`, which has twice the width and height.
///
/// # Panics
/// If a slice does not have the elements of its size.
pub fn upscale(source: &[f32], size: Size, target: &mut [f32]) {
    check("source", source, size);
    check("target", target, Size::new(2 * size.width, 2 * size.height));
    let row = size.row();
    each_row(target, 2 * row, |y, line| {
        let down = taps(y);
        let mixed = with_margins(row, MARGIN, |mixed| {
            for (tap, weight) in down.weights.into_iter().enumerate() {
                let index = (down.first + tap) as isize - MARGIN as isize;
                add_scaled(mixed, weight, clamped_row(source, row, index));
            }
        });
        let (pixels, _) = line.as_chunks_mut::<CHANNELS>();
        let (mixed, _) = mixed.as_chunks::<CHANNELS>();
        for (x, pixel) in pixels.iter_mut().enumerate() {
            let across = taps(x);
            *pixel = [0.0; CHANNELS];
            for (value, weight) in mixed[across.first..].iter().zip(across.weights) {
                add_scaled(pixel, weight, value);
            }
        }
    });
}

/// [`upscale`] of binding 0 to binding 1. Parameters: the source's size.
pub fn source() -> KernelSource {
    KernelSource::new("upscale", &[Access::Read, Access::Write]).host(|arguments| {
        let size = Size::from_parameters(arguments.parameters());
        let ([source], [target]) = arguments.slices::<f32, 1, 1>([0], [1]);
        upscale(source, size, target);
    })
}

/// Source pixels before the first one that a target pixel can depend on.
const MARGIN: usize = 2;

/// What one target position depends on, in one direction.
struct Taps {
    /// The first source position, counted from [`MARGIN`] positions before the picture.
    first: usize,
    weights: [f32; TAPS],
}

fn taps(position: usize) -> Taps {
    let nearest = position / 2;
    // A quarter before `nearest`: from two before it to one after it. A quarter after: the mirror image.
    let before = [weight(1.75), weight(0.75), weight(0.25), weight(1.25)];
    if position.is_multiple_of(2) {
        Taps { first: nearest, weights: before }
    } else {
        let [a, b, c, d] = before;
        Taps { first: nearest + 1, weights: [d, c, b, a] }
    }
}

/// The kernel at a distance of 0 to 2 source pixels.
const fn weight(distance: f32) -> f32 {
    let x = distance;
    if x <= 1.0 {
        ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0
    } else {
        ((A * x - 5.0 * A) * x + 8.0 * A) * x - 4.0 * A
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(size: Size, value: impl Fn(usize, usize, usize) -> f32) -> Vec<f32> {
        let width = size.width as usize;
        (0..size.elements())
            .map(|at| value(at / CHANNELS % width, at / CHANNELS / width, at % CHANNELS))
            .collect()
    }

    fn upscaled(source: &[f32], size: Size) -> Vec<f32> {
        let mut target = vec![f32::NAN; 4 * source.len()];
        upscale(source, size, &mut target);
        target
    }

    #[test]
    fn weights_are_as_calculated_by_hand() {
        // w(1/4) = 1.5/64 - 2.5/16 + 1, and so on: all are multiples of 1/128.
        assert_eq!([0.25, 0.75, 1.25, 1.75].map(weight), [111.0, 29.0, -9.0, -3.0].map(|n| n / 128.0));
        assert_eq!([0.0, 1.0, 2.0].map(weight), [1.0, 0.0, 0.0]);
    }

    #[test]
    fn weights_sum_to_one() {
        for position in 0..4 {
            assert_eq!(taps(position).weights.iter().sum::<f32>(), 1.0);
        }
    }

    #[test]
    fn one_pixel_is_constant() {
        assert_eq!(upscaled(&[0.5, 0.25, 1.0, 0.75], Size::new(1, 1)), [0.5, 0.25, 1.0, 0.75].repeat(4));
    }

    #[test]
    fn a_constant_picture_stays_constant() {
        let size = Size::new(5, 3);
        let source = picture(size, |_, _, channel| [0.5, 0.25, 1.0, 0.75][channel]);
        assert_eq!(upscaled(&source, size), [0.5, 0.25, 1.0, 0.75].repeat(60));
    }

    #[test]
    fn a_single_bright_pixel_gives_the_kernel() {
        let size = Size::new(5, 1);
        let source = picture(size, |x, _, _| if x == 2 { 128.0 } else { 0.0 });
        let reds: Vec<f32> = upscaled(&source, size)[..40].iter().step_by(CHANNELS).copied().collect();
        assert_eq!(reds, [0.0, -3.0, -9.0, 29.0, 111.0, 111.0, 29.0, -9.0, -3.0, 0.0]);
    }

    #[test]
    fn a_ramp_stays_a_ramp_inside() {
        let size = Size::new(8, 8);
        let source = picture(size, |x, y, _| x as f32 + 16.0 * y as f32);
        let target = upscaled(&source, size);
        let place = |position: usize| (position as f32 + 0.5) / 2.0 - 0.5;
        // The outer two source pixels are mixed with the edge that goes on.
        for y in 4..12 {
            for x in 4..12 {
                let value = target[(y * 16 + x) * CHANNELS];
                let expected = place(x) + 16.0 * place(y);
                assert!((value - expected).abs() < 1e-4, "{value} at {x}, {y} instead of {expected}");
            }
        }
    }

    #[test]
    fn it_equals_the_direct_sum_over_sixteen_pixels() {
        let size = Size::new(4, 3);
        let source = picture(size, |x, y, channel| ((7 * x + 13 * y + 5 * channel) % 11) as f32 / 10.0);
        let target = upscaled(&source, size);
        let at = |x: isize, y: isize, channel: usize| {
            let (x, y) = (x.clamp(0, 3) as usize, y.clamp(0, 2) as usize);
            source[(4 * y + x) * CHANNELS + channel]
        };
        for (index, value) in target.iter().enumerate() {
            let (x, y) = (index / CHANNELS % 8, index / CHANNELS / 8);
            let centre = |position: usize| (position as f32 + 0.5) / 2.0 - 0.5;
            let mut expected = 0.0;
            for source_y in -3..6 {
                for source_x in -3..7 {
                    let across = (centre(x) - source_x as f32).abs().min(2.0);
                    let down = (centre(y) - source_y as f32).abs().min(2.0);
                    expected += weight(across) * weight(down) * at(source_x, source_y, index % CHANNELS);
                }
            }
            assert!((value - expected).abs() < 1e-5, "{value} at {x}, {y} instead of {expected}");
        }
    }

    #[test]
    #[should_panic(expected = "the target is no 4x2 picture")]
    fn a_target_of_another_size_is_refused() {
        upscale(&[0.0; 8], Size::new(2, 1), &mut [0.0; 8]);
    }
}
