//! Calls with pointers to nothing.
//!
//! Not here: what is expected of them.

use std::ptr::{null, null_mut};

use softcuda::caller::{HostPointer, In, Out, Text};
use softcuda::code::Code;
use softcuda::driver::context::cuCtxCreate_v2;
use softcuda::driver::control::softcuda_live;
use softcuda::driver::device::{cuDeviceGet, cuDeviceGetCount, cuDeviceGetName};
use softcuda::driver::event::cuEventCreate;
use softcuda::driver::graph::cuGraphCreate;
use softcuda::driver::initialise::cuInit;
use softcuda::driver::memory::{cuMemAlloc_v2, cuMemGetInfo_v2, cuMemHostAlloc};
use softcuda::driver::module::{cuModuleGetFunction, cuModuleLoadData};
use softcuda::driver::pool::{cuMemAllocAsync, cuMemPoolCreate};
use softcuda::driver::stream::cuStreamCreate;

fn nowhere<T: Copy>() -> Out<T> {
    // SAFETY: null is allowed.
    unsafe { Out::from_raw(null_mut()) }
}

fn nothing<T: Copy>() -> In<T> {
    // SAFETY: null is allowed.
    unsafe { In::from_raw(null()) }
}

fn no_text() -> Text {
    // SAFETY: null is allowed.
    unsafe { Text::from_raw(null()) }
}

fn no_memory() -> HostPointer {
    // SAFETY: nobody follows null.
    unsafe { HostPointer::from_raw(null_mut()) }
}

/// Starts the driver and makes a context current.
pub fn start() -> Code {
    let mut context = 0u64;
    // SAFETY: the variable lives longer than the call.
    let place = unsafe { Out::from_raw(&raw mut context) };
    // SAFETY: it takes a number.
    let code = unsafe { cuInit(0) };
    if code != Code::SUCCESS {
        return code;
    }
    // SAFETY: the place is right.
    unsafe { cuCtxCreate_v2(place, 0, 0) }
}

macro_rules! answers {
    ($($name:ident($($argument:expr),*);)*) => {
        vec![$((
            stringify!($name),
            // SAFETY: pointers to nothing are told from others.
            unsafe { $name($($argument),*) },
        ),)*]
    };
}

/// What functions answer when they have nowhere to write to, or nothing to read.
pub fn with_nothing_to_write_to() -> Vec<(&'static str, Code)> {
    answers! {
        cuDeviceGet(nowhere(), 0);
        cuDeviceGetCount(nowhere());
        cuDeviceGetName(nowhere(), 10, 0);
        cuCtxCreate_v2(nowhere(), 0, 0);
        cuStreamCreate(nowhere(), 0);
        cuEventCreate(nowhere(), 0);
        cuMemAlloc_v2(nowhere(), 64);
        cuMemHostAlloc(nowhere(), 64, 0);
        cuMemAllocAsync(nowhere(), 64, 0);
        cuMemGetInfo_v2(nowhere(), nowhere());
        cuMemPoolCreate(nowhere(), nothing());
        cuModuleLoadData(nowhere(), no_memory());
        cuModuleGetFunction(nowhere(), 0, no_text());
        cuGraphCreate(nowhere(), 0);
    }
}

/// All live objects.
pub fn objects() -> u64 {
    // SAFETY: the text has a zero at its end.
    let all = unsafe { Text::from_raw(c"".as_ptr()) };
    // SAFETY: the text is right.
    unsafe { softcuda_live(all) }
}

/// The address of a function that the linker knows.
pub fn address_of_init() -> usize {
    cuInit as *const () as usize
}
