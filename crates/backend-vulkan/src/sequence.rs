//! Native recordings: one command buffer each, submitted again as it is (L9).
//!
//! Not here: what each operation becomes in it (`encode.rs`).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ash::vk;
use parking_lot::Mutex;
use tenure_core::backend::{QueueId, Sequence, Submission};
use tenure_core::operation::{Operation, ReadCell};
use tenure_core::{BackendError, BackendErrorKind};

use crate::backend::VulkanBackend;
use crate::commands::ffi::Commands;
use crate::commands::{SEE, show};
use crate::device::Device;
use crate::encode::Encoder;
use crate::hazards::Hazards;
use crate::heap::Piece;
use crate::scope::Arena;

/// One native recording.
pub struct VulkanSequence {
    device: Arc<Device>,
    arena: Arc<Mutex<Arena>>,
    queue: QueueId,
    commands: vk::CommandBuffer,
    phase: Phase,
    recording: Recording,
}

/// What the command buffer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Empty,
    Open,
    Complete,
}

/// What a recording has beside its command buffer.
#[derive(Default)]
pub(crate) struct Recording {
    pub hazards: Hazards,
    /// Uploads, parameters and scratch, which the commands name.
    pub pieces: Vec<Piece>,
    pub reads: Vec<ReadBack>,
    /// Descriptor sets, each with its number of buffers.
    pub sets: Vec<(u32, vk::DescriptorSet)>,
}

/// A read-back: where the bytes arrive, and who gets them.
pub(crate) struct ReadBack {
    pub piece: Piece,
    pub into: Arc<ReadCell>,
}

impl VulkanSequence {
    pub(crate) fn new(
        device: Arc<Device>,
        arena: Arc<Mutex<Arena>>,
        queue: QueueId,
        commands: vk::CommandBuffer,
    ) -> Self {
        VulkanSequence {
            device,
            arena,
            queue,
            commands,
            phase: Phase::Empty,
            recording: Recording::default(),
        }
    }

    /// Begins the recording, unless it has begun. With the arena locked.
    fn open(phase: &mut Phase, commands: &Commands<'_>, device: &Device) -> Result<(), BackendError> {
        assert!(
            *phase != Phase::Complete,
            "a recording that was submitted is reset before it is recorded anew"
        );
        if *phase == Phase::Empty {
            commands.begin(vk::CommandBufferUsageFlags::empty())?;
            *phase = Phase::Open;
            // On our own device each submission sees to what ours wrote (`timeline.rs`).
            if !device.api.owned {
                commands.barrier(SEE);
            }
        }
        Ok(())
    }

    /// Completes the recording, unless it is complete.
    fn complete(&mut self) -> Result<(), BackendError> {
        if self.phase == Phase::Complete {
            return Ok(());
        }
        let _arena = self.arena.lock();
        let commands = Commands::new(&self.device.api, self.commands);
        Self::open(&mut self.phase, &commands, &self.device)?;
        // The host reads what it is delivered and, where it reaches blocks, all of them.
        let stages = self.recording.hazards.written_in();
        if !stages.is_empty() && (self.device.unified || !self.recording.reads.is_empty()) {
            commands.barrier(show(stages));
        }
        commands.end()?;
        self.phase = Phase::Complete;
        Ok(())
    }

    /// Empties the command buffer and lets go of what it named.
    fn discard(&mut self) -> Result<(), BackendError> {
        let Recording { sets, .. } = std::mem::take(&mut self.recording);
        let mut arena = self.arena.lock();
        for (buffers, set) in sets {
            arena.give_set(buffers, set);
        }
        if self.phase == Phase::Empty {
            return Ok(());
        }
        self.phase = Phase::Empty;
        Commands::new(&self.device.api, self.commands).reset()
    }

    /// Ends the sequence: its command buffer goes to the next one.
    pub(crate) fn give_back(mut self) {
        // A buffer that cannot be emptied is not used again; it goes with its pool.
        if self.discard().is_ok() {
            self.arena.lock().give_commands(self.commands);
        }
    }
}

impl Sequence<VulkanBackend> for VulkanSequence {
    unsafe fn record(&mut self, operation: &Operation<'_, VulkanBackend>) -> Result<(), BackendError> {
        self.device.api.alive()?;
        let mut arena = self.arena.lock();
        let commands = Commands::new(&self.device.api, self.commands);
        Self::open(&mut self.phase, &commands, &self.device)?;
        let recording = &mut self.recording;
        Encoder { device: &self.device, arena: &mut arena, commands, recording }.encode(operation)
    }

    unsafe fn submit(&mut self, submission: &Submission<'_>) -> Result<(), BackendError> {
        assert_eq!(submission.point.queue, self.queue, "a sequence is submitted to its scope's queue");
        self.device.api.alive()?;
        self.complete()?;
        self.device.timelines.submit(self.commands, submission.point, submission.waits)
    }

    fn collect(&mut self) -> Result<(), BackendError> {
        for read in &self.recording.reads {
            let length = read.piece.bytes() as usize;
            let mut bytes = Vec::new();
            bytes.try_reserve_exact(length).map_err(|error| {
                let message = format!("no {length} bytes for a read-back");
                BackendError::new(BackendErrorKind::OutOfMemory, "read back", message).with_source(error)
            })?;
            bytes.resize(length, 0);
            read.piece.read(&mut bytes);
            self.device.copied.fetch_add(length as u64, Ordering::Relaxed);
            read.into.deliver(bytes);
        }
        Ok(())
    }

    unsafe fn reset(&mut self) -> Result<(), BackendError> {
        self.discard()
    }
}

impl std::fmt::Debug for VulkanSequence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VulkanSequence")
            .field("queue", &self.queue)
            .field("phase", &self.phase)
            .finish_non_exhaustive()
    }
}
