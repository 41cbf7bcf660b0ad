//! The suite on the CUDA backend: on the machine's driver, or as `softcuda` on the one in software, which has to be
//! asked for by name so that its results are never taken for a device's.
//!
//! Not here: the backend.

mod ffi;

use std::sync::OnceLock;

use tenure_backend_cuda::{CudaBackend, CudaMemory};
use tenure_core::{Backend, BackendError, BackendErrorKind};

use crate::expectations::Expectations;
use crate::harness::Suite;

/// The suite of `cuda` or `softcuda`.
pub(super) fn suite(name: &str) -> Suite {
    let software = name == "softcuda";
    // The primary context goes with its last user, and takes its time to come back.
    let first = OnceLock::new();
    let open = move || {
        if first.get().is_none() {
            let backend = CudaBackend::new()?;
            is_as_asked(&backend, software)?;
            let _ = first.set(backend);
        }
        CudaBackend::new()
    };
    let suite = Suite::new(name, open)
        .engine_memory::<CudaBackend>(|block| CudaMemory { address: block.address(), bytes: block.bytes() })
        .expectations(expectations());
    // What the driver in software finds wrong, or finds left, fails the case.
    if software { suite.complaints(ffi::take_report).census(ffi::live_objects) } else { suite }
}

fn is_as_asked(backend: &CudaBackend, software: bool) -> Result<(), BackendError> {
    let message = match (backend.info().software, software) {
        (true, true) if ffi::live_objects() == 0 => {
            "the driver in software does not say what it has: build it anew"
        }
        (true, false) => "the driver is the one in software; ask for it as `softcuda`",
        (false, true) => "the driver is the machine's; set TENURE_SOFTCUDA to 1 for the one in software",
        _ => return Ok(()),
    };
    Err(BackendError::new(BackendErrorKind::Unavailable, "open device", message))
}

/// Everything is required but what needs host closures as kernels, which a device never runs, and what a lost device of
/// CUDA's does not do: be destroyed, and open again in the same process.
fn expectations() -> Expectations {
    const STICKY: &str = "after a loss the process must restart";
    let unsupported = [("loss/a_new_manager_opens", STICKY)];
    unsupported
        .into_iter()
        .fold(super::device_expectations(), |list, (case, reason)| list.unsupported(case, reason))
}
