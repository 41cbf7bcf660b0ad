//! [`HostBackend`] and its options.

use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use parking_lot::Mutex;
use tenure_core::backend::{
    Backend, BackendInfo, BlockRequest, Capabilities, DriverMemory, QueueId, TimelinePoint, WaitStatus,
};
use tenure_core::{BackendError, KernelSource};
use typed_builder::TypedBuilder;

use crate::buffer::{HostBlock, Used};
use crate::copy::Copier;
use crate::ffi::HostMemory;
use crate::kernel::{HostKernelObject, compile};
use crate::scope::HostScope;
use crate::sequence::HostSequence;
use crate::timeline::Timelines;

/// How to make a [`HostBackend`].
#[derive(Clone, Debug, TypedBuilder)]
pub struct HostOptions {
    /// Number of queues, each a worker thread from its first submission on. At least 1.
    #[builder(default = 2)]
    queues: u32,
    /// Most bytes in blocks at a time; more is out of memory. Default: what the system gives.
    #[builder(default, setter(strip_option))]
    pub(crate) memory_limit: Option<u64>,
    /// Largest block, in bytes; more is out of memory.
    #[builder(default = 1 << 40)]
    pub(crate) max_block_bytes: u64,
    /// Largest range of one kernel binding, in bytes.
    #[builder(default = 1 << 40)]
    max_binding_bytes: u64,
    /// Most blocks at a time; more is out of memory.
    #[builder(default = 1 << 32)]
    pub(crate) max_blocks: u64,
    /// Alignment of blocks and of ranges inside them, in bytes; a power of two of at least 16.
    #[builder(default = 256)]
    pub(crate) alignment: u64,
    /// Whether core may cut blocks into ranges. Off, each tensor has a block of its own, as on APIs that track
    /// usage per whole buffer.
    #[builder(default = true)]
    sub_allocation: bool,
    /// Whether recordings can be submitted again unchanged (L9). Off, core encodes each submission anew, as on
    /// APIs that cannot repeat one.
    #[builder(default = true)]
    reusable_recordings: bool,
}

impl Default for HostOptions {
    fn default() -> Self {
        HostOptions::builder().build()
    }
}

/// What the backend, its arenas and its recordings share.
pub(crate) struct Device {
    pub options: HostOptions,
    pub timelines: Arc<Timelines>,
    pub copier: Copier,
    pub used: Mutex<Used>,
}

impl Device {
    pub(crate) fn new(options: HostOptions) -> Self {
        assert!(options.queues > 0, "a host backend has at least one queue");
        assert!(
            options.alignment.is_power_of_two() && options.alignment >= 16,
            "the alignment is a power of two of at least 16, not {}",
            options.alignment
        );
        let timelines = Timelines::new(options.queues);
        Device { options, timelines, copier: Copier::default(), used: Mutex::default() }
    }
}

/// The host as a device. See the crate's documentation.
pub struct HostBackend {
    device: Arc<Device>,
}

impl HostBackend {
    /// A backend with default options: two queues, as much memory as the system gives.
    pub fn new() -> Self {
        HostBackend::with_options(HostOptions::default())
    }

    /// A backend with options.
    ///
    /// # Panics
    /// If there are no queues or the alignment is no power of two of at least 16.
    pub fn with_options(options: HostOptions) -> Self {
        HostBackend { device: Arc::new(Device::new(options)) }
    }

    /// Bytes that uploads, downloads and copies have copied so far. Fills and kernels do not count.
    pub fn copied_bytes(&self) -> u64 {
        self.device.copier.copied()
    }
}

#[cfg(test)]
impl HostBackend {
    pub(crate) fn device(&self) -> &Arc<Device> {
        &self.device
    }
}

impl Default for HostBackend {
    fn default() -> Self {
        HostBackend::new()
    }
}

/// Runs what was submitted and ends the workers, as shutting down does. From a kernel, whose worker cannot wait
/// for itself, it only tells them to end.
impl Drop for HostBackend {
    fn drop(&mut self) {
        self.device.timelines.stop();
    }
}

impl Backend for HostBackend {
    type Block = HostBlock;
    type Kernel = HostKernelObject;
    type Scope = HostScope;
    type Sequence = HostSequence;
    type Foreign = HostMemory;

    fn info(&self) -> BackendInfo {
        let threads = available_parallelism().map_or(1, usize::from);
        // The CPU itself, not a device emulated on it.
        BackendInfo {
            name: "host".to_owned(),
            device: format!("host CPU, {threads} threads"),
            software: false,
        }
    }

    fn capabilities(&self) -> Capabilities {
        let options = &self.device.options;
        Capabilities {
            queues: options.queues,
            max_block_bytes: options.max_block_bytes,
            max_binding_bytes: options.max_binding_bytes,
            max_groups: [u32::MAX; 3],
            max_blocks: options.max_blocks,
            alignment: options.alignment,
            sub_allocation: options.sub_allocation,
            reusable_recordings: options.reusable_recordings,
            abandons_on_loss: false,
            loss_is_sticky: false,
            unified_memory: true,
        }
    }

