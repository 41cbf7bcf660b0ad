//! The life of GPU resources: managed tensors, scopes, sequences and cleanup hooks over interchangeable
//! backends.
//!
//! A [`Manager`] owns a device and every [`Tensor`] on it. A [`ManagedScope`] owns sequences, local tensors and
//! cleanup hooks, and finishes exactly once, on every exit path. A [`ManagedSequence`] is a recorded list of device
//! work, and an [`Execution`] one evaluation of it. Everything is given back exactly once, when the device has
//! finished with it.
//!
//! ```
//! use tenure::{Access, KernelSource, hook, op};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let manager = tenure::open("host")?;
//! let double = manager.kernel(
//!     &KernelSource::new("double", &[Access::ReadWrite])
//!         .host(|arguments| arguments.write::<f32>(0).iter_mut().for_each(|value| *value *= 2.0)),
//! )?;
//!
//! let (values, report) = manager.run("batch", |scope| {
//!     let tensor = scope.tensor_from("values", &[1.0_f32, 2.0, 3.0])?;
//!     scope.register(hook::once("done", |_| Ok(())))?;
//!     scope.evaluate([op::dispatch(&double).bind(&tensor)])?.wait()?;
//!     tensor.read()
//! })?;
//! assert_eq!(values, [2.0, 4.0, 6.0]);
//! assert_eq!(report.executions, 1);
//! assert!(manager.close()?.is_clean());
//! # Ok(())
//! # }
//! ```
//!
//! Backends are chosen by cargo feature; this version has `host` (the default, which needs no driver), `vulkan`, `wgpu` and
//! `cuda`, whose drivers are looked for when they are opened.

pub use tenure_core::*;

#[cfg(feature = "host")]
pub use tenure_backend_host as host;

#[cfg(feature = "cuda")]
pub use tenure_backend_cuda as cuda;
#[cfg(feature = "vulkan")]
pub use tenure_backend_vulkan as vulkan;
#[cfg(feature = "wgpu")]
pub use tenure_backend_wgpu as wgpu;

/// Names that [`open`] takes in this build.
pub const BACKENDS: &[&str] = &[
    #[cfg(feature = "host")]
    "host",
    #[cfg(feature = "vulkan")]
    "vulkan",
    #[cfg(feature = "wgpu")]
    "wgpu",
    #[cfg(feature = "cuda")]
    "cuda",
];

/// Opens a manager on a backend by name, with default options.
///
/// # Errors
/// [`Error::Backend`] of kind [`BackendErrorKind::Unavailable`], with the names that this build has, if there is no
/// such backend or no device for it.
pub fn open(backend: &str) -> Result<Manager, Error> {
    open_with_options(backend, ManagerOptions::default())
}

/// As [`open`], with options.
///
/// # Errors
/// As [`open`], and [`Error::InvalidOption`].
pub fn open_with_options(backend: &str, options: ManagerOptions) -> Result<Manager, Error> {
    match backend {
        #[cfg(feature = "host")]
        "host" => Manager::open_with(host::HostBackend::new(), options),
        #[cfg(feature = "vulkan")]
        "vulkan" => Manager::open_with(vulkan::VulkanBackend::new()?, options),
        #[cfg(feature = "wgpu")]
        "wgpu" => Manager::open_with(wgpu::WgpuBackend::new().map_err(Error::Backend)?, options),
        #[cfg(feature = "cuda")]
        "cuda" => Manager::open_with(cuda::CudaBackend::new()?, options),
        _ => Err(Error::Backend(BackendError::new(
            BackendErrorKind::Unavailable,
            "open",
            format!("there is no backend `{backend}` in this build; it has: {}", BACKENDS.join(", ")),
        ))),
    }
}
