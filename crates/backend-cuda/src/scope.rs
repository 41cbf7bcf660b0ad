//! Native arenas. Streams belong to queues and memory to the whole device, so that an arena has nothing of its own to
//! keep or to reset.

use std::sync::Arc;

use tenure_core::BackendError;
use tenure_core::backend::{QueueId, Scope};

use crate::backend::CudaBackend;
use crate::device::Device;
use crate::sequence::CudaSequence;

/// One native arena.
pub struct CudaScope {
    device: Arc<Device>,
    queue: QueueId,
}

impl CudaScope {
    pub(crate) fn new(device: &Arc<Device>, queue: QueueId) -> Result<Self, BackendError> {
        device.context.alive()?;
        // A queue that is not there is a caller's bug: better here than at the first submission.
        device.timelines.queue(queue);
        Ok(CudaScope { device: device.clone(), queue })
    }
}

impl Scope<CudaBackend> for CudaScope {
    fn open_sequence(&mut self, _label: &str) -> Result<CudaSequence, BackendError> {
        self.device.context.alive()?;
        Ok(CudaSequence::new(self.device.clone(), self.queue))
    }

    unsafe fn recycle(&mut self, sequence: CudaSequence) {
        drop(sequence);
    }

    unsafe fn reset(&mut self) -> Result<(), BackendError> {
        Ok(())
    }
}

impl std::fmt::Debug for CudaScope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CudaScope").field("queue", &self.queue).finish_non_exhaustive()
    }
}
