//! [`Matmul`]: the product of two matrices.
//!
//! Not here: transposed or strided operands.

use bytemuck::{Pod, Zeroable};
use tenure_core::{Access, Error, Kernel, KernelSource, Manager, Op, View, op};

use crate::check::{exactly, refuse};
use crate::ffi::WithTexts;
use crate::generated;
use crate::grid::{MAX_ELEMENTS, MAX_GROUPS, length};

const NAME: &str = "matmul";

/// Rows and columns of the tile that a workgroup makes.
#[cfg_attr(not(feature = "cubecl"), allow(dead_code, reason = "the generator needs the number too"))]
pub(crate) const SIDE: u32 = 16;

/// `c = a b`, all row-major.
///
/// A device adds the same products in the same order as the host form, but may round product and sum once instead of
/// twice: results differ by at most about `k 2^-23` times the sum of the `|a[i,l] b[l,j]|`.
#[derive(Clone, Debug)]
pub struct Matmul {
    kernel: Kernel,
}

/// The extents of a product: `a` is m x k, `b` is k x n and `c` is m x n.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MatmulSize {
    /// Rows of `a` and `c`.
    pub m: u32,
    /// Columns of `a`, rows of `b`.
    pub k: u32,
    /// Columns of `b` and `c`.
    pub n: u32,
}

/// Scalars, then lengths, each kind padded to 8 bytes: the layout of the generated text.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Info {
    m: u32,
    k: u32,
    n: u32,
    padding: u32,
    a: u32,
    b: u32,
    c: u32,
    padding_of_lengths: u32,
}

impl Matmul {
    /// The kernel. Bindings, `f32`: 0: a, read; 1: b, read; 2: c, write. Parameters: 32 bytes, made by
    /// [`Matmul::dispatch`].
    pub fn source() -> KernelSource {
        KernelSource::new(NAME, &[Access::Read, Access::Read, Access::Write])
            .host(|arguments| {
                let info: Info = arguments.parameters();
                let ([a, b], [c]) = arguments.slices::<f32, 2, 1>([0, 1], [2]);
                multiply(a, b, c, info.k as usize, info.n as usize);
            })
            .texts(&generated::MATMUL)
    }

    /// Compiles it.
    ///
    /// # Errors
    /// As [`Manager::kernel`].
    pub fn compile(manager: &Manager) -> Result<Matmul, Error> {
        Ok(Matmul { kernel: manager.kernel(&Matmul::source().cuda(&generated::MATMUL))? })
    }

    /// Writes the product of `a` (m x k) and `b` (k x n) to `c` (m x n). With `k` of 0 all of `c` becomes 0.
    ///
    /// ```
    /// # use tenure_backend_host::HostBackend;
    /// # use tenure_core::{Manager, ManagerOptions};
    /// # use tenure_kernels::{Matmul, MatmulSize};
    /// # let manager = Manager::open_with(HostBackend::new(), ManagerOptions::default())?;
    /// let matmul = Matmul::compile(&manager)?;
    /// let a = manager.tensor_from("a", &[1.0_f32, 2.0, 3.0, 4.0])?;
    /// let b = manager.tensor_from("b", &[5.0_f32, 6.0])?;
    /// let c = manager.tensor_from("c", &[0.0_f32; 2])?;
    /// let scope = manager.scope("matmul")?;
    /// let size = MatmulSize { m: 2, k: 2, n: 1 };
    /// scope.evaluate([matmul.dispatch(&a, &b, &c, size)?])?.wait()?;
    /// assert_eq!(c.read()?, [17.0, 39.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Binding`], naming the tensor, if one does not have the elements of its extents or passes
    /// [`MAX_ELEMENTS`], or `m` or `n` passes 1,048,560.
    pub fn dispatch(
        &self,
        a: impl Into<View<f32>>,
        b: impl Into<View<f32>>,
        c: impl Into<View<f32>>,
        size: MatmulSize,
    ) -> Result<Op, Error> {
        let (a, b, c) = (a.into(), b.into(), c.into());
        let MatmulSize { m, k, n } = size;
        for (role, view, rows, columns) in [("a", &a, m, k), ("b", &b, k, n), ("c", &c, m, n)] {
            let elements = u64::from(rows) * u64::from(columns);
            exactly(NAME, role, view, elements, format_args!("a matrix of {rows}x{columns}"))?;
            if elements > MAX_ELEMENTS {
                let problem = format!(
                    "{role} `{}` has {elements} elements, it indexes at most {MAX_ELEMENTS}",
                    view.label()
                );
                return Err(refuse(NAME, problem));
            }
        }
        let [columns, rows] = [n, m].map(|extent| extent.div_ceil(SIDE).max(1));
        if u64::from(columns.max(rows)) > MAX_GROUPS {
            let most = MAX_GROUPS * u64::from(SIDE);
            let problem = format!("c `{}` of {m}x{n} has more than {most} rows or columns", c.label());
            return Err(refuse(NAME, problem));
        }
        let [a_len, b_len, c_len] = [length(NAME, &a)?, length(NAME, &b)?, length(NAME, &c)?];
        let info = Info { m, k, n, a: a_len, b: b_len, c: c_len, ..Info::zeroed() };
        let dispatch = op::dispatch(&self.kernel).bind(a).bind(b).bind(c);
        Ok(dispatch.groups([columns, rows, 1]).parameters(info).into())
    }
}

/// Adds along k in the order of the tiles, a row of `c` at a time.
fn multiply(a: &[f32], b: &[f32], c: &mut [f32], k: usize, n: usize) {
    c.fill(0.0);
    if k == 0 || n == 0 {
        return;
    }
    for (row_a, row_c) in a.chunks_exact(k).zip(c.chunks_exact_mut(n)) {
        for (value, row_b) in row_a.iter().zip(b.chunks_exact(n)) {
            for (sum, other) in row_c.iter_mut().zip(row_b) {
                *sum += value * other;
            }
        }
    }
}
