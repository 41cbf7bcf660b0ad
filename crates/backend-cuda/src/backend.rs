//! [`CudaBackend`] and its options.
//!
//! Not here: what it does, which is the other files'.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cudarc::driver::sys;
use parking_lot::RwLock;
use tenure_core::backend::{
    Backend, BackendInfo, BlockRequest, Capabilities, DriverMemory, QueueId, TimelinePoint, WaitStatus,
};
use tenure_core::{BackendError, KernelSource};
use typed_builder::TypedBuilder;

use crate::buffer::{CudaBlock, CudaMemory};
use crate::device::Device;
use crate::kernel::CudaKernel;
use crate::scope::CudaScope;
use crate::sequence::CudaSequence;

/// How to open a [`CudaBackend`].
#[derive(Clone, Debug, TypedBuilder)]
pub struct CudaOptions {
    /// A part of the device's name, in any case. Default: any.
    #[builder(default, setter(strip_option, into))]
    pub(crate) device: Option<String>,
    /// Which of the devices that fit, counted from 0 in the driver's order: devices of one kind have one name. Default: the
    /// first.
    #[builder(default)]
    pub(crate) index: u32,
    /// The library of a driver in software, which is opened in place of the machine's driver. Default: what the variable
    /// `TENURE_SOFTCUDA` names, a path, or `1` for the library beside the program; without it the machine's driver. A
    /// process has one driver: the first that was opened.
    #[builder(default, setter(strip_option, into))]
    pub(crate) library: Option<PathBuf>,
    /// Number of queues, each a stream; at least 1.
    #[builder(default = 2)]
    pub(crate) queues: u32,
    /// Most bytes of pinned memory for large copies that are kept for the next one.
    #[builder(default = 64 << 20)]
    pub(crate) staging_bytes: usize,
}

impl Default for CudaOptions {
    fn default() -> Self {
        CudaOptions::builder().build()
    }
}

/// A CUDA device. See the crate's documentation.
pub struct CudaBackend {
    /// None once it is shut down. What still shares the device keeps it until it drops.
    device: RwLock<Option<Arc<Device>>>,
    info: BackendInfo,
    capabilities: Capabilities,
}

impl CudaBackend {
    /// Opens the first device of this machine, with its primary context.
    ///
    /// # Errors
    /// As [`CudaBackend::with_options`].
    pub fn new() -> Result<Self, BackendError> {
        CudaBackend::with_options(&CudaOptions::default())
    }

    /// Opens a device of this machine, with its primary context.
    ///
    /// # Errors
    /// `Unavailable` with the reason and what to do about it, if there is no driver, none that is new enough, or no
    /// fitting device; `DeviceLost` if a device was lost in this process, which must restart then; or what the driver said.
    pub fn with_options(options: &CudaOptions) -> Result<Self, BackendError> {
        Ok(CudaBackend::on(Device::open(options)?, options))
    }

    /// Embeds in a context that an engine made. It is never destroyed here; everything that is made in it is (L6). Options
    /// about choosing a device do not matter.
    ///
    /// # Safety
    /// The context is of the process's one driver, and `keep_alive` keeps it from being destroyed for as long as it is
    /// held.
    ///
    /// # Errors
    /// `Unavailable` if the device lacks what this backend needs; or what the driver said.
    pub unsafe fn from_context(
        context: sys::CUcontext,
        options: &CudaOptions,
        keep_alive: Arc<dyn Send + Sync>,
    ) -> Result<Self, BackendError> {
        Ok(CudaBackend::on(Device::embed(context, options, keep_alive)?, options))
    }

    /// The driver's context. Valid until the backend is shut down; never to be destroyed by others.
    ///
    /// # Panics
    /// After the backend was shut down.
    pub fn context(&self) -> sys::CUcontext {
        self.device().context.raw.0
    }

    /// The driver's number of the device.
    ///
    /// # Panics
    /// After the backend was shut down.
    pub fn ordinal(&self) -> sys::CUdevice {
        self.device().ordinal
    }

