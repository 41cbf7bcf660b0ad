//! Gaussian blur in two passes, along rows and along columns.
//!
//! Not here: where the weights are kept (`weights.rs` of the crate).

use tenure::{Access, KernelSource};

use super::rows::{add_scaled, clamped_row, each_row, with_margins};
use super::{CHANNELS, Size, check};

/// The weights for a standard deviation of `sigma` pixels, which is above 0: an odd number of them, the middle one
/// for the pixel itself. They reach three times `sigma` and sum to 1.
pub fn weights(sigma: f32) -> Vec<f32> {
    assert!(sigma.is_finite() && sigma > 0.0, "sigma is a number above 0, not {sigma}");
    let sigma = f64::from(sigma);
    let radius = (3.0 * sigma).ceil() as i32;
    let raw: Vec<f64> = (-radius..=radius)
        .map(|distance| (-f64::from(distance * distance) / (2.0 * sigma * sigma)).exp())
        .collect();
    let sum: f64 = raw.iter().sum();
    raw.iter().map(|weight| (weight / sum) as f32).collect()
}

/// Blurs along rows.
///
/// # Panics
/// If a slice does not have the elements of its size, or the number of weights is even.
pub fn horizontal(source: &[f32], size: Size, weights: &[f32], target: &mut [f32]) {
    check("source", source, size);
    check("target", target, size);
    let row = size.row();
    let radius = radius(weights);
    each_row(target, row, |y, line| {
        let wide = with_margins(row, radius, |middle| {
            middle.copy_from_slice(&source[y * row..][..row]);
        });
        line.fill(0.0);
        for (tap, weight) in weights.iter().enumerate() {
            add_scaled(line, *weight, &wide[tap * CHANNELS..]);
        }
    });
}

/// Blurs along columns.
///
/// # Panics
/// As [`horizontal`].
pub fn vertical(source: &[f32], size: Size, weights: &[f32], target: &mut [f32]) {
    check("source", source, size);
    check("target", target, size);
    let row = size.row();
    let radius = radius(weights);
    each_row(target, row, |y, line| {
        line.fill(0.0);
        for (tap, weight) in weights.iter().enumerate() {
            let index = (y + tap) as isize - radius as isize;
            add_scaled(line, *weight, clamped_row(source, row, index));
        }
    });
}

/// [`horizontal`] of binding 0 to binding 2, weights in binding 1. Parameters: the size.
pub fn horizontal_source() -> KernelSource {
    pass("blur horizontal", horizontal)
}

/// [`vertical`] of binding 0 to binding 2, weights in binding 1. Parameters: the size.
pub fn vertical_source() -> KernelSource {
    pass("blur vertical", vertical)
}

fn pass(label: &'static str, run: fn(&[f32], Size, &[f32], &mut [f32])) -> KernelSource {
    KernelSource::new(label, &[Access::Read, Access::Read, Access::Write]).host(move |arguments| {
        let size = Size::from_parameters(arguments.parameters());
        let ([source, weights], [target]) = arguments.slices::<f32, 2, 1>([0, 1], [2]);
        run(source, size, weights, target);
    })
}

