//! [`Device`]: what the backend, its arenas and its recordings share.
//!
//! Not here: choosing a device (`instance.rs`), and what is made on it (`buffer.rs`, `kernel.rs`, `scope.rs`).

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ash::vk;
use parking_lot::Mutex;
use tenure_core::backend::DriverMemory;
use tenure_core::{BackendError, Capabilities};

use crate::backend::VulkanOptions;
use crate::cache::Cache;
use crate::error::unavailable;
use crate::ffi::{Api, RawBuffer};
use crate::foreign::RawDevice;
use crate::heap::{Heap, Reach};
use crate::instance::ffi::{Instance, has_validation, load, loader_version};
use crate::instance::{Facts, Synchronization2, choose};
use crate::kernel::ffi::Layout;
use crate::timeline::{QueueLock, Timelines};
use crate::transfer::Transfers;

/// Bytes of the buffer that stands in for empty tensors.
const DUMMY_BYTES: u64 = 64;

/// An open device. Everything in it shares the [`Api`], which destroys the device after all else.
pub(crate) struct Device {
    pub timelines: Timelines,
    pub transfers: Transfers,
    pub uploads: Arc<Heap>,
    pub read_backs: Arc<Heap>,
    pub scratch: Arc<Heap>,
    pub cache: Cache,
    pub layouts: Mutex<HashMap<u32, Arc<Layout>>>,
    /// Bound where a tensor is empty.
    pub dummy: RawBuffer,
    /// Blocks are mapped, and host copies go straight to them.
    pub unified: bool,
    /// Bindings begin at multiples of it.
    pub binding_alignment: u64,
    /// Bytes in blocks, as the driver took them.
    pub used: AtomicU64,
    /// Bytes that the host has copied.
    pub copied: AtomicU64,
    pub facts: Arc<Facts>,
    pub api: Arc<Api>,
}

impl Device {
    /// Opens a device of this machine.
    pub(crate) fn open(options: &VulkanOptions) -> Result<Self, BackendError> {
        let entry = load()?;
        if loader_version(&entry) < vk::API_VERSION_1_2 {
            let fix = "install a Vulkan loader of version 1.2 or newer";
            return Err(unavailable("load Vulkan", "the Vulkan loader is older than version 1.2", fix));
        }
        if options.validation.is_some() && !has_validation(&entry) {
            let fix =
                "install it (Debian and Ubuntu: apt-get install vulkan-validationlayers), or leave it off";
            return Err(unavailable("load Vulkan", "the validation layer is not installed", fix));
        }
        let instance = Instance::new(entry, options.validation.clone())?;
        let facts = choose(&instance, options.device.as_deref())?;
        let second = facts.synchronization2 != Synchronization2::Absent;
        let device = instance.create_device(facts.physical, facts.family, second, &facts.extensions())?;
        let api = Arc::new(Api::new(instance, device, facts.synchronization2, true));
        let queue = api.queue(facts.family);
        Device::on(api, facts, queue, Arc::new(Mutex::new(())), options)
    }

    /// Takes a device that an engine made.
    pub(crate) fn embed(raw: RawDevice, options: &VulkanOptions) -> Result<Self, BackendError> {
        let RawDevice { entry, instance, physical_device, device, queue, queue_family, queue_lock, .. } = raw;
        let instance = Instance::foreign(entry, instance, raw.debug_utils, raw.api_version, raw.keep_alive);
        let mut facts = Facts::of(&instance, physical_device)
            .map_err(|reason| unavailable("embed", reason, "hand in a device that has what tenure needs"))?;
        // What counts is what the engine switched on.
        facts.family = queue_family;
        facts.memory_budget &= raw.memory_budget;
        if !raw.synchronization2 {
            facts.synchronization2 = Synchronization2::Absent;
        }
        let api = Arc::new(Api::new(instance, device, facts.synchronization2, false));
        Device::on(api, facts, queue, queue_lock, options)
    }

