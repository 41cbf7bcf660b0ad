//! [`PrefixSum`]: running sums over a tensor of any length, in three kernels.
//!
//! Not here: the sum alone (`sum.rs`).

use bytemuck::{Pod, Zeroable};
use tenure_core::{Access, Error, Kernel, KernelSource, Manager, Op, View, op};

use crate::check::{at_least, same};
use crate::ffi::WithTexts;
use crate::generated;
use crate::grid::{WORKGROUP, cover, length};

const BLOCKS: &str = "scan_blocks";
const TOTALS: &str = "scan_totals";
const ADD: &str = "scan_add";

/// Elements of a block that each invocation adds by itself.
pub(crate) const EACH: u32 = 4;

/// Elements of a block, which is a workgroup's.
pub(crate) const BLOCK: u32 = WORKGROUP * EACH;

/// `output[i] = input[0] + ... + input[i]`, wrapping at 2^32: the inclusive prefix sum. Three dispatches: each block of
/// 1,024 elements by itself; the sums of the blocks before each block; these added to the block's elements.
///
/// Exact on every backend. The second step is one workgroup that goes over the blocks' sums 256 at a time.
#[derive(Clone, Debug)]
pub struct PrefixSum {
    blocks: Kernel,
    totals: Kernel,
    add: Kernel,
}

/// The lengths: the layout of the generated text of the first kernel.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct BlocksInfo {
    input: u32,
    output: u32,
    totals: u32,
    padding: u32,
}

/// The same for the second.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct TotalsInfo {
    totals: u32,
    padding: u32,
}

/// The same for the third.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct AddInfo {
    totals: u32,
    output: u32,
}

impl PrefixSum {
    /// The kernel of the first step: sums within blocks. Bindings, `u32`: 0: input, read; 1: output, write; 2: totals of
    /// the blocks, write. Parameters: 16 bytes, made by [`PrefixSum::dispatch`].
    pub fn blocks_source() -> KernelSource {
        KernelSource::new(BLOCKS, &[Access::Read, Access::Write, Access::Write])
            .host(|arguments| {
                let ([input], [output, totals]) = arguments.slices::<u32, 1, 2>([0], [1, 2]);
                let blocks = input.chunks(BLOCK as usize).zip(output.chunks_mut(BLOCK as usize));
                for ((input, output), total) in blocks.zip(totals) {
                    *total = 0;
                    for (input, output) in input.iter().zip(output) {
                        *total = total.wrapping_add(*input);
                        *output = *total;
                    }
                }
            })
            .texts(&generated::SCAN_BLOCKS)
    }

    /// The kernel of the second step: the sum before each block. Binding 0: totals, read and write, `u32`. Parameters:
    /// 8 bytes, made by [`PrefixSum::dispatch`]. One workgroup.
    pub fn totals_source() -> KernelSource {
        KernelSource::new(TOTALS, &[Access::ReadWrite])
            .host(|arguments| {
                let mut before = 0_u32;
                for total in arguments.write::<u32>(0) {
                    let own = std::mem::replace(total, before);
                    before = before.wrapping_add(own);
                }
            })
            .texts(&generated::SCAN_TOTALS)
    }

    /// The kernel of the third step: both put together. Bindings, `u32`: 0: totals, read; 1: output, read and write.
    /// Parameters: 8 bytes, made by [`PrefixSum::dispatch`].
    pub fn add_source() -> KernelSource {
        KernelSource::new(ADD, &[Access::Read, Access::ReadWrite])
            .host(|arguments| {
                let ([totals], [output]) = arguments.slices::<u32, 1, 1>([0], [1]);
                for (block, total) in output.chunks_mut(BLOCK as usize).zip(totals) {
                    block.iter_mut().for_each(|value| *value = value.wrapping_add(*total));
                }
            })
            .texts(&generated::SCAN_ADD)
    }

    /// Compiles all three.
    ///
    /// # Errors
    /// As [`Manager::kernel`].
    pub fn compile(manager: &Manager) -> Result<PrefixSum, Error> {
        Ok(PrefixSum {
            blocks: manager.kernel(&PrefixSum::blocks_source().cuda(&generated::SCAN_BLOCKS))?,
            totals: manager.kernel(&PrefixSum::totals_source().cuda(&generated::SCAN_TOTALS))?,
            add: manager.kernel(&PrefixSum::add_source().cuda(&generated::SCAN_ADD))?,
        })
    }

    /// How many elements of scratch memory the prefix sum of so many elements needs: one a block.
    pub fn scratch_len(elements: u64) -> u64 {
        elements.div_ceil(BLOCK.into())
    }

    /// Writes the running sums of `input` to `output`, which has as many elements and does not overlap it. `scratch` has
    /// at least [`PrefixSum::scratch_len`] elements, whose values do not matter before or after. Record all three
    /// dispatches, in this order.
    ///
    /// ```
    /// # use tenure_backend_host::HostBackend;
    /// # use tenure_core::{Manager, ManagerOptions};
    /// # use tenure_kernels::PrefixSum;
    /// # let manager = Manager::open_with(HostBackend::new(), ManagerOptions::default())?;
    /// let prefix_sum = PrefixSum::compile(&manager)?;
    /// let input = manager.tensor_from("input", &[1_u32, 2, 3, 4])?;
    /// let output = manager.tensor_from("output", &[0_u32; 4])?;
    /// let scratch = manager.tensor_from("scratch", &vec![0_u32; PrefixSum::scratch_len(4) as usize])?;
    /// let scope = manager.scope("scan")?;
    /// scope.evaluate(prefix_sum.dispatch(&input, &output, &scratch)?)?.wait()?;
    /// assert_eq!(output.read()?, [1, 3, 6, 10]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Binding`], naming the tensor, if `output` has another length than `input`, `scratch` is too small, or
    /// `input` passes [`MAX_ELEMENTS`](crate::MAX_ELEMENTS).
    pub fn dispatch(
        &self,
        input: impl Into<View<u32>>,
        output: impl Into<View<u32>>,
        scratch: impl Into<View<u32>>,
    ) -> Result<[Op; 3], Error> {
        let (input, output, scratch) = (input.into(), output.into(), scratch.into());
        same(BLOCKS, ("output", &output), ("input", &input))?;
        let blocks = PrefixSum::scratch_len(input.len());
        at_least(
            BLOCKS,
            "scratch",
            &scratch,
            blocks,
            format_args!("the running sum of `{}`", input.label()),
        )?;
        let by_blocks = cover(BLOCKS, "input", &input, BLOCK.into())?;
        let by_elements = cover(ADD, "output", &output, WORKGROUP.into())?;
        let totals = scratch.view(0..blocks)?;
        let elements = length(BLOCKS, &input)?;
        let count = length(BLOCKS, &totals)?;

        let info = BlocksInfo { input: elements, output: elements, totals: count, padding: 0 };
        let first = op::dispatch(&self.blocks).bind(input).bind(&output).bind(&totals);
        let second = op::dispatch(&self.totals).bind(&totals);
        let third = op::dispatch(&self.add).bind(&totals).bind(&output);
        Ok([
            first.groups(by_blocks).parameters(info).into(),
            second.groups([1, 1, 1]).parameters(TotalsInfo { totals: count, padding: 0 }).into(),
            third.groups(by_elements).parameters(AddInfo { totals: count, output: elements }).into(),
        ])
    }
}
