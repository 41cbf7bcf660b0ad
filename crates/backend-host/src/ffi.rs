//! Raw memory: the only unsafe code of this backend.
//!
//! Ranges are handed out as slices. That they do not conflict is core's duty by the SPI: conflicting
//! submissions are ordered, host copies wait for them, and a written range overlaps no other of its operation.
//! The safe functions of [`Range`] stand on that duty and are for this crate alone: it calls them only for an
//! operation in its turn on a queue, or from a method of the SPI whose own contract is the same.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

use tenure_core::Access;
use tenure_core::kernel::HostBinding;

/// Memory of blocks: our own, zeroed and aligned, or an engine's.
#[derive(Debug)]
pub(crate) struct Memory {
    /// What the system gave, with its layout; none for memory of an engine.
    allocation: Option<(NonNull<u8>, Layout)>,
    /// The first byte that is used.
    start: NonNull<u8>,
    len: usize,
}

/// Memory of an engine's own, to be adopted.
#[derive(Clone, Copy, Debug)]
pub struct HostMemory {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: it is a place and a size; who turns them into accesses has promised that the memory may be used so.
unsafe impl Send for HostMemory {}

impl HostMemory {
    /// `bytes` bytes that begin at `start`. Kernels see them as slices of elements: they are aligned for those.
    pub fn new(start: NonNull<u8>, bytes: usize) -> Self {
        HostMemory { start, bytes }
    }

    /// Where the memory begins.
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Its size.
    pub fn bytes(&self) -> u64 {
        self.bytes as u64
    }
}

// SAFETY: the memory has no owner but this, and moving it between threads moves no thread-bound state.
unsafe impl Send for Memory {}
// SAFETY: shared access goes through `bytes` and `bytes_mut`, whose contracts exclude conflicts.
unsafe impl Sync for Memory {}

impl Memory {
    /// None if the system gives none, or the size is beyond the address space. `bytes` is not 0.
    pub(crate) fn new(bytes: u64, alignment: u64) -> Option<Self> {
        let len = usize::try_from(bytes).ok()?;
        let alignment = usize::try_from(alignment).ok()?;
        if len == 0 {
            return None;
        }
        // The allocator gives pages that are zeroed at their first use only where it has no alignment to see to;
        // otherwise it writes the zeros itself, through the whole block. So room for the alignment is asked for too.
        let size = len.checked_add(alignment - 1)?;
        let layout = Layout::from_size_align(size, 1).ok()?;
        // SAFETY: the layout's size is not 0.
        let allocation = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        let ahead = allocation.addr().get().next_multiple_of(alignment) - allocation.addr().get();
        // SAFETY: `ahead` is less than the alignment, and that much more than `len` was asked for.
        let start = unsafe { allocation.add(ahead) };
        Some(Memory { allocation: Some((allocation, layout)), start, len })
    }

    /// Memory of an engine. Whoever uses it as a block's has promised that it is valid.
    pub(crate) fn of_engine(memory: HostMemory) -> Self {
        Memory { allocation: None, start: memory.start, len: memory.bytes }
    }

    /// Where it is.
    pub(crate) fn place_of_all(&self) -> HostMemory {
        HostMemory { start: self.start, bytes: self.len }
    }

    /// Whether it counts as allocated.
    pub(crate) fn is_own(&self) -> bool {
        self.allocation.is_some()
    }

    pub(crate) fn len(&self) -> u64 {
        self.len as u64
    }

    fn place(&self, offset: u64, bytes: u64) -> (NonNull<u8>, usize) {
        let inside = offset.checked_add(bytes).is_some_and(|end| end <= self.len());
        assert!(inside, "range {offset}+{bytes} is outside a block of {} bytes", self.len());
        let offset = usize::try_from(offset).expect("inside the block");
        let bytes = usize::try_from(bytes).expect("inside the block");
        // SAFETY: the offset is inside the block, or one past its end.
        (unsafe { self.start.add(offset) }, bytes)
    }

    /// # Safety
    /// Nobody writes the range while the slice lives.
    pub(crate) unsafe fn bytes(&self, offset: u64, bytes: u64) -> &[u8] {
        let (start, bytes) = self.place(offset, bytes);
        // SAFETY: `place` checked the range, the memory was zeroed when made or is an engine's that promised valid
        // bytes, and the caller excludes writers.
        unsafe { std::slice::from_raw_parts(start.as_ptr(), bytes) }
    }

    /// # Safety
    /// Nobody else reads or writes the range while the slice lives.
    #[allow(clippy::mut_from_ref, reason = "exclusive access is the caller's contract")]
    pub(crate) unsafe fn bytes_mut(&self, offset: u64, bytes: u64) -> &mut [u8] {
        let (start, bytes) = self.place(offset, bytes);
        // SAFETY: `place` checked the range, the memory is as in `bytes`, and the caller excludes others.
        unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), bytes) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Some((allocation, layout)) = self.allocation {
            // SAFETY: the memory came from `alloc_zeroed` with this layout, and is given back once.
            unsafe { dealloc(allocation.as_ptr(), layout) }
        }
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

