//! The node that reads the picture back and writes the file.
//!
//! Not here: encoding (`image.rs`) and whole files (`files.rs`).

use crate::error::ImageError;
use crate::image::{self, Image};
use crate::kernels::Alpha;
use crate::node::{Frame, Node, Step};

/// Writes the frame's target, completely or not at all.
#[derive(Clone, Debug)]
pub struct Save {
    /// The kernels for alpha.
    pub alpha: Alpha,
}

impl Node for Save {
    fn name(&self) -> &'static str {
        "save"
    }

    fn record(&self, step: &Step<'_>, frame: &mut Frame) -> Result<(), ImageError> {
        let picture = frame.take();
        step.sequence.record(self.alpha.unpremultiply(&picture.pixels, picture.size))?;
        frame.put(picture);
        Ok(())
    }

    fn complete(&self, frame: &mut Frame) -> Result<(), ImageError> {
        let picture = frame.take();
        let image = Image { size: picture.size, pixels: picture.pixels.read()? };
        image::save(&frame.target, &image)
    }
}
