//! Native arenas. Host recordings need none: an arena only remembers its queue.

use std::sync::Arc;

use tenure_core::BackendError;
use tenure_core::backend::{QueueId, Scope};

use crate::backend::{Device, HostBackend};
use crate::sequence::HostSequence;

/// One native arena.
pub struct HostScope {
    device: Arc<Device>,
    queue: QueueId,
}

impl HostScope {
    pub(crate) fn new(device: Arc<Device>, queue: QueueId) -> Self {
        HostScope { device, queue }
    }
}

impl Scope<HostBackend> for HostScope {
    fn open_sequence(&mut self, _label: &str) -> Result<HostSequence, BackendError> {
        Ok(HostSequence::new(self.device.clone(), self.queue))
    }

    unsafe fn recycle(&mut self, sequence: HostSequence) {
        drop(sequence);
    }

    unsafe fn reset(&mut self) -> Result<(), BackendError> {
        Ok(())
    }
}
