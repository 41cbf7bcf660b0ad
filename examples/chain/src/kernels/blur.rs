//! Gaussian blur in two passes, along rows and along columns, with clamped edges.

use tenure::{Access, KernelSource};

use super::{Size, clamped, for_each_row};
use crate::image::CHANNELS;

/// A pass's parameters.
#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Pass {
    /// The image's size.
    pub size: Size,
    /// Standard deviation in pixels, above 0.
    pub sigma: f32,
    /// 0 along rows, 1 along columns.
    pub vertical: u32,
}

/// Weights from `-radius` to `radius`, which sum to 1. The radius is three standard deviations.
pub fn weights(sigma: f32) -> Vec<f32> {
    let radius = (3.0 * sigma).ceil() as i32;
    let bell = |x: i32| (-0.5 * (x as f32 / sigma).powi(2)).exp();
    let sum: f32 = (-radius..=radius).map(bell).sum();
    (-radius..=radius).map(|x| bell(x) / sum).collect()
}

/// One pass of the blur from `source` to `target`, of one size.
pub fn blur(source: &[f32], pass: Pass, target: &mut [f32]) {
    let weights = weights(pass.sigma);
    let radius = (weights.len() / 2) as isize;
    let size = pass.size;
    let row = size.row();
    for_each_row(target, row, |y, values| {
        for (x, pixel) in values.chunks_exact_mut(CHANNELS).enumerate() {
            pixel.fill(0.0);
            for (tap, weight) in weights.iter().enumerate() {
                let shift = tap as isize - radius;
                let at = if pass.vertical == 0 {
                    y * row + clamped(x as isize + shift, size.width) * CHANNELS
                } else {
                    clamped(y as isize + shift, size.height) * row + x * CHANNELS
                };
                for (value, sample) in pixel.iter_mut().zip(&source[at..at + CHANNELS]) {
                    *value += weight * sample;
                }
            }
        }
    });
}

/// Binding 0: the source; 1: the result. Parameters: [`Pass`].
pub fn kernel() -> KernelSource {
    KernelSource::new("gaussian blur", &[Access::Read, Access::Write]).host(|arguments| {
        let pass = arguments.parameters::<Pass>();
        let ([source], [target]) = arguments.slices::<f32, 1, 1>([0], [1]);
        blur(source, pass, target);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two_passes(source: &[f32], size: Size, sigma: f32) -> Vec<f32> {
        let mut half = vec![0.0; source.len()];
        let mut whole = vec![0.0; source.len()];
        blur(source, Pass { size, sigma, vertical: 0 }, &mut half);
        blur(&half, Pass { size, sigma, vertical: 1 }, &mut whole);
        whole
    }

    #[test]
    fn an_impulse_keeps_its_sum_and_two_passes_are_the_product() {
        let size = Size { width: 15, height: 15 };
        let mut source = vec![0.0; 15 * 15 * CHANNELS];
        source[(7 * 15 + 7) * CHANNELS] = 1.0;
        let blurred = two_passes(&source, size, 1.0);
        let red: Vec<f32> = blurred.iter().copied().step_by(CHANNELS).collect();
        assert!((red.iter().sum::<f32>() - 1.0).abs() < 1e-5);
        let weights = weights(1.0);
        for (dy, wy) in weights.iter().enumerate() {
            for (dx, wx) in weights.iter().enumerate() {
                let at = (7 + dy - 3) * 15 + (7 + dx - 3);
                assert!((red[at] - wx * wy).abs() < 1e-6);
            }
        }
    }

    #[test]
    fn a_constant_image_stays_constant() {
        let blurred = two_passes(&[0.75; 5 * 3 * CHANNELS], Size { width: 5, height: 3 }, 2.0);
        assert!(blurred.iter().all(|value| (value - 0.75).abs() < 1e-5));
    }
}
