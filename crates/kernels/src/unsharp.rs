//! [`Unsharp`]: the difference between a picture and its blurred self is added to it.
//!
//! Not here: blurring (`blur.rs`).

use bytemuck::{Pod, Zeroable};
use tenure_core::{Access, Error, Kernel, KernelSource, Manager, Op, View, op};

use crate::bands::in_bands;
use crate::check::refuse;
use crate::ffi::WithTexts;
use crate::generated;
use crate::grid::{MAX_ELEMENTS, WORKGROUP, length, spread};
use crate::image::ImageSize;

const NAME: &str = "unsharp";

/// `target = original + amount * (original - blurred)`, for pixels of which at least one channel differs by the
/// threshold or more. Other pixels stay as they are. A pixel is changed in all channels or in none, so that its hue
/// and its alpha stay in step.
///
/// A device may round once where the host form rounds twice: results differ by at most `2^-23` times
/// `|original| + |amount * difference|`.
#[derive(Clone, Debug)]
pub struct Unsharp {
    kernel: Kernel,
}

/// How strongly to sharpen, and where.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sharpness {
    /// Times the difference that is added; 0 changes nothing.
    pub amount: f32,
    /// A pixel is left alone if none of its channels differs by as much, in the unit of the picture's values.
    pub threshold: f32,
}

/// Scalars, then lengths, each kind padded to 8 bytes: the layout of the generated text.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Info {
    amount: f32,
    threshold: f32,
    channels: u32,
    padding: u32,
    original: u32,
    blurred: u32,
    target: u32,
    padding_of_lengths: u32,
}

impl Unsharp {
    /// The kernel. Bindings, `f32`: 0: original, read; 1: blurred, read; 2: target, write. Parameters: 32 bytes, made
    /// by [`Unsharp::dispatch`].
    pub fn source() -> KernelSource {
        KernelSource::new(NAME, &[Access::Read, Access::Read, Access::Write])
            .host(|arguments| {
                let info: Info = arguments.parameters();
                let ([original, blurred], [target]) = arguments.slices::<f32, 2, 1>([0, 1], [2]);
                sharpen(original, blurred, target, info);
            })
            .texts(&generated::UNSHARP)
    }

    /// Compiles it.
    ///
    /// # Errors
    /// As [`Manager::kernel`].
    pub fn compile(manager: &Manager) -> Result<Unsharp, Error> {
        Ok(Unsharp { kernel: manager.kernel(&Unsharp::source().cuda(&generated::UNSHARP))? })
    }

    /// Sharpens `original` to `target` by what `blurred` has lost; all three are pictures of `size`.
    ///
    /// # Errors
    /// [`Error::Binding`], naming the tensor, if one is no picture of `size` or passes [`MAX_ELEMENTS`].
    pub fn dispatch(
        &self,
        original: impl Into<View<f32>>,
        blurred: impl Into<View<f32>>,
        target: impl Into<View<f32>>,
        size: ImageSize,
        sharpness: Sharpness,
    ) -> Result<Op, Error> {
        let (original, blurred, target) = (original.into(), blurred.into(), target.into());
        for (role, view) in [("original", &original), ("blurred", &blurred), ("target", &target)] {
            size.check(NAME, role, view)?;
        }
        if target.len() > MAX_ELEMENTS {
            let problem = format!(
                "target `{}` has {} elements, it indexes at most {MAX_ELEMENTS}",
                target.label(),
                target.len()
            );
            return Err(refuse(NAME, problem));
        }
        let groups = spread(size.pixels().div_ceil(WORKGROUP.into()));
        let info = Info {
            amount: sharpness.amount,
            threshold: sharpness.threshold,
            channels: size.channels,
            padding: 0,
            original: length(NAME, &original)?,
            blurred: length(NAME, &blurred)?,
            target: length(NAME, &target)?,
            padding_of_lengths: 0,
        };
        let dispatch = op::dispatch(&self.kernel).bind(original).bind(blurred).bind(target);
        Ok(dispatch.groups(groups).parameters(info).into())
    }
}

fn sharpen(original: &[f32], blurred: &[f32], target: &mut [f32], info: Info) {
    let channels = info.channels as usize;
    in_bands(target, channels, |first, band| {
        let range = first * channels..first * channels + band.len();
        let (original, blurred) = (&original[range.clone()], &blurred[range]);
        let sources = original.chunks_exact(channels).zip(blurred.chunks_exact(channels));
        for (target, (original, blurred)) in band.chunks_exact_mut(channels).zip(sources) {
            let differs = |(original, blurred): (&f32, &f32)| (original - blurred).abs() >= info.threshold;
            let amount = if original.iter().zip(blurred).any(differs) { info.amount } else { 0.0 };
            for ((target, original), blurred) in target.iter_mut().zip(original).zip(blurred) {
                *target = original + amount * (original - blurred);
            }
        }
    });
}
