//! [`Alpha`]: multiplying colours by it after loading, and dividing them by it before saving.
//!
//! Each kernel has a host form, here, a WGSL form, in `alpha.wgsl`, and forms for CUDA, of `alpha.cu`. Not here: quantising (`image.rs`).

use tenure::{Access, Dispatch, Error, Kernel, KernelSource, Manager, Tensor, op};

use super::ffi::with_cuda;
use super::{CHANNELS, Size};

const WGSL: &str = include_str!("alpha.wgsl");

/// Pixels of a workgroup, as the text has it.
const WORKGROUP: u64 = 256;

/// Workgroups in one direction that every device takes.
const MAX_GROUPS: u64 = 65_535;

/// Both kernels, compiled.
#[derive(Clone, Debug)]
pub struct Alpha {
    premultiply: Kernel,
    unpremultiply: Kernel,
}

impl Alpha {
    /// Compiles them.
    ///
    /// # Errors
    /// As [`Manager::kernel`].
    pub fn compile(manager: &Manager) -> Result<Alpha, Error> {
        let compile = |name: &str, run: fn(&mut [f32])| {
            let source = KernelSource::new(name, &[Access::ReadWrite])
                .host(move |arguments| run(arguments.write(0)))
                .wgsl(WGSL, name);
            manager.kernel(&with_cuda(source, name))
        };
        Ok(Alpha {
            premultiply: compile("premultiply", premultiply)?,
            unpremultiply: compile("unpremultiply", unpremultiply)?,
        })
    }

    /// [`premultiply`] of a picture of `size` in place.
    pub fn premultiply(&self, picture: &Tensor<f32>, size: Size) -> Dispatch {
        in_place(&self.premultiply, picture, size)
    }

    /// [`unpremultiply`] of a picture of `size` in place.
    pub fn unpremultiply(&self, picture: &Tensor<f32>, size: Size) -> Dispatch {
        in_place(&self.unpremultiply, picture, size)
    }
}

/// Multiplies each pixel's colours by its alpha.
pub fn premultiply(pixels: &mut [f32]) {
    each_pixel(pixels, |[red, green, blue, alpha]| [red * alpha, green * alpha, blue * alpha, alpha]);
}

/// Divides each pixel's colours by its alpha, and brings all values to 0..=1. What has no alpha in 8 bits becomes black:
/// its colour is what rounding left, and nobody sees it.
pub fn unpremultiply(pixels: &mut [f32]) {
    let unit = |value: f32| value.clamp(0.0, 1.0);
    each_pixel(pixels, |[red, green, blue, alpha]| {
        let alpha = unit(alpha);
        if alpha * f32::from(u8::MAX) < 0.5 {
            return [0.0; CHANNELS];
        }
        [unit(red / alpha), unit(green / alpha), unit(blue / alpha), alpha]
    });
}

fn in_place(kernel: &Kernel, picture: &Tensor<f32>, size: Size) -> Dispatch {
    // What does not fit 32 bits only the host has room for, and its forms go by the slice.
    let pixels = u32::try_from(size.pixels()).unwrap_or(u32::MAX);
    op::dispatch(kernel).bind(picture).groups(groups(pixels.into())).parameters(pixels)
}

/// The workgroups that cover so many pixels, in as few rows as can be.
fn groups(pixels: u64) -> [u32; 3] {
    let groups = pixels.div_ceil(WORKGROUP).max(1);
    let rows = groups.div_ceil(MAX_GROUPS);
    [groups.div_ceil(rows), rows, 1].map(|count| u32::try_from(count).unwrap_or(u32::MAX))
}

fn each_pixel(pixels: &mut [f32], change: impl Fn([f32; CHANNELS]) -> [f32; CHANNELS]) {
    let (pixels, rest) = pixels.as_chunks_mut::<CHANNELS>();
    assert!(rest.is_empty(), "a pixel has {CHANNELS} elements");
    for pixel in pixels {
        *pixel = change(*pixel);
    }
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
        // The second has less than half of the smallest alpha of 8 bits, the third half of it.
        let mut pixels = [[0.0; 4], [0.001, 0.001, 0.0, 0.0019], [0.001, 0.0, 0.001, 0.5 / 255.0]].concat();
        unpremultiply(&mut pixels);
        assert_eq!(pixels[..8], [0.0; 8]);
        assert_eq!(pixels[8..], [0.51, 0.0, 0.51, 0.5 / 255.0]);
    }

    #[test]
    fn values_end_in_their_range() {
        let mut pixels = [1.5, -0.5, 0.5, 2.0, 0.9, 0.3, 0.0, 0.6, 0.3, 0.3, 0.3, -0.1];
        unpremultiply(&mut pixels);
        assert_eq!(pixels, [1.0, 0.0, 0.5, 1.0, 1.0, 0.5, 0.0, 0.6, 0.0, 0.0, 0.0, 0.0]);
    }

    #[test]
    fn workgroups_cover_all_pixels() {
        assert_eq!([1, 256, 257].map(groups), [[1, 1, 1], [1, 1, 1], [2, 1, 1]]);
        let most = MAX_GROUPS * WORKGROUP;
        assert_eq!(groups(most), [65_535, 1, 1]);
        assert_eq!(groups(most + 1), [32_768, 2, 1]);
    }
}
