//! The embedded default backend: host memory, worker threads as queues, host closures as kernels. No driver.
//!
//! It is for programs that have no device at hand, for tests, and for showing everything that core promises of a
//! device on any machine. It is a device in all that matters to the contract: submitting returns at once, work
//! completes later and in order, and memory has limits. It is the CPU itself, not a device emulated on it, so it
//! does not call itself a software device.
//!
//! ```
//! use tenure_backend_host::{HostBackend, HostOptions};
//! use tenure_core::{Access, KernelSource, Manager, ManagerOptions, op};
//!
//! let backend = HostBackend::with_options(HostOptions::builder().queues(4).build());
//! let manager = Manager::open_with(backend, ManagerOptions::default())?;
//! assert_eq!(manager.capabilities().queues, 4);
//!
//! let scale = KernelSource::new("scale", &[Access::ReadWrite]).host(|arguments| {
//!     let factor = arguments.parameters::<f32>();
//!     arguments.write::<f32>(0).iter_mut().for_each(|value| *value *= factor);
//! });
//! let scale = manager.kernel(&scale)?;
//! let values = manager.tensor_from("values", &[1.0_f32, 2.0, 3.0])?;
//! let scope = manager.scope("example")?;
//! scope.evaluate([op::dispatch(&scale).bind(&values).parameters(2.0_f32)])?.wait()?;
//! assert_eq!(values.read()?, [2.0, 4.0, 6.0]);
//! # Ok::<(), tenure_core::Error>(())
//! ```
//!
//! # Queues
//!
//! A queue is a thread, made at the queue's first submission. It runs its submissions one after the other, each
//! after the points of other queues that it waits for. A submission shares its recording with the sequence, so
//! submitting a recording again copies and encodes nothing (L9).
//!
//! Shutting down, or dropping the backend, runs what was submitted and then ends the threads. A kernel that drops
//! the last owner of the backend does not wait: the threads end by themselves after their work. A kernel that
//! never returns holds up its queue, and shutting down, for ever.
//!
//! # Memory
//!
//! A block is zeroed memory from the system's allocator, aligned to [`HostOptions`]' `alignment`. Large blocks take up
//! pages only as they are used. More than a limit of the options, or than the system gives, is an out-of-memory error
//! and never an abort; core then frees what it can and tries again (L20). Where the system promises more
//! memory than it has, that promise is all that is checked: `memory_limit` sets a limit of one's own.
//!
//! Host and device share memory, so an upload copies once and so does a download.
//! [`HostBackend::copied_bytes`] counts, for tests that hold a program to it.
//!
//! [`Tensor::native`](tenure_core::Tensor::native) shows where a tensor is ([`HostBlock::start`]), and
//! [`Manager::adopt_tensor`](tenure_core::Manager::adopt_tensor) takes memory of the program's own ([`HostMemory`]).
//!
//! # Kernels
//!
//! A kernel is the host closure of a [`KernelSource`](tenure_core::KernelSource), called once per dispatch on the
//! queue's thread; how it spreads the dispatch's groups over its elements is up to it. It sees its bindings as slices,
//! aligned for every scalar type (adopted memory as its engine aligned it). A source without a host closure is an `Unsupported` error that names the kernel and
//! the forms it has.
//!
//! A kernel that panics or returns an error fails its execution, with the kernel's label and the panic's text. The
//! rest of that recording is not run and its read-backs are not delivered; the queue goes on.
//!
//! # Soundness
//!
//! Slices of one block are handed to several threads with no lock. That is sound by the SPI's contract: core orders
//! all uses that conflict, on whatever queues, and a range that an operation writes overlaps none of its others. Ranges
//! that are only read may overlap. Recordings share the memory of blocks, so that not even a caller that frees too
//! early reaches memory that is gone.
//!
//! What this backend cannot know: a kernel is a closure, and what it shares by other ways than its bindings
//! (captured locks, atomics, statics) is neither seen nor ordered by tenure. Two kernels on two queues that take
//! the same two locks in opposite order do deadlock.
//!
//! # What it does not do
//!
//! It is never lost, caches nothing between the pool and the system, and runs a kernel on one thread. A kernel that
//! is to use more cores brings its own threads.

mod backend;
mod buffer;
mod copy;
mod error;
mod ffi;
mod kernel;
mod scope;
mod sequence;
mod timeline;

pub use backend::{HostBackend, HostOptions};
pub use buffer::HostBlock;
pub use ffi::HostMemory;
pub use kernel::HostKernelObject;
pub use scope::HostScope;
pub use sequence::HostSequence;
