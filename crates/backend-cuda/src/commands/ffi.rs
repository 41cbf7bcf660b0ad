//! Puts commands into a stream: the unsafe code.
//!
//! Not here: graphs of them (`graph/ffi.rs`).

use std::ffi::c_void;
use std::ptr;

use smallvec::SmallVec;
use tenure_core::BackendError;

use crate::commands::{Command, Launch, Word};
use crate::ffi::{Current, Stream};

impl Stream {
    /// Puts a command at the end.
    ///
    /// What the command names is alive until the stream has done it, and its ranges are inside what they are of: core
    /// promises it of blocks and kernels, and recordings keep their own memory.
    pub(crate) fn put(&self, current: &Current<'_>, command: &Command) -> Result<(), BackendError> {
        let (functions, stream) = (current.functions(), self.raw.0);
        let (operation, code) = match *command {
            Command::ToDevice { from, to, bytes } => {
                let from = ptr::with_exposed_provenance(from);
                // SAFETY: see above; `from` is pinned memory, which nobody writes meanwhile.
                ("cuMemcpyHtoDAsync", unsafe { (functions.cuMemcpyHtoDAsync_v2)(to, from, bytes, stream) })
            }
            Command::ToHost { from, to, bytes } => {
                let to = ptr::with_exposed_provenance_mut(to);
                // SAFETY: see above; `to` is pinned memory, which nobody uses meanwhile.
                ("cuMemcpyDtoHAsync", unsafe { (functions.cuMemcpyDtoHAsync_v2)(to, from, bytes, stream) })
            }
            Command::Copy { from, to, bytes } => {
                // SAFETY: see above.
                ("cuMemcpyDtoDAsync", unsafe { (functions.cuMemcpyDtoDAsync_v2)(to, from, bytes, stream) })
            }
            Command::Set { to, word: Word::One(value), count } => {
                // SAFETY: see above.
                ("cuMemsetD8Async", unsafe { (functions.cuMemsetD8Async)(to, value, count, stream) })
            }
            Command::Set { to, word: Word::Two(value), count } => {
                // SAFETY: see above; whoever made the command saw to the alignment.
                ("cuMemsetD16Async", unsafe { (functions.cuMemsetD16Async)(to, value, count, stream) })
            }
            Command::Set { to, word: Word::Four(value), count } => {
                // SAFETY: as the one before.
                ("cuMemsetD32Async", unsafe { (functions.cuMemsetD32Async)(to, value, count, stream) })
            }
            Command::Launch(ref launch) => {
                let mut arguments = arguments_of(launch);
                let ([x, y, z], [bx, by, bz]) = (launch.grid, launch.program.block);
                // SAFETY: see above; there are as many arguments as the function takes, each as wide as a pointer, and
                // they are copied before this returns. What the kernel does is its author's promise.
                ("cuLaunchKernel", unsafe {
                    (functions.cuLaunchKernel)(
                        launch.program.function.0,
                        x,
                        y,
                        z,
                        bx,
                        by,
                        bz,
                        launch.program.shared_bytes,
                        stream,
                        arguments.as_mut_ptr(),
                        ptr::null_mut(),
                    )
                })
            }
        };
        current.check(operation, code)
    }
}

/// The places of a launch's arguments, as the driver takes them. They are the launch's own.
pub(crate) fn arguments_of(launch: &Launch) -> SmallVec<[*mut c_void; 8]> {
    // The driver only reads what they point to.
    launch.pointers.iter().map(|pointer| ptr::from_ref(pointer).cast_mut().cast()).collect()
}
