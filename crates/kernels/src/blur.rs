//! [`Blur`]: separable blur, one direction a dispatch.
//!
//! Not here: what is made of the difference (`unsharp.rs`).

use bytemuck::{Pod, Zeroable};
use tenure_core::{Access, Error, Kernel, KernelSource, Manager, Op, View, op};

use crate::bands::{add_scaled, in_bands};
use crate::check::refuse;
use crate::ffi::WithTexts;
use crate::generated;
use crate::grid::{MAX_ELEMENTS, WORKGROUP, cover, length};
use crate::image::ImageSize;

const NAME: &str = "blur";

/// Elements of a position from which on the host form takes positions one by one.
const WIDE: usize = 256;

/// Each pixel becomes a weighted sum of its neighbours in one direction. Beyond the edges the first and the last pixel
/// go on. Along rows and then along columns is a blur in two dimensions.
///
/// A device adds in the same order as the host form, but may round product and sum once instead of twice: results
/// differ by at most about `w 2^-23` times the largest value around, for w weights of sum 1.
#[derive(Clone, Debug)]
pub struct Blur {
    kernel: Kernel,
}

/// The direction of a blur.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Axis {
    /// Along rows.
    Horizontal,
    /// Along columns.
    Vertical,
}

/// Scalars, then lengths, each kind padded to 8 bytes: the layout of the generated text.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Info {
    extent: u32,
    inner: u32,
    source: u32,
    weights: u32,
    target: u32,
    padding_of_lengths: u32,
}

/// The weights of a Gaussian blur with a standard deviation of `sigma` pixels: an odd number of them, the middle one
/// for the pixel itself. They reach three times `sigma` and sum to 1.
///
/// # Panics
/// If `sigma` is not above 0, or above 1,000,000.
pub fn gaussian_weights(sigma: f32) -> Vec<f32> {
    assert!(sigma > 0.0 && sigma <= 1e6, "sigma is above 0 and at most 1,000,000, not {sigma}");
    let sigma = f64::from(sigma);
    let radius = (3.0 * sigma).ceil() as i64;
    let raw: Vec<f64> = (-radius..=radius)
        .map(|distance| (-(distance as f64).powi(2) / (2.0 * sigma * sigma)).exp())
        .collect();
    let sum: f64 = raw.iter().sum();
    raw.iter().map(|weight| (weight / sum) as f32).collect()
}

impl Blur {
    /// The kernel. Bindings, `f32`: 0: source, read; 1: weights, read; 2: target, write. Parameters: 24 bytes, made by
    /// [`Blur::dispatch`].
    pub fn source() -> KernelSource {
        KernelSource::new(NAME, &[Access::Read, Access::Read, Access::Write])
            .host(|arguments| {
                let info: Info = arguments.parameters();
                let ([source, weights], [target]) = arguments.slices::<f32, 2, 1>([0, 1], [2]);
                blur(source, weights, target, info.extent as usize, info.inner as usize);
            })
            .texts(&generated::BLUR)
    }

    /// Compiles it.
    ///
    /// # Errors
    /// As [`Manager::kernel`].
    pub fn compile(manager: &Manager) -> Result<Blur, Error> {
        Ok(Blur { kernel: manager.kernel(&Blur::source().cuda(&generated::BLUR))? })
    }

