//! The wgpu backend: any device that wgpu reaches, or the device of an engine that has its own.
//!
//! ```no_run
//! use tenure_backend_wgpu::WgpuBackend;
//! use tenure_core::{Access, KernelSource, Manager, ManagerOptions, op};
//!
//! let manager = Manager::open_with(WgpuBackend::new()?, ManagerOptions::default())?;
//! let double = KernelSource::new("double", &[Access::ReadWrite]).wgsl(
//!     "@group(0) @binding(0) var<storage, read_write> x: array<f32>;
//!     @compute @workgroup_size(64)
//!     fn double(@builtin(global_invocation_id) id: vec3<u32>) {
//!         if id.x < arrayLength(&x) { x[id.x] *= 2.0; }
//!     }",
//!     "double",
//! );
//! let double = manager.kernel(&double)?;
//! let values = manager.tensor_from("values", &[1.0_f32, 2.0, 3.0])?;
//! let scope = manager.scope("example")?;
//! scope.evaluate([op::dispatch(&double).bind(&values)])?.wait()?;
//! assert_eq!(values.read()?, [2.0, 4.0, 6.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Who polls
//!
//! wgpu notices that work has completed only while somebody polls the device. On a device of this backend's own who waits
//! without a time polls, and a thread of the backend, the reclaimer, for all the rest: made at the first submission, asleep
//! while nothing is submitted. On the device of an engine the reclaimer alone polls, since a poll calls the engine's own
//! callbacks, as it may on any thread that polls; its polls last a millisecond at most there, since a poll holds a lock that
//! presenting a frame needs.
//!
//! # Memory
//!
//! A block is one `wgpu::Buffer`: wgpu tracks use by whole buffer, so core does not cut them. The memory of a block that
//! is given back is free when nothing else keeps the buffer; a clone of [`WgpuBlock::buffer`] does.
//!
//! Bytes travel through a pool of staging buffers, up and back. An upload is queued and returns: every later use of the
//! block comes after it, since wgpu has one queue. Trimming gives idle staging, scratch, bind groups and
//! compiled kernels back.
//!
//! WebGPU copies whole words of 4 bytes and binds at aligned offsets. Other ranges work all the same: the bytes before
//! the first and after the last whole word by a small kernel, and bindings through a copy. A copy costs time and, for
//! the moment, memory; tensors of whole words that are bound whole need none. Where one dispatch
//! reads one part of a block and writes another, the part that is read is copied too.
//!
//! # Sharing buffers with an engine
//!
//! ```no_run
//! # fn share(engine: &wgpu::Device, backend: tenure_backend_wgpu::WgpuBackend) -> Result<(), Box<dyn std::error::Error>> {
//! use tenure_backend_wgpu::{WgpuBackend, wgpu};
//! use tenure_core::{Manager, ManagerOptions, TensorOptions, op};
//!
//! // A backend on the engine's own device, see `WgpuBackend::from_device`.
//! let manager = Manager::open_with(backend, ManagerOptions::default())?;
//!
//! // The engine's buffer as a tensor. The engine hears when tenure and the device are done with it.
//! let usage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST;
//! let buffer = engine.create_buffer(&wgpu::BufferDescriptor {
//!     label: Some("particles"),
//!     size: 4096,
//!     usage,
//!     mapped_at_creation: false,
//! });
//! let options = TensorOptions::builder().label("particles").shape([1024]).build();
//! // SAFETY: the engine leaves the buffer alone until it is released.
//! let particles = unsafe { manager.adopt_tensor::<f32, _>(buffer, options, || println!("ours again")) }?;
//! manager.run("reset", |scope| scope.evaluate([op::fill(&particles, 0.0_f32)])?.wait())?;
//!
//! // A tensor's buffer for the engine's own passes.
//! let field = manager.tensor::<f32>(1 << 20)?;
//! let of_engine = field.native::<WgpuBackend, _>(|native| native.block.map(|block| block.buffer().clone()))?;
//! # drop(of_engine);
//! # Ok(())
//! # }
//! ```
//!
//! Both sides submit to one queue, which runs submissions in order. A tensor is a whole buffer here: its offset is 0.
//!
//! # Kernels
//!
//! A kernel is the WGSL of a [`KernelSource`](tenure_core::KernelSource). Out-of-bounds accesses are
//! made harmless by wgpu. Text that does not compile is a `Compile` error with the kernel's label and the
//! line. An empty tensor is bound as one element of zeros, and bytes up to the next whole word as they are, since WebGPU
//! binds nothing smaller. A kernel on a device cannot fail alone: no execution here ends with an error of its own.
//!
//! # Loss
//!
//! On a device of our own wgpu says so by a callback. An engine tells by [`WgpuBackend::notify_lost`]; if it does not, a
//! destroyed device is noticed at the next submission. Either way all waits end with the first cause, and from then
//! on every call answers `DeviceLost` (L23). A new backend can be opened at once.
//!
//! # What it does not do
//!
//! It has no second queue, no SPIR-V, no browser, and submits no recording twice (L9): commands are encoded for each
//! submission.

mod adapter;
mod backend;
mod buffer;
mod bytes;
mod cache;
mod device;
mod dispatch;
mod encode;
mod error;
mod kernel;
mod scope;
mod sequence;
mod staging;
#[cfg(test)]
mod tests;
mod thread;
mod timeline;
mod transfer;

pub use backend::{WgpuBackend, WgpuOptions};
pub use buffer::WgpuBlock;
pub use kernel::WgpuKernel;
pub use scope::WgpuScope;
pub use sequence::WgpuSequence;
pub use wgpu;
