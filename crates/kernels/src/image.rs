//! [`ImageSize`]: the extents of a picture in a tensor.
//!
//! A picture is rows of pixels of elements: element `(y * width + x) * channels + channel`. Not here: what is done
//! with pictures (`resize.rs`, `blur.rs`, `unsharp.rs`).

use std::fmt;

use tenure_core::{Element, Error, View};

use crate::check::{exactly, refuse};

/// The most elements that a pixel may have.
pub const MAX_CHANNELS: u32 = 1024;

/// Width and height in pixels, and the elements of a pixel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ImageSize {
    /// Pixels in a row.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// Elements in a pixel, 1 to [`MAX_CHANNELS`].
    pub channels: u32,
}

impl ImageSize {
    /// A size.
    pub const fn new(width: u32, height: u32, channels: u32) -> ImageSize {
        ImageSize { width, height, channels }
    }

    /// All pixels.
    pub const fn pixels(self) -> u64 {
        self.width as u64 * self.height as u64
    }

    /// All elements.
    ///
    /// ```
    /// # use tenure_kernels::ImageSize;
    /// assert_eq!(ImageSize::new(3, 2, 4).elements(), 24);
    /// ```
    pub const fn elements(self) -> u64 {
        self.pixels().saturating_mul(self.channels as u64)
    }

    /// Refuses a number of channels that is out of range, and a view that is no picture of this size.
    pub(crate) fn check<T: Element>(
        self,
        kernel: &'static str,
        role: &'static str,
        view: &View<T>,
    ) -> Result<(), Error> {
        if self.channels == 0 || self.channels > MAX_CHANNELS {
            let problem = format!(
                "{role} `{}` is said to have {} channels, a pixel has 1 to {MAX_CHANNELS}",
                view.label(),
                self.channels
            );
            return Err(refuse(kernel, problem));
        }
        exactly(kernel, role, view, self.elements(), format_args!("a picture of {self}"))
    }
}

impl fmt::Display for ImageSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{} pixels of {} channels", self.width, self.height, self.channels)
    }
}
