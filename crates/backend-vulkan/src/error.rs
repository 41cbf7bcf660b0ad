//! This backend's faults as [`BackendError`]s.
//!
//! Not here: remembering that the device is lost (`ffi.rs`).

use ash::vk;
use tenure_core::{BackendError, BackendErrorKind};

/// How to get a driver, for errors that say that there is none.
pub(crate) const DRIVER_FIX: &str = "install the graphics driver of the device, or a software device (Debian and Ubuntu: apt-get install \
     mesa-vulkan-drivers libvulkan1)";

/// What the driver answered, by the name of the call.
pub(crate) fn failed(operation: &'static str, result: vk::Result) -> BackendError {
    let kind = match result {
        vk::Result::ERROR_OUT_OF_HOST_MEMORY
        | vk::Result::ERROR_OUT_OF_DEVICE_MEMORY
        | vk::Result::ERROR_OUT_OF_POOL_MEMORY
        | vk::Result::ERROR_FRAGMENTED_POOL
        | vk::Result::ERROR_TOO_MANY_OBJECTS => BackendErrorKind::OutOfMemory,
        vk::Result::ERROR_DEVICE_LOST => BackendErrorKind::DeviceLost,
        vk::Result::ERROR_INCOMPATIBLE_DRIVER => BackendErrorKind::Unavailable,
        _ => BackendErrorKind::Driver,
    };
    BackendError::new(kind, operation, result.to_string()).with_source(result)
}

/// There is no such driver or device here: the reason and what to do about it.
pub(crate) fn unavailable(
    operation: &'static str,
    reason: impl std::fmt::Display,
    fix: &str,
) -> BackendError {
    BackendError::new(BackendErrorKind::Unavailable, operation, format!("{reason}; {fix}"))
}

pub(crate) fn unsupported(operation: &'static str, message: String) -> BackendError {
    BackendError::new(BackendErrorKind::Unsupported, operation, message)
}

/// A kernel that does not compile: its label, and the compiler's text.
pub(crate) fn compile(label: &str, text: impl std::fmt::Display) -> BackendError {
    BackendError::new(BackendErrorKind::Compile, "compile", format!("kernel `{label}`: {text}"))
}

pub(crate) fn lost(operation: &'static str, reason: &str) -> BackendError {
    BackendError::new(BackendErrorKind::DeviceLost, operation, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_have_the_kind_that_core_decides_by() {
        for (result, kind) in [
            (vk::Result::ERROR_OUT_OF_DEVICE_MEMORY, BackendErrorKind::OutOfMemory),
            (vk::Result::ERROR_OUT_OF_HOST_MEMORY, BackendErrorKind::OutOfMemory),
            (vk::Result::ERROR_TOO_MANY_OBJECTS, BackendErrorKind::OutOfMemory),
            (vk::Result::ERROR_DEVICE_LOST, BackendErrorKind::DeviceLost),
            (vk::Result::ERROR_INITIALIZATION_FAILED, BackendErrorKind::Driver),
        ] {
            let error = failed("vkAnything", result);
            assert_eq!((error.kind, error.operation), (kind, "vkAnything"));
            assert!(error.source.is_some());
        }
    }
}
