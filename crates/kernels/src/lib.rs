//! Kernels for tenure, each written once.
//!
//! The kernels here are authored in CubeCL's `#[cube]`. Their generated WGSL, CUDA C++ and PTX are part of this crate, so
//! using them compiles no CubeCL, and each has a host form with the same results. [`Saxpy::source`] and its like give the
//! [`KernelSource`] with the forms that are checked where they run; [`Saxpy::compile`] has those for CUDA too, and
//! [`Saxpy::dispatch`] makes an operation from tensors, with sizes checked.
//!
//! | kernel | what it does | elements |
//! | --- | --- | --- |
//! | [`Fill`] | sets every element | any of 4 bytes |
//! | [`CopyElements`] | copies | any of 4 bytes |
//! | [`Saxpy`] | adds a scaled vector | `f32` |
//! | [`Sum`] | adds all elements | `f32` |
//! | [`PrefixSum`] | running sums | `u32` |
//! | [`Histogram`] | counts values | `u32` |
//! | [`Matmul`] | product of matrices | `f32` |
//! | [`Resize`] | pictures at another size, bicubic | `f32` |
//! | [`Blur`] | separable blur | `f32` |
//! | [`Unsharp`] | unsharp mask | `f32` |
//!
//! ```
//! # use tenure_backend_host::HostBackend;
//! # use tenure_core::{Manager, ManagerOptions};
//! use tenure_kernels::Saxpy;
//!
//! # let manager = Manager::open_with(HostBackend::new(), ManagerOptions::default())?;
//! let saxpy = Saxpy::compile(&manager)?;
//! manager.run("add", |scope| {
//!     let x = scope.tensor_from("x", &[1.0_f32; 1000])?;
//!     let y = scope.tensor_from("y", &[1.0_f32; 1000])?;
//!     scope.evaluate([saxpy.dispatch(0.5, &x, &y)?])?.wait()?;
//!     assert_eq!(y.read()?, [1.5; 1000]);
//!     Ok::<(), tenure_core::Error>(())
//! })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! With the feature `cubecl` a `#[cube]` kernel of your own becomes a [`KernelSource`] at run time: see the module
//! `cube`. Not here: compiling for a device, which is a backend's work, and running anything.

mod bands;
mod blur;
mod check;
mod copy;
#[cfg(feature = "cubecl")]
pub mod cube;
mod ffi;
mod fill;
mod generated;
mod grid;
mod histogram;
mod image;
mod matmul;
mod resize;
mod saxpy;
mod scan;
mod sum;
mod unsharp;

pub use blur::{Axis, Blur, gaussian_weights};
pub use copy::CopyElements;
pub use fill::Fill;
pub use grid::MAX_ELEMENTS;
pub use histogram::Histogram;
pub use image::{ImageSize, MAX_CHANNELS};
pub use matmul::{Matmul, MatmulSize};
pub use resize::Resize;
pub use saxpy::Saxpy;
pub use scan::PrefixSum;
pub use sum::Sum;
pub use unsharp::{Sharpness, Unsharp};

use tenure_core::KernelSource;

/// The source of every kernel of this crate: what its `source` gives, without the forms for CUDA.
pub fn sources() -> [KernelSource; 12] {
    [
        Fill::source(),
        CopyElements::source(),
        Saxpy::source(),
        Sum::source(),
        Matmul::source(),
        Resize::source(),
        Blur::source(),
        Unsharp::source(),
        Histogram::source(),
        PrefixSum::blocks_source(),
        PrefixSum::totals_source(),
        PrefixSum::add_source(),
    ]
}
