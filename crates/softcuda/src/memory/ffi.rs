//! The bytes behind device and host allocations.
//!
//! Several threads touch them at once, as on a device. A program under test that does so without order gets torn
//! bytes, as it would there, and a report from the checker. Aligned accesses of up to eight bytes never tear. Not here:
//! which addresses there are.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use crate::caller::HostPointer;

/// Alignment of the addresses of allocations, for the device and for the host.
pub const ALIGNMENT: usize = 512;

/// Alignment of bytes that only the device has addresses of: enough for words of all sizes. The host then makes zeros of
/// large allocations only where they are touched.
const HIDDEN_ALIGNMENT: usize = 16;

/// Bytes of one allocation.
#[derive(Debug)]
pub struct Backing {
    start: NonNull<u8>,
    bytes: usize,
    owner: Owner,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    /// Ours, made with this layout.
    Driver(Layout),
    /// Memory that a caller registered.
    Caller,
}

impl Backing {
    /// New bytes behind device addresses; `None` if the host has none.
    pub fn new(bytes: u64) -> Option<Backing> {
        Backing::aligned(bytes, HIDDEN_ALIGNMENT)
    }

    /// New bytes whose own address is the device's too; `None` if the host has none.
    pub fn shared(bytes: u64) -> Option<Backing> {
        Backing::aligned(bytes, ALIGNMENT)
    }

    fn aligned(bytes: u64, alignment: usize) -> Option<Backing> {
        let layout = Layout::from_size_align((bytes as usize).max(1), alignment).ok()?;
        // SAFETY: the layout is not empty.
        let start = unsafe { alloc_zeroed(layout) };
        Some(Backing { start: NonNull::new(start)?, bytes: bytes as usize, owner: Owner::Driver(layout) })
    }

    /// Bytes of the caller's, who keeps them until they are given back.
    pub fn of_caller(start: HostPointer, bytes: u64) -> Option<Backing> {
        let start = NonNull::new(start.as_ptr().cast())?;
        Some(Backing { start, bytes: bytes as usize, owner: Owner::Caller })
    }

    /// Where the bytes are for the host.
    pub fn host_pointer(&self) -> HostPointer {
        // SAFETY: the bytes live as long as the allocation; who uses the pointer later breaks the interface's rules.
        unsafe { HostPointer::from_raw(self.start.as_ptr().cast()) }
    }

    /// How many there are.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Reads bytes from an offset on. They are within.
    pub fn load(&self, offset: u64, into: &mut [u8]) {
        let place = self.place(offset, into.len());
        let address = place.addr().get();
        match into.len() {
            1 => into[0] = atomic_u8(place).load(Ordering::Relaxed),
            2 if address.is_multiple_of(2) => {
                into.copy_from_slice(&atomic_u16(place).load(Ordering::Relaxed).to_ne_bytes());
            }
            4 if address.is_multiple_of(4) => {
                into.copy_from_slice(&atomic_u32(place).load(Ordering::Relaxed).to_ne_bytes());
            }
            8 if address.is_multiple_of(8) => {
                into.copy_from_slice(&atomic_u64(place).load(Ordering::Relaxed).to_ne_bytes());
            }
            length => {
                // SAFETY: `place` checked the range, and a slice of ours is not within it.
                unsafe { place.as_ptr().copy_to_nonoverlapping(into.as_mut_ptr(), length) };
            }
        }
    }

