//! Raw memory: the only unsafe code of this backend.
//!
//! Ranges are handed out as slices. That they do not conflict is core's duty by the SPI: conflicting
//! submissions are ordered, host copies wait for them, and a written range overlaps no other of its operation.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

use tenure_core::Access;
use tenure_core::kernel::HostBinding;

/// Zeroed, aligned memory.
#[derive(Debug)]
pub(crate) struct Memory {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the memory has no owner but this, and moving it between threads moves no thread-bound state.
unsafe impl Send for Memory {}
// SAFETY: shared access goes through `bytes` and `bytes_mut`, whose contracts exclude conflicts.
unsafe impl Sync for Memory {}

impl Memory {
    /// None if the system gives none, or the size is beyond the address space. `bytes` is not 0.
    pub(crate) fn new(bytes: u64, alignment: u64) -> Option<Self> {
        let size = usize::try_from(bytes).ok()?;
        let layout = Layout::from_size_align(size, usize::try_from(alignment).ok()?).ok()?;
        if size == 0 {
            return None;
        }
        // SAFETY: the layout's size is not 0.
        let start = unsafe { alloc_zeroed(layout) };
        Some(Memory { start: NonNull::new(start)?, layout })
    }

    pub(crate) fn len(&self) -> u64 {
        self.layout.size() as u64
    }

    fn place(&self, offset: u64, bytes: u64) -> (NonNull<u8>, usize) {
        let inside = offset.checked_add(bytes).is_some_and(|end| end <= self.len());
        assert!(inside, "range {offset}+{bytes} is outside a block of {} bytes", self.len());
        let offset = usize::try_from(offset).expect("inside the block");
        let bytes = usize::try_from(bytes).expect("inside the block");
        // SAFETY: the offset is inside the allocation, or one past its end.
        (unsafe { self.start.add(offset) }, bytes)
    }

    /// # Safety
    /// Nobody writes the range while the slice lives.
    pub(crate) unsafe fn bytes(&self, offset: u64, bytes: u64) -> &[u8] {
        let (start, bytes) = self.place(offset, bytes);
        // SAFETY: `place` checked the range, the memory was zeroed when made, and the caller excludes writers.
        unsafe { std::slice::from_raw_parts(start.as_ptr(), bytes) }
    }

    /// # Safety
    /// Nobody else reads or writes the range while the slice lives.
    #[allow(clippy::mut_from_ref, reason = "exclusive access is the caller's contract")]
    pub(crate) unsafe fn bytes_mut(&self, offset: u64, bytes: u64) -> &mut [u8] {
        let (start, bytes) = self.place(offset, bytes);
        // SAFETY: `place` checked the range, the memory was zeroed when made, and the caller excludes others.
        unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), bytes) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the memory came from `alloc_zeroed` with this layout, and is given back once.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}

/// A range of memory that its holder keeps alive.
#[derive(Clone, Debug)]
pub(crate) struct Range {
    /// None for the range of an empty tensor.
    pub memory: Option<std::sync::Arc<Memory>>,
    pub offset: u64,
    pub bytes: u64,
}

impl Range {
    /// # Safety
    /// As [`Memory::bytes`].
    pub(crate) unsafe fn read(&self) -> &[u8] {
        match &self.memory {
            None => &[],
            // SAFETY: the caller's contract is this method's.
            Some(memory) => unsafe { memory.bytes(self.offset, self.bytes) },
        }
    }

    /// # Safety
    /// As [`Memory::bytes_mut`].
    #[allow(clippy::mut_from_ref, reason = "exclusive access is the caller's contract")]
    pub(crate) unsafe fn write(&self) -> &mut [u8] {
        match &self.memory {
            None => &mut [],
            // SAFETY: the caller's contract is this method's.
            Some(memory) => unsafe { memory.bytes_mut(self.offset, self.bytes) },
        }
    }

    /// The range as a kernel's binding, for a dispatch in its turn on a queue.
    pub(crate) fn bind(&self, access: Access) -> HostBinding<'_> {
        if access.writes() {
            // SAFETY: as in `with_write`.
            HostBinding::Write(unsafe { self.write() })
        } else {
            // SAFETY: as in `with_read`.
            HostBinding::Read(unsafe { self.read() })
        }
    }

    /// Calls `run` with the range's bytes to read. For operations in their turn on a queue.
    pub(crate) fn with_read<R>(&self, run: impl FnOnce(&[u8]) -> R) -> R {
        // SAFETY: core orders every conflicting submission and host copy (SPI, `Submission::waits`), and an
        // operation's written ranges overlap none of its others (SPI, `Sequence::record`).
        run(unsafe { self.read() })
    }

    /// Calls `run` with the range's bytes to write. For operations in their turn on a queue.
    pub(crate) fn with_write<R>(&self, run: impl FnOnce(&mut [u8]) -> R) -> R {
        // SAFETY: as in `with_read`.
        run(unsafe { self.write() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_zeroed_and_aligned() {
        let memory = Memory::new(4096, 256).expect("a page");
        // SAFETY: nobody writes.
        let bytes = unsafe { memory.bytes(0, 4096) };
        assert!(bytes.iter().all(|byte| *byte == 0));
        assert!(bytes.as_ptr().addr().is_multiple_of(256));
    }

    #[test]
    fn impossible_sizes_give_none() {
        assert!(Memory::new(0, 256).is_none());
        assert!(Memory::new(u64::MAX, 256).is_none());
        assert!(Memory::new(1 << 62, 256).is_none());
    }

    #[test]
    #[should_panic(expected = "outside a block")]
    fn a_range_outside_is_refused() {
        let memory = Memory::new(256, 256).expect("a block");
        // SAFETY: nobody writes; the call panics.
        let _ = unsafe { memory.bytes(u64::MAX, 2) };
    }
}
