//! The forms of the suite's kernels for CUDA, which are unsafe to add: nothing checks what they do there.
//!
//! Not here: the text, which is `portable.cu`; `cargo xtask kernels` makes PTX of it.

use tenure_core::KernelSource;
use tenure_core::kernel::CudaProgram;

use super::WORKGROUP;

/// A source that gets its forms for CUDA.
pub(super) trait WithCuda {
    /// Adds PTX, and the CUDA C++ that it was made of, with the function `entry` to start.
    fn cuda(self, entry: &str) -> Self;
}

impl WithCuda for KernelSource {
    fn cuda(self, entry: &str) -> Self {
        let program = |text: &'static str| CudaProgram::new(text, [WORKGROUP, 1, 1]).lengths();
        // SAFETY: the text is compiled from the one below, so what is said there holds.
        let source = unsafe { self.ptx(program(include_str!("portable.ptx")), entry) };
        // SAFETY: each function indexes its bindings below their lengths, which the backend passes, and uses them as the
        // source of the same name declares.
        unsafe { source.cuda_cpp(program(include_str!("portable.cu")), entry) }
    }
}