    /// Writes bytes from an offset on. They are within.
    pub fn store(&self, offset: u64, bytes: &[u8]) {
        let place = self.place(offset, bytes.len());
        let address = place.addr().get();
        match *bytes {
            [byte] => atomic_u8(place).store(byte, Ordering::Relaxed),
            [a, b] if address.is_multiple_of(2) => {
                atomic_u16(place).store(u16::from_ne_bytes([a, b]), Ordering::Relaxed);
            }
            [a, b, c, d] if address.is_multiple_of(4) => {
                atomic_u32(place).store(u32::from_ne_bytes([a, b, c, d]), Ordering::Relaxed);
            }
            [a, b, c, d, e, f, g, h] if address.is_multiple_of(8) => {
                atomic_u64(place).store(u64::from_ne_bytes([a, b, c, d, e, f, g, h]), Ordering::Relaxed);
            }
            _ => {
                // SAFETY: `place` checked the range, and a slice of ours is not within it.
                unsafe { place.as_ptr().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
            }
        }
    }

    /// Changes an aligned word of 4 or 8 bytes in one step, and gives its old value.
    pub fn update(&self, offset: u64, bytes: usize, change: &mut dyn FnMut(u64) -> u64) -> u64 {
        let place = self.place(offset, bytes);
        let order = Ordering::SeqCst;
        if bytes == 4 {
            let word = atomic_u32(place);
            let mut old = word.load(order);
            while let Err(now) = word.compare_exchange(old, change(u64::from(old)) as u32, order, order) {
                old = now;
            }
            u64::from(old)
        } else {
            let word = atomic_u64(place);
            let mut old = word.load(order);
            while let Err(now) = word.compare_exchange(old, change(old), order, order) {
                old = now;
            }
            old
        }
    }

    /// Copies within or between allocations; ranges may overlap.
    pub fn copy(&self, offset: u64, from: &Backing, from_offset: u64, bytes: usize) {
        let (place, source) = (self.place(offset, bytes), from.place(from_offset, bytes));
        // SAFETY: `place` checked both ranges.
        unsafe { source.as_ptr().copy_to(place.as_ptr(), bytes) };
    }

    /// Fills bytes from an offset on with one value.
    pub fn fill(&self, offset: u64, bytes: usize, value: u8) {
        let place = self.place(offset, bytes);
        // SAFETY: `place` checked the range.
        unsafe { place.as_ptr().write_bytes(value, bytes) };
    }

    fn place(&self, offset: u64, bytes: usize) -> NonNull<u8> {
        let offset = offset as usize;
        assert!(
            offset.checked_add(bytes).is_some_and(|end| end <= self.bytes),
            "bytes outside of an allocation"
        );
        // SAFETY: the offset is within the allocation, or at its end.
        unsafe { self.start.add(offset) }
    }
}

fn atomic_u8<'a>(place: NonNull<u8>) -> &'a AtomicU8 {
    // SAFETY: a byte is always aligned, and the allocation outlives the access.
    unsafe { AtomicU8::from_ptr(place.as_ptr()) }
}

fn atomic_u16<'a>(place: NonNull<u8>) -> &'a AtomicU16 {
    debug_assert!(place.addr().get().is_multiple_of(2));
    // SAFETY: the caller checked the alignment, and the allocation outlives the access.
    unsafe { AtomicU16::from_ptr(place.as_ptr().cast()) }
}

fn atomic_u32<'a>(place: NonNull<u8>) -> &'a AtomicU32 {
    assert!(place.addr().get().is_multiple_of(4), "a word that is not aligned");
    // SAFETY: the alignment was checked, and the allocation outlives the access.
    unsafe { AtomicU32::from_ptr(place.as_ptr().cast()) }
}

fn atomic_u64<'a>(place: NonNull<u8>) -> &'a AtomicU64 {
    assert!(place.addr().get().is_multiple_of(8), "a word that is not aligned");
    // SAFETY: the alignment was checked, and the allocation outlives the access.
    unsafe { AtomicU64::from_ptr(place.as_ptr().cast()) }
}

impl Drop for Backing {
    fn drop(&mut self) {
        if let Owner::Driver(layout) = self.owner {
            // SAFETY: it was made with this layout and nobody has it any more.
            unsafe { dealloc(self.start.as_ptr(), layout) };
        }
    }
}

// SAFETY: the bytes belong to no thread; see the module's words on accesses without order.
unsafe impl Send for Backing {}

// SAFETY: as above.
unsafe impl Sync for Backing {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_sizes_read_what_was_written() {
        let backing = Backing::new(64).unwrap();
        for (offset, length) in [(0, 1), (2, 2), (3, 2), (4, 4), (5, 4), (8, 8), (9, 8), (20, 17)] {
            let bytes: Vec<u8> = (0..length as u8).map(|byte| byte + offset as u8).collect();
            backing.store(offset, &bytes);
            let mut read = vec![0; length];
            backing.load(offset, &mut read);
            assert_eq!(read, bytes, "{length} bytes at {offset}");
        }
    }

    #[test]
    fn updates_give_the_old_value() {
        let backing = Backing::new(16).unwrap();
        assert_eq!(backing.update(4, 4, &mut |old| old + 7), 0);
        assert_eq!(backing.update(4, 4, &mut |old| old + 1), 7);
        assert_eq!(backing.update(8, 8, &mut |_| u64::MAX), 0);
        assert_eq!(backing.update(8, 8, &mut |old| old), u64::MAX);
    }

    #[test]
    #[should_panic(expected = "outside of an allocation")]
    fn bytes_outside_are_refused() {
        Backing::new(8).unwrap().fill(4, 5, 0);
    }
}