    /// The driver's stream of a queue. Work that an engine puts there comes after what was submitted before; who does so
    /// holds back submissions meanwhile, which are made by several calls.
    ///
    /// # Panics
    /// If there is no such queue, and after the backend was shut down.
    pub fn stream(&self, queue: QueueId) -> sys::CUstream {
        self.device().timelines.queue(queue).stream.raw.0
    }

    fn on(device: Device, options: &CudaOptions) -> Self {
        let info = BackendInfo {
            name: "cuda".to_owned(),
            device: device.facts.name.clone(),
            software: device.facts.software,
        };
        let capabilities = device.capabilities(options.queues);
        CudaBackend { device: RwLock::new(Some(Arc::new(device))), info, capabilities }
    }

    pub(crate) fn device(&self) -> Arc<Device> {
        self.device.read().clone().expect("a call after shutdown")
    }

    /// Lets go of the device; twice is nothing.
    fn close(&self) {
        let Some(device) = self.device.write().take() else { return };
        device.timelines.stop();
    }
}

/// What was submitted completes first.
impl Drop for CudaBackend {
    fn drop(&mut self) {
        self.close();
    }
}

impl Backend for CudaBackend {
    type Block = CudaBlock;
    type Kernel = CudaKernel;
    type Scope = CudaScope;
    type Sequence = CudaSequence;
    type Foreign = CudaMemory;

    fn info(&self) -> BackendInfo {
        self.info.clone()
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities.clone()
    }

    fn allocate(&self, request: &BlockRequest<'_>) -> Result<CudaBlock, BackendError> {
        self.device().allocate(request)
    }

    unsafe fn free(&self, block: CudaBlock) -> Result<(), BackendError> {
        self.device().free(block)
    }

    unsafe fn adopt(
        &self,
        foreign: CudaMemory,
        request: &BlockRequest<'_>,
    ) -> Result<CudaBlock, BackendError> {
        self.device().adopt(foreign, request)
    }

    unsafe fn release(&self, block: CudaBlock) -> Result<(), BackendError> {
        self.device().free(block)
    }

    unsafe fn write_block(&self, block: &CudaBlock, offset: u64, bytes: &[u8]) -> Result<(), BackendError> {
        self.device().write_block(block, offset, bytes)
    }

    unsafe fn read_block(
        &self,
        block: &CudaBlock,
        offset: u64,
        bytes: &mut [u8],
    ) -> Result<(), BackendError> {
        self.device().read_block(block, offset, bytes)
    }

    fn compile(&self, source: &KernelSource) -> Result<CudaKernel, BackendError> {
        self.device().compile(source)
    }

    unsafe fn destroy_kernel(&self, kernel: CudaKernel) -> Result<(), BackendError> {
        drop(kernel);
        Ok(())
    }

    fn open_scope(&self, queue: QueueId, _label: &str) -> Result<CudaScope, BackendError> {
        CudaScope::new(&self.device(), queue)
    }

    unsafe fn close_scope(&self, scope: CudaScope) -> Result<(), BackendError> {
        drop(scope);
        Ok(())
    }

    fn completed(&self, queue: QueueId) -> Result<u64, BackendError> {
        self.device().timelines.completed(queue)
    }

    fn wait_any(
        &self,
        targets: &[TimelinePoint],
        timeout: Option<Duration>,
    ) -> Result<WaitStatus, BackendError> {
        self.device().timelines.wait_any(targets, timeout)
    }

    fn interrupt(&self) {
        self.device().timelines.interrupt();
    }

    fn memory(&self) -> Result<DriverMemory, BackendError> {
        self.device().memory()
    }

    fn trim(&self) -> Result<u64, BackendError> {
        self.device().trim()
    }

    unsafe fn shutdown(&self) -> Result<(), BackendError> {
        self.close();
        Ok(())
    }
}

impl std::fmt::Debug for CudaBackend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CudaBackend").field("device", &self.info.device).finish_non_exhaustive()
    }
}
