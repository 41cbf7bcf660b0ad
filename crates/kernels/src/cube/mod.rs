//! CubeCL as a compiler: a `#[cube]` kernel of your own becomes a [`KernelSource`](tenure_core::KernelSource) for
//! whichever backend is open.
//!
//! 1. Write the kernel with `#[cube(launch)]`, which makes a type of it, and make a value of that type with
//!    [`settings`], [`device`], [`target`], and for each argument [`buffer`] (a slice), `()` (a scalar) or a value
//!    (comptime).
//! 2. [`compile`] it, and hand [`CubeSource::source`] to [`Manager::kernel`](tenure_core::Manager::kernel).
//! 3. [`CubeSource::dispatch`] takes tensors and scalars and gives the [`Dispatch`](tenure_core::Dispatch).
//!
//! Not here: CubeCL's runtime, which is never started. `shipped` has the sources of this crate's own kernels.

mod compile;
mod device;
mod dispatch;
#[doc(hidden)]
pub mod shipped;
mod text;

pub use compile::{CubeError, CubeSource, CudaText, compile, cuda};
pub use device::{buffer, device, settings, target};
pub use dispatch::CubeDispatch;
