//! [`Resize`]: pictures at another size, by bicubic interpolation.
//!
//! Not here: filtering before a picture is made smaller (`blur.rs`).

use bytemuck::{Pod, Zeroable};
use tenure_core::{Access, Error, Kernel, KernelSource, Manager, Op, View, op};

use crate::bands::{add_scaled, in_bands};
use crate::check::refuse;
use crate::ffi::WithTexts;
use crate::generated;
use crate::grid::{WORKGROUP, cover, length};
use crate::image::ImageSize;

const NAME: &str = "resize";

/// Scales a picture by cubic convolution with the parameter -0.5 (R. Keys, "Cubic convolution interpolation for digital
/// image processing", 1981), which reproduces polynomials up to degree 2 and may overshoot at edges.
///
/// Pixels are areas: the centre of target pixel `i` lies at `(i + 1/2) source / target - 1/2` in the source. Beyond its
/// edges the source goes on with its last pixels. A picture that becomes smaller is not filtered before.
///
/// Positions are computed in whole numbers on all backends; weights and sums may be rounded differently: results
/// differ by at most about `2^-19` times the largest value around.
#[derive(Clone, Debug)]
pub struct Resize {
    kernel: Kernel,
}

/// Scalars, then lengths, each kind padded to 8 bytes: the layout of the generated text.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Info {
    source_width: u32,
    source_height: u32,
    target_width: u32,
    target_height: u32,
    channels: u32,
    padding: u32,
    source: u32,
    target: u32,
}

impl Resize {
    /// The kernel. Bindings, `f32`: 0: source, read; 1: target, write. Parameters: 32 bytes, made by
    /// [`Resize::dispatch`].
    pub fn source() -> KernelSource {
        KernelSource::new(NAME, &[Access::Read, Access::Write])
            .host(|arguments| {
                let info: Info = arguments.parameters();
                let ([source], [target]) = arguments.slices::<f32, 1, 1>([0], [1]);
                resize(source, target, info);
            })
            .texts(&generated::RESIZE)
    }

    /// Compiles it.
    ///
    /// # Errors
    /// As [`Manager::kernel`].
    pub fn compile(manager: &Manager) -> Result<Resize, Error> {
        Ok(Resize { kernel: manager.kernel(&Resize::source().cuda(&generated::RESIZE))? })
    }

    /// Scales `source`, a picture of `from`, to `target`, a picture of `to`. Both have the same number of channels.
    /// Where alpha is a channel, colours should be multiplied by it before.
    ///
    /// # Errors
    /// [`Error::Binding`], naming the tensor: if one is no picture of its size, the channels differ, the source is empty
    /// and the target is not, the target passes [`MAX_ELEMENTS`](crate::MAX_ELEMENTS), or twice the product of source's
    /// and target's widths, or of their heights, and the target's does not fit 32 bits (32,767 each always does).
    pub fn dispatch(
        &self,
        source: impl Into<View<f32>>,
        from: ImageSize,
        target: impl Into<View<f32>>,
        to: ImageSize,
    ) -> Result<Op, Error> {
        let (source, target) = (source.into(), target.into());
        from.check(NAME, "source", &source)?;
        to.check(NAME, "target", &target)?;
        let problem = |text: String| Err(refuse(NAME, format!("target `{}` {text}", target.label())));
        if from.channels != to.channels {
            return problem(format!(
                "has {} channels, source `{}` has {}",
                to.channels,
                source.label(),
                from.channels
            ));
        }
        if source.is_empty() && !target.is_empty() {
            return problem(format!("has elements, source `{}` has none", source.label()));
        }
        for (one, other) in [(from.width, to.width), (from.height, to.height)] {
            let largest = (2 * u128::from(one) + 1) * u128::from(other);
            if largest > u128::from(u32::MAX) {
                return problem(format!("of {other} pixels from {one}: positions do not fit 32 bits"));
            }
        }
        let groups = cover(NAME, "target", &target, WORKGROUP.into())?;
        let info = Info {
            source_width: from.width,
            source_height: from.height,
            target_width: to.width,
            target_height: to.height,
            channels: to.channels,
            padding: 0,
            source: length(NAME, &source)?,
            target: length(NAME, &target)?,
        };
        Ok(op::dispatch(&self.kernel).bind(source).bind(target).groups(groups).parameters(info).into())
    }
}

