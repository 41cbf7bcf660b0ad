//! Alpha: multiplying colours by it after loading, and dividing them by it before saving.
//!
//! Not here: quantising (`image.rs`).

use tenure::{Access, KernelSource};

use super::{CHANNELS, rows};

/// Pixels that one turn works on.
const STRETCH: usize = 4096;

/// Multiplies each pixel's colours by its alpha.
pub fn premultiply(pixels: &mut [f32]) {
    each_pixel(pixels, |[red, green, blue, alpha]| [red * alpha, green * alpha, blue * alpha, alpha]);
}

/// Divides each pixel's colours by its alpha, and brings all values to 0..=1. What is fully transparent becomes
/// black.
pub fn unpremultiply(pixels: &mut [f32]) {
    each_pixel(pixels, |[red, green, blue, alpha]| {
        let alpha = unit(alpha);
        if alpha == 0.0 {
            return [0.0; CHANNELS];
        }
        [unit(red / alpha), unit(green / alpha), unit(blue / alpha), alpha]
    });
}

/// [`premultiply`] of binding 0 in place.
pub fn premultiply_source() -> KernelSource {
    KernelSource::new("premultiply", &[Access::ReadWrite])
        .host(|arguments| premultiply(arguments.write::<f32>(0)))
}

/// [`unpremultiply`] of binding 0 in place.
pub fn unpremultiply_source() -> KernelSource {
    KernelSource::new("unpremultiply", &[Access::ReadWrite])
        .host(|arguments| unpremultiply(arguments.write::<f32>(0)))
}

fn each_pixel(pixels: &mut [f32], change: impl Fn([f32; CHANNELS]) -> [f32; CHANNELS] + Sync) {
    rows::each_row(pixels, STRETCH * CHANNELS, |_, stretch| {
        let (pixels, rest) = stretch.as_chunks_mut::<CHANNELS>();
        assert!(rest.is_empty(), "a pixel has {CHANNELS} elements");
        for pixel in pixels {
            *pixel = change(*pixel);
        }
    });
}

/// The value in 0..=1; what is no number becomes 0.
fn unit(value: f32) -> f32 {
    if value.is_nan() { 0.0 } else { value.clamp(0.0, 1.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_multiplied_and_divided() {
        let mut pixels = [0.5, 1.0, 0.25, 0.5];
        premultiply(&mut pixels);
        assert_eq!(pixels, [0.25, 0.5, 0.125, 0.5]);
        unpremultiply(&mut pixels);
        assert_eq!(pixels, [0.5, 1.0, 0.25, 0.5]);
    }

    #[test]
    fn what_is_transparent_has_no_colour() {
        let mut pixels = [0.5, 1.0, 0.25, 0.0];
        premultiply(&mut pixels);
        assert_eq!(pixels, [0.0; 4]);
        unpremultiply(&mut pixels);
        assert_eq!(pixels, [0.0; 4]);
    }

    #[test]
    fn values_end_in_their_range() {
        let mut pixels = [1.5, -0.5, f32::NAN, 2.0, 0.9, 0.3, 0.0, 0.6, 0.3, 0.3, 0.3, -0.1];
        unpremultiply(&mut pixels);
        assert_eq!(pixels, [1.0, 0.0, 0.0, 1.0, 1.0, 0.5, 0.0, 0.6, 0.0, 0.0, 0.0, 0.0]);
    }
}
