//! This backend's faults as [`BackendError`]s.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use tenure_core::{BackendError, BackendErrorKind};

pub(crate) fn out_of_memory(operation: &'static str, message: String) -> BackendError {
    BackendError::new(BackendErrorKind::OutOfMemory, operation, message)
}

/// A kernel that failed by itself.
pub(crate) fn execution(label: &str, message: &str) -> BackendError {
    BackendError::new(BackendErrorKind::Execution, "run kernel", format!("kernel `{label}`: {message}"))
}

/// A fault of the recording or of this backend itself, outside any kernel.
pub(crate) fn broken(message: &str) -> BackendError {
    BackendError::new(BackendErrorKind::Execution, "run recording", message)
}

/// Calls `run`; a panic in it comes back as its text. A worker survives everything that it runs this way.
pub(crate) fn caught<R>(run: impl FnOnce() -> R) -> Result<R, String> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|panic| {
        let text = panic_text(&*panic).to_owned();
        // The payload is user code's, and its destructor can panic too. What that one throws is not looked at
        // any more.
        if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
            std::mem::forget(second);
        }
        text
    })
}

/// The text of a panic.
fn panic_text(panic: &(dyn Any + Send)) -> &str {
    if let Some(text) = panic.downcast_ref::<String>() {
        text
    } else if let Some(text) = panic.downcast_ref::<&'static str>() {
        text
    } else {
        "panicked with a value that is no text"
    }
}

#[cfg(test)]
mod tests {
    use std::panic::panic_any;

    use super::*;

    #[test]
    fn panics_come_back_as_text() {
        assert_eq!(caught(|| 3), Ok(3));
        assert_eq!(caught(|| panic!("plain")), Err::<(), _>("plain".to_owned()));
        assert_eq!(caught(|| panic!("with {}", 2)), Err::<(), _>("with 2".to_owned()));
        let other = caught(|| panic_any(7_u8));
        assert_eq!(other, Err::<(), _>("panicked with a value that is no text".to_owned()));
    }

    /// Panics when dropped, as many times as it says.
    struct Matryoshka(u8);

    impl Drop for Matryoshka {
        fn drop(&mut self) {
            if self.0 > 0 {
                panic_any(Matryoshka(self.0 - 1));
            }
        }
    }

    #[test]
    fn a_payload_whose_destructor_panics_is_survived() {
        for depth in 1..4 {
            caught(|| panic_any(Matryoshka(depth))).expect_err("it panicked");
        }
    }
}
