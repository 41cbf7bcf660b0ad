//! Values that live for ever, by their addresses.
//!
//! Not here: making them.

use std::ffi::c_void;

/// A value that was leaked by this program, as the type that it has.
pub fn leaked<T: Sync>(data: *mut c_void) -> &'static T {
    // SAFETY: this program leaked a value of the type and passed its address on.
    unsafe { &*data.cast::<T>() }
}
