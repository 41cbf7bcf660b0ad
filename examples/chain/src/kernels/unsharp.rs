//! Unsharp masking: the difference from the blurred image, added where it passes a threshold. Alpha stays.

use tenure::{Access, KernelSource};

use super::for_each_row;
use crate::image::CHANNELS;

/// The mask's parameters.
#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Mask {
    /// How much of the difference is added.
    pub amount: f32,
    /// Differences below this (in 0..=1) are left alone.
    pub threshold: f32,
}

/// Sharpens `original` by its difference from `blurred`.
pub fn sharpen(original: &[f32], blurred: &[f32], mask: Mask, target: &mut [f32]) {
    for_each_row(target, CHANNELS, |at, pixel| {
        let at = at * CHANNELS;
        for channel in 0..CHANNELS - 1 {
            let value = original[at + channel];
            let difference = value - blurred[at + channel];
            let added = if difference.abs() < mask.threshold { 0.0 } else { mask.amount * difference };
            pixel[channel] = (value + added).clamp(0.0, 1.0);
        }
        pixel[CHANNELS - 1] = original[at + CHANNELS - 1];
    });
}

/// Binding 0: the original; 1: the blurred; 2: the result. Parameters: [`Mask`].
pub fn kernel() -> KernelSource {
    KernelSource::new("unsharp mask", &[Access::Read, Access::Read, Access::Write]).host(|arguments| {
        let mask = arguments.parameters::<Mask>();
        let ([original, blurred], [target]) = arguments.slices::<f32, 2, 1>([0, 1], [2]);
        sharpen(original, blurred, mask, target);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edge_gets_steeper_small_differences_and_alpha_stay() {
        let mask = Mask { amount: 2.0, threshold: 0.05 };
        let mut target = [0.0; CHANNELS];
        sharpen(&[0.5, 0.5, 0.9, 0.25], &[0.4, 0.48, 0.7, 0.0], mask, &mut target);
        assert!((target[0] - 0.7).abs() < 1e-6);
        assert_eq!(target[1..], [0.5, 1.0, 0.25]);
    }
}
