//! What callers hand in: pointers, with the checks that can be made.
//!
//! The groups of functions in `driver/` are safe code over these types. Not here: device addresses; they are numbers.

mod ffi;

pub use self::ffi::{HostFunction, HostPointer, In, Out, Text};
