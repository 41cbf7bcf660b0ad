//! [`Transfers`]: copies between host and blocks that the host cannot reach, through a ring of two buffers.
//!
//! While the device copies out of or into one buffer, the host fills or empties the other. One copy at a time: the ring is
//! behind a lock. Not here: copies that a recording makes (`encode.rs`).

use std::sync::Arc;

use ash::vk;
use parking_lot::Mutex;
use tenure_core::BackendError;

use crate::commands::ffi::{Batch, Commands};
use crate::commands::{COPIED, SEE, show};
use crate::ffi::{Api, CommandPool, RawBuffer, Semaphore};
use crate::heap::Reach;
use crate::instance::Facts;
use crate::timeline::{Queue, wait_for};

/// Size of one of the two buffers.
const SLOT_BYTES: u64 = 1 << 20;

/// The ring, made at first use.
pub(crate) struct Transfers {
    api: Arc<Api>,
    facts: Arc<Facts>,
    ring: Mutex<Option<Ring>>,
}

struct Ring {
    slots: [Slot; 2],
    /// Copies have a timeline of their own: they are not core's submissions.
    semaphore: Semaphore,
    submitted: u64,
    /// The command buffers live in it.
    _pool: CommandPool,
}

struct Slot {
    buffer: RawBuffer,
    commands: vk::CommandBuffer,
    /// The copy that last used it.
    value: u64,
}

/// A range of a block that the host does not reach.
#[derive(Clone, Copy)]
pub(crate) struct Far<'a> {
    pub queue: &'a Queue,
    pub buffer: vk::Buffer,
    pub offset: u64,
}

impl Transfers {
    pub(crate) fn new(api: &Arc<Api>, facts: &Arc<Facts>) -> Self {
        Transfers { api: api.clone(), facts: facts.clone(), ring: Mutex::new(None) }
    }

    /// Copies `bytes` to the device, complete on return.
    pub(crate) fn upload(&self, far: Far<'_>, bytes: &[u8]) -> Result<(), BackendError> {
        self.with_ring(|ring| {
            let mut offset = far.offset;
            for (at, part) in bytes.chunks(SLOT_BYTES as usize).enumerate() {
                ring.wait(&self.api, ring.slots[at % 2].value)?;
                ring.slots[at % 2].buffer.write(0, part);
                let length = part.len() as u64;
                ring.submit(&self.api, at % 2, far.queue, |commands, near| {
                    commands.copy(near, 0, far.buffer, offset, length);
                    commands.barrier(COPIED);
                })?;
                offset += length;
            }
            Ok(())
        })
    }

    /// Copies from the device into `bytes`, complete on return.
    pub(crate) fn download(&self, far: Far<'_>, bytes: &mut [u8]) -> Result<(), BackendError> {
        self.with_ring(|ring| {
            let mut offset = far.offset;
            let mut before: Option<(usize, &mut [u8])> = None;
            for (at, part) in bytes.chunks_mut(SLOT_BYTES as usize).enumerate() {
                let length = part.len() as u64;
                ring.submit(&self.api, at % 2, far.queue, |commands, near| {
                    commands.copy(far.buffer, offset, near, 0, length);
                    commands.barrier(show(vk::PipelineStageFlags::TRANSFER));
                })?;
                if let Some((slot, part)) = before.replace((at % 2, part)) {
                    ring.fetch(&self.api, slot, part)?;
                }
                offset += length;
            }
            match before {
                Some((slot, part)) => ring.fetch(&self.api, slot, part),
                None => Ok(()),
            }
        })
    }

    /// Runs `copy` on the ring, and returns when the device has finished with all of it, failed or not.
    fn with_ring(
        &self,
        copy: impl FnOnce(&mut Ring) -> Result<(), BackendError>,
    ) -> Result<(), BackendError> {
        let mut slot = self.ring.lock();
        if slot.is_none() {
            *slot = Some(Ring::new(&self.api, &self.facts)?);
        }
        let ring = slot.as_mut().expect("it was made just now");
        let copied = copy(ring);
        let last = ring.submitted;
        copied.and(ring.wait(&self.api, last))
    }

    /// Gives the ring back. Returns its bytes.
    pub(crate) fn trim(&self) -> u64 {
        // Nothing is in flight: copies end before the lock is let go.
        let ring = self.ring.lock().take();
        ring.map_or(0, |ring| ring.slots.iter().map(|slot| slot.buffer.allocated).sum())
    }

    /// Bytes in the ring.
    pub(crate) fn bytes(&self) -> u64 {
        let ring = self.ring.lock();
        ring.as_ref().map_or(0, |ring| ring.slots.iter().map(|slot| slot.buffer.allocated).sum())
    }
}

impl Ring {
    fn new(api: &Arc<Api>, facts: &Facts) -> Result<Self, BackendError> {
        let mut pool = CommandPool::new(api, facts.family, "tenure: transfers")?;
        let mut slot = || -> Result<Slot, BackendError> {
            // Both ways go through it: memory that the host reads well.
            let choose = |allowed| Reach::ReadBack.memory_type(facts, allowed);
            let buffer = RawBuffer::new(api, SLOT_BYTES, choose, "tenure: transfers")?;
            Ok(Slot { buffer, commands: pool.allocate()?, value: 0 })
        };
        let slots = [slot()?, slot()?];
        let semaphore = Semaphore::new(api, "tenure: transfers")?;
        Ok(Ring { slots, semaphore, submitted: 0, _pool: pool })
    }

    fn wait(&self, api: &Api, value: u64) -> Result<(), BackendError> {
        wait_for(api, &self.semaphore, value)
    }

    fn submit(
        &mut self,
        api: &Api,
        at: usize,
        queue: &Queue,
        record: impl FnOnce(&Commands<'_>, vk::Buffer),
    ) -> Result<(), BackendError> {
        self.wait(api, self.slots[at].value)?;
        let slot = &mut self.slots[at];
        let commands = Commands::new(api, slot.commands);
        commands.begin(vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT)?;
        commands.barrier(SEE);
        record(&commands, slot.buffer.buffer);
        commands.end()?;
        let value = self.submitted + 1;
        queue.submit(
            api,
            &Batch { commands: &[slot.commands], waits: &[], signal: (self.semaphore.raw, value) },
        )?;
        self.submitted = value;
        slot.value = value;
        Ok(())
    }

    fn fetch(&self, api: &Api, at: usize, part: &mut [u8]) -> Result<(), BackendError> {
        self.wait(api, self.slots[at].value)?;
        self.slots[at].buffer.read(0, part);
        Ok(())
    }
}
