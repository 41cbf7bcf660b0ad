//! The node that blurs.
//!
//! Not here: the arithmetic (`tenure-kernels`).

use super::both_ways;
use crate::error::ImageError;
use crate::node::{Frame, Node, Step};

/// Gaussian blur, in two passes.
#[derive(Clone, Debug)]
pub struct Blur {
    /// One pass.
    pub blur: tenure_kernels::Blur,
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
        let [rows, columns] = both_ways(&self.blur, &weights, [&sharp, &between, &blurred])?;
        step.sequence.record(rows)?.record(columns)?;
        frame.put(blurred);
        Ok(())
    }

    fn complete(&self, _frame: &mut Frame) -> Result<(), ImageError> {
        Ok(())
    }
}
