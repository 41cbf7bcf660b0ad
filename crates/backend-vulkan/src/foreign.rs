//! What an engine hands in: [`RawDevice`], to embed in, and [`VulkanBuffer`], to be adopted.
//!
//! Not here: how tenure uses it (`device.rs`).

use std::sync::Arc;

use ash::vk;

use crate::timeline::QueueLock;

/// A buffer of an engine's own, made with the usages of storage buffers and of transfers in both directions, not shared
/// exclusively with another queue family, and bound to memory.
#[derive(Clone, Copy, Debug)]
pub struct VulkanBuffer {
    /// The buffer. A tensor begins at its begin.
    pub buffer: vk::Buffer,
    /// Its size in bytes.
    pub bytes: u64,
}

/// What an engine hands in, see [`VulkanBackend::from_raw`](crate::VulkanBackend::from_raw).
#[derive(Clone)]
pub struct RawDevice {
    /// The loaded library.
    pub entry: ash::Entry,
    /// The instance.
    pub instance: ash::Instance,
    /// The version of Vulkan that the instance was made for, at least 1.2.
    pub api_version: u32,
    /// The physical device that `device` was made from.
    pub physical_device: vk::PhysicalDevice,
    /// The device, with the feature `timelineSemaphore` on.
    pub device: ash::Device,
    /// A queue of the device that runs kernels.
    pub queue: vk::Queue,
    /// The family that the queue is of.
    pub queue_family: u32,
    /// Held for each submission: the lock that the engine holds for its own.
    pub queue_lock: Arc<dyn QueueLock>,
    /// The device was made with the feature `synchronization2`, and with its extension before Vulkan 1.3.
    pub synchronization2: bool,
    /// The device was made with the extension `VK_EXT_memory_budget`.
    pub memory_budget: bool,
    /// The instance was made with the extension `VK_EXT_debug_utils`: objects get names.
    pub debug_utils: bool,
    /// Held until the last native object is gone (L6): whatever keeps instance and device from being destroyed.
    pub keep_alive: Arc<dyn Send + Sync>,
}

impl std::fmt::Debug for RawDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RawDevice")
            .field("device", &self.device.handle())
            .field("queue", &self.queue)
            .field("queue_family", &self.queue_family)
            .finish_non_exhaustive()
    }
}
