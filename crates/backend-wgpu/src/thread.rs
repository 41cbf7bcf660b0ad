//! Calls into wgpu from threads that are ending: destructors of a thread's locals may drop handles, and so call the
//! backend (L6).
//!
//! wgpu keeps locals of its own, at least to trace locks in debug builds, and panics when they are gone. A call
//! from such a thread is made on another one, while this one waits. Not here: the reclaimer (`timeline.rs`).

use std::cell::Cell;
use std::panic::resume_unwind;

use wgpu::{BufferDescriptor, BufferUsages};

use crate::device::Device;

/// Gone as soon as any of wgpu's locals is: locals are destroyed in the reverse order of their first use, and this one
/// is used after wgpu's.
struct Witness;

impl Drop for Witness {
    fn drop(&mut self) {}
}

thread_local! {
    static WITNESS: Witness = const { Witness };
    /// Whether this thread has called before. Has no destructor, so it can always be asked.
    static CALLED: Cell<bool> = const { Cell::new(false) };
}

/// As [`Device::run`], for a call that ends the device.
pub(crate) fn on_living_thread<R: Send>(call: impl FnOnce() -> R + Send) -> R {
    if !CALLED.get() || WITNESS.try_with(|_| ()).is_ok() {
        return call();
    }
    let answer = std::thread::scope(|threads| threads.spawn(call).join());
    answer.unwrap_or_else(|panic| resume_unwind(panic))
}

impl Device {
    /// Makes `call` on this thread, or on another one where this thread's locals are being destroyed.
    pub(crate) fn run<R: Send>(&self, call: impl FnOnce() -> R + Send) -> R {
        if !CALLED.replace(true) {
            self.use_locals();
        }
        on_living_thread(call)
    }

    /// Makes wgpu use its locals: dropping a buffer takes the lock that it traces.
    fn use_locals(&self) {
        let descriptor = BufferDescriptor {
            label: Some("tenure thread"),
            size: 4,
            usage: BufferUsages::COPY_DST,
            mapped_at_creation: false,
        };
        // Without memory for it, or on a device that is lost, a buffer that is none is dropped: that does too.
        drop(self.checked("begin thread", || self.device.create_buffer(&descriptor)));
    }
}