    fn on(
        api: Arc<Api>,
        facts: Facts,
        queue: vk::Queue,
        lock: Arc<dyn QueueLock>,
        options: &VulkanOptions,
    ) -> Result<Self, BackendError> {
        let unified = facts.is_unified() && !options.force_staging;
        let facts = Arc::new(facts);
        let alignment = facts.limits.min_storage_buffer_offset_alignment.max(options.binding_alignment);
        let unit = facts.capabilities(unified).alignment.max(alignment);
        let heap = |reach| Heap::new(&api, &facts, reach, unit);
        let on_device = |allowed| Reach::Device.memory_type(&facts, allowed);
        Ok(Device {
            timelines: Timelines::new(&api, facts.family, queue, lock)?,
            transfers: Transfers::new(&api, &facts),
            uploads: heap(Reach::Upload),
            read_backs: heap(Reach::ReadBack),
            scratch: heap(Reach::Device),
            cache: Cache::open(&api, &facts, options.pipeline_cache.clone())?,
            layouts: Mutex::default(),
            dummy: RawBuffer::new(&api, DUMMY_BYTES, on_device, "tenure: empty tensors")?,
            unified,
            binding_alignment: alignment,
            used: AtomicU64::new(0),
            copied: AtomicU64::new(0),
            facts,
            api,
        })
    }

    pub(crate) fn capabilities(&self) -> Capabilities {
        let mut capabilities = self.facts.capabilities(self.unified);
        // Tensors begin where they can be bound.
        capabilities.alignment = capabilities.alignment.max(self.binding_alignment);
        capabilities
    }

    /// The driver's figures where it has them, else what was taken from it.
    pub(crate) fn memory(&self) -> DriverMemory {
        if !self.facts.memory_budget {
            let own = self.uploads.bytes() + self.read_backs.bytes() + self.scratch.bytes();
            let used = self.used.load(Ordering::Relaxed) + own + self.transfers.bytes();
            return DriverMemory { used, budget: None };
        }
        let heaps = self.api.instance.memory_budget(self.facts.physical);
        let local = |heap: &usize| {
            self.facts.memory.memory_heaps[*heap].flags.contains(vk::MemoryHeapFlags::DEVICE_LOCAL)
        };
        let (used, budget) = (0..heaps.len()).filter(local).fold((0_u64, 0_u64), |sum, heap| {
            (sum.0.saturating_add(heaps[heap].0), sum.1.saturating_add(heaps[heap].1))
        });
        DriverMemory { used, budget: Some(budget) }
    }

    /// Gives back what is kept for reuse and in nobody's hands. Returns the bytes.
    pub(crate) fn trim(&self) -> u64 {
        self.uploads.trim() + self.read_backs.trim() + self.scratch.trim() + self.transfers.trim()
    }
}

#[cfg(test)]
mod tests {
    use tenure_core::backend::{Backend, BlockRequest, TimelinePoint};
    use tenure_core::{BackendErrorKind, QueueId};

    use crate::backend::{VulkanBackend, VulkanOptions};
    use crate::messages::Messages;

    #[test]
    fn a_lost_device_stays_lost_with_its_first_cause_and_is_destroyed() {
        let messages = Messages::new();
        let mut options = VulkanOptions::default();
        if VulkanBackend::has_validation() {
            options = options.with_validation(messages.clone());
        }
        let backend = match VulkanBackend::with_options(&options) {
            Ok(backend) => backend,
            Err(error) => {
                println!("skipped: {error}");
                return;
            }
        };
        let block = backend.allocate(&BlockRequest { bytes: 256, label: "block" }).expect("room");
        let scope = backend.open_scope(QueueId(0), "scope").expect("room");
        let device = backend.device();
        assert!(device.api.alive().is_ok());
        device.api.lose("vkFirst", "the first cause");
        device.api.lose("vkSecond", "the cascade");
        let point = TimelinePoint { queue: QueueId(0), value: 1 };
        for _ in 0..2 {
            for error in [
                backend.completed(QueueId(0)).expect_err("lost"),
                backend.wait_any(&[point], None).expect_err("lost"),
                backend.allocate(&BlockRequest { bytes: 256, label: "more" }).expect_err("lost"),
                backend.open_scope(QueueId(0), "more").map(|_| ()).expect_err("lost"),
            ] {
                assert_eq!((error.kind, error.operation), (BackendErrorKind::DeviceLost, "vkFirst"));
            }
        }
        // L23: what was made is destroyed all the same.
        drop((block, scope, device));
        drop(backend);
        assert_eq!(messages.take(), [""; 0]);
    }
}
