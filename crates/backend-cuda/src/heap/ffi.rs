//! Pinned memory: the unsafe code.
//!
//! Not here: who has it (`heap.rs`).

use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use tenure_core::BackendError;

use crate::ffi::{Context, Current};

/// Pinned memory is so for every context.
const HOST_PORTABLE: u32 = 1;

/// Memory of the host that the device copies from and to directly.
pub(crate) struct Pinned {
    place: NonNull<u8>,
    bytes: usize,
    context: Arc<Context>,
}

// SAFETY: the memory belongs to no thread.
unsafe impl Send for Pinned {}
// SAFETY: shared access goes through `write` and `read`, whose callers exclude conflicts.
unsafe impl Sync for Pinned {}

impl Pinned {
    pub(crate) fn new(current: &Current<'_>, bytes: usize) -> Result<Self, BackendError> {
        let mut place: *mut c_void = ptr::null_mut();
        // SAFETY: the place takes an address.
        let made = unsafe { (current.functions().cuMemHostAlloc)(&mut place, bytes, HOST_PORTABLE) };
        current.check("cuMemHostAlloc", made)?;
        let place = NonNull::new(place.cast()).expect("memory that was given has an address");
        Ok(Pinned { place, bytes, context: current.context.clone() })
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The address for the driver.
    pub(crate) fn address(&self) -> usize {
        self.place.as_ptr().expose_provenance()
    }

    fn at(&self, offset: usize, bytes: usize) -> NonNull<u8> {
        let inside = offset.checked_add(bytes).is_some_and(|end| end <= self.bytes);
        assert!(inside, "range {offset}+{bytes} is outside {} bytes of pinned memory", self.bytes);
        // SAFETY: the offset is inside the memory, or one past its end.
        unsafe { self.place.add(offset) }
    }

    /// Copies from elsewhere. For ranges that nobody uses.
    pub(crate) fn write(&self, offset: usize, bytes: &[u8]) {
        let to = self.at(offset, bytes.len());
        // SAFETY: `at` checked the range; as the range's only owner the caller knows that nobody else uses it.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), to.as_ptr(), bytes.len()) }
    }

    /// Copies to elsewhere. For ranges that nobody writes, and that were written.
    pub(crate) fn read(&self, offset: usize, bytes: &mut [u8]) {
        let from = self.at(offset, bytes.len());
        // SAFETY: as in `write`.
        unsafe { ptr::copy_nonoverlapping(from.as_ptr(), bytes.as_mut_ptr(), bytes.len()) }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        self.context.destroying(|functions| {
            // SAFETY: it is freed once, and every copy from and to it has ended (L4).
            ("cuMemFreeHost", unsafe { (functions.cuMemFreeHost)(self.place.as_ptr().cast()) })
        });
    }
}
