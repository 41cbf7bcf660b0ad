//! The node that reads the file and puts the picture on the device.
//!
//! Not here: decoding (`image.rs`).

use crate::error::ImageError;
use crate::image;
use crate::kernels::Alpha;
use crate::node::{Frame, Node, Step};

/// Reads the frame's source. The picture's colours are multiplied by alpha.
#[derive(Clone, Debug)]
pub struct Load {
    /// The kernels for alpha.
    pub alpha: Alpha,
    /// Larger images are refused.
    pub max_pixels: u64,
}

impl Node for Load {
    fn name(&self) -> &'static str {
        "load"
    }

    fn record(&self, step: &Step<'_>, frame: &mut Frame) -> Result<(), ImageError> {
        let image = image::load(&frame.source, self.max_pixels)?;
        let picture = step.result("pixels", image.size)?;
        // Written directly: a recorded upload would keep a second copy on the host.
        picture.pixels.write(&image.pixels)?;
        step.sequence.record(self.alpha.premultiply(&picture.pixels, picture.size))?;
        frame.put(picture);
        Ok(())
    }

    fn complete(&self, _frame: &mut Frame) -> Result<(), ImageError> {
        Ok(())
    }
}
