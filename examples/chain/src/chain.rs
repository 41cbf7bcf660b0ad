//! The chain: which nodes there are, in which order, with which settings.
//!
//! Not here: running it (`batch.rs`).

use tenure::{Error, Manager};
use tenure_kernels::Sharpness;

use crate::kernels::Kernels;
use crate::node::Node;
use crate::nodes::{Blur, Load, Save, Sharpen, Upscale};

/// Standard deviation of the blur in pixels of the result: takes the last traces of the small pixels' grid away.
pub const BLUR_SIGMA: f32 = 0.8;

/// Standard deviation of the unsharp mask's blur, in pixels of the result.
pub const MASK_SIGMA: f32 = 1.6;

/// How strongly the chain sharpens: enough to undo the blur where there are edges, above the noise of 8 bits.
pub const SHARPNESS: Sharpness = Sharpness { amount: 0.8, threshold: 2.0 / 255.0 };

/// The nodes from file to file: load, upscale, blur, sharpen, save.
///
/// # Errors
/// As [`Kernels::compile`].
pub fn nodes(manager: &Manager, max_pixels: u64) -> Result<Vec<Box<dyn Node>>, Error> {
    let Kernels { alpha, resize, blur, unsharp } = Kernels::compile(manager)?;
    Ok(vec![
        Box::new(Load { alpha: alpha.clone(), max_pixels }),
        Box::new(Upscale { resize }),
        Box::new(Blur { blur: blur.clone(), sigma: BLUR_SIGMA }),
        Box::new(Sharpen { blur, unsharp, sigma: MASK_SIGMA, sharpness: SHARPNESS }),
        Box::new(Save { alpha }),
    ])
}
