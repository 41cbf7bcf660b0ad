//! Upscaling by two with Keys' cubic kernel, a = -0.5, and clamped edges.
//!
//! Source: R. G. Keys, "Cubic convolution interpolation for digital image processing", 1981.

use tenure::{Access, KernelSource};

use super::{Size, clamped, for_each_row};
use crate::image::CHANNELS;

/// How much larger each side becomes.
pub const FACTOR: u32 = 2;

/// Keys' parameter: -0.5 reproduces second-degree polynomials.
const A: f32 = -0.5;

/// Weights of the four samples around a position that is `t` (0..1) after the second.
fn weights(t: f32) -> [f32; 4] {
    let near = |x: f32| ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0;
    let far = |x: f32| ((A * x - 5.0 * A) * x + 8.0 * A) * x - 4.0 * A;
    [far(1.0 + t), near(t), near(1.0 - t), far(2.0 - t)]
}

/// The first of four samples for a position of the result, and their weights.
fn taps(position: usize) -> (isize, [f32; 4]) {
    let source = (position as f32 + 0.5) / FACTOR as f32 - 0.5;
    let first = source.floor();
    (first as isize - 1, weights(source - first))
}

/// Upscales `source` of `size` into `target`, which has four times as many pixels.
pub fn upscale(source: &[f32], size: Size, target: &mut [f32]) {
    let row = size.row();
    for_each_row(target, row * FACTOR as usize, |y, values| {
        let (first_y, weights_y) = taps(y);
        for (x, pixel) in values.chunks_exact_mut(CHANNELS).enumerate() {
            let (first_x, weights_x) = taps(x);
            pixel.fill(0.0);
            for (dy, weight_y) in weights_y.iter().enumerate() {
                let line = clamped(first_y + dy as isize, size.height) * row;
                for (dx, weight_x) in weights_x.iter().enumerate() {
                    let at = line + clamped(first_x + dx as isize, size.width) * CHANNELS;
                    for (value, sample) in pixel.iter_mut().zip(&source[at..at + CHANNELS]) {
                        *value += weight_y * weight_x * sample;
                    }
                }
            }
        }
    });
}

/// Binding 0: the source; 1: the result. Parameters: the source's [`Size`].
pub fn kernel() -> KernelSource {
    KernelSource::new("bicubic x2", &[Access::Read, Access::Write]).host(|arguments| {
        let size = arguments.parameters::<Size>();
        let ([source], [target]) = arguments.slices::<f32, 1, 1>([0], [1]);
        upscale(source, size, target);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_sum_to_one_and_hit_the_samples() {
        for step in 0..=10 {
            let sum: f32 = weights(step as f32 / 10.0).iter().sum();
            assert!((sum - 1.0).abs() < 1e-6, "{sum}");
        }
        assert_eq!(weights(0.0), [0.0, 1.0, 0.0, 0.0]);
    }

    #[test]
    fn a_constant_image_stays_constant() {
        let mut target = vec![0.0; 3 * 2 * 4 * CHANNELS];
        upscale(&[0.25; 3 * 2 * CHANNELS], Size { width: 3, height: 2 }, &mut target);
        assert!(target.iter().all(|value| (value - 0.25).abs() < 1e-6));
    }

    #[test]
    fn a_ramp_stays_a_ramp_away_from_the_edges() {
        let width = 16;
        let source: Vec<f32> = (0..width).flat_map(|x| [x as f32; CHANNELS]).collect();
        let mut target = vec![0.0; width * 4 * CHANNELS];
        upscale(&source, Size { width: width as u32, height: 1 }, &mut target);
        for x in 4..width * 2 - 4 {
            let expected = (x as f32 + 0.5) / 2.0 - 0.5;
            assert!((target[x * CHANNELS] - expected).abs() < 1e-4, "at {x}");
        }
    }
}