fn radius(weights: &[f32]) -> usize {
    assert!(weights.len() % 2 == 1, "there is a middle weight");
    weights.len() / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blurred(source: &[f32], size: Size, weights: &[f32]) -> Vec<f32> {
        let mut between = vec![f32::NAN; source.len()];
        let mut target = vec![f32::NAN; source.len()];
        horizontal(source, size, weights, &mut between);
        vertical(&between, size, weights, &mut target);
        target
    }

    fn assert_near(actual: &[f32], expected: &[f32]) {
        assert_eq!(actual.len(), expected.len());
        for (at, (actual, expected)) in actual.iter().zip(expected).enumerate() {
            assert!((actual - expected).abs() < 1e-6, "{actual} instead of {expected} at {at}");
        }
    }

    #[test]
    fn weights_are_symmetric_and_sum_to_one() {
        for sigma in [0.1, 0.5, 0.8, 1.0, 2.5, 10.0] {
            let weights = weights(sigma);
            let radius = (3.0 * f64::from(sigma)).ceil() as usize;
            assert_eq!(weights.len(), 2 * radius + 1, "sigma {sigma}");
            assert!((weights.iter().sum::<f32>() - 1.0).abs() < 1e-6, "sigma {sigma}");
            let mirrored: Vec<f32> = weights.iter().rev().copied().collect();
            assert_eq!(weights, mirrored);
            assert!(weights[..=radius].is_sorted(), "sigma {sigma}");
        }
    }

    #[test]
    fn weights_are_as_calculated_by_hand() {
        // exp(0), exp(-1/2), exp(-2), exp(-9/2) over their sum 2.5059...
        let expected = [0.004433, 0.054006, 0.242036, 0.399050, 0.242036, 0.054006, 0.004433];
        assert_near(&weights(1.0), &expected);
    }

    #[test]
    fn passes_are_as_calculated_by_hand() {
        let size = Size::new(3, 1);
        let source = [[0.0; 4], [1.0, 2.0, 3.0, 4.0], [0.0; 4]].concat();
        let mut target = [0.0; 12];
        horizontal(&source, size, &[0.25, 0.5, 0.25], &mut target);
        assert_eq!(target, [0.25, 0.5, 0.75, 1.0, 0.5, 1.0, 1.5, 2.0, 0.25, 0.5, 0.75, 1.0]);
        // The same numbers as a column.
        vertical(&source, Size::new(1, 3), &[0.25, 0.5, 0.25], &mut target);
        assert_eq!(target, [0.25, 0.5, 0.75, 1.0, 0.5, 1.0, 1.5, 2.0, 0.25, 0.5, 0.75, 1.0]);
    }

    #[test]
    fn the_edge_goes_on() {
        let source = [[1.0; 4], [0.0; 4]].concat();
        let mut target = [0.0; 8];
        horizontal(&source, Size::new(2, 1), &[0.25, 0.5, 0.25], &mut target);
        assert_eq!(target, [0.75, 0.75, 0.75, 0.75, 0.25, 0.25, 0.25, 0.25]);
    }

    #[test]
    fn a_constant_picture_stays_constant() {
        let size = Size::new(4, 5);
        let source = [0.5, 0.25, 1.0, 0.75].repeat(20);
        assert_near(&blurred(&source, size, &weights(1.3)), &source);
    }

    #[test]
    fn a_single_bright_pixel_keeps_its_light() {
        let size = Size::new(15, 15);
        let mut source = vec![0.0; size.elements()];
        source[(7 * 15 + 7) * CHANNELS] = 1.0;
        let target = blurred(&source, size, &weights(1.5));
        let sum: f32 = target.iter().sum();
        assert!((sum - 1.0).abs() < 1e-5, "{sum}");
    }

    #[test]
    fn two_passes_equal_the_direct_sum() {
        let size = Size::new(6, 4);
        let source: Vec<f32> = (0..size.elements()).map(|at| (at * 37 % 101) as f32 / 100.0).collect();
        let weights = weights(0.9);
        let radius = weights.len() as isize / 2;
        let mut expected = Vec::new();
        for at in 0..size.elements() {
            let (channel, x, y) = (at % CHANNELS, (at / CHANNELS % 6) as isize, (at / CHANNELS / 6) as isize);
            let mut sum = 0.0;
            for (down, weight_down) in (-radius..).zip(&weights) {
                for (across, weight_across) in (-radius..).zip(&weights) {
                    let (x, y) = ((x + across).clamp(0, 5) as usize, (y + down).clamp(0, 3) as usize);
                    sum += weight_down * weight_across * source[(6 * y + x) * CHANNELS + channel];
                }
            }
            expected.push(sum);
        }
        assert_near(&blurred(&source, size, &weights), &expected);
    }

    #[test]
    #[should_panic(expected = "sigma is a number above 0")]
    fn sigma_is_above_zero() {
        weights(0.0);
    }
}
