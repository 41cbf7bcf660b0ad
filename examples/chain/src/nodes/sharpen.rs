//! The node that sharpens by an unsharp mask: it blurs the picture and adds the difference.
//!
//! Not here: the arithmetic (`tenure-kernels`).

use tenure_kernels::{Blur, Sharpness, Unsharp};

use super::both_ways;
use crate::error::ImageError;
use crate::node::{Frame, Node, Step};

/// Unsharp mask.
#[derive(Clone, Debug)]
pub struct Sharpen {
    /// One pass of the mask's blur.
    pub blur: Blur,
    /// The mask.
    pub unsharp: Unsharp,
    /// Standard deviation of the mask's blur in pixels, above 0.
    pub sigma: f32,
    /// How strongly, and where.
    pub sharpness: Sharpness,
}

impl Node for Sharpen {
    fn name(&self) -> &'static str {
        "sharpen"
    }

    fn record(&self, step: &Step<'_>, frame: &mut Frame) -> Result<(), ImageError> {
        let original = frame.take();
        let weights = step.weights.get(step.manager, self.sigma)?;
        let between = step.scratch("mask along rows", original.size)?;
        let mask = step.scratch("mask", original.size)?;
        let sharpened = step.result("sharpened", original.size)?;
        let [rows, columns] = both_ways(&self.blur, &weights, [&original, &between, &mask])?;
        let size = original.size.image();
        let sharpen =
            self.unsharp.dispatch(&original.pixels, &mask.pixels, &sharpened.pixels, size, self.sharpness)?;
        step.sequence.record(rows)?.record(columns)?.record(sharpen)?;
        frame.put(sharpened);
        Ok(())
    }

    fn complete(&self, _frame: &mut Frame) -> Result<(), ImageError> {
        Ok(())
    }
}
