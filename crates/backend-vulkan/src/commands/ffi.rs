//! Recording commands and submitting them: the unsafe code.
//!
//! A [`Commands`] is made for one call by who has the command buffer and its pool to itself. Handles are of this
//! device and outlive the submissions of the recording by the SPI's contract (`Sequence::record`). Not here: which
//! barriers are needed (`hazards.rs`).

use ash::vk;
use smallvec::{SmallVec, smallvec};
use tenure_core::BackendError;

use crate::ffi::{Api, Second};
use crate::hazards::Barrier;
use crate::kernel::ffi::Pipeline;

/// A command buffer that is being recorded.
pub(crate) struct Commands<'a> {
    api: &'a Api,
    raw: vk::CommandBuffer,
}

impl<'a> Commands<'a> {
    /// Commands go to `raw`, which is not in flight, and whose pool nobody else uses meanwhile.
    pub(crate) fn new(api: &'a Api, raw: vk::CommandBuffer) -> Self {
        Commands { api, raw }
    }

    /// Begins a recording that can be submitted again, and several times at once if `flags` say so.
    pub(crate) fn begin(&self, flags: vk::CommandBufferUsageFlags) -> Result<(), BackendError> {
        let info = vk::CommandBufferBeginInfo::default().flags(flags);
        // SAFETY: the buffer is not in flight, and its pool allows that it is reset by this.
        let begun = unsafe { self.api.device.begin_command_buffer(self.raw, &info) };
        self.api.check("vkBeginCommandBuffer", begun)
    }

    pub(crate) fn end(&self) -> Result<(), BackendError> {
        // SAFETY: the buffer is being recorded.
        let ended = unsafe { self.api.device.end_command_buffer(self.raw) };
        self.api.check("vkEndCommandBuffer", ended)
    }

    /// Empties the buffer.
    pub(crate) fn reset(&self) -> Result<(), BackendError> {
        // SAFETY: the buffer is not in flight, and its pool allows it.
        let reset =
            unsafe { self.api.device.reset_command_buffer(self.raw, vk::CommandBufferResetFlags::empty()) };
        self.api.check("vkResetCommandBuffer", reset)
    }

    /// A memory barrier. The first interface's bits are the second's too.
    pub(crate) fn barrier(&self, barrier: Barrier) {
        let Barrier { from, done, to, next } = barrier;
        let second = [vk::MemoryBarrier2::default()
            .src_stage_mask(vk::PipelineStageFlags2::from_raw(u64::from(from.as_raw())))
            .src_access_mask(vk::AccessFlags2::from_raw(u64::from(done.as_raw())))
            .dst_stage_mask(vk::PipelineStageFlags2::from_raw(u64::from(to.as_raw())))
            .dst_access_mask(vk::AccessFlags2::from_raw(u64::from(next.as_raw())))];
        let dependency = vk::DependencyInfo::default().memory_barriers(&second);
        match &self.api.synchronization2 {
            // SAFETY: the buffer is being recorded, and stages and accesses fit each other.
            Second::Core => unsafe { self.api.device.cmd_pipeline_barrier2(self.raw, &dependency) },
            // SAFETY: as above.
            Second::Extension(functions) => unsafe { functions.cmd_pipeline_barrier2(self.raw, &dependency) },
            Second::Absent => {
                let first = [vk::MemoryBarrier::default().src_access_mask(done).dst_access_mask(next)];
                let flags = vk::DependencyFlags::empty();
                // SAFETY: as above.
                unsafe { self.api.device.cmd_pipeline_barrier(self.raw, from, to, flags, &first, &[], &[]) }
            }
        }
    }

    pub(crate) fn copy(&self, source: vk::Buffer, from: u64, target: vk::Buffer, to: u64, bytes: u64) {
        let regions = [vk::BufferCopy::default().src_offset(from).dst_offset(to).size(bytes)];
        // SAFETY: the ranges are inside their buffers, are not empty and do not overlap (SPI, `Sequence::record`).
        unsafe { self.api.device.cmd_copy_buffer(self.raw, source, target, &regions) }
    }

