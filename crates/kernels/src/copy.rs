//! [`CopyElements`]: elements from one tensor to another.
//!
//! Not here: copying without a kernel, which every backend can (`tenure_core::op::copy`).

use bytemuck::{Pod, Zeroable};
use tenure_core::{Access, Element, Error, Kernel, KernelSource, Manager, Op, View, op};

use crate::check::same;
use crate::ffi::WithTexts;
use crate::generated;
use crate::grid::{WORKGROUP, cover, length};

const NAME: &str = "copy";

/// `target[i] = source[i]`, for elements of 4 bytes.
///
/// Exact on every backend: the bits are stored as they are.
#[derive(Clone, Debug)]
pub struct CopyElements {
    kernel: Kernel,
}

/// The lengths: the layout of the generated text.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Info {
    source: u32,
    target: u32,
}

impl CopyElements {
    /// The kernel. Bindings, `u32` (any 4 bytes): 0: source, read; 1: target, write. Parameters: 8 bytes, made by
    /// [`CopyElements::dispatch`].
    pub fn source() -> KernelSource {
        KernelSource::new(NAME, &[Access::Read, Access::Write])
            .host(|arguments| {
                let ([source], [target]) = arguments.slices::<u32, 1, 1>([0], [1]);
                target.copy_from_slice(source);
            })
            .texts(&generated::COPY)
    }

    /// Compiles it.
    ///
    /// # Errors
    /// As [`Manager::kernel`].
    pub fn compile(manager: &Manager) -> Result<CopyElements, Error> {
        Ok(CopyElements { kernel: manager.kernel(&CopyElements::source().cuda(&generated::COPY))? })
    }

    /// Copies `source` to `target`, which has as many elements and does not overlap it.
    ///
    /// # Errors
    /// [`Error::Binding`], naming the tensors, if the lengths differ or pass [`MAX_ELEMENTS`](crate::MAX_ELEMENTS).
    pub fn dispatch<T: Element>(
        &self,
        source: impl Into<View<T>>,
        target: impl Into<View<T>>,
    ) -> Result<Op, Error> {
        const { assert!(size_of::<T>() == 4, "the kernel moves elements of 4 bytes") };
        let (source, target) = (source.into(), target.into());
        same(NAME, ("target", &target), ("source", &source))?;
        let groups = cover(NAME, "target", &target, WORKGROUP.into())?;
        let info = Info { source: length(NAME, &source)?, target: length(NAME, &target)? };
        Ok(op::dispatch(&self.kernel).bind(source).bind(target).groups(groups).parameters(info).into())
    }
}
