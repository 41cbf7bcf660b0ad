//! [`WgpuBackend`] and its options.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use tenure_core::backend::{
    Backend, BackendInfo, BlockRequest, Capabilities, DriverMemory, QueueId, TimelinePoint, WaitStatus,
};
use tenure_core::{BackendError, KernelSource};
use typed_builder::TypedBuilder;
use wgpu::{Adapter, Backends, BufferUsages, DeviceLostReason, Instance, PollType};

use crate::adapter;
use crate::buffer::WgpuBlock;
use crate::device::{Device, Limits};
use crate::error::{lost, unsupported};
use crate::kernel::WgpuKernel;
use crate::scope::WgpuScope;
use crate::sequence::WgpuSequence;
use crate::thread::on_living_thread;
use crate::timeline::{Ownership, Timeline, polled};

/// How to make a [`WgpuBackend`].
#[derive(Clone, Debug, TypedBuilder)]
pub struct WgpuOptions {
    /// A part of the adapter's name, in any case. Default: the fastest that wgpu finds.
    #[builder(default, setter(strip_option, into))]
    pub(crate) adapter: Option<String>,
    /// Only an adapter that is emulated on the CPU.
    #[builder(default)]
    pub(crate) software: bool,
    /// The APIs that wgpu may use.
    #[builder(default = Backends::PRIMARY)]
    pub(crate) backends: Backends,
    /// An instance that is there already, of those `backends` and no `validation`: the second device that a process opens
    /// comes faster then, since drivers stay loaded. Default: one of its own.
    #[builder(default, setter(strip_option))]
    pub(crate) instance: Option<Instance>,
    /// The API's own validation, where it is installed. It is slow.
    #[builder(default)]
    pub(crate) validation: bool,
    /// Usages of blocks beside storage and copies, for an engine that uses a tensor's buffer otherwise too.
    #[builder(default = BufferUsages::empty())]
    pub(crate) usages: BufferUsages,
    /// Most bytes of idle staging, and of idle scratch, that are kept; and most bytes of uploads under way before the
    /// next one waits for them.
    #[builder(default = 64 << 20)]
    pub(crate) staging_bytes: u64,
    /// Most bind groups that are kept.
    #[builder(default = 1024)]
    pub(crate) cached_bind_groups: usize,
    /// Most compiled kernels that are kept beyond the life of what was compiled.
    #[builder(default = 128)]
    pub(crate) cached_kernels: usize,
}

impl Default for WgpuOptions {
    fn default() -> Self {
        WgpuOptions::builder().build()
    }
}

/// A device that wgpu reaches. See the crate's documentation.
pub struct WgpuBackend {
    info: BackendInfo,
    limits: Limits,
    timeline: Arc<Timeline>,
    /// `None` after the end, so that nothing keeps an engine's device alive.
    open: RwLock<Option<Open>>,
}

struct Open {
    device: Arc<Device>,
    ownership: Ownership,
    /// Held as long as the device.
    _instance: Instance,
}

impl Open {
    fn end(self) {
        let Open { device, ownership, _instance } = self;
        device.trim();
        device.staging.end();
        *device.byte_kernels.lock() = None;
        if ownership == Ownership::Own {
            device.device.destroy();
            // So that what clones of buffers keep goes too. A device that was lost has nothing to say here.
            let _ = polled(&device.device, PollType::Poll);
        }
    }
}

impl WgpuBackend {
    /// A device of its own, on the fastest adapter that wgpu finds.
    ///
    /// # Errors
    /// `Unavailable` where wgpu finds none.
    pub fn new() -> Result<Self, BackendError> {
        WgpuBackend::with_options(WgpuOptions::default())
    }

    /// A device of its own, with options.
    ///
    /// # Errors
    /// `Unavailable` where wgpu finds no adapter that fits, with those that there are.
    pub fn with_options(options: WgpuOptions) -> Result<Self, BackendError> {
        let opened = adapter::open(&options)?;
        let device = Device::new(opened.device, opened.queue, Ownership::Own, &options);
        let timeline = Arc::downgrade(&device.timeline);
        device.device.set_device_lost_callback(move |reason, message| {
            let Some(timeline) = timeline.upgrade() else { return };
            let message = if message.is_empty() { "no reason given" } else { &message };
            timeline.lose(&match reason {
                DeviceLostReason::Destroyed => "the device was destroyed".to_owned(),
                DeviceLostReason::Unknown => format!("wgpu says that the device is lost: {message}"),
            });
        });
        Ok(WgpuBackend::made(opened.info, device, Ownership::Own, opened.instance))
    }

    /// The device of an engine that has its own, with default options. It is never destroyed, and everything that is
    /// made on it here is dropped at the latest when the manager has closed; clones of the handles are held until then.
    ///
    /// No callback of the device is installed: an engine that hears of a loss says so by
    /// [`WgpuBackend::notify_lost`], through [`Manager::backend`](tenure_core::Manager::backend). While work is in
    /// flight a thread of this backend polls the device, so the engine's own callbacks may run on that thread too.
    pub fn from_device(
        instance: Instance,
        adapter: &Adapter,
        device: wgpu::Device,
        queue: wgpu::Queue,
    ) -> Self {
        WgpuBackend::from_device_with(instance, adapter, device, queue, &WgpuOptions::default())
    }

    /// As [`WgpuBackend::from_device`], with options; those about choosing an adapter do not matter.
    pub fn from_device_with(
        instance: Instance,
        adapter: &Adapter,
        device: wgpu::Device,
        queue: wgpu::Queue,
        options: &WgpuOptions,
    ) -> Self {
        let device = Device::new(device, queue, Ownership::Shared, options);
        WgpuBackend::made(adapter::info(&adapter.get_info()), device, Ownership::Shared, instance)
    }

