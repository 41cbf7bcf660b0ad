//! The embedded default backend: host memory, worker threads as queues, host closures as kernels. No driver.
//!
//! It is truly asynchronous: submitting returns at once, each queue is a thread that runs its submissions in
//! order, and queues wait for each other where core says so. So everything that core promises of a device can be
//! shown without one.
//!
//! What it cannot know: a kernel is a closure, and what the closure shares by other ways than its bindings
//! (captured locks, atomics, statics) is neither seen nor ordered by tenure. Bindings are safe: core orders all
//! conflicting uses, and a written range has one binding only.
//!
//! A kernel that panics or returns an error fails its execution; the rest of that recording is not run, and the
//! queue goes on.
//!
//! ```
//! use tenure_backend_host::{HostBackend, HostOptions};
//! use tenure_core::{Manager, ManagerOptions};
//!
//! let backend = HostBackend::with_options(HostOptions::builder().queues(4).build());
//! let manager = Manager::open_with(backend, ManagerOptions::default())?;
//! assert_eq!(manager.capabilities().queues, 4);
//! # Ok::<(), tenure_core::Error>(())
//! ```

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
pub use kernel::HostKernelObject;
pub use scope::HostScope;
pub use sequence::HostSequence;