fn resize(source: &[f32], target: &mut [f32], info: Info) {
    if target.is_empty() {
        return;
    }
    let [channels, width] = [info.channels, info.source_width].map(|extent| extent as usize);
    let row = channels * info.target_width as usize;
    let across: Vec<Taps> =
        (0..info.target_width).map(|x| Taps::new(x, info.source_width, info.target_width)).collect();
    let scale_row = |y: usize, line: &mut [f32]| {
        let source = &source[y * width * channels..][..width * channels];
        for (taps, pixel) in across.iter().zip(line.chunks_exact_mut(channels)) {
            pixel.fill(0.0);
            for (place, weight) in taps.places.into_iter().zip(taps.weights) {
                add_scaled(pixel, weight, &source[place * channels..]);
            }
        }
    };
    in_bands(target, row, |first, band| {
        // Rows of the source at the target's width. A target row needs up to four that follow each other, the next one
        // mostly the same.
        let mut scaled: [(Option<usize>, Vec<f32>); 4] = std::array::from_fn(|_| (None, vec![0.0; row]));
        for (at, line) in band.chunks_exact_mut(row).enumerate() {
            let down = Taps::new((first + at) as u32, info.source_height, info.target_height);
            line.fill(0.0);
            for (y, weight) in down.places.into_iter().zip(down.weights) {
                let (held, values) = &mut scaled[y % 4];
                if *held != Some(y) {
                    scale_row(y, values);
                    *held = Some(y);
                }
                add_scaled(line, weight, values);
            }
        }
    });
}

/// What one target position depends on, in one direction.
struct Taps {
    places: [usize; 4],
    weights: [f32; 4],
}

impl Taps {
    fn new(position: u32, source: u32, target: u32) -> Taps {
        // The position in the source as a fraction of whole numbers, one pixel further so that it is above 0.
        let unit = 2 * u64::from(target);
        let at = (2 * u64::from(position) + 1) * u64::from(source) + u64::from(target);
        let first = at / unit;
        let part = (at % unit) as f32 / unit as f32;
        let last = u64::from(source) - 1;
        Taps {
            places: std::array::from_fn(|tap| (first + tap as u64).saturating_sub(2).min(last) as usize),
            weights: std::array::from_fn(|tap| weight((part + 1.0 - tap as f32).abs())),
        }
    }
}

/// Keys' kernel at a distance of 0 to 2 source pixels.
fn weight(distance: f32) -> f32 {
    let x = distance;
    if x <= 1.0 { (1.5 * x - 2.5) * x * x + 1.0 } else { ((2.5 - 0.5 * x) * x - 4.0) * x + 2.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_as_calculated_by_hand() {
        assert_eq!([0.25, 0.75, 1.25, 1.75].map(weight), [111.0, 29.0, -9.0, -3.0].map(|n| n / 128.0));
        assert_eq!([0.0, 1.0, 2.0].map(weight), [1.0, 0.0, 0.0]);
    }

    #[test]
    fn the_same_size_takes_one_pixel() {
        let taps = Taps::new(3, 7, 7);
        assert_eq!((taps.places, taps.weights), ([2, 3, 4, 5], [0.0, 1.0, 0.0, 0.0]));
    }

    #[test]
    fn edges_go_on() {
        assert_eq!(Taps::new(0, 7, 14).places, [0, 0, 0, 1]);
        assert_eq!(Taps::new(13, 7, 14).places, [5, 6, 6, 6]);
    }
}