    /// Blurs `source` to `target`, both pictures of `size`, along `axis`. `weights` has an odd number of elements, the
    /// middle one for the pixel itself, such as [`gaussian_weights`].
    ///
    /// ```
    /// # use tenure_backend_host::HostBackend;
    /// # use tenure_core::{Manager, ManagerOptions};
    /// # use tenure_kernels::{Axis, Blur, ImageSize};
    /// # let manager = Manager::open_with(HostBackend::new(), ManagerOptions::default())?;
    /// let blur = Blur::compile(&manager)?;
    /// let source = manager.tensor_from("source", &[0.0_f32, 1.0, 0.0])?;
    /// let target = manager.tensor_from("target", &[0.0_f32; 3])?;
    /// let weights = manager.tensor_from("weights", &[0.25_f32, 0.5, 0.25])?;
    /// let scope = manager.scope("blur")?;
    /// let size = ImageSize::new(3, 1, 1);
    /// scope.evaluate([blur.dispatch(&source, &weights, &target, size, Axis::Horizontal)?])?.wait()?;
    /// assert_eq!(target.read()?, [0.25, 0.5, 0.25]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Binding`], naming the tensor: if source or target is no picture of `size`, the number of weights is even,
    /// or a tensor passes [`MAX_ELEMENTS`].
    pub fn dispatch(
        &self,
        source: impl Into<View<f32>>,
        weights: impl Into<View<f32>>,
        target: impl Into<View<f32>>,
        size: ImageSize,
        axis: Axis,
    ) -> Result<Op, Error> {
        let (source, weights, target) = (source.into(), weights.into(), target.into());
        size.check(NAME, "source", &source)?;
        size.check(NAME, "target", &target)?;
        let taps = weights.len();
        if taps % 2 == 0 || taps > MAX_ELEMENTS {
            let problem = format!(
                "weights `{}` has {taps} elements, it needs an odd number of at most {MAX_ELEMENTS}",
                weights.label()
            );
            return Err(refuse(NAME, problem));
        }
        let groups = cover(NAME, "target", &target, WORKGROUP.into())?;
        // A row fits the picture, whose length fits 32 bits. Without pixels it does not matter.
        let (extent, inner) = match axis {
            Axis::Horizontal => (size.width, size.channels),
            Axis::Vertical => (size.height, size.channels.saturating_mul(size.width)),
        };
        let info = Info {
            extent,
            inner,
            source: length(NAME, &source)?,
            weights: length(NAME, &weights)?,
            target: length(NAME, &target)?,
            padding_of_lengths: 0,
        };
        let dispatch = op::dispatch(&self.kernel).bind(source).bind(weights).bind(target);
        Ok(dispatch.groups(groups).parameters(info).into())
    }
}

/// Blurs runs of `extent` positions that are `inner` elements apart.
fn blur(source: &[f32], weights: &[f32], target: &mut [f32], extent: usize, inner: usize) {
    if target.is_empty() {
        return;
    }
    let run = extent * inner;
    // At least so many elements in a row, so that adding them up is worth its loop.
    let unit = if inner < WIDE { run } else { inner };
    in_bands(target, unit, |first, band| {
        for (at, lines) in band.chunks_exact_mut(unit).enumerate() {
            let element = (first + at) * unit;
            let source = &source[element / run * run..][..run];
            let position = element % run / inner;
            lines.fill(0.0);
            for (tap, weight) in weights.iter().enumerate() {
                let from = (position + tap) as isize - (weights.len() / 2) as isize;
                add_from(lines, *weight, source, inner, from);
            }
        }
    });
}

/// Adds `weight` times the positions of the run `source` from `from` on, which may lie before its beginning or reach beyond
/// its end: there its first and its last position go on.
fn add_from(sum: &mut [f32], weight: f32, source: &[f32], inner: usize, from: isize) {
    let (positions, extent) = (sum.len() / inner, source.len() / inner);
    let before = from.min(0).unsigned_abs().min(positions);
    let until = extent.saturating_add_signed(from.saturating_neg()).clamp(before, positions);
    let (sum, after) = sum.split_at_mut(until * inner);
    let (sum, inside) = sum.split_at_mut(before * inner);
    for position in sum.chunks_exact_mut(inner) {
        add_scaled(position, weight, &source[..inner]);
    }
    if !inside.is_empty() {
        add_scaled(inside, weight, &source[from.max(0).unsigned_abs() * inner..]);
    }
    for position in after.chunks_exact_mut(inner) {
        add_scaled(position, weight, &source[source.len() - inner..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaussian_weights_are_symmetric_and_sum_to_one() {
        for sigma in [0.1, 0.5, 1.0, 2.5, 10.0] {
            let weights = gaussian_weights(sigma);
            assert_eq!(weights.len(), 2 * (3.0 * sigma).ceil() as usize + 1, "sigma {sigma}");
            assert!((weights.iter().sum::<f32>() - 1.0).abs() < 1e-6, "sigma {sigma}");
            assert!(weights.iter().eq(weights.iter().rev()), "sigma {sigma}");
        }
    }

    #[test]
    #[should_panic(expected = "sigma is above 0")]
    fn sigma_is_a_number() {
        gaussian_weights(f32::NAN);
    }
}
