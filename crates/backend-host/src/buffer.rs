//! Blocks: memory that counts against the backend's figures for as long as core holds the block.

use std::ptr::NonNull;
use std::sync::Arc;

use tenure_core::backend::BlockRequest;
use tenure_core::{BackendError, BackendErrorKind};

use crate::backend::Device;
use crate::error::out_of_memory;
use crate::ffi::{HostMemory, Memory, Range};

/// What is allocated at the moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Used {
    pub bytes: u64,
    pub blocks: u64,
}

/// One block of host memory. Recordings share the memory itself, so that not even a caller that frees too early
/// makes undefined behaviour.
#[derive(Debug)]
pub struct HostBlock {
    pub(crate) memory: Arc<Memory>,
}

impl HostBlock {
    /// Size in bytes.
    pub fn bytes(&self) -> u64 {
        self.memory.len()
    }

    /// Where the block begins: a tensor in it begins at its offset from there. Valid while the block is not freed.
    pub fn start(&self) -> NonNull<u8> {
        self.memory().start()
    }

    /// The block's memory, as a program would hand in memory of its own.
    pub fn memory(&self) -> HostMemory {
        self.memory.place_of_all()
    }

    pub(crate) fn range(&self, offset: u64, bytes: u64) -> Range {
        Range { memory: Some(self.memory.clone()), offset, bytes }
    }
}

impl Device {
    pub(crate) fn allocate(&self, request: &BlockRequest<'_>) -> Result<HostBlock, BackendError> {
        self.take(request)?;
        match Memory::new(request.bytes, self.options.alignment) {
            Some(memory) => Ok(HostBlock { memory: Arc::new(memory) }),
            None => {
                self.give(request.bytes);
                let message = format!("the system gives no {} bytes for `{}`", request.bytes, request.label);
                Err(out_of_memory("allocate", message))
            }
        }
    }

    /// Counts one block in, within the limits.
    fn take(&self, request: &BlockRequest<'_>) -> Result<(), BackendError> {
        let BlockRequest { bytes: wanted, label } = *request;
        let options = &self.options;
        let refused = |message: String| Err(out_of_memory("allocate", message));
        if wanted > options.max_block_bytes {
            let largest = options.max_block_bytes;
            return refused(format!("`{label}` wants {wanted} bytes, the largest block has {largest}"));
        }
        let mut used = self.used.lock();
        if used.blocks >= options.max_blocks {
            return refused(format!("all {} blocks are in use, `{label}` wants one", options.max_blocks));
        }
        let bytes = used.bytes.saturating_add(wanted);
        if let Some(limit) = options.memory_limit
            && bytes > limit
        {
            let held = used.bytes;
            return refused(format!("{held} of {limit} bytes are in use, `{label}` wants {wanted}"));
        }
        *used = Used { bytes, blocks: used.blocks + 1 };
        Ok(())
    }

    fn give(&self, bytes: u64) {
        let mut used = self.used.lock();
        assert!(used.blocks > 0 && used.bytes >= bytes, "a block goes back to the backend that made it");
        used.bytes -= bytes;
        used.blocks -= 1;
    }

    /// Counts the block out. The memory itself goes when no recording names it any more.
    pub(crate) fn free(&self, block: HostBlock) {
        assert!(block.memory.is_own(), "memory of an engine is released");
        self.give(block.bytes());
    }

    /// A block of an engine's memory, which counts for nothing.
    pub(crate) fn adopt(
        &self,
        memory: HostMemory,
        request: &BlockRequest<'_>,
    ) -> Result<HostBlock, BackendError> {
        if memory.bytes() < request.bytes {
            let text =
                format!("`{}` has {} bytes, the memory {}", request.label, request.bytes, memory.bytes());
            return Err(BackendError::new(BackendErrorKind::Unsupported, "adopt", text));
        }
        Ok(HostBlock { memory: Arc::new(Memory::of_engine(memory)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::HostOptions;

    fn allocate(device: &Device, bytes: u64) -> Result<HostBlock, BackendError> {
        device.allocate(&BlockRequest { bytes, label: "block" })
    }

    fn refusal(device: &Device, bytes: u64) -> String {
        let before = *device.used.lock();
        let error = allocate(device, bytes).expect_err("refused");
        assert_eq!(error.kind, BackendErrorKind::OutOfMemory);
        assert_eq!(*device.used.lock(), before, "a refusal takes nothing");
        error.to_string()
    }

    #[test]
    fn each_limit_is_out_of_memory_and_a_free_makes_room() {
        let options = HostOptions::builder().memory_limit(1024).max_block_bytes(768).max_blocks(2).build();
        let device = Device::new(options);
        assert!(refusal(&device, 1024).contains("the largest block has 768"));
        let first = allocate(&device, 768).expect("as large as can be");
        assert!(refusal(&device, 512).contains("768 of 1024 bytes are in use, `block` wants 512"));
        let second = allocate(&device, 256).expect("as much as can be");
        assert!(refusal(&device, 256).contains("all 2 blocks are in use"));
        device.free(first);
        let third = allocate(&device, 512).expect("there is room again");
        device.free(second);
        device.free(third);
        assert_eq!(*device.used.lock(), Used::default());
    }

    #[test]
    fn what_the_system_does_not_have_is_out_of_memory() {
        let device = Device::new(HostOptions::builder().max_block_bytes(u64::MAX).build());
        for bytes in [1 << 62, u64::MAX - 255] {
            assert!(refusal(&device, bytes).contains("the system gives no"));
        }
    }

    #[test]
    fn a_block_that_is_freed_too_early_stays_while_a_range_names_it() {
        let device = Device::new(HostOptions::default());
        let block = allocate(&device, 256).expect("room");
        let range = block.range(0, 256);
        device.free(block);
        assert_eq!(*device.used.lock(), Used::default(), "it counts as freed");
        range.with_write(|bytes| bytes.fill(1));
        range.with_read(|bytes| assert_eq!(bytes, [1; 256]));
    }
}
