//! One allocation: where it is, what kind it is, and what of it was written.
//!
//! Not here: finding it (`map.rs`), its order (`order/`).

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::ffi::Backing;
use crate::order::Marks;

/// A handle of the interface: what an opaque pointer is here.
pub type Handle = u64;

/// What an allocation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `cuMemAlloc`.
    Device,
    /// `cuMemAllocAsync` and the like, from this pool.
    Pooled(Handle),
    /// Pinned host memory of ours.
    Host,
    /// Pinned host memory of the caller's.
    Registered,
    /// `cuMemAllocManaged`.
    Managed,
    /// A variable of this module.
    Variable(Handle),
}

impl Kind {
    /// Whether the host reaches the bytes at the address.
    pub fn is_host(self) -> bool {
        matches!(self, Kind::Host | Kind::Registered | Kind::Managed)
    }

    fn in_words(self) -> &'static str {
        match self {
            Kind::Device => "device memory",
            Kind::Pooled(_) => "stream-ordered memory",
            Kind::Host => "pinned host memory",
            Kind::Registered => "registered host memory",
            Kind::Managed => "managed memory",
            Kind::Variable(_) => "a module's variable",
        }
    }
}

/// One allocation.
#[derive(Debug)]
pub struct Allocation {
    /// Where it starts, for the device.
    pub address: u64,
    /// How many bytes it has.
    pub bytes: u64,
    /// What it is.
    pub kind: Kind,
    /// The ordinal of its device.
    pub device: usize,
    /// The context that it was made in.
    pub context: Handle,
    /// The bytes.
    pub backing: Backing,
    /// Which bytes were written, if that is watched.
    written: Option<Mutex<Marks>>,
    /// The serial of the free that was submitted.
    freed: AtomicU64,
}

/// No free was submitted.
const LIVE: u64 = u64::MAX;

impl Allocation {
    /// An allocation. With `watch` it knows which of its bytes were written.
    pub fn new(
        address: u64,
        kind: Kind,
        device: usize,
        context: Handle,
        backing: Backing,
        watch: bool,
    ) -> Allocation {
        let bytes = backing.bytes() as u64;
        // The host writes to its memory unseen, so only what the device alone reaches can be watched.
        let watched = watch && matches!(kind, Kind::Device | Kind::Pooled(_));
        let written = watched.then(|| Mutex::new(Marks::new(bytes)));
        Allocation { address, bytes, kind, device, context, backing, written, freed: AtomicU64::new(LIVE) }
    }

    /// The offset of a range, if all of it is within.
    pub fn offset_of(&self, address: u64, bytes: u64) -> Option<u64> {
        let offset = address.checked_sub(self.address)?;
        (offset.checked_add(bytes)? <= self.bytes).then_some(offset)
    }

    /// Says that a free was submitted.
    pub fn set_freed(&self, serial: u64) {
        self.freed.store(serial, Ordering::SeqCst);
    }

    /// Whether a free was submitted before that piece of work.
    pub fn is_freed_before(&self, serial: u64) -> bool {
        self.freed.load(Ordering::SeqCst) < serial
    }

    /// Whether a free was submitted.
    pub fn is_freed(&self) -> bool {
        self.freed.load(Ordering::SeqCst) != LIVE
    }

    /// Says that bytes were written.
    pub fn mark_written(&self, offset: u64, bytes: usize) {
        if let Some(written) = &self.written {
            written.lock().mark(offset, bytes);
        }
    }

    /// Whether the bytes were written, or nobody watches.
    pub fn is_written(&self, offset: u64, bytes: usize) -> bool {
        self.written.as_ref().is_none_or(|written| written.lock().covers(offset, bytes))
    }

    /// What it is, for messages.
    pub fn in_words(&self) -> String {
        format!("{} {:#x} ({} bytes)", self.kind.in_words(), self.address, self.bytes)
    }
}
