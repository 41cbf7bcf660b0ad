//! The Vulkan backend of tenure.
//!
//! It needs Vulkan 1.2 or newer with timeline semaphores, and uses synchronization2 where the device has it. The loader
//! is a library that is opened at run time: programs with this backend start on machines that have none, and get an
//! `Unavailable` error with the reason and what to do about it.
//!
//! ```no_run
//! use tenure_backend_vulkan::{VulkanBackend, VulkanOptions};
//! use tenure_core::{Access, KernelSource, Manager, ManagerOptions, op};
//!
//! let options = VulkanOptions::builder().pipeline_cache("kernels.cache").build();
//! let manager = Manager::open_with(VulkanBackend::with_options(&options)?, ManagerOptions::default())?;
//! let double = manager.kernel(&KernelSource::new("double", &[Access::ReadWrite]).wgsl(
//!     "@group(0) @binding(0) var<storage, read_write> x: array<f32>;
//!     @compute @workgroup_size(64)
//!     fn double(@builtin(global_invocation_id) id: vec3<u32>) {
//!         if id.x < arrayLength(&x) { x[id.x] *= 2.0; }
//!     }",
//!     "double",
//! ))?;
//! let values = manager.tensor_from("values", &[1.0_f32, 2.0, 3.0])?;
//! let scope = manager.scope("example")?;
//! scope.evaluate([op::dispatch(&double).bind(&values)])?.wait()?;
//! assert_eq!(values.read()?, [2.0, 4.0, 6.0]);
//! # Ok::<(), tenure_core::Error>(())
//! ```
//!
//! # Queues
//!
//! There is one queue, with a timeline semaphore that each submission raises to its point. A recording is one command
//! buffer, recorded once and submitted as often as the sequence is evaluated (L9). Within it barriers come from the
//! declared access of operations: none between reads, as few as there can be otherwise. Between recordings core says
//! what has to complete before; then a barrier of one recorded command buffer goes ahead.
//!
//! # Memory
//!
//! A block is one buffer with one allocation; core cuts it into tensors. Where host and device share memory, blocks are
//! mapped and a copy between host and tensor is one copy by the host. Elsewhere it goes through a ring of two staging
//! buffers. Uploads and read-backs of recordings have memory that is cut from shared buffers and belongs to the
//! recording. [`VulkanBackend::copied_bytes`] counts what the host copied.
//!
//! # Kernels
//!
//! WGSL is translated with bounds checks, so that a kernel reaches nothing beside its bindings; a binding that is written
//! and was declared for reading only is a compile error, for barriers come from what is declared. SPIR-V is taken as it
//! is: what it does is its author's promise. Ranges that the device cannot bind, because they begin at the wrong byte, are
//! bound as copies. An empty tensor is bound as a buffer without room for an element.
//!
//! # Embedding
//!
//! [`VulkanBackend::from_raw`] works on the instance, device and queue of an engine, under the engine's lock of the queue,
//! and destroys nothing but what it made. [`Tensor::native`](tenure_core::Tensor::native) shows the [`VulkanBlock`] of a
//! tensor, whose buffer an engine can bind from the tensor's offset on. [`Manager::adopt_tensor`](tenure_core::Manager::adopt_tensor)
//! makes a tensor of an engine's [`VulkanBuffer`]; copies between it and the host go through staging buffers, for its
//! memory is not mapped here. Work of the engine on either is ordered by the engine: it waits for
//! [`Execution::wait`](tenure_core::Execution::wait), or submits to the same queue with a barrier of its own.
//!
//! # What it does not do
//!
//! It runs no host closures, uses one queue, and does not import memory of other APIs or processes.

#![deny(missing_docs)]

mod backend;
mod buffer;
mod cache;
mod commands;
mod device;
mod encode;
mod error;
mod ffi;
mod foreign;
mod hazards;
mod heap;
mod instance;
mod kernel;
mod messages;
mod scope;
mod sequence;
mod shader;
mod timeline;
mod transfer;

pub use ash;

pub use backend::{VulkanBackend, VulkanOptions};
pub use buffer::VulkanBlock;
pub use foreign::{RawDevice, VulkanBuffer};
pub use kernel::VulkanKernel;
pub use messages::Messages;
pub use scope::VulkanScope;
pub use sequence::VulkanSequence;
pub use timeline::QueueLock;
