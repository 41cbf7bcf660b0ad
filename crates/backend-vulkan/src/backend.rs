//! [`VulkanBackend`] and its options.
//!
//! Not here: what it does, which is the other files'.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ash::vk;
use parking_lot::RwLock;
use tenure_core::backend::{
    Backend, BackendInfo, BlockRequest, Capabilities, DriverMemory, QueueId, TimelinePoint, WaitStatus,
};
use tenure_core::{BackendError, KernelSource};
use typed_builder::TypedBuilder;

use crate::buffer::VulkanBlock;
use crate::device::Device;
use crate::foreign::{RawDevice, VulkanBuffer};
use crate::instance::ffi::{has_validation, load};
use crate::kernel::VulkanKernel;
use crate::messages::Messages;
use crate::scope::VulkanScope;
use crate::sequence::VulkanSequence;

/// How to open a [`VulkanBackend`].
#[derive(Clone, Debug, Default, TypedBuilder)]
pub struct VulkanOptions {
    /// A part of the device's name. Default: the most capable kind of device that there is.
    #[builder(default, setter(strip_option, into))]
    pub(crate) device: Option<String>,
    /// Switches the validation layer on, synchronisation included; what it finds goes there. Not for a foreign device,
    /// whose instance is the engine's.
    #[builder(default, setter(strip_option))]
    pub(crate) validation: Option<Messages>,
    /// Treats the device as one whose memory the host does not reach: every copy between host and block goes through
    /// staging buffers. For tests.
    #[builder(default)]
    pub(crate) force_staging: bool,
    /// Treats bindings as if the device wanted them at multiples of so many bytes, a power of two. For tests; a device
    /// that wants more gets more.
    #[builder(default)]
    pub(crate) binding_alignment: u64,
    /// A file that keeps what the driver compiled from one process to the next. It is written when the backend shuts
    /// down; one that is damaged, or of another device, is ignored.
    #[builder(default, setter(strip_option, into))]
    pub(crate) pipeline_cache: Option<PathBuf>,
}

impl VulkanOptions {
    /// The same options with the validation layer, which says to `messages` what it finds.
    pub fn with_validation(self, messages: Messages) -> Self {
        VulkanOptions { validation: Some(messages), ..self }
    }
}

/// A Vulkan device. See the crate's documentation.
pub struct VulkanBackend {
    /// None once it is shut down. What still shares the device keeps it until it drops.
    device: RwLock<Option<Arc<Device>>>,
    info: BackendInfo,
    capabilities: Capabilities,
}

impl VulkanBackend {
    /// Opens the most capable device of this machine.
    ///
    /// # Errors
    /// As [`VulkanBackend::with_options`].
    pub fn new() -> Result<Self, BackendError> {
        VulkanBackend::with_options(&VulkanOptions::default())
    }

    /// Opens a device of this machine.
    ///
    /// # Errors
    /// `Unavailable` with the reason and what to do about it, if there is no loader, no driver, no fitting device, or no
    /// validation layer where it was asked for; or what the driver said.
    pub fn with_options(options: &VulkanOptions) -> Result<Self, BackendError> {
        Ok(VulkanBackend::on(Device::open(options)?))
    }

    /// Embeds in a device that an engine made. It is never destroyed here; everything that is made on it is (L6).
    ///
    /// # Safety
    /// The handles are valid and belong together, the device was made as the fields of [`RawDevice`] say, and
    /// `keep_alive` keeps instance, device and queue from being destroyed for as long as it is held. Whoever else submits to
    /// the queue, or waits for it to be idle, holds `queue_lock` meanwhile.
    ///
    /// # Errors
    /// `Unavailable` if the device lacks what this backend needs; or what the driver said.
    pub unsafe fn from_raw(raw: RawDevice, options: &VulkanOptions) -> Result<Self, BackendError> {
        Ok(VulkanBackend::on(Device::embed(raw, options)?))
    }

    /// Whether the validation layer is installed here.
    pub fn has_validation() -> bool {
        load().is_ok_and(|entry| has_validation(&entry))
    }

    /// The driver's device. Valid until the backend is shut down; never to be destroyed by others.
    ///
    /// # Panics
    /// After the backend was shut down.
    pub fn raw_device(&self) -> vk::Device {
        self.device().api.device.handle()
    }

    /// Bytes that the host has copied so far: to and from blocks, staging buffers and read-backs.
    ///
    /// # Panics
    /// After the backend was shut down.
    pub fn copied_bytes(&self) -> u64 {
        self.device().copied.load(Ordering::Relaxed)
    }

    fn on(device: Device) -> Self {
        let info = BackendInfo {
            name: "vulkan".to_owned(),
            device: device.facts.name.clone(),
            software: device.facts.kind == vk::PhysicalDeviceType::CPU,
        };
        let capabilities = device.capabilities();
        VulkanBackend { device: RwLock::new(Some(Arc::new(device))), info, capabilities }
    }

    pub(crate) fn device(&self) -> Arc<Device> {
        self.device.read().clone().expect("a call after shutdown")
    }
}

/// What was submitted completes first.
impl Drop for VulkanBackend {
    fn drop(&mut self) {
        self.close();
    }
}

impl VulkanBackend {
    /// Lets go of the device; twice is nothing.
    fn close(&self) {
        let Some(device) = self.device.write().take() else { return };
        device.timelines.drain();
        device.cache.save();
    }
}

impl Backend for VulkanBackend {
    type Block = VulkanBlock;
    type Kernel = VulkanKernel;
    type Scope = VulkanScope;
    type Sequence = VulkanSequence;
    type Foreign = VulkanBuffer;

    fn info(&self) -> BackendInfo {
        self.info.clone()
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities.clone()
    }

    fn allocate(&self, request: &BlockRequest<'_>) -> Result<VulkanBlock, BackendError> {
        self.device().allocate(request)
    }

    unsafe fn free(&self, block: VulkanBlock) -> Result<(), BackendError> {
        self.device().free(block);
        Ok(())
    }

    unsafe fn adopt(
        &self,
        foreign: VulkanBuffer,
        request: &BlockRequest<'_>,
    ) -> Result<VulkanBlock, BackendError> {
        self.device().adopt(foreign, request)
    }

    unsafe fn release(&self, block: VulkanBlock) -> Result<(), BackendError> {
        drop(block);
        Ok(())
    }

    unsafe fn write_block(&self, block: &VulkanBlock, offset: u64, bytes: &[u8]) -> Result<(), BackendError> {
        self.device().write_block(block, offset, bytes)
    }

    unsafe fn read_block(
        &self,
        block: &VulkanBlock,
        offset: u64,
        bytes: &mut [u8],
    ) -> Result<(), BackendError> {
        self.device().read_block(block, offset, bytes)
    }

    fn compile(&self, source: &KernelSource) -> Result<VulkanKernel, BackendError> {
        self.device().compile(source)
    }

    unsafe fn destroy_kernel(&self, kernel: VulkanKernel) -> Result<(), BackendError> {
        drop(kernel);
        Ok(())
    }

    fn open_scope(&self, queue: QueueId, label: &str) -> Result<VulkanScope, BackendError> {
        VulkanScope::new(&self.device(), queue, label)
    }

    unsafe fn close_scope(&self, scope: VulkanScope) -> Result<(), BackendError> {
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
        Ok(self.device().memory())
    }

    fn trim(&self) -> Result<u64, BackendError> {
        Ok(self.device().trim())
    }

    unsafe fn shutdown(&self) -> Result<(), BackendError> {
        self.close();
        Ok(())
    }
}
