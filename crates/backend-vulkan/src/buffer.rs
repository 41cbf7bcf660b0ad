//! Blocks: one buffer and one allocation of the driver each.
//!
//! Not here: cutting blocks into tensors (core's pool), and copies to and from blocks that the host cannot reach
//! (`transfer.rs`).

use std::sync::atomic::Ordering;

use ash::vk;
use tenure_core::backend::BlockRequest;
use tenure_core::{BackendError, BackendErrorKind, QueueId};

use crate::device::Device;
use crate::ffi::RawBuffer;
use crate::foreign::VulkanBuffer;
use crate::heap::Reach;
use crate::instance::MAPPABLE;
use crate::transfer::Far;

/// One block of device memory.
pub struct VulkanBlock {
    pub(crate) raw: RawBuffer,
}

impl VulkanBlock {
    /// The driver's buffer. It is the block's whole memory: a tensor begins at its offset in it. Valid while the block is
    /// not freed; never to be destroyed by others.
    pub fn buffer(&self) -> vk::Buffer {
        self.raw.buffer
    }

    /// The driver's memory, which the buffer is bound to from its begin; null for an engine's buffer.
    pub fn memory(&self) -> vk::DeviceMemory {
        self.raw.memory
    }

    /// Size in bytes.
    pub fn bytes(&self) -> u64 {
        self.raw.bytes
    }
}

impl std::fmt::Debug for VulkanBlock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VulkanBlock")
            .field("buffer", &self.raw.buffer)
            .field("bytes", &self.raw.bytes)
            .finish_non_exhaustive()
    }
}

impl Device {
    pub(crate) fn allocate(&self, request: &BlockRequest<'_>) -> Result<VulkanBlock, BackendError> {
        self.api.alive()?;
        let local = vk::MemoryPropertyFlags::DEVICE_LOCAL;
        let cached = vk::MemoryPropertyFlags::HOST_CACHED;
        let choose = |allowed| {
            if self.unified {
                // The host reads it too: cached where it can be.
                if let Some(found) = self.facts.memory_type(allowed, MAPPABLE, &[local, cached]) {
                    return Ok((found, true));
                }
            }
            Reach::Device.memory_type(&self.facts, allowed)
        };
        let raw = RawBuffer::new(&self.api, request.bytes, choose, request.label)?;
        self.used.fetch_add(raw.allocated, Ordering::Relaxed);
        Ok(VulkanBlock { raw })
    }

    pub(crate) fn free(&self, block: VulkanBlock) {
        self.used.fetch_sub(block.raw.allocated, Ordering::Relaxed);
    }

    /// A block of an engine's buffer.
    pub(crate) fn adopt(
        &self,
        buffer: VulkanBuffer,
        request: &BlockRequest<'_>,
    ) -> Result<VulkanBlock, BackendError> {
        self.api.alive()?;
        if buffer.bytes < request.bytes {
            let text =
                format!("`{}` has {} bytes, the buffer {}", request.label, request.bytes, buffer.bytes);
            return Err(BackendError::new(BackendErrorKind::Unsupported, "adopt", text));
        }
        Ok(VulkanBlock { raw: RawBuffer::of_engine(&self.api, buffer.buffer, buffer.bytes) })
    }

    pub(crate) fn write_block(
        &self,
        block: &VulkanBlock,
        offset: u64,
        bytes: &[u8],
    ) -> Result<(), BackendError> {
        self.api.alive()?;
        if bytes.is_empty() {
            return Ok(());
        }
        self.copied.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        if block.raw.is_mapped() {
            block.raw.write(offset, bytes);
            return Ok(());
        }
        self.transfers.upload(self.far(block, offset), bytes)
    }

    pub(crate) fn read_block(
        &self,
        block: &VulkanBlock,
        offset: u64,
        bytes: &mut [u8],
    ) -> Result<(), BackendError> {
        self.api.alive()?;
        if bytes.is_empty() {
            return Ok(());
        }
        self.copied.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        if block.raw.is_mapped() {
            block.raw.read(offset, bytes);
            return Ok(());
        }
        self.transfers.download(self.far(block, offset), bytes)
    }

    fn far(&self, block: &VulkanBlock, offset: u64) -> Far<'_> {
        Far { queue: self.timelines.queue(QueueId(0)), buffer: block.raw.buffer, offset }
    }
}
