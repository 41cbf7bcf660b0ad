//! Blocks: memory that counts against the backend's figures for as long as core holds the block.

use std::sync::Arc;

use tenure_core::BackendError;
use tenure_core::backend::BlockRequest;

use crate::backend::Device;
use crate::error::out_of_memory;
use crate::ffi::{Memory, Range};

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

    pub(crate) fn range(&self, offset: u64, bytes: u64) -> Range {
        Range { memory: Some(self.memory.clone()), offset, bytes }
    }
}

impl Device {
    pub(crate) fn allocate(&self, request: &BlockRequest<'_>) -> Result<HostBlock, BackendError> {
        self.take_bytes(request)?;
        match Memory::new(request.bytes, self.options.alignment) {
            Some(memory) => Ok(HostBlock { memory: Arc::new(memory) }),
            None => {
                self.give_bytes(request.bytes);
                let message = format!("the system gives no {} bytes for `{}`", request.bytes, request.label);
                Err(out_of_memory("allocate", message))
            }
        }
    }

    /// Counts bytes in, within the limit.
    fn take_bytes(&self, request: &BlockRequest<'_>) -> Result<(), BackendError> {
        let mut used = self.used.lock();
        let wanted = used.saturating_add(request.bytes);
        if let Some(limit) = self.options.memory_limit
            && wanted > limit
        {
            let message =
                format!("{} of {limit} bytes are in use, `{}` wants {}", *used, request.label, request.bytes);
            return Err(out_of_memory("allocate", message));
        }
        *used = wanted;
        Ok(())
    }

    fn give_bytes(&self, bytes: u64) {
        *self.used.lock() -= bytes;
    }

    pub(crate) fn free(&self, block: HostBlock) {
        self.give_bytes(block.bytes());
    }
}
