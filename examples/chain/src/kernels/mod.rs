//! The kernels of the chain, compiled once for all images: resize, blur and unsharp mask come from `tenure-kernels`, and
//! what is the chain's own, alpha, is in [`alpha`].
//!
//! A picture is RGBA in `f32`, row by row from the top, four elements a pixel. Nominal values are 0 to 1;
//! filters may leave that range, saving clamps. Between loading and saving colours are multiplied by alpha, so that
//! the colour of what is transparent does not bleed. Outside a picture its edge goes on for ever.
//!
//! Not here: tensors and sequences (`nodes/`).

pub mod alpha;
mod ffi;

use std::fmt;

use tenure::{Error, Manager};
use tenure_kernels::{Blur, ImageSize, Resize, Unsharp};

pub use alpha::Alpha;

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

    /// Elements of a picture of this size, which is in memory.
    pub fn elements(self) -> usize {
        self.width as usize * self.height as usize * CHANNELS
    }

    /// Twice the width and height, if a PNG image can have that.
    pub fn doubled(self) -> Option<Size> {
        // A PNG header has 31 bits for each.
        let double = |length: u32| length.checked_mul(2).filter(|length| i32::try_from(*length).is_ok());
        Some(Size { width: double(self.width)?, height: double(self.height)? })
    }

    /// As the kernels want it.
    pub fn image(self) -> ImageSize {
        ImageSize::new(self.width, self.height, CHANNELS as u32)
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.width, self.height)
    }
}

/// The compiled kernels of the chain.
#[derive(Clone, Debug)]
pub struct Kernels {
    /// Multiplying colours by alpha, and dividing them by it.
    pub alpha: Alpha,
    /// Scaling.
    pub resize: Resize,
    /// One pass of a blur.
    pub blur: Blur,
    /// The unsharp mask.
    pub unsharp: Unsharp,
}

impl Kernels {
    /// Compiles them.
    ///
    /// # Errors
    /// [`Error::Backend`] if the backend takes none of a kernel's forms.
    pub fn compile(manager: &Manager) -> Result<Kernels, Error> {
        Ok(Kernels {
            alpha: Alpha::compile(manager)?,
            resize: Resize::compile(manager)?,
            blur: Blur::compile(manager)?,
            unsharp: Unsharp::compile(manager)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_count_in_pixels_and_elements() {
        let size = Size::new(3, 2);
        assert_eq!((size.pixels(), size.elements()), (6, 24));
        assert_eq!(size.image().elements(), 24);
        assert_eq!(size.to_string(), "3x2");
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
