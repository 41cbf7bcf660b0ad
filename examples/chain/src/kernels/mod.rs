//! The arithmetic of the chain. Each file has one filter: as plain functions over slices, and as the
//! [`KernelSource`](tenure::KernelSource) whose host form calls them.
//!
//! A picture is RGBA in `f32`, row by row from the top, four elements a pixel. Nominal values are 0 to 1;
//! filters may leave that range, saving clamps. Between loading and saving colours are multiplied by alpha, so that
//! the colour of what is transparent does not bleed. Outside a picture its edge goes on for ever.
//!
//! Not here: tensors and sequences (`nodes/`).

pub mod alpha;
pub mod bicubic;
pub mod gaussian;
pub mod rows;
pub mod unsharp;

use std::fmt;

use tenure::{Error, Kernel, Manager};

/// Elements a pixel: red, green, blue, alpha.
pub const CHANNELS: usize = 4;

/// The size of a picture in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Pixels in a row.
    pub width: u32,
    /// Rows.
    pub height: u32,
}

impl Size {
    /// A size in pixels.
    pub fn new(width: u32, height: u32) -> Size {
        Size { width, height }
    }

    /// All pixels.
    pub fn pixels(self) -> u64 {
        u64::from(self.width) * u64::from(self.height)
    }

    /// Elements in a row.
    pub fn row(self) -> usize {
        self.width as usize * CHANNELS
    }

    /// Elements of a picture of this size, which is in memory.
    pub fn elements(self) -> usize {
        self.row() * self.height as usize
    }

    /// Twice the width and height, if a PNG image can have that.
    pub fn doubled(self) -> Option<Size> {
        // A PNG header has 31 bits for each.
        let double = |length: u32| length.checked_mul(2).filter(|length| i32::try_from(*length).is_ok());
        Some(Size { width: double(self.width)?, height: double(self.height)? })
    }

    /// As a kernel's parameters.
    pub fn to_parameters(self) -> [u32; 2] {
        [self.width, self.height]
    }

    /// From a kernel's parameters.
    pub fn from_parameters([width, height]: [u32; 2]) -> Size {
        Size { width, height }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.width, self.height)
    }
}

/// The compiled kernels of the chain, once for all images.
#[derive(Clone, Debug)]
pub struct Kernels {
    /// [`alpha::premultiply_source`].
    pub premultiply: Kernel,
    /// [`alpha::unpremultiply_source`].
    pub unpremultiply: Kernel,
    /// [`bicubic::source`].
    pub upscale: Kernel,
    /// [`gaussian::horizontal_source`].
    pub blur_horizontal: Kernel,
    /// [`gaussian::vertical_source`].
    pub blur_vertical: Kernel,
    /// [`unsharp::source`].
    pub sharpen: Kernel,
}

impl Kernels {
    /// Compiles them.
    ///
    /// # Errors
    /// [`Error::Backend`] if the backend takes none of a kernel's forms.
    pub fn compile(manager: &Manager) -> Result<Kernels, Error> {
        Ok(Kernels {
            premultiply: manager.kernel(&alpha::premultiply_source())?,
            unpremultiply: manager.kernel(&alpha::unpremultiply_source())?,
            upscale: manager.kernel(&bicubic::source())?,
            blur_horizontal: manager.kernel(&gaussian::horizontal_source())?,
            blur_vertical: manager.kernel(&gaussian::vertical_source())?,
            sharpen: manager.kernel(&unsharp::source())?,
        })
    }
}

/// Panics if a slice is no picture of this size: the execution then fails with the message.
fn check(name: &str, slice: &[f32], size: Size) {
    assert_eq!(slice.len(), size.elements(), "the {name} is no {size} picture");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_count_in_pixels_and_elements() {
        let size = Size::new(3, 2);
        assert_eq!((size.pixels(), size.row(), size.elements()), (6, 12, 24));
        assert_eq!(size.to_string(), "3x2");
        assert_eq!(Size::from_parameters(size.to_parameters()), size);
        assert_eq!(Size::new(u32::MAX, u32::MAX).pixels(), 18_446_744_065_119_617_025);
    }

    #[test]
    fn doubling_stops_where_png_does() {
        assert_eq!(Size::new(3, 2).doubled(), Some(Size::new(6, 4)));
        assert_eq!(Size::new((1 << 30) - 1, 1).doubled(), Some(Size::new((1 << 31) - 2, 2)));
        assert_eq!(Size::new(1 << 30, 1).doubled(), None);
        assert_eq!(Size::new(1, u32::MAX).doubled(), None);
    }
}
