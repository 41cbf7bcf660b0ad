//! The chain: which nodes there are, in which order, with which settings.
//!
//! Not here: running it (`batch.rs`).

use tenure::{Error, Manager};

use crate::kernels::Kernels;
use crate::kernels::unsharp::Strength;
use crate::node::Node;
use crate::nodes::{Blur, Load, Save, Sharpen, Upscale};

/// Standard deviation of the blur in pixels of the result: takes the last traces of the small pixels' grid away.
pub const BLUR_SIGMA: f32 = 0.8;

/// Standard deviation of the unsharp mask's blur, in pixels of the result.
pub const MASK_SIGMA: f32 = 1.6;

/// How strongly the chain sharpens: enough to undo the blur where there are edges, above the noise of 8 bits.
pub const STRENGTH: Strength = Strength { amount: 0.8, threshold: 2.0 / 255.0 };

/// The nodes from file to file: load, upscale, blur, sharpen, save.
///
/// # Errors
/// As [`Kernels::compile`].
pub fn nodes(manager: &Manager, max_pixels: u64) -> Result<Vec<Box<dyn Node>>, Error> {
    let kernels = Kernels::compile(manager)?;
    let (horizontal, vertical) = (kernels.blur_horizontal, kernels.blur_vertical);
    Ok(vec![
        Box::new(Load { premultiply: kernels.premultiply, max_pixels }),
        Box::new(Upscale { kernel: kernels.upscale }),
        Box::new(Blur { horizontal: horizontal.clone(), vertical: vertical.clone(), sigma: BLUR_SIGMA }),
        Box::new(Sharpen {
            horizontal,
            vertical,
            sharpen: kernels.sharpen,
            sigma: MASK_SIGMA,
            strength: STRENGTH,
        }),
        Box::new(Save { unpremultiply: kernels.unpremultiply }),
    ])
}
