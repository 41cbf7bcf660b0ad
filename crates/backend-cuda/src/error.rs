//! CUDA's answers as [`BackendError`]s.
//!
//! The driver answers with numbers. They are kept as numbers: an enum of those that were known once would not have room for
//! what a newer driver says. Not here: remembering that the device is lost (`ffi.rs`).

use std::fmt;

use tenure_core::{BackendError, BackendErrorKind};

/// What a function of the driver returns: `CUresult` as the number that it is.
pub(crate) type Code = u32;

pub(crate) const SUCCESS: Code = 0;
pub(crate) const INVALID_VALUE: Code = 1;
pub(crate) const OUT_OF_MEMORY: Code = 2;
pub(crate) const NOT_READY: Code = 600;

/// The driver takes no PTX of that kind: of a newer version, or for newer devices.
pub(crate) const NO_BINARY_FOR_GPU: Code = 209;
pub(crate) const UNSUPPORTED_PTX_VERSION: Code = 222;
pub(crate) const INVALID_PTX: Code = 218;

/// Fixes that errors name.
pub(crate) const DRIVER_FIX: &str =
    "install NVIDIA's driver for the device, of CUDA 12.0 or newer, and see that `nvidia-smi` finds it";
pub(crate) const RESTART_FIX: &str = "CUDA takes no further work in this process, which must restart";

/// An error number of the driver's, with its name and the driver's sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CudaError {
    /// `CUresult`, as in `cuda.h`.
    pub code: u32,
    /// Such as `CUDA_ERROR_ILLEGAL_ADDRESS`; empty where the driver has no name for it.
    pub name: String,
    /// The driver's sentence; may be empty.
    pub text: String,
}

impl fmt::Display for CudaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = if self.name.is_empty() { "an error without a name" } else { &self.name };
        write!(f, "{name} ({})", self.code)?;
        if !self.text.is_empty() {
            write!(f, ": {}", self.text)?;
        }
        Ok(())
    }
}

impl std::error::Error for CudaError {}

/// How a loss ends (L23).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// The context is gone, or of no use; another one may work.
    Context,
    /// The driver answers everything in this process with the same error.
    Process,
}

/// Whether a code means that the device is lost to us. There is no single code that says so.
pub(crate) fn loss_of(code: Code) -> Option<Loss> {
    match code {
        // Deinitialised; an invalid context, where ours was valid; destroyed with its objects.
        4 | 201 | 709 => Some(Loss::Context),
        // Unavailable device; ECC, NVLink and contained errors; illegal address; time-out; assert; the stack of the
        // hardware, illegal instruction, misaligned address, address space, program counter; launch failure; tensor memory;
        // a client of MPS that was ended; unknown.
        46 | 214 | 220 | 226 | 700 | 702 | 710 | 714..=719 | 721 | 805..=810 | 999 => Some(Loss::Process),
        _ => None,
    }
}

/// What the driver answered, by the name of the call.
pub(crate) fn failed(operation: &'static str, error: CudaError) -> BackendError {
    let kind = match error.code {
        OUT_OF_MEMORY => BackendErrorKind::OutOfMemory,
        code if loss_of(code).is_some() => BackendErrorKind::DeviceLost,
        _ => BackendErrorKind::Driver,
    };
    let message = match loss_of(error.code) {
        Some(Loss::Process) => format!("{error}; {RESTART_FIX}"),
        _ => error.to_string(),
    };
    BackendError::new(kind, operation, message).with_source(error)
}

/// There is no such driver or device here: the reason and what to do about it.
pub(crate) fn unavailable(
    operation: &'static str,
    reason: impl fmt::Display,
    fix: impl fmt::Display,
) -> BackendError {
    BackendError::new(BackendErrorKind::Unavailable, operation, format!("{reason}; {fix}"))
}

pub(crate) fn unsupported(operation: &'static str, message: String) -> BackendError {
    BackendError::new(BackendErrorKind::Unsupported, operation, message)
}

pub(crate) fn driver(operation: &'static str, message: String) -> BackendError {
    BackendError::new(BackendErrorKind::Driver, operation, message)
}

/// A kernel that does not compile: its label, and the compiler's text.
pub(crate) fn compile(label: &str, text: impl fmt::Display) -> BackendError {
    BackendError::new(BackendErrorKind::Compile, "compile", format!("kernel `{label}`: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(code: Code) -> BackendError {
        failed(
            "cuAnything",
            CudaError { code, name: "CUDA_ERROR_X".to_owned(), text: "x happened".to_owned() },
        )
    }

    #[test]
    fn codes_have_the_kind_that_core_decides_by() {
        assert_eq!(error(2).kind, BackendErrorKind::OutOfMemory);
        for code in [46, 201, 214, 700, 709, 716, 717, 718, 719, 999] {
            assert_eq!(error(code).kind, BackendErrorKind::DeviceLost, "{code}");
        }
        for code in [1, 3, 200, 218, 400, 600, 800, 5000] {
            assert_eq!(error(code).kind, BackendErrorKind::Driver, "{code}");
        }
    }

    #[test]
    fn a_loss_that_stays_says_that_the_process_must_restart() {
        assert!(error(700).message.contains("must restart"));
        assert!(!error(709).message.contains("must restart"));
        assert_eq!(error(1).message.as_ref(), "CUDA_ERROR_X (1): x happened");
    }
}
