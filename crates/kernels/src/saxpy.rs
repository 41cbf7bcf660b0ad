//! [`Saxpy`]: a scaled vector is added to another.
//!
//! Not here: other linear algebra (`matmul.rs`).

use bytemuck::{Pod, Zeroable};
use tenure_core::{Access, Error, Kernel, KernelSource, Manager, Op, View, op};

use crate::check::same;
use crate::ffi::WithTexts;
use crate::generated;
use crate::grid::{WORKGROUP, cover, length};

const NAME: &str = "saxpy";

/// `y[i] += a * x[i]`, as level 1 of the BLAS has it.
///
/// A device may round once where the host form rounds twice: results differ by at most one rounding of the product,
/// `|a x| 2^-24`, and one of the sum.
#[derive(Clone, Debug)]
pub struct Saxpy {
    kernel: Kernel,
}

/// Scalars, then lengths, each kind padded to 8 bytes: the layout of the generated text.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Info {
    a: f32,
    padding: u32,
    x: u32,
    y: u32,
}

impl Saxpy {
    /// The kernel. Bindings, `f32`: 0: x, read; 1: y, read and write. Parameters: 16 bytes, made by
    /// [`Saxpy::dispatch`].
    pub fn source() -> KernelSource {
        KernelSource::new(NAME, &[Access::Read, Access::ReadWrite])
            .host(|arguments| {
                let info: Info = arguments.parameters();
                let ([x], [y]) = arguments.slices::<f32, 1, 1>([0], [1]);
                for (y, x) in y.iter_mut().zip(x) {
                    *y += info.a * x;
                }
            })
            .texts(&generated::SAXPY)
    }

    /// Compiles it.
    ///
    /// # Errors
    /// As [`Manager::kernel`].
    pub fn compile(manager: &Manager) -> Result<Saxpy, Error> {
        Ok(Saxpy { kernel: manager.kernel(&Saxpy::source().cuda(&generated::SAXPY))? })
    }

    /// Adds `a * x` to `y`. Both have the same number of elements.
    ///
    /// ```
    /// # use tenure_backend_host::HostBackend;
    /// # use tenure_core::{Manager, ManagerOptions};
    /// # use tenure_kernels::Saxpy;
    /// # let manager = Manager::open_with(HostBackend::new(), ManagerOptions::default())?;
    /// let saxpy = Saxpy::compile(&manager)?;
    /// let x = manager.tensor_from("x", &[1.0_f32, 2.0, 3.0])?;
    /// let y = manager.tensor_from("y", &[10.0_f32, 10.0, 10.0])?;
    /// let scope = manager.scope("saxpy")?;
    /// scope.evaluate([saxpy.dispatch(2.0, &x, &y)?])?.wait()?;
    /// assert_eq!(y.read()?, [12.0, 14.0, 16.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Binding`], naming the tensors, if the lengths differ or pass [`MAX_ELEMENTS`](crate::MAX_ELEMENTS).
    pub fn dispatch(&self, a: f32, x: impl Into<View<f32>>, y: impl Into<View<f32>>) -> Result<Op, Error> {
        let (x, y) = (x.into(), y.into());
        same(NAME, ("y", &y), ("x", &x))?;
        let groups = cover(NAME, "y", &y, WORKGROUP.into())?;
        let info = Info { a, padding: 0, x: length(NAME, &x)?, y: length(NAME, &y)? };
        Ok(op::dispatch(&self.kernel).bind(x).bind(y).groups(groups).parameters(info).into())
    }
}
