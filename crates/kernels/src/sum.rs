//! [`Sum`]: all elements of a tensor, added.
//!
//! Not here: running sums (`scan.rs`).

use bytemuck::{Pod, Zeroable};
use tenure_core::{Access, Error, Kernel, KernelSource, Manager, Op, View, op};

use crate::check::{at_least, exactly};
use crate::ffi::WithTexts;
use crate::generated;
use crate::grid::{WORKGROUP, cover, length};

const NAME: &str = "sum";

/// The most workgroups of the first step, so that one workgroup has an element an invocation in the second.
const MAX_PARTIALS: u64 = WORKGROUP as u64;

/// Elements that an invocation adds before another workgroup pays.
const EACH: u64 = 8;

/// `output[0]` = the sum of all `input[i]`; 0 for an empty input. Two dispatches of one kernel: sums of parts by a tree
/// in each workgroup, then their sum.
///
/// The host form makes the same additions in the same order as a device, so results are equal where the device adds as
/// IEEE 754 says. Against the exact sum the error is at most about `(max(8, n / 65,536) + 17) 2^-24` times the sum of all
/// `|input[i]|` for n elements: the depth of the additions.
#[derive(Clone, Debug)]
pub struct Sum {
    kernel: Kernel,
}

/// The lengths: the layout of the generated text.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Info {
    input: u32,
    partial: u32,
}

impl Sum {
    /// The kernel: workgroup `g` adds every element whose number, in workgroups, is `g` modulo their count, and writes
    /// `partial[g]`. Bindings, `f32`: 0: input, read; 1: partial, write. Parameters: 8 bytes, made by [`Sum::dispatch`].
    pub fn source() -> KernelSource {
        KernelSource::new(NAME, &[Access::Read, Access::Write])
            .host(|arguments| {
                let groups = arguments.groups().iter().product::<u32>() as usize;
                let ([input], [partial]) = arguments.slices::<f32, 1, 1>([0], [1]);
                for (group, partial) in partial.iter_mut().enumerate().take(groups) {
                    *partial = sum_of_workgroup(input, group, groups);
                }
            })
            .texts(&generated::SUM)
    }

    /// Compiles it.
    ///
    /// # Errors
    /// As [`Manager::kernel`].
    pub fn compile(manager: &Manager) -> Result<Sum, Error> {
        Ok(Sum { kernel: manager.kernel(&Sum::source().cuda(&generated::SUM))? })
    }

    /// How many elements of scratch memory the sum of so many elements needs: 1 to 256.
    pub fn scratch_len(elements: u64) -> u64 {
        elements.div_ceil(u64::from(WORKGROUP) * EACH).clamp(1, MAX_PARTIALS)
    }

    /// Adds all elements of `input`. `scratch` has at least [`Sum::scratch_len`] elements, whose values do not matter
    /// before or after; `output` has one. Record both dispatches, in this order.
    ///
    /// ```
    /// # use tenure_backend_host::HostBackend;
    /// # use tenure_core::{Manager, ManagerOptions};
    /// # use tenure_kernels::Sum;
    /// # let manager = Manager::open_with(HostBackend::new(), ManagerOptions::default())?;
    /// let sum = Sum::compile(&manager)?;
    /// let input = manager.tensor_from("input", &[0.5_f32; 5000])?;
    /// let scratch = manager.tensor_from("scratch", &vec![0.0_f32; Sum::scratch_len(5000) as usize])?;
    /// let output = manager.tensor_from("output", &[0.0_f32])?;
    /// let scope = manager.scope("sum")?;
    /// scope.evaluate(sum.dispatch(&input, &scratch, &output)?)?.wait()?;
    /// assert_eq!(output.read()?, [2500.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Binding`], naming the tensor, if `scratch` is too small, `output` has not one element, or `input`
    /// passes [`MAX_ELEMENTS`](crate::MAX_ELEMENTS).
    pub fn dispatch(
        &self,
        input: impl Into<View<f32>>,
        scratch: impl Into<View<f32>>,
        output: impl Into<View<f32>>,
    ) -> Result<[Op; 2], Error> {
        let (input, scratch, output) = (input.into(), scratch.into(), output.into());
        let partials = Sum::scratch_len(input.len());
        let reason = format!("the sum of `{}`", input.label());
        at_least(NAME, "scratch", &scratch, partials, &reason)?;
        exactly(NAME, "output", &output, 1, &reason)?;
        cover(NAME, "input", &input, WORKGROUP.into())?;
        let scratch = scratch.view(0..partials)?;
        Ok([self.step(input, scratch.clone(), partials as u32)?, self.step(scratch, output, 1)?])
    }

    fn step(&self, input: View<f32>, partial: View<f32>, groups: u32) -> Result<Op, Error> {
        let info = Info { input: length(NAME, &input)?, partial: length(NAME, &partial)? };
        Ok(op::dispatch(&self.kernel)
            .bind(input)
            .bind(partial)
            .groups([groups, 1, 1])
            .parameters(info)
            .into())
    }
}

/// What one workgroup makes, with its additions in its order.
fn sum_of_workgroup(input: &[f32], group: usize, groups: usize) -> f32 {
    let units = WORKGROUP as usize;
    let mut sums = vec![0.0_f32; units];
    for row in input.chunks(units).skip(group).step_by(groups) {
        for (sum, value) in sums.iter_mut().zip(row) {
            *sum += value;
        }
    }
    let mut half = units / 2;
    while half > 0 {
        let (low, high) = sums.split_at_mut(half);
        for (low, high) in low.iter_mut().zip(high) {
            *low += *high;
        }
        half /= 2;
    }
    sums[0]
}
