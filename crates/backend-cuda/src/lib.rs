//! The CUDA backend of tenure.
//!
//! It needs an NVIDIA device and its driver, of CUDA 12.0 or newer. The driver is a library that is opened at run time:
//! programs with this backend build and start on machines that have none, and get an `Unavailable` error with the reason and
//! what to do about it.
//!
//! ```no_run
//! use tenure_backend_cuda::CudaBackend;
//! use tenure_core::kernel::CudaProgram;
//! use tenure_core::{Access, KernelSource, Manager, ManagerOptions, op};
//!
//! let manager = Manager::open_with(CudaBackend::new()?, ManagerOptions::default())?;
//! let program = CudaProgram::new(
//!     "extern \"C\" __global__ void twice(float *x, const unsigned *length) {
//!         unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
//!         if (i < *length) x[i] *= 2.0f;
//!     }",
//!     [64, 1, 1],
//! );
//! let source = KernelSource::new("twice", &[Access::ReadWrite]);
//! // SAFETY: it uses its one binding only, up to the length that the dispatch passes, which is the tensor's.
//! let twice = manager.kernel(&unsafe { source.cuda_cpp(program, "twice") })?;
//! let values = manager.tensor_from("values", &[1.0_f32, 2.0, 3.0])?;
//! let scope = manager.scope("example")?;
//! scope.evaluate([op::dispatch(&twice).bind(&values).parameters(3_u32)])?.wait()?;
//! assert_eq!(values.read()?, [2.0, 4.0, 6.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Queues
//!
//! A queue is a stream of its own; there are two unless [`CudaOptions`] says otherwise. The stream that nobody named is never
//! used. Each submission ends with an event, and a queue that has to wait for another one waits for an event on the device.
//! A thread for each queue in use waits for the oldest event and tells who waits for a point.
//!
//! A recording that is evaluated once goes into the stream command by command. From its second evaluation on it is a graph,
//! which is made once (L9). In a graph operations that use the same bytes, of which one is written, keep their order; all others are
//! in branches, which the device may run at the same time. What counts is what kernels declare of their bindings: a variable
//! of a kernel's module that several launches use is its author's to order.
//!
//! # Memory
//!
//! Blocks come from a pool of the driver's that is this backend's own, in the order of a stream. The pool keeps what it has
//! until the manager trims. Core cuts blocks into tensors. Bytes travel through pinned memory, up and back, which is kept for
//! the next copy and given back when the manager trims. Parameters of dispatches are in device memory of the backend's own, or, if
//! there is no room, in pinned memory, which the device reads too.
//!
//! # Devices
//!
//! A backend has one device, which [`CudaOptions`] choose by a part of its name and an index; several in one process, of
//! one device or of several, do not know of each other. Any thread may call any of them in any order, whatever context is
//! current on it. There is no peer access: nothing here lets a device use another's memory. An operation that names a
//! tensor or a kernel of another manager is refused before it reaches the driver, adopting memory of another device is
//! refused too, and contents go from device to device through the host, by `read` and `write`. An error that ends CUDA ends
//! it for all devices of the process.
//!
//! # Kernels
//!
//! PTX, or CUDA C++ where NVIDIA's run-time compiler NVRTC is installed. A function takes one pointer a binding and, where the
//! dispatch has parameters, one more to their bytes, which are aligned to 16; it takes nothing else. An empty tensor's pointer
//! is valid and of no use. What a kernel does is its author's promise: there are no checks of bounds.
//!
//! # Loss
//!
//! A kernel that reads beyond memory, an error of the device's memory and the like end CUDA for the whole process: every
//! call after answers `DeviceLost` with the first cause, nothing is destroyed, and no backend can be opened until the
//! process restarts (L23).
//!
//! # Embedding
//!
//! [`CudaBackend::from_context`] works in the context of an engine and never destroys it. Each call makes its context
//! current and restores what was current before. [`Tensor::native`](tenure_core::Tensor::native) shows the [`CudaBlock`] of
//! a tensor with the driver's address. [`Manager::adopt_tensor`](tenure_core::Manager::adopt_tensor) makes a tensor of an
//! engine's [`CudaMemory`], which is never freed here. Work of the engine on either is ordered by the engine: it waits for
//! [`Execution::wait`](tenure_core::Execution::wait), or puts it into [`CudaBackend::stream`].
//!
//! # Without a device
//!
//! `TENURE_SOFTCUDA` and the option `library` open a driver in software in place of the machine's, for tests. It is never
//! taken without being asked for, and [`BackendInfo::software`](tenure_core::BackendInfo::software) tells.

#![deny(missing_docs)]

mod backend;
mod buffer;
mod commands;
mod device;
mod encode;
mod error;
mod ffi;
mod graph;
mod heap;
mod kernel;
mod library;
mod scope;
mod sequence;
mod timeline;
mod transfer;

pub use cudarc;

pub use backend::{CudaBackend, CudaOptions};
pub use buffer::{CudaBlock, CudaMemory};
pub use error::CudaError;
pub use kernel::CudaKernel;
pub use scope::CudaScope;
pub use sequence::CudaSequence;
