//! What programs do that cannot be checked: values by their addresses, launches through cudarc's safe layer.
//!
//! Not here: the driver's functions.

use std::ffi::c_void;

use cudarc::driver::sys::CUmemPoolProps;
use cudarc::driver::{LaunchArgs, LaunchConfig};

/// A value that was leaked by this program, as the type that it has.
pub fn leaked<T: Sync>(data: *mut c_void) -> &'static T {
    // SAFETY: this program leaked a value of the type and passed its address on.
    unsafe { &*data.cast::<T>() }
}

/// Launches a kernel of cudarc's safe layer.
pub fn launch_cudarc(call: &mut LaunchArgs<'_>, size: LaunchConfig) {
    // SAFETY: the program's arguments are what the kernel has.
    unsafe { call.launch(size) }.expect("a launch");
}

/// Properties of a pool with zeros everywhere.
pub fn no_properties() -> CUmemPoolProps {
    // SAFETY: all fields are numbers, pointers, or enums that have a zero.
    unsafe { std::mem::zeroed() }
}
