//! The forms of the kernels for CUDA, which are unsafe to add: nothing checks what they do there.
//!
//! Not here: the text, which is `kernels.cu`; `cargo xtask kernels` makes PTX of it.

use tenure::KernelSource;
use tenure::kernel::CudaProgram;

use crate::kernels::WORKGROUP;

/// Adds PTX, and the CUDA C++ that it was made of, with the function `entry` to start.
pub fn with_cuda(source: KernelSource, entry: &str) -> KernelSource {
    let program = |text: &'static str| CudaProgram::new(text, [WORKGROUP, 1, 1]).lengths();
    // SAFETY: the text is compiled from the one below, so what is said there holds.
    let source = unsafe { source.ptx(program(include_str!("kernels.ptx")), entry) };
    // SAFETY: each function looks at the lengths of its bindings, which the backend passes, before it uses them; it writes
    // its last binding, and reads the others and, where the source says so, the last one.
    unsafe { source.cuda_cpp(program(include_str!("kernels.cu")), entry) }
}
