//! [`Transfers`]: copies between host and block outside of recordings, through a ring of two pinned buffers.
//!
//! While the device copies out of or into one buffer, the host fills or empties the other. They have a stream of their own:
//! by the SPI nothing in flight uses the range. One copy at a time: the ring is behind a lock. Not here: copies that a
//! recording makes (`encode.rs`).

use parking_lot::Mutex;
use tenure_core::BackendError;

use crate::buffer::CudaBlock;
use crate::commands::Command;
use crate::device::Device;
use crate::ffi::{Current, Event, Stream};
use crate::heap::ffi::Pinned;

/// Size of one of the two buffers.
const SLOT_BYTES: usize = 1 << 20;

/// The stream, and the ring, made at first use.
pub(crate) struct Transfers {
    ring: Mutex<Option<Ring>>,
    stream: Stream,
}

struct Ring {
    slots: [Slot; 2],
}

struct Slot {
    buffer: Pinned,
    /// The copy that last used the buffer.
    copied: Event,
}

impl Transfers {
    pub(crate) fn new(current: &Current<'_>) -> Result<Self, BackendError> {
        Ok(Transfers { ring: Mutex::new(None), stream: Stream::new(current)? })
    }

    /// Copies `bytes` to the device, complete on return.
    fn upload(&self, current: &Current<'_>, to: u64, bytes: &[u8]) -> Result<(), BackendError> {
        self.with_ring(current, |ring| {
            let mut to = to;
            for (at, part) in bytes.chunks(SLOT_BYTES).enumerate() {
                let slot = &ring.slots[at % 2];
                if at >= 2 {
                    slot.copied.synchronize(current)?;
                }
                slot.buffer.write(0, part);
                let from = slot.buffer.address();
                self.put(current, slot, &Command::ToDevice { from, to, bytes: part.len() })?;
                to += part.len() as u64;
            }
            Ok(())
        })
    }

    /// Copies from the device into `bytes`, complete on return.
    fn download(&self, current: &Current<'_>, from: u64, bytes: &mut [u8]) -> Result<(), BackendError> {
        self.with_ring(current, |ring| {
            let mut from = from;
            let mut before: Option<(&Slot, &mut [u8])> = None;
            for (at, part) in bytes.chunks_mut(SLOT_BYTES).enumerate() {
                let slot = &ring.slots[at % 2];
                let to = slot.buffer.address();
                self.put(current, slot, &Command::ToHost { from, to, bytes: part.len() })?;
                from += part.len() as u64;
                if let Some((slot, part)) = before.replace((slot, part)) {
                    slot.fetch(current, part)?;
                }
            }
            before.map_or(Ok(()), |(slot, part)| slot.fetch(current, part))
        })
    }

    fn put(&self, current: &Current<'_>, slot: &Slot, command: &Command) -> Result<(), BackendError> {
        self.stream.put(current, command)?;
        slot.copied.record(current, &self.stream)
    }

    /// Runs `copy` on the ring, and returns when the device has finished with all of it, failed or not.
    fn with_ring(
        &self,
        current: &Current<'_>,
        copy: impl FnOnce(&Ring) -> Result<(), BackendError>,
    ) -> Result<(), BackendError> {
        let mut ring = self.ring.lock();
        let ring = match &mut *ring {
            Some(ring) => ring,
            none => none.insert(Ring::new(current)?),
        };
        let copied = copy(ring);
        copied.and(self.stream.synchronize(current))
    }

    /// Gives the ring back. Returns its bytes.
    pub(crate) fn trim(&self) -> u64 {
        // Nothing is in flight: copies end before the lock is let go.
        let ring = self.ring.lock().take();
        ring.map_or(0, |ring| ring.slots.iter().map(|slot| slot.buffer.bytes() as u64).sum())
    }
}

impl Ring {
    fn new(current: &Current<'_>) -> Result<Self, BackendError> {
        let slot = || -> Result<Slot, BackendError> {
            Ok(Slot { buffer: Pinned::new(current, SLOT_BYTES)?, copied: Event::new(current)? })
        };
        Ok(Ring { slots: [slot()?, slot()?] })
    }
}

impl Slot {
    fn fetch(&self, current: &Current<'_>, part: &mut [u8]) -> Result<(), BackendError> {
        self.copied.synchronize(current)?;
        self.buffer.read(0, part);
        Ok(())
    }
}

impl Device {
    pub(crate) fn write_block(
        &self,
        block: &CudaBlock,
        offset: u64,
        bytes: &[u8],
    ) -> Result<(), BackendError> {
        let current = self.context.enter()?;
        self.transfers.upload(&current, block.address() + offset, bytes)
    }

    pub(crate) fn read_block(
        &self,
        block: &CudaBlock,
        offset: u64,
        bytes: &mut [u8],
    ) -> Result<(), BackendError> {
        let current = self.context.enter()?;
        self.transfers.download(&current, block.address() + offset, bytes)
    }
}
