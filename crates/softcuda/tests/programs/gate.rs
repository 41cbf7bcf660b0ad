//! A gate in a stream: work behind it waits until the program opens it.
//!
//! Not here: streams.

use std::ffi::c_void;
use std::sync::{Condvar, Mutex};

use cudarc::driver::sys::CUstream;

use crate::ffi::cuLaunchHostFunc;

/// A gate. It lives as long as the program.
pub struct Gate {
    open: Mutex<bool>,
    changed: Condvar,
}

impl Gate {
    /// Puts a closed gate into a stream.
    pub fn close(stream: CUstream) -> &'static Gate {
        let gate: &'static Gate =
            Box::leak(Box::new(Gate { open: Mutex::new(false), changed: Condvar::new() }));
        run(stream, || gate.wait());
        gate
    }

    /// Lets the work go on.
    pub fn open(&self) {
        *self.open.lock().unwrap() = true;
        self.changed.notify_all();
    }

    fn wait(&self) {
        let mut open = self.open.lock().unwrap();
        while !*open {
            open = self.changed.wait(open).unwrap();
        }
    }
}

/// Lets a stream call a closure.
pub fn run(stream: CUstream, closure: impl FnOnce() + Send + 'static) {
    let (function, data) = host_function(closure);
    cuLaunchHostFunc(stream, function, data).unwrap();
}

/// A closure as a host function and its argument. It is called at most once.
pub fn host_function(
    closure: impl FnOnce() + Send + 'static,
) -> (cudarc::driver::sys::CUhostFn, *mut c_void) {
    type Closure = Mutex<Option<Box<dyn FnOnce() + Send>>>;
    unsafe extern "C" fn call(data: *mut c_void) {
        let cell = crate::kit::ffi::leaked::<Closure>(data);
        if let Some(closure) = cell.lock().unwrap().take() {
            closure();
        }
    }
    let cell: Closure = Mutex::new(Some(Box::new(closure)));
    let leaked: *mut Closure = Box::leak(Box::new(cell));
    (Some(call), leaked.cast())
}
