//! The nodes, one file each.
//!
//! Not here: their order (`chain.rs`).

pub mod blur;
pub mod load;
pub mod save;
pub mod sharpen;
pub mod upscale;

use tenure::{Error, Op, Tensor};
use tenure_kernels::Axis;

use crate::node::Picture;

pub use blur::Blur;
pub use load::Load;
pub use save::Save;
pub use sharpen::Sharpen;
pub use upscale::Upscale;

/// A blur of `pictures[0]` to `pictures[2]`, along rows to `pictures[1]` and from there along columns.
fn both_ways(
    blur: &tenure_kernels::Blur,
    weights: &Tensor<f32>,
    [source, between, target]: [&Picture; 3],
) -> Result<[Op; 2], Error> {
    let pass = |source: &Picture, target: &Picture, axis| {
        blur.dispatch(&source.pixels, weights, &target.pixels, source.size.image(), axis)
    };
    Ok([pass(source, between, Axis::Horizontal)?, pass(between, target, Axis::Vertical)?])
}
