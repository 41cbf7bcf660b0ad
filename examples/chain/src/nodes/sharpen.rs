//! The node that sharpens by an unsharp mask: it blurs the picture and adds the difference.
//!
//! Not here: the arithmetic (`kernels/unsharp.rs`, `kernels/gaussian.rs`).

use tenure::{Kernel, op};

use super::blur_pass;
use crate::error::ImageError;
use crate::kernels::unsharp::Strength;
use crate::node::{Frame, Node, Step};

/// Unsharp mask.
#[derive(Clone, Debug)]
pub struct Sharpen {
    /// The kernel of [`horizontal_source`](crate::kernels::gaussian::horizontal_source).
    pub horizontal: Kernel,
    /// The kernel of [`vertical_source`](crate::kernels::gaussian::vertical_source).
    pub vertical: Kernel,
    /// The kernel of [`unsharp::source`](crate::kernels::unsharp::source).
    pub sharpen: Kernel,
    /// Standard deviation of the mask's blur in pixels, above 0.
    pub sigma: f32,
    /// How strongly.
    pub strength: Strength,
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
        let Strength { amount, threshold } = self.strength;
        step.sequence
            .record(blur_pass(&self.horizontal, &original, &weights, &between))?
            .record(blur_pass(&self.vertical, &between, &weights, &mask))?
            .record(
                op::dispatch(&self.sharpen)
                    .bind(&original.pixels)
                    .bind(&mask.pixels)
                    .bind(&sharpened.pixels)
                    .parameters([amount, threshold]),
            )?;
        frame.put(sharpened);
        Ok(())
    }

    fn complete(&self, _frame: &mut Frame) -> Result<(), ImageError> {
        Ok(())
    }
}
