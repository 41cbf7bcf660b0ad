//! wgpu's faults as [`BackendError`]s.
//!
//! Not here: catching them (`device.rs`), and when a device counts as lost (`timeline.rs`).

use std::any::Any;

use tenure_core::{BackendError, BackendErrorKind};

pub(crate) fn lost(operation: &'static str, cause: &str) -> BackendError {
    BackendError::new(BackendErrorKind::DeviceLost, operation, cause)
}

pub(crate) fn unavailable(message: String) -> BackendError {
    BackendError::new(BackendErrorKind::Unavailable, "open device", message)
}

pub(crate) fn unsupported(operation: &'static str, message: String) -> BackendError {
    BackendError::new(BackendErrorKind::Unsupported, operation, message)
}

pub(crate) fn driver(operation: &'static str, message: String) -> BackendError {
    BackendError::new(BackendErrorKind::Driver, operation, message)
}

pub(crate) fn compile(label: &str, log: &str) -> BackendError {
    let message = format!("kernel `{label}`: {}", log.trim_end());
    BackendError::new(BackendErrorKind::Compile, "compile", message)
}

/// What an error scope caught.
pub(crate) fn caught(operation: &'static str, error: wgpu::Error) -> BackendError {
    let kind = match &error {
        wgpu::Error::OutOfMemory { .. } => BackendErrorKind::OutOfMemory,
        wgpu::Error::Validation { .. } | wgpu::Error::Internal { .. } => BackendErrorKind::Driver,
    };
    BackendError::new(kind, operation, error.to_string()).with_source(error)
}

/// The text of a panic of wgpu's.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> String {
    if let Some(text) = panic.downcast_ref::<String>() {
        text.clone()
    } else if let Some(text) = panic.downcast_ref::<&'static str>() {
        (*text).to_owned()
    } else {
        "wgpu panicked with a value that is no text".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_tell_memory_from_the_rest() {
        let source = || Box::new(std::fmt::Error) as Box<dyn std::error::Error + Send + Sync>;
        let memory = caught("allocate", wgpu::Error::OutOfMemory { source: source() });
        assert_eq!(memory.kind, BackendErrorKind::OutOfMemory);
        let description = "too large".to_owned();
        let other = caught("allocate", wgpu::Error::Validation { source: source(), description });
        assert_eq!((other.kind, &*other.message), (BackendErrorKind::Driver, "too large"));
    }

    #[test]
    fn panics_come_as_text() {
        assert_eq!(panic_text(&"plain"), "plain");
        assert_eq!(panic_text(&"owned".to_owned()), "owned");
        assert!(panic_text(&7_u8).contains("no text"));
    }
}
