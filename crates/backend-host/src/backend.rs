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

use crate::buffer::HostBlock;
use crate::copy::Copier;
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
    /// Largest block, in bytes.
    #[builder(default = 1 << 40)]
    max_block_bytes: u64,
    /// Largest range of one kernel binding, in bytes.
    #[builder(default = 1 << 40)]
    max_binding_bytes: u64,
    /// Most blocks at a time.
    #[builder(default = 1 << 32)]
    max_blocks: u64,
    /// Alignment of blocks and of ranges inside them, in bytes; a power of two of at least 16.
    #[builder(default = 256)]
    pub(crate) alignment: u64,
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
    /// Bytes in blocks.
    pub used: Mutex<u64>,
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
        assert!(options.queues > 0, "a host backend has at least one queue");
        assert!(
            options.alignment.is_power_of_two() && options.alignment >= 16,
            "the alignment is a power of two of at least 16, not {}",
            options.alignment
        );
        let timelines = Timelines::new(options.queues);
        let device = Device { options, timelines, copier: Copier::default(), used: Mutex::new(0) };
        HostBackend { device: Arc::new(device) }
    }

    /// Bytes that uploads, downloads and copies have copied so far. Fills and kernels do not count.
    pub fn copied_bytes(&self) -> u64 {
        self.device.copier.copied()
    }
}

impl Default for HostBackend {
    fn default() -> Self {
        HostBackend::new()
    }
}

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
            max_blocks: options.max_blocks,
            alignment: options.alignment,
            sub_allocation: true,
            reusable_recordings: true,
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
        Ok(DriverMemory { used: *self.device.used.lock(), budget: self.device.options.memory_limit })
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
