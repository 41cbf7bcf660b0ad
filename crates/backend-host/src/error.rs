//! This backend's faults as [`BackendError`]s.

use std::any::Any;

use tenure_core::{BackendError, BackendErrorKind};

pub(crate) fn out_of_memory(operation: &'static str, message: String) -> BackendError {
    BackendError::new(BackendErrorKind::OutOfMemory, operation, message)
}

/// A kernel that failed by itself.
pub(crate) fn execution(label: &str, message: &str) -> BackendError {
    BackendError::new(BackendErrorKind::Execution, "run kernel", format!("kernel `{label}`: {message}"))
}

/// The text of a panic.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> &str {
    if let Some(text) = panic.downcast_ref::<String>() {
        text
    } else if let Some(text) = panic.downcast_ref::<&'static str>() {
        text
    } else {
        "panicked with a value that is no text"
    }
}