    fn allocate(&self, request: &BlockRequest<'_>) -> Result<HostBlock, BackendError> {
        self.device.allocate(request)
    }

    unsafe fn free(&self, block: HostBlock) -> Result<(), BackendError> {
        self.device.free(block);
        Ok(())
    }

    unsafe fn adopt(
        &self,
        foreign: HostMemory,
        request: &BlockRequest<'_>,
    ) -> Result<HostBlock, BackendError> {
        self.device.adopt(foreign, request)
    }

    unsafe fn release(&self, block: HostBlock) -> Result<(), BackendError> {
        drop(block);
        Ok(())
    }

    unsafe fn write_block(&self, block: &HostBlock, offset: u64, bytes: &[u8]) -> Result<(), BackendError> {
        let range = block.range(offset, bytes.len() as u64);
        range.with_write(|target| self.device.copier.copy(bytes, target));
        Ok(())
    }

    unsafe fn read_block(
        &self,
        block: &HostBlock,
        offset: u64,
        bytes: &mut [u8],
    ) -> Result<(), BackendError> {
        let range = block.range(offset, bytes.len() as u64);
        range.with_read(|source| self.device.copier.copy(source, bytes));
        Ok(())
    }

    fn compile(&self, source: &KernelSource) -> Result<HostKernelObject, BackendError> {
        compile(source)
    }

    unsafe fn destroy_kernel(&self, kernel: HostKernelObject) -> Result<(), BackendError> {
        drop(kernel);
        Ok(())
    }

    fn open_scope(&self, queue: QueueId, _label: &str) -> Result<HostScope, BackendError> {
        assert!(queue.0 < self.device.options.queues, "there is no {queue}");
        Ok(HostScope::new(self.device.clone(), queue))
    }

    unsafe fn close_scope(&self, scope: HostScope) -> Result<(), BackendError> {
        drop(scope);
        Ok(())
    }

    fn completed(&self, queue: QueueId) -> Result<u64, BackendError> {
        Ok(self.device.timelines.completed(queue))
    }

    fn wait_any(
        &self,
        targets: &[TimelinePoint],
        timeout: Option<Duration>,
    ) -> Result<WaitStatus, BackendError> {
        Ok(self.device.timelines.wait_any(targets, timeout))
    }

    fn interrupt(&self) {
        self.device.timelines.interrupt();
    }

    fn memory(&self) -> Result<DriverMemory, BackendError> {
        Ok(DriverMemory { used: self.device.used.lock().bytes, budget: self.device.options.memory_limit })
    }

    fn trim(&self) -> Result<u64, BackendError> {
        // Nothing is cached here: blocks go to the system at once.
        Ok(0)
    }

    unsafe fn shutdown(&self) -> Result<(), BackendError> {
        self.device.timelines.stop();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tenure_core::{Access, BackendErrorKind};

    use super::*;

    #[test]
    fn options_are_what_capabilities_say() {
        let options = HostOptions::builder()
            .queues(3)
            .max_block_bytes(1 << 20)
            .max_binding_bytes(1 << 19)
            .max_blocks(7)
            .alignment(64)
            .sub_allocation(false)
            .reusable_recordings(false)
            .build();
        let expected = Capabilities {
            queues: 3,
            max_block_bytes: 1 << 20,
            max_binding_bytes: 1 << 19,
            max_groups: [u32::MAX; 3],
            max_blocks: 7,
            alignment: 64,
            sub_allocation: false,
            reusable_recordings: false,
            abandons_on_loss: false,
            loss_is_sticky: false,
            unified_memory: true,
        };
        assert_eq!(HostBackend::with_options(options).capabilities(), expected);
    }

    #[test]
    fn the_default_is_two_queues_and_no_limit() {
        let backend = HostBackend::default();
        let capabilities = backend.capabilities();
        assert_eq!((capabilities.queues, capabilities.alignment), (2, 256));
        assert!(capabilities.sub_allocation && capabilities.reusable_recordings);
        assert_eq!(backend.memory().expect("host has figures"), DriverMemory { used: 0, budget: None });
        let info = backend.info();
        assert_eq!((info.name.as_str(), info.software), ("host", false));
        assert!(info.device.starts_with("host CPU, "), "{}", info.device);
    }

    #[test]
    #[should_panic(expected = "power of two of at least 16, not 24")]
    fn an_alignment_that_is_none_is_refused() {
        HostBackend::with_options(HostOptions::builder().alignment(24).build());
    }

    #[test]
    #[should_panic(expected = "at least one queue")]
    fn no_queue_is_refused() {
        HostBackend::with_options(HostOptions::builder().queues(0).build());
    }

    #[test]
    fn a_kernel_needs_the_host_form() {
        let backend = HostBackend::new();
        backend.compile(&KernelSource::new("here", &[Access::Read]).host(|_| ())).expect("it has one");
        let error = backend.compile(&KernelSource::new("elsewhere", &[])).err().expect("it has none");
        assert_eq!(error.kind, BackendErrorKind::Unsupported);
        assert_eq!(&*error.message, "kernel `elsewhere` has no host closure; it has no form at all");
    }
}
