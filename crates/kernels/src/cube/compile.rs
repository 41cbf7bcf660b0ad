//! [`compile`]: from a `#[cube]` kernel to a [`KernelSource`], and [`CudaText`] for those who compile that themselves.
//!
//! Not here: the arguments of a dispatch (`dispatch.rs`).

use std::sync::Arc;

use cubecl::ir::attributes::BufferIOAttr;
use cubecl::ir::metadata::Info;
use cubecl::prelude::*;
use cubecl::{CompilationError, Compiler, define_kernel};
use cubecl_cpp::shared::CppCompiler;
use cubecl_cpp::target::Cuda;
use cubecl_wgpu::WgslCompiler;
use tenure_core::kernel::CudaProgram;
use tenure_core::{Access, KernelSource};

use super::dispatch::Layout;
use super::text::{normalised, with_access};

/// Why a `#[cube]` kernel did not become a [`KernelSource`] or a dispatch.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CubeError {
    /// CubeCL refuses the kernel.
    #[error("kernel `{kernel}` does not compile: {source}")]
    Compile {
        /// The kernel's label.
        kernel: Arc<str>,
        /// What CubeCL says.
        source: CompilationError,
    },
    /// The kernel has shapes and strides among its arguments (`Tensor`), which tenure does not pass. Take slices, and
    /// extents as scalars.
    #[error("kernel `{kernel}` takes tensors with shapes; take slices, and extents as scalars")]
    Shapes {
        /// The kernel's label.
        kernel: Arc<str>,
    },
    /// A dispatch gives other arguments than the kernel takes.
    #[error("kernel `{kernel}` takes {expected}, the dispatch gives {given}")]
    Arguments {
        /// The kernel's label.
        kernel: Arc<str>,
        /// Number or types that it takes.
        expected: String,
        /// Number or types that were given.
        given: String,
    },
    /// A tensor has more elements than 32 bits count.
    #[error("kernel `{kernel}`: tensor `{tensor}` has {elements} elements, it counts them in 32 bits")]
    TooLong {
        /// The kernel's label.
        kernel: Arc<str>,
        /// The tensor's label.
        tensor: Arc<str>,
        /// Its elements.
        elements: u64,
    },
}

/// A compiled `#[cube]` kernel: the source for [`Manager::kernel`](tenure_core::Manager::kernel), and how to pass its
/// arguments.
#[derive(Clone, Debug)]
pub struct CubeSource {
    source: KernelSource,
    layout: Arc<Layout>,
}

/// Compiles a `#[cube]` kernel to a [`KernelSource`] with a WGSL form, named `label`, whose bindings are the kernel's
/// buffers in order, with the access that the kernel makes of them.
///
/// Vulkan and wgpu take WGSL. For the host backend add a closure by [`CubeSource::map`], for CUDA the text of [`cuda`].
///
/// ```
/// use cubecl::prelude::*;
/// use tenure_kernels::cube;
///
/// #[cube(launch)]
/// fn scale(x: &mut [f32], factor: f32) {
///     if ABSOLUTE_POS < x.len() {
///         x[ABSOLUTE_POS] *= factor;
///     }
/// }
///
/// # fn main() -> Result<(), cube::CubeError> {
/// let kernel =
///     scale::Scale::new(cube::settings([256, 1, 1]), cube::device(), cube::target(), cube::buffer(), ());
/// let scale = cube::compile("scale", &kernel)?;
/// assert_eq!(scale.source().bindings(), [tenure_core::Access::ReadWrite]);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`CubeError::Compile`], also for a kernel that panics while it is expanded, and [`CubeError::Shapes`].
pub fn compile(label: &str, kernel: &(impl CubeKernel + ?Sized)) -> Result<CubeSource, CubeError> {
    let failed = |source| CubeError::Compile { kernel: label.into(), source };
    let definition = define_kernel(kernel).map_err(failed)?;
    let layout = Layout::of(label, &definition.info)?;
    let written = definition.settings.kernel_name.to_string();
    let shader = WgslCompiler.compile(definition, &Default::default()).map_err(failed)?;
    let access: Vec<Access> = shader.io.iter().map(access_of).collect();
    let entry = entry_name(label);
    let text = with_access(&normalised(&shader.to_string(), &written, &entry), &access);
    let source = KernelSource::new(label, &access).wgsl(text, entry);
    Ok(CubeSource { source, layout: Arc::new(layout) })
}

