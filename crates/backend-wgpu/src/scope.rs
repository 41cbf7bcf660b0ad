//! Native arenas. Bind groups, staging and scratch are shared by the whole device, so that an arena has nothing of its
//! own to keep or to reset.

use std::sync::Arc;

use tenure_core::BackendError;
use tenure_core::backend::Scope;

use crate::backend::WgpuBackend;
use crate::device::Device;
use crate::sequence::WgpuSequence;

/// One native arena.
pub struct WgpuScope {
    device: Arc<Device>,
}

impl WgpuScope {
    pub(crate) fn new(device: Arc<Device>) -> Self {
        WgpuScope { device }
    }
}

impl Scope<WgpuBackend> for WgpuScope {
    fn open_sequence(&mut self, label: &str) -> Result<WgpuSequence, BackendError> {
        Ok(WgpuSequence::new(self.device.clone(), label))
    }

    unsafe fn recycle(&mut self, sequence: WgpuSequence) {
        self.device.run(|| drop(sequence));
    }

    unsafe fn reset(&mut self) -> Result<(), BackendError> {
        Ok(())
    }
}
