//! [`Fill`]: every element becomes one value.
//!
//! Not here: filling without a kernel, which every backend can (`tenure_core::op::fill`).

use bytemuck::{Pod, Zeroable};
use tenure_core::{Access, Element, Error, Kernel, KernelSource, Manager, Op, View, op};

use crate::ffi::WithTexts;
use crate::generated;
use crate::grid::{WORKGROUP, cover, length};

const NAME: &str = "fill";

/// `target[i] = value`, for elements of 4 bytes.
///
/// Exact on every backend: the bits are stored as they are.
#[derive(Clone, Debug)]
pub struct Fill {
    kernel: Kernel,
}

/// Scalars, then lengths, each kind padded to 8 bytes: the layout of the generated text.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Info {
    value: u32,
    padding: u32,
    target: u32,
    padding_of_lengths: u32,
}

impl Fill {
    /// The kernel. Binding 0: target, write, `u32` (any 4 bytes). Parameters: 16 bytes, made by [`Fill::dispatch`].
    pub fn source() -> KernelSource {
        KernelSource::new(NAME, &[Access::Write])
            .host(|arguments| {
                let info: Info = arguments.parameters();
                arguments.write::<u32>(0).fill(info.value);
            })
            .texts(&generated::FILL)
    }

    /// Compiles it.
    ///
    /// # Errors
    /// As [`Manager::kernel`].
    pub fn compile(manager: &Manager) -> Result<Fill, Error> {
        Ok(Fill { kernel: manager.kernel(&Fill::source().cuda(&generated::FILL))? })
    }

    /// Sets every element of `target`, of any length, to `value`.
    ///
    /// ```
    /// # use tenure_backend_host::HostBackend;
    /// # use tenure_core::{Manager, ManagerOptions};
    /// # use tenure_kernels::Fill;
    /// # let manager = Manager::open_with(HostBackend::new(), ManagerOptions::default())?;
    /// let fill = Fill::compile(&manager)?;
    /// let row = manager.tensor_from("row", &[0.0_f32; 3])?;
    /// let scope = manager.scope("fill")?;
    /// scope.evaluate([fill.dispatch(&row, 1.5)?])?.wait()?;
    /// assert_eq!(row.read()?, [1.5; 3]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Binding`], naming the tensor, above [`MAX_ELEMENTS`](crate::MAX_ELEMENTS).
    pub fn dispatch<T: Element>(&self, target: impl Into<View<T>>, value: T) -> Result<Op, Error> {
        const { assert!(size_of::<T>() == 4, "the kernel moves elements of 4 bytes") };
        let target = target.into();
        let groups = cover(NAME, "target", &target, WORKGROUP.into())?;
        let info = Info {
            value: bytemuck::pod_read_unaligned(bytemuck::bytes_of(&value)),
            target: length(NAME, &target)?,
            ..Info::zeroed()
        };
        Ok(op::dispatch(&self.kernel).bind(target).groups(groups).parameters(info).into())
    }
}
