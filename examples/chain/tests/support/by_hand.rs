//! The chain without tenure: naive sums in double precision, and how near to them a result has to be.
//!
//! Not here: the naive sums themselves; they share no code with the kernels.

use chain::chain::{BLUR_SIGMA, MASK_SIGMA, SHARPNESS};
use chain::image::{self, Image};
use chain::kernels::{CHANNELS, Size};
use tenure_conformance::reference::Picture;
use tenure_kernels::gaussian_weights;

/// How far a channel may be off, of 255: a value that lies between two steps is rounded to either.
pub const TOLERANCE: u8 = 1;

/// How near to a decision a value is that a rounding may decide otherwise. Results differ by some 1e-6.
const FENCE: f32 = 1e-5;

/// What the chain makes of an image.
pub struct Expected {
    /// The result.
    pub image: Image,
    /// The pixels, by number, that lie on the fence: between being sharpened or not, or having an alpha or none. What they
    /// become jumps there, and is not compared.
    pub on_the_fence: Vec<usize>,
}

/// What the chain makes of `image`.
pub fn chain(image: &Image) -> Expected {
    let large = image.size.doubled().unwrap();
    let [width, height] = [large.width, large.height].map(|length| length as usize);
    let premultiplied = each_pixel(&image.pixels, |[r, g, b, a]| [r * a, g * a, b * a, a]);
    let upscaled = rounded(&picture(&premultiplied, image.size).resize(width, height));
    let blurred = blur(&upscaled, large, BLUR_SIGMA);
    let mask = blur(&blurred, large, MASK_SIGMA);
    let sharpened = rounded(&picture(&blurred, large).unsharp(&mask, SHARPNESS.amount, SHARPNESS.threshold));
    let pixels = each_pixel(&sharpened, |[r, g, b, a]| {
        if a * 255.0 < 0.5 { [0.0; CHANNELS] } else { [r / a.min(1.0), g / a.min(1.0), b / a.min(1.0), a] }
    });
    let is_on_the_fence = |pixel: &usize| {
        let range = pixel * CHANNELS..(pixel + 1) * CHANNELS;
        let differences = blurred[range.clone()].iter().zip(&mask[range.clone()]).map(|(a, b)| (a - b).abs());
        let largest = differences.fold(0.0, f32::max);
        let alpha = sharpened[range.end - 1];
        (largest - SHARPNESS.threshold).abs() < FENCE || (alpha - 0.5 / 255.0).abs() < FENCE
    };
    let on_the_fence = (0..width * height).filter(is_on_the_fence).collect();
    Expected { image: Image { size: large, pixels }, on_the_fence }
}

/// Asserts that two images are the same within [`TOLERANCE`], apart from pixels on the fence, of which there are few.
#[track_caller]
pub fn assert_same(what: &str, actual: &Image, other: &Image, on_the_fence: &[usize]) {
    assert_eq!(actual.size, other.size, "{what}");
    let pixels = actual.size.pixels() as usize;
    assert!(on_the_fence.len() * 1000 <= pixels, "{what}: {} of {pixels} on the fence", on_the_fence.len());
    let [actual, other] = [actual, other].map(|image| image::quantized(&image.pixels));
    for (at, (actual, other)) in actual.iter().zip(&other).enumerate() {
        let near = actual.abs_diff(*other) <= TOLERANCE || on_the_fence.contains(&(at / CHANNELS));
        assert!(
            near,
            "{what}: channel {} of pixel {} is {actual}, not {other}",
            at % CHANNELS,
            at / CHANNELS
        );
    }
}

fn blur(source: &[f32], size: Size, sigma: f32) -> Vec<f32> {
    let weights = gaussian_weights(sigma);
    let between = rounded(&picture(source, size).blur(&weights, true));
    rounded(&picture(&between, size).blur(&weights, false))
}

fn picture(elements: &[f32], size: Size) -> Picture<'_> {
    Picture { elements, size: [size.width as usize, size.height as usize, CHANNELS] }
}

fn rounded(values: &[f64]) -> Vec<f32> {
    values.iter().map(|value| *value as f32).collect()
}

fn each_pixel(pixels: &[f32], change: impl Fn([f32; CHANNELS]) -> [f32; CHANNELS]) -> Vec<f32> {
    pixels.as_chunks::<CHANNELS>().0.iter().flat_map(|pixel| change(*pixel)).collect()
}
