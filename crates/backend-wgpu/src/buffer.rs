//! Buffers in device memory: blocks, which core owns, and scratch, which an operation uses while it is encoded.
//!
//! Scratch goes back to its pool as soon as the commands that use it are encoded, before they run: every use
//! begins by writing it, and the queue runs submissions one after the other. Not here: memory that the host sees
//! (`staging.rs`).

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tenure_core::BackendError;
use tenure_core::backend::BlockRequest;
use wgpu::{BufferDescriptor, BufferUsages};

use crate::device::{Device, WORD};
use crate::error::unsupported;

/// A buffer of the device, numbered for the caches.
#[derive(Debug)]
pub(crate) struct Storage {
    pub id: u64,
    pub buffer: wgpu::Buffer,
}

/// One block: one `wgpu::Buffer`.
#[derive(Debug)]
pub struct WgpuBlock {
    pub(crate) storage: Arc<Storage>,
}

impl WgpuBlock {
    /// The buffer. Whoever clones it keeps its memory beyond the block's life, and core's figures do not know.
    pub fn buffer(&self) -> &wgpu::Buffer {
        &self.storage.buffer
    }

    /// Size in bytes.
    pub fn bytes(&self) -> u64 {
        self.storage.buffer.size()
    }
}

impl Device {
    pub(crate) fn allocate(&self, request: &BlockRequest<'_>) -> Result<WgpuBlock, BackendError> {
        let storage = self.storage("allocate", request.label, request.bytes, self.usages)?;
        Ok(WgpuBlock { storage })
    }

    /// A block of an engine's buffer.
    pub(crate) fn adopt(
        &self,
        buffer: wgpu::Buffer,
        request: &BlockRequest<'_>,
    ) -> Result<WgpuBlock, BackendError> {
        let needs = BufferUsages::STORAGE | BufferUsages::COPY_SRC | BufferUsages::COPY_DST;
        let lacks = needs - buffer.usage();
        if !lacks.is_empty() {
            let text = format!("the buffer for `{}` lacks the usages {lacks:?}", request.label);
            return Err(unsupported("adopt", text));
        }
        // Bytes are copied and bound by whole words.
        let bytes = request.bytes.next_multiple_of(WORD);
        if buffer.size() < bytes {
            let text = format!("`{}` needs {bytes} bytes, the buffer has {}", request.label, buffer.size());
            return Err(unsupported("adopt", text));
        }
        Ok(WgpuBlock { storage: Arc::new(Storage { id: self.next_id(), buffer }) })
    }

    /// The memory goes back when nothing of ours names the buffer any more. It is dropped and not destroyed
    /// explicitly: that would wait for the lock that a poll holds.
    pub(crate) fn free(&self, block: WgpuBlock) {
        let groups = self.bind_groups.lock().forget(block.storage.id);
        drop((groups, block));
    }

    fn storage(
        &self,
        operation: &'static str,
        label: &str,
        bytes: u64,
        usage: BufferUsages,
    ) -> Result<Arc<Storage>, BackendError> {
        let descriptor =
            BufferDescriptor { label: Some(label), size: bytes, usage, mapped_at_creation: false };
        let buffer = self.checked(operation, || self.device.create_buffer(&descriptor))?;
        Ok(Arc::new(Storage { id: self.next_id(), buffer }))
    }

    /// Scratch of at least `bytes`. Its contents are anything.
    pub(crate) fn scratch(&self, bytes: u64) -> Result<Arc<Storage>, BackendError> {
        if bytes > self.limits.max_buffer {
            let message =
                format!("{bytes} bytes of scratch, the largest buffer has {}", self.limits.max_buffer);
            return Err(unsupported("scratch", message));
        }
        let class = bytes.next_power_of_two().clamp(ScratchPool::SMALLEST, self.limits.max_buffer);
        if let Some(scratch) = self.scratch.take(class) {
            return Ok(scratch);
        }
        let usage = BufferUsages::STORAGE | BufferUsages::COPY_SRC | BufferUsages::COPY_DST;
        self.storage("allocate scratch", "tenure scratch", class, usage)
    }

    /// Takes scratch back once what uses it is encoded.
    pub(crate) fn give_scratch(&self, scratch: Arc<Storage>) {
        if let Some(surplus) = self.scratch.give(scratch) {
            let groups = self.bind_groups.lock().forget(surplus.id);
            drop((groups, surplus));
        }
    }
}

/// Scratch that nobody uses, by size.
#[derive(Debug)]
pub(crate) struct ScratchPool {
    idle: Mutex<Idle>,
    /// Most bytes kept.
    limit: u64,
}

#[derive(Debug, Default)]
struct Idle {
    by_size: BTreeMap<u64, Vec<Arc<Storage>>>,
    bytes: u64,
}

impl ScratchPool {
    const SMALLEST: u64 = 256;

    pub(crate) fn new(limit: u64) -> Self {
        ScratchPool { idle: Mutex::default(), limit }
    }

    fn take(&self, class: u64) -> Option<Arc<Storage>> {
        let mut idle = self.idle.lock();
        let scratch = idle.by_size.get_mut(&class)?.pop()?;
        idle.bytes -= class;
        Some(scratch)
    }

    /// Hands back what is too much.
    fn give(&self, scratch: Arc<Storage>) -> Option<Arc<Storage>> {
        let bytes = scratch.buffer.size();
        let mut idle = self.idle.lock();
        if idle.bytes + bytes > self.limit {
            return Some(scratch);
        }
        idle.bytes += bytes;
        idle.by_size.entry(bytes).or_default().push(scratch);
        None
    }

    /// Drops all. The bind groups that name it are forgotten by the caller before.
    pub(crate) fn trim(&self) -> u64 {
        let idle = std::mem::take(&mut *self.idle.lock());
        idle.bytes
    }
}
