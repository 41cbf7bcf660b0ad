//! The node that doubles width and height.
//!
//! Not here: the arithmetic (`tenure-kernels`).

use tenure_kernels::Resize;

use crate::error::ImageError;
use crate::node::{Frame, Node, Step};

/// Scales to twice the size, bicubic.
#[derive(Clone, Debug)]
pub struct Upscale {
    /// Scaling.
    pub resize: Resize,
}

impl Node for Upscale {
    fn name(&self) -> &'static str {
        "upscale"
    }

    fn record(&self, step: &Step<'_>, frame: &mut Frame) -> Result<(), ImageError> {
        // The handle goes at the end of this function, the recording keeps the tensor as long as it is needed (L5).
        let small = frame.take();
        let size = small.size.doubled().ok_or(ImageError::TooLargeResult(small.size))?;
        let large = step.result("upscaled", size)?;
        step.sequence.record(self.resize.dispatch(
            &small.pixels,
            small.size.image(),
            &large.pixels,
            size.image(),
        )?)?;
        frame.put(large);
        Ok(())
    }

    fn complete(&self, _frame: &mut Frame) -> Result<(), ImageError> {
        Ok(())
    }
}
