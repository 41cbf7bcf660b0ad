//! [`Histogram`]: how often each value is there.
//!
//! Not here: binning of floating-point values.

use bytemuck::{Pod, Zeroable};
use tenure_core::{Access, Error, Kernel, KernelSource, Manager, Op, View, op};

use crate::ffi::WithTexts;
use crate::generated;
use crate::grid::{WORKGROUP, cover, length};

const NAME: &str = "histogram";

/// `counts[value] += 1` for each of the values; those beyond the last count are left out.
///
/// Exact on every backend. Counts wrap at 2^32.
#[derive(Clone, Debug)]
pub struct Histogram {
    kernel: Kernel,
}

/// The lengths: the layout of the generated text.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Info {
    values: u32,
    counts: u32,
}

impl Histogram {
    /// The kernel. Bindings, `u32`: 0: values, read; 1: counts, read and write, by atomic additions. Parameters: 8
    /// bytes, made by [`Histogram::dispatch`].
    pub fn source() -> KernelSource {
        KernelSource::new(NAME, &[Access::Read, Access::ReadWrite])
            .host(|arguments| {
                let ([values], [counts]) = arguments.slices::<u32, 1, 1>([0], [1]);
                for value in values {
                    if let Some(count) = counts.get_mut(*value as usize) {
                        *count = count.wrapping_add(1);
                    }
                }
            })
            .texts(&generated::HISTOGRAM)
    }

    /// Compiles it.
    ///
    /// # Errors
    /// As [`Manager::kernel`].
    pub fn compile(manager: &Manager) -> Result<Histogram, Error> {
        Ok(Histogram { kernel: manager.kernel(&Histogram::source().cuda(&generated::HISTOGRAM))? })
    }

    /// Counts the elements of `values`, on top of what `counts` has: fill it with 0 first
    /// ([`op::fill`](tenure_core::op::fill)) to begin anew. Both may have any length.
    ///
    /// ```
    /// # use tenure_backend_host::HostBackend;
    /// # use tenure_core::{Manager, ManagerOptions};
    /// # use tenure_kernels::Histogram;
    /// # let manager = Manager::open_with(HostBackend::new(), ManagerOptions::default())?;
    /// let histogram = Histogram::compile(&manager)?;
    /// let values = manager.tensor_from("values", &[0_u32, 2, 2, 9])?;
    /// let counts = manager.tensor_from("counts", &[0_u32; 4])?;
    /// let scope = manager.scope("histogram")?;
    /// scope.evaluate([histogram.dispatch(&values, &counts)?])?.wait()?;
    /// assert_eq!(counts.read()?, [1, 0, 2, 0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Binding`], naming the tensor, if one passes [`MAX_ELEMENTS`](crate::MAX_ELEMENTS).
    pub fn dispatch(&self, values: impl Into<View<u32>>, counts: impl Into<View<u32>>) -> Result<Op, Error> {
        let (values, counts) = (values.into(), counts.into());
        cover(NAME, "counts", &counts, WORKGROUP.into())?;
        let groups = cover(NAME, "values", &values, WORKGROUP.into())?;
        let info = Info { values: length(NAME, &values)?, counts: length(NAME, &counts)? };
        Ok(op::dispatch(&self.kernel).bind(values).bind(counts).groups(groups).parameters(info).into())
    }
}
