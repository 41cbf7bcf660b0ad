//! The node that blurs.
//!
//! Not here: the arithmetic (`kernels/gaussian.rs`).

use tenure::Kernel;

use super::blur_pass;
use crate::error::ImageError;
use crate::node::{Frame, Node, Step};

/// Gaussian blur, in two passes.
#[derive(Clone, Debug)]
pub struct Blur {
    /// The kernel of [`horizontal_source`](crate::kernels::gaussian::horizontal_source).
    pub horizontal: Kernel,
    /// The kernel of [`vertical_source`](crate::kernels::gaussian::vertical_source).
    pub vertical: Kernel,
    /// Standard deviation in pixels, above 0.
    pub sigma: f32,
}

impl Node for Blur {
    fn name(&self) -> &'static str {
        "blur"
    }

    fn record(&self, step: &Step<'_>, frame: &mut Frame) -> Result<(), ImageError> {
        let sharp = frame.take();
        let weights = step.weights.get(step.manager, self.sigma)?;
        let between = step.scratch("blurred along rows", sharp.size)?;
        let blurred = step.result("blurred", sharp.size)?;
        step.sequence.record(blur_pass(&self.horizontal, &sharp, &weights, &between))?.record(blur_pass(
            &self.vertical,
            &between,
            &weights,
            &blurred,
        ))?;
        frame.put(blurred);
        Ok(())
    }

    fn complete(&self, _frame: &mut Frame) -> Result<(), ImageError> {
        Ok(())
    }
}
