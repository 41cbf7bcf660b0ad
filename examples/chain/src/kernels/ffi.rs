//! The forms of the alpha kernels for CUDA, which are unsafe to add: nothing checks what they do there.
//!
//! Not here: the text, which is `alpha.cu`; `cargo xtask kernels` makes PTX of it.

use tenure::KernelSource;
use tenure::kernel::CudaProgram;

/// Pixels of a block, as the text has it.
const BLOCK: [u32; 3] = [256, 1, 1];

/// Adds PTX, and the CUDA C++ that it was made of, with the function `entry` to start.
pub(super) fn with_cuda(source: KernelSource, entry: &str) -> KernelSource {
    let program = |text: &'static str| CudaProgram::new(text, BLOCK).lengths();
    // SAFETY: the text is compiled from the one below, so what is said there holds.
    let source = unsafe { source.ptx(program(include_str!("alpha.ptx")), entry) };
    // SAFETY: each function changes pixels of its one binding, below its length, which the backend passes.
    unsafe { source.cuda_cpp(program(include_str!("alpha.cu")), entry) }
}
