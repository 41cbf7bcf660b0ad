//! The forms of a shipped kernel for devices. Those for CUDA are unsafe to add, since nothing checks what they do there.
//!
//! Not here: the texts (`generated.rs`).

use tenure_core::KernelSource;
use tenure_core::kernel::CudaProgram;

use crate::generated::Texts;

/// A source that gets its generated texts.
pub(crate) trait WithTexts {
    /// Adds the form that is checked on the device. The source's label is the name of its entry point.
    fn texts(self, texts: &Texts) -> Self;

    /// Adds the forms for CUDA, for this crate's own dispatches only: a source or a dispatch with these forms is handed to
    /// nobody, for they believe what the parameters say. PTX comes before CUDA C++, which is taken where the device is too
    /// old for the PTX.
    fn cuda(self, texts: &Texts) -> Self;
}

impl WithTexts for KernelSource {
    fn texts(self, texts: &Texts) -> Self {
        let entry = self.label().to_owned();
        self.wgsl(texts.wgsl, entry)
    }

    fn cuda(self, texts: &Texts) -> Self {
        let entry = self.label().to_owned();
        let program =
            |text: &'static str| CudaProgram::new(text, texts.block).shared_bytes(texts.shared_bytes);
        // SAFETY: the text is compiled from the one below, so what is said there holds.
        let source = unsafe { self.ptx(program(texts.ptx), entry.clone()) };
        // SAFETY: the generator compares the access that the text makes with what the source declares. The text indexes below
        // the lengths of its bindings, and extents that the kernel's own `dispatch` has checked against them; both are in
        // the parameters, which that `dispatch` makes and hands out as a finished operation. Blocks and shared memory are
        // those that the text was made for: a test compares them.
        unsafe { source.cuda_cpp(program(texts.cuda_cpp), entry) }
    }
}
