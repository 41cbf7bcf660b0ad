//! [`Instrumented`]: a backend around any backend, which counts, checks, fails, holds back and logs. And
//! [`Probe`], the handle by which a test controls and observes it.
//!
//! Cases run on a decorated backend only, so that every fault and race case runs on every backend, real
//! devices too. What the decorator finds wrong it records as a *violation*, in words and with the rule's
//! number, and then keeps the inner backend safe: a call that would break the inner backend's contract is
//! refused, or is made once the device has really finished. So a violation fails a case instead of the process.
//!
//! One concept a file: `calls` and `lifetimes` name what is counted, `faults`, `gate` and `limits` are the
//! controls, `checker` and `clocks` judge, `shared` holds it all behind one lock, `ffi` implements the SPI.
//! Not here: what a test does with all this.

mod calls;
mod checker;
mod clocks;
mod device;
mod faults;
mod ffi;
mod forbid;
mod gate;
mod lifetimes;
mod limits;
mod log;
mod native;
mod probe;
mod shared;
mod submission;
mod violations;
mod waiting;

#[cfg(test)]
pub(crate) mod tests;

use std::fmt;
use std::sync::Arc;

use tenure_core::{Backend, BackendInfo};

pub use calls::{CallKind, CallSet};
pub use forbid::ForbidGuard;
pub use lifetimes::{Lifetimes, ObjectKind};
pub use limits::Limits;
pub use native::{TrackedBlock, TrackedKernel, TrackedScope, TrackedSequence};
pub use probe::Probe;

use device::Device;
use shared::Shared;

/// A backend that decorates another one.
///
/// # Life cycle
/// 1. Made around an inner backend, with limits that stay as they are.
/// 2. Handed to a manager, after [`Instrumented::probe`] was taken.
/// 3. Shut down by the manager. The probe outlives it.
pub struct Instrumented<B: Backend> {
    inner: Arc<B>,
    info: BackendInfo,
    shared: Arc<Shared>,
}

impl<B: Backend> Instrumented<B> {
    /// Decorates `inner` with its own limits.
    pub fn new(inner: B) -> Self {
        Instrumented::with_limits(inner, Limits::default())
    }

    /// Decorates `inner` and narrows its capabilities.
    pub fn with_limits(inner: B, limits: Limits) -> Self {
        let capabilities = limits.narrow(inner.capabilities());
        let info = inner.info();
        let inner = Arc::new(inner);
        let device: Arc<dyn Device> = inner.clone();
        let shared = Arc::new(Shared::new(capabilities, limits.capacity_bytes, Arc::downgrade(&device)));
        Instrumented { inner, info, shared }
    }

    /// The handle for tests.
    pub fn probe(&self) -> Probe {
        Probe::new(self.shared.clone())
    }

    /// The decorated backend, shared: for what outlives the manager.
    pub(crate) fn shared_inner(&self) -> Arc<B> {
        self.inner.clone()
    }

    /// The decorated backend. Calls made on it directly are not seen.
    pub fn inner(&self) -> &B {
        &self.inner
    }
}

impl<B: Backend> fmt::Debug for Instrumented<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Instrumented").field("backend", &std::any::type_name::<B>()).finish_non_exhaustive()
    }
}