    /// Fills with a word. Offset and length are multiples of four.
    pub(crate) fn fill(&self, target: vk::Buffer, to: u64, bytes: u64, word: u32) {
        // SAFETY: the range is inside its buffer and not empty, and aligned as the command wants it.
        unsafe { self.api.device.cmd_fill_buffer(self.raw, target, to, bytes, word) }
    }

    pub(crate) fn dispatch(&self, pipeline: &Pipeline, set: vk::DescriptorSet, groups: [u32; 3]) {
        let point = vk::PipelineBindPoint::COMPUTE;
        // SAFETY: the kernel is alive, and for this bind point.
        unsafe { self.api.device.cmd_bind_pipeline(self.raw, point, pipeline.raw) };
        let layout = pipeline.layout.pipeline;
        // SAFETY: the set was made with this layout, and every binding of it points at a live buffer.
        unsafe { self.api.device.cmd_bind_descriptor_sets(self.raw, point, layout, 0, &[set], &[]) };
        let [x, y, z] = groups;
        // SAFETY: pipeline and set are bound, and the numbers within the device's limits.
        unsafe { self.api.device.cmd_dispatch(self.raw, x, y, z) }
    }
}

/// What one submission does.
pub(crate) struct Batch<'a> {
    pub commands: &'a [vk::CommandBuffer],
    pub waits: &'a [(vk::Semaphore, u64)],
    pub signal: (vk::Semaphore, u64),
}

/// Submits a batch. The caller has the queue's lock.
pub(crate) fn submit(api: &Api, queue: vk::Queue, batch: &Batch<'_>) -> Result<(), BackendError> {
    let answer = match &api.synchronization2 {
        Second::Absent => submit_first(api, queue, batch),
        second => {
            let stage = vk::PipelineStageFlags2::ALL_COMMANDS;
            let point = |(semaphore, value): &(vk::Semaphore, u64)| {
                vk::SemaphoreSubmitInfo::default().semaphore(*semaphore).value(*value).stage_mask(stage)
            };
            let waits: SmallVec<[_; 4]> = batch.waits.iter().map(point).collect();
            let signals = [point(&batch.signal)];
            let commands: SmallVec<[_; 2]> = batch
                .commands
                .iter()
                .map(|raw| vk::CommandBufferSubmitInfo::default().command_buffer(*raw))
                .collect();
            let infos = [vk::SubmitInfo2::default()
                .wait_semaphore_infos(&waits)
                .command_buffer_infos(&commands)
                .signal_semaphore_infos(&signals)];
            if let Second::Extension(functions) = second {
                // SAFETY: what the batch names is alive until the signal (SPI, `Sequence::submit`), its recordings
                // are complete and not in flight, and the queue is locked.
                unsafe { functions.queue_submit2(queue, &infos, vk::Fence::null()) }
            } else {
                // SAFETY: as above.
                unsafe { api.device.queue_submit2(queue, &infos, vk::Fence::null()) }
            }
        }
    };
    api.check("vkQueueSubmit", answer)
}

fn submit_first(api: &Api, queue: vk::Queue, batch: &Batch<'_>) -> ash::prelude::VkResult<()> {
    let (waits, wait_values): (SmallVec<[_; 4]>, SmallVec<[_; 4]>) = batch.waits.iter().copied().unzip();
    let stages: SmallVec<[_; 4]> = smallvec![vk::PipelineStageFlags::ALL_COMMANDS; waits.len()];
    let (signals, signal_values) = ([batch.signal.0], [batch.signal.1]);
    let mut values = vk::TimelineSemaphoreSubmitInfo::default()
        .wait_semaphore_values(&wait_values)
        .signal_semaphore_values(&signal_values);
    let infos = [vk::SubmitInfo::default()
        .wait_semaphores(&waits)
        .wait_dst_stage_mask(&stages)
        .command_buffers(batch.commands)
        .signal_semaphores(&signals)
        .push_next(&mut values)];
    // SAFETY: as in `submit`.
    unsafe { api.device.queue_submit(queue, &infos, vk::Fence::null()) }
}