    /// Copies the bytes to `target`, a range of the same length. For operations in their turn on a queue.
    ///
    /// The two may lie in one block, and no slice is made of either: if a caller breaks the contract and they
    /// overlap, the bytes arrive as if they had been set aside in between.
    pub(crate) fn copy_to(&self, target: &Range) {
        assert_eq!(self.bytes, target.bytes, "a copy has as many bytes at both ends");
        let (Some(source), Some(sink)) = (&self.memory, &target.memory) else {
            assert_eq!(self.bytes, 0, "a range in no block is empty");
            return;
        };
        let (from, bytes) = source.place(self.offset, self.bytes);
        let (to, _) = sink.place(target.offset, target.bytes);
        // SAFETY: `place` checked both ranges, and core orders every conflicting use as in `with_read`.
        unsafe { std::ptr::copy(from.as_ptr(), to.as_ptr(), bytes) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn memory_is_zeroed_and_aligned() {
        // Sizes on both sides of what an allocator takes from its heap, and of a page.
        for alignment in [16, 64, 256, 4096, 1 << 16] {
            for size in [1, 255, 256, 4096, 1 << 20] {
                let memory = Memory::new(size, alignment).expect("a little memory");
                assert_eq!(memory.len(), size);
                // SAFETY: nobody writes.
                let bytes = unsafe { memory.bytes(0, size) };
                assert!(bytes.iter().all(|byte| *byte == 0));
                assert!((bytes.as_ptr().addr() as u64).is_multiple_of(alignment));
            }
        }
    }

    /// Memory of the process that is in use, in bytes.
    #[cfg(target_os = "linux")]
    fn resident() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").expect("the system tells");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("the line is there");
        let kib = line.trim().trim_end_matches("kB").trim().parse::<u64>().expect("a number");
        kib << 10
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn memory_that_nobody_has_touched_is_not_in_use() {
        const SIZE: u64 = 512 << 20;
        let before = resident();
        let memory = Memory::new(SIZE, 256).expect("address space");
        let grown = resident().saturating_sub(before);
        assert_eq!(memory.len(), SIZE);
        // Other tests of this process use a few MiB at the same time.
        assert!(grown < SIZE / 2, "{grown} bytes are in use");
    }

    #[test]
    fn impossible_sizes_give_none() {
        assert!(Memory::new(0, 256).is_none());
        assert!(Memory::new(u64::MAX, 256).is_none());
        assert!(Memory::new(u64::MAX - 255, 256).is_none());
        assert!(Memory::new(1 << 62, 256).is_none());
    }

    #[test]
    #[should_panic(expected = "outside a block")]
    fn a_range_outside_is_refused() {
        let memory = Memory::new(256, 256).expect("a block");
        // SAFETY: nobody writes; the call panics.
        let _ = unsafe { memory.bytes(u64::MAX, 2) };
    }

    fn range(memory: &Arc<Memory>, offset: u64, bytes: u64) -> Range {
        Range { memory: Some(memory.clone()), offset, bytes }
    }

    #[test]
    fn a_copy_inside_one_block_may_overlap() {
        for (from, to) in [(0, 3), (3, 0), (5, 5)] {
            let memory = Arc::new(Memory::new(256, 256).expect("a block"));
            let whole = range(&memory, 0, 16);
            let numbers: Vec<u8> = (0..16).collect();
            whole.with_write(|bytes| bytes.copy_from_slice(&numbers));
            range(&memory, from, 8).copy_to(&range(&memory, to, 8));
            let mut expected = numbers.clone();
            expected.copy_within(from as usize..from as usize + 8, to as usize);
            whole.with_read(|bytes| assert_eq!(bytes, expected, "from {from} to {to}"));
        }
    }

    #[test]
    fn empty_ranges_copy_nothing() {
        let nowhere = Range { memory: None, offset: 0, bytes: 0 };
        let memory = Arc::new(Memory::new(256, 256).expect("a block"));
        nowhere.copy_to(&nowhere);
        nowhere.copy_to(&range(&memory, 256, 0));
        range(&memory, 256, 0).copy_to(&nowhere);
        assert!(nowhere.with_read(<[u8]>::is_empty));
    }

    #[test]
    #[should_panic(expected = "as many bytes at both ends")]
    fn a_copy_of_two_lengths_is_refused() {
        let memory = Arc::new(Memory::new(256, 256).expect("a block"));
        range(&memory, 0, 8).copy_to(&range(&memory, 16, 4));
    }
}
