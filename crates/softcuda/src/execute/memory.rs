//! [`Memory`]: device memory, as a running kernel sees it.
//!
//! Not here: shared, local and parameter memory (`access.rs`).

use std::fmt::{self, Display};

/// Device memory behind global addresses. All methods may be called from several threads.
///
/// A kernel gives accesses of neighbouring lanes that are next to each other in memory as one; if that is refused it
/// tries them one by one, so that a fault names the access at fault. Addresses are below 2^56.
pub trait Memory: Sync {
    /// Reads bytes.
    ///
    /// # Errors
    /// They cannot be read; nothing is promised of `into` then.
    fn load(&self, address: u64, into: &mut [u8]) -> Result<(), MemoryFault>;

    /// Writes bytes.
    ///
    /// # Errors
    /// They cannot be written. Some of them may have been: a refused store is tried again in parts.
    fn store(&self, address: u64, bytes: &[u8]) -> Result<(), MemoryFault>;

    /// One atomic read-modify-write of `bytes` (4 or 8) bytes, little-endian; returns the old value. `change` may be
    /// called more than once.
    ///
    /// # Errors
    /// They cannot be read or written.
    fn atomic(
        &self,
        address: u64,
        bytes: usize,
        change: &mut dyn FnMut(u64) -> u64,
    ) -> Result<u64, MemoryFault>;
}

/// An access that was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryFault {
    /// Of the first byte. Generic: shared memory starts at 2^56, local memory at 2^57, parameters at 2^56 + 2^57.
    pub address: u64,
    /// How many bytes were to be accessed.
    pub bytes: usize,
    /// Why it was refused.
    pub kind: MemoryFaultKind,
}

/// Why an access was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryFaultKind {
    /// Nothing is there.
    OutOfRange,
    /// What was there has been freed.
    UseAfterFree,
    /// The address is no multiple of the size of the access.
    Misaligned,
    /// Nothing was written there before it is read.
    Uninitialised,
}

impl Display for MemoryFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.kind {
            MemoryFaultKind::OutOfRange => "out of range",
            MemoryFaultKind::UseAfterFree => "use after free",
            MemoryFaultKind::Misaligned => "misaligned",
            MemoryFaultKind::Uninitialised => "read before it was written",
        };
        let (space, within) = crate::ptx::types::Space::of(self.address);
        let space = match space {
            crate::ptx::types::Space::Shared => "shared ",
            crate::ptx::types::Space::Local => "local ",
            crate::ptx::types::Space::Parameter => "parameter ",
            _ => "",
        };
        write!(f, "access of {} bytes at {space}{within:#x}: {what}", self.bytes)
    }
}
