//! Unsharp mask: the difference between a picture and its blurred self is added to it.
//!
//! Not here: blurring (`gaussian.rs`).

use tenure::{Access, KernelSource};

use super::CHANNELS;
use super::rows::each_row;

/// Pixels that one turn works on.
const STRETCH: usize = 4096;

/// How strongly to sharpen, and where.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Strength {
    /// Times the difference that is added; 0 changes nothing.
    pub amount: f32,
    /// A pixel is left alone if none of its channels differs by as much. 0 sharpens everything.
    pub threshold: f32,
}

/// Sharpens `original` to `target`. A pixel is changed in all channels or in none, so that its hue and its alpha stay
/// in step.
///
/// # Panics
/// If the slices differ in length.
pub fn sharpen(original: &[f32], blurred: &[f32], strength: Strength, target: &mut [f32]) {
    assert_eq!(original.len(), target.len(), "original and target have the same size");
    assert_eq!(blurred.len(), target.len(), "blurred and target have the same size");
    let stretch = STRETCH * CHANNELS;
    each_row(target, stretch, |index, targets| {
        let range = index * stretch..index * stretch + targets.len();
        let (originals, _) = original[range.clone()].as_chunks::<CHANNELS>();
        let (blurreds, _) = blurred[range].as_chunks::<CHANNELS>();
        let (targets, rest) = targets.as_chunks_mut::<CHANNELS>();
        assert!(rest.is_empty(), "a pixel has {CHANNELS} elements");
        for ((target, original), blurred) in targets.iter_mut().zip(originals).zip(blurreds) {
            let difference: [f32; CHANNELS] = std::array::from_fn(|at| original[at] - blurred[at]);
            let sharpened = difference.iter().any(|value| value.abs() >= strength.threshold);
            let amount = if sharpened { strength.amount } else { 0.0 };
            *target = std::array::from_fn(|at| original[at] + amount * difference[at]);
        }
    });
}

/// [`sharpen`] of binding 0, blurred in binding 1, to binding 2. Parameters: amount and threshold.
pub fn source() -> KernelSource {
    KernelSource::new("sharpen", &[Access::Read, Access::Read, Access::Write]).host(|arguments| {
        let [amount, threshold] = arguments.parameters::<[f32; 2]>();
        let ([original, blurred], [target]) = arguments.slices::<f32, 2, 1>([0, 1], [2]);
        sharpen(original, blurred, Strength { amount, threshold }, target);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sharpened(original: &[f32], blurred: &[f32], amount: f32, threshold: f32) -> Vec<f32> {
        let mut target = vec![f32::NAN; original.len()];
        sharpen(original, blurred, Strength { amount, threshold }, &mut target);
        target
    }

    #[test]
    fn it_is_as_calculated_by_hand() {
        let result = sharpened(&[0.5, 0.5, 0.75, 1.0], &[0.25, 0.75, 0.75, 1.0], 2.0, 0.0);
        assert_eq!(result, [1.0, 0.0, 0.75, 1.0]);
    }

    #[test]
    fn no_amount_changes_nothing() {
        let original = [0.5, 0.25, 0.75, 1.0];
        assert_eq!(sharpened(&original, &[0.0; 4], 0.0, 0.0), original);
    }

    #[test]
    fn a_constant_picture_stays_constant() {
        let picture = [0.5, 0.25, 0.75, 1.0].repeat(9);
        assert_eq!(sharpened(&picture, &picture, 1.5, 0.0), picture);
    }

    #[test]
    fn the_threshold_is_a_pixels() {
        let original = [0.5, 0.5, 0.5, 1.0, 0.5, 0.5, 0.5, 1.0];
        let blurred = [0.25, 0.4375, 0.5, 1.0, 0.375, 0.375, 0.375, 1.0];
        let result = sharpened(&original, &blurred, 1.0, 0.25);
        // The first differs by 0.25 in red, and so is changed in green too. The second does not differ enough.
        assert_eq!(result, [0.75, 0.5625, 0.5, 1.0, 0.5, 0.5, 0.5, 1.0]);
    }

    #[test]
    fn an_edge_becomes_steeper() {
        let original = [[0.25; 4], [0.75; 4]].concat();
        let blurred = [[0.375; 4], [0.625; 4]].concat();
        let result = sharpened(&original, &blurred, 1.0, 0.0);
        assert_eq!((result[0], result[4]), (0.125, 0.875));
    }
}