    fn made(info: BackendInfo, device: Arc<Device>, ownership: Ownership, instance: Instance) -> Self {
        WgpuBackend {
            info,
            limits: device.limits,
            timeline: device.timeline.clone(),
            open: RwLock::new(Some(Open { device, ownership, _instance: instance })),
        }
    }

    /// Tells that the device is lost, for devices of engines. All waits end (L23).
    pub fn notify_lost(&self, cause: &str) {
        self.timeline.lose(cause);
    }

    /// The device and its queue; `None` after shutdown.
    pub fn handles(&self) -> Option<(wgpu::Device, wgpu::Queue)> {
        let open = self.open.read();
        open.as_ref().map(|open| (open.device.device.clone(), open.device.queue.clone()))
    }

    pub(crate) fn device(&self, operation: &'static str) -> Result<Arc<Device>, BackendError> {
        let open = self.open.read();
        open.as_ref()
            .map(|open| open.device.clone())
            .ok_or_else(|| lost(operation, "the backend is shut down"))
    }

    fn end(&self) {
        self.timeline.stop();
        let Some(open) = self.open.write().take() else { return };
        // What comes of it is our own doing, and nobody waits any more.
        self.timeline.lose("the backend is shut down");
        on_living_thread(|| open.end());
    }
}

/// Waits for what was submitted, and ends as shutting down does.
impl Drop for WgpuBackend {
    fn drop(&mut self) {
        self.end();
    }
}

impl Backend for WgpuBackend {
    type Block = WgpuBlock;
    type Kernel = WgpuKernel;
    type Scope = WgpuScope;
    type Sequence = WgpuSequence;
    /// With the usages `STORAGE`, `COPY_SRC` and `COPY_DST`, and a whole number of words of 4 bytes.
    type Foreign = wgpu::Buffer;

    fn info(&self) -> BackendInfo {
        self.info.clone()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            queues: 1,
            max_block_bytes: self.limits.max_buffer,
            max_binding_bytes: self.limits.max_binding,
            max_groups: [self.limits.max_groups; 3],
            // wgpu has no such limit: it cuts buffers from larger pieces of the driver's memory.
            max_blocks: 1 << 32,
            alignment: self.limits.alignment(),
            sub_allocation: false,
            reusable_recordings: false,
            abandons_on_loss: false,
            loss_is_sticky: false,
            unified_memory: false,
        }
    }

    fn allocate(&self, request: &BlockRequest<'_>) -> Result<WgpuBlock, BackendError> {
        let device = self.device("allocate")?;
        device.run(|| device.allocate(request))
    }

    unsafe fn free(&self, block: WgpuBlock) -> Result<(), BackendError> {
        let device = self.device("free")?;
        device.run(|| device.free(block));
        Ok(())
    }

    unsafe fn adopt(
        &self,
        foreign: wgpu::Buffer,
        request: &BlockRequest<'_>,
    ) -> Result<WgpuBlock, BackendError> {
        let device = self.device("adopt")?;
        device.run(|| device.adopt(foreign, request))
    }

    unsafe fn release(&self, block: WgpuBlock) -> Result<(), BackendError> {
        let device = self.device("release")?;
        device.run(|| device.free(block));
        Ok(())
    }

    unsafe fn write_block(&self, block: &WgpuBlock, offset: u64, bytes: &[u8]) -> Result<(), BackendError> {
        let device = self.device("write")?;
        device.run(|| device.write_block(block, offset, bytes))
    }

    unsafe fn read_block(
        &self,
        block: &WgpuBlock,
        offset: u64,
        bytes: &mut [u8],
    ) -> Result<(), BackendError> {
        let device = self.device("read")?;
        device.run(|| device.read_block(block, offset, bytes))
    }

    fn compile(&self, source: &KernelSource) -> Result<WgpuKernel, BackendError> {
        let device = self.device("compile")?;
        device.run(|| device.compile(source))
    }

    unsafe fn destroy_kernel(&self, kernel: WgpuKernel) -> Result<(), BackendError> {
        self.device("destroy kernel")?.run(|| drop(kernel));
        Ok(())
    }

    fn open_scope(&self, queue: QueueId, _label: &str) -> Result<WgpuScope, BackendError> {
        assert_eq!(queue, QueueId(0), "there is one queue");
        Ok(WgpuScope::new(self.device("open scope")?))
    }

    unsafe fn close_scope(&self, scope: WgpuScope) -> Result<(), BackendError> {
        drop(scope);
        Ok(())
    }

    fn completed(&self, _queue: QueueId) -> Result<u64, BackendError> {
        self.timeline.completed()
    }

    fn wait_any(
        &self,
        targets: &[TimelinePoint],
        timeout: Option<Duration>,
    ) -> Result<WaitStatus, BackendError> {
        let device = self.device("wait")?;
        device.run(|| self.timeline.wait_any(&|poll| polled(&device.device, poll), targets, timeout))
    }

    fn interrupt(&self) {
        self.timeline.interrupt();
    }

    fn memory(&self) -> Result<DriverMemory, BackendError> {
        let device = self.device("memory")?;
        match device.device.generate_allocator_report() {
            Some(report) => Ok(DriverMemory { used: report.total_reserved_bytes, budget: None }),
            None => Err(unsupported("memory", format!("{} has no such figure", self.info.device))),
        }
    }

    fn trim(&self) -> Result<u64, BackendError> {
        let device = self.device("trim")?;
        Ok(device.run(|| device.trim()))
    }

    unsafe fn shutdown(&self) -> Result<(), BackendError> {
        self.end();
        Ok(())
    }
}
