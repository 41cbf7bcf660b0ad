//! Running user code whose panics are nobody's: destructors, wakers. Also getting rid of a panic's payload, whose own
//! destructor may panic in turn (L13).

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Payloads whose destructors panic with payloads whose destructors panic: after so many the last one is leaked.
const MAX_PAYLOADS: usize = 16;

/// Runs `run`; none if it panicked.
pub(crate) fn quietly<R>(run: impl FnOnce() -> R) -> Option<R> {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(value) => Some(value),
        Err(payload) => {
            discard(payload);
            None
        }
    }
}

/// Drops a panic's payload.
pub(crate) fn discard(payload: Box<dyn Any + Send>) {
    let mut payload = payload;
    for _ in 0..MAX_PAYLOADS {
        match catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            Ok(()) => return,
            Err(next) => payload = next,
        }
    }
    std::mem::forget(payload);
}

/// The text of a panic, whose payload is dropped.
pub(crate) fn panic_text(payload: Box<dyn Any + Send>) -> String {
    match payload.downcast::<String>() {
        Ok(text) => *text,
        Err(payload) => match payload.downcast::<&'static str>() {
            Ok(text) => (*text).to_owned(),
            Err(payload) => {
                discard(payload);
                "a value that is no text".to_owned()
            }
        },
    }
}
