//! What the driver in software says of itself, by functions of its own that no other driver has.
//!
//! Not here: loading it, which is the backend's.

use std::ffi::{c_char, c_void};
use std::ptr;

/// A function of the driver in software; none while it is not loaded.
fn function(name: &str) -> Option<*const c_void> {
    let program = libloading::os::unix::Library::this();
    // SAFETY: nothing is called here, and what a pointer is taken for is told by who asks.
    let symbol = unsafe { program.get::<*const c_void>(name.as_bytes()) };
    symbol.ok().map(|symbol| symbol.into_raw().cast_const().cast())
}

/// Takes what its checker found since it was last asked, a line each.
pub(super) fn take_report() -> Vec<String> {
    type Take = unsafe extern "C" fn(*mut c_char, usize) -> usize;
    let Some(take) = function("softcuda_take_report") else { return Vec::new() };
    // SAFETY: the driver exports that function under this name.
    let take = unsafe { std::mem::transmute::<*const c_void, Take>(take) };
    // SAFETY: without a place it only says how long the text is.
    let length = unsafe { take(ptr::null_mut(), 0) };
    if length == 0 {
        return Vec::new();
    }
    let mut text = vec![0_u8; length + 1];
    // SAFETY: the place has as many bytes as it is said to have. A text that grew meanwhile is cut.
    unsafe { take(text.as_mut_ptr().cast(), text.len()) };
    let text = String::from_utf8_lossy(&text);
    text.trim_end_matches('\0').lines().map(|line| format!("softcuda: {line}")).collect()
}

/// How many objects it has.
pub(super) fn live_objects() -> u64 {
    type Live = unsafe extern "C" fn(*const c_char) -> u64;
    let Some(live) = function("softcuda_live") else { return 0 };
    // SAFETY: the driver exports that function under this name.
    let live = unsafe { std::mem::transmute::<*const c_void, Live>(live) };
    // SAFETY: an empty text asks for all kinds.
    unsafe { live(c"".as_ptr()) }
}
