//! The C library's list of functions to call when the process ends.
//!
//! Not here: what is called.

use std::ffi::c_int;

// SAFETY: this is how the C library declares it.
unsafe extern "C" {
    fn atexit(function: extern "C" fn()) -> c_int;
}

// SAFETY: this is how the C library declares it.
unsafe extern "C" {
    fn _exit(code: c_int) -> !;
}

/// Puts a function on the list. If the list is full, nothing will be called.
pub fn at_exit(function: extern "C" fn()) {
    // SAFETY: the function takes nothing, unwinds never, and this library stays loaded until the process ends.
    let _ = unsafe { atexit(function) };
}

/// Ends the process, which is ending already, with another code: what else is on the list is not called.
pub fn end_with(code: c_int) -> ! {
    // SAFETY: it may be called at any time. What the program printed was written out before it began to end.
    unsafe { _exit(code) }
}
