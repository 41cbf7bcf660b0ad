//! The nodes, one file each.
//!
//! Not here: their order (`chain.rs`).

pub mod blur;
pub mod load;
pub mod save;
pub mod sharpen;
pub mod upscale;

use tenure::{Dispatch, Kernel, Tensor, op};

use crate::node::Picture;

pub use blur::Blur;
pub use load::Load;
pub use save::Save;
pub use sharpen::Sharpen;
pub use upscale::Upscale;

/// One pass of a blur.
fn blur_pass(kernel: &Kernel, source: &Picture, weights: &Tensor<f32>, target: &Picture) -> Dispatch {
    op::dispatch(kernel)
        .bind(&source.pixels)
        .bind(weights)
        .bind(&target.pixels)
        .parameters(source.size.to_parameters())
}