impl CubeSource {
    /// The source.
    pub fn source(&self) -> &KernelSource {
        &self.source
    }

    /// The same with another form beside the WGSL, such as a host closure. The closure gets the kernel's info buffer as
    /// parameters: scalars by type (`f32`, `i32`, `u32`) and then the bindings' lengths, each kind padded to 8 bytes.
    pub fn map(self, add: impl FnOnce(KernelSource) -> KernelSource) -> CubeSource {
        CubeSource { source: add(self.source), layout: self.layout }
    }

    pub(super) fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }
}

/// CUDA C++ of a kernel, for a compiler to PTX.
///
/// Its parameters are pointers to the bindings in order, and then one to the info buffer, which has the layout of the
/// WGSL form's.
#[derive(Clone, Debug)]
pub struct CudaText {
    /// The text.
    pub text: String,
    /// The name of the function to start.
    pub entry: String,
    /// Threads of a block in x, y, z that a launch has to have.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory that a launch has to give.
    pub shared_bytes: usize,
}

impl CudaText {
    /// The program of a [`CudaCpp`](tenure_core::kernel::DeviceProgram::CudaCpp) form, for
    /// [`KernelSource::cuda_cpp`] in [`CubeSource::map`].
    pub fn program(&self) -> CudaProgram {
        let shared_bytes = u32::try_from(self.shared_bytes).unwrap_or(u32::MAX);
        CudaProgram::new(self.text.as_str(), self.block).shared_bytes(shared_bytes)
    }
}

/// Compiles a `#[cube]` kernel to CUDA C++.
///
/// # Errors
/// As [`compile`].
pub fn cuda(label: &str, kernel: &(impl CubeKernel + ?Sized)) -> Result<CudaText, CubeError> {
    let failed = |source| CubeError::Compile { kernel: label.into(), source };
    let definition = define_kernel(kernel).map_err(failed)?;
    let written = definition.settings.kernel_name.to_string();
    let block = definition.settings.cube_dim;
    let compiled = CppCompiler::<Cuda>::default().compile(definition, &Default::default()).map_err(failed)?;
    let entry = entry_name(label);
    // Only trailing blanks are changed: access stands in the parameters' types already.
    let text = with_access(&normalised(&compiled.source, &written, &entry), &[]);
    let block = [block.x, block.y, block.z];
    Ok(CudaText { text, entry, block, shared_bytes: compiled.shared_memory_size })
}

fn access_of(io: &BufferIOAttr) -> Access {
    match io {
        BufferIOAttr::ReadOnly | BufferIOAttr::Dead => Access::Read,
        BufferIOAttr::WriteOnly => Access::Write,
        BufferIOAttr::ReadWrite => Access::ReadWrite,
    }
}

/// A label as a name in WGSL and C++.
fn entry_name(label: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let name: String = label.chars().map(plain).collect();
    if name.starts_with(|c: char| c.is_ascii_alphabetic()) { name } else { format!("kernel_{name}") }
}

impl Layout {
    fn of(label: &str, info: &Info) -> Result<Layout, CubeError> {
        if info.has_dynamic_meta || info.metadata.num_extended_meta() > 0 {
            return Err(CubeError::Shapes { kernel: label.into() });
        }
        let scalars = info.scalars.iter().map(|scalar| (scalar.ty, scalar.count)).collect();
        Ok(Layout { kernel: label.into(), scalars, buffers: info.metadata.num_meta() })
    }
}
