//! Choosing a device, and what is known of it.
//!
//! Not here: what tenure keeps on a device (`device.rs`).

pub(crate) mod ffi;

use std::ffi::CStr;

use ash::{ext, khr, vk};
use tenure_core::{BackendError, Capabilities};

use crate::error::{DRIVER_FIX, unavailable};
use crate::instance::ffi::Instance;

/// Blocks that are left to the backend's own use where the driver limits allocations.
const OWN_ALLOCATIONS: u64 = 256;

/// Ranges of two tensors share no line of a cache.
const CACHE_LINE: u64 = 64;

/// How synchronization2 is to be had on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Synchronization2 {
    /// Part of the device's version.
    Core,
    /// By the extension.
    Extension,
    /// Not at all: the first interface is used.
    Absent,
}

/// What is known of a device before it is opened.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub physical: vk::PhysicalDevice,
    pub name: String,
    pub kind: vk::PhysicalDeviceType,
    pub limits: vk::PhysicalDeviceLimits,
    pub memory: vk::PhysicalDeviceMemoryProperties,
    pub max_block_bytes: u64,
    pub family: u32,
    pub synchronization2: Synchronization2,
    pub memory_budget: bool,
    pub portability_subset: bool,
    /// For the header of the pipeline cache.
    pub vendor: u32,
    pub device: u32,
    pub cache_uuid: [u8; vk::UUID_SIZE],
}

impl Facts {
    /// The facts of a device; why it cannot be used, if it cannot.
    pub(crate) fn of(instance: &Instance, physical: vk::PhysicalDevice) -> Result<Self, String> {
        let properties = instance.properties(physical);
        let name = properties.device_name_as_c_str().map_or_else(
            |_| "a device without a name".to_owned(),
            |name| name.to_string_lossy().into_owned(),
        );
        if properties.api_version < vk::API_VERSION_1_2 {
            let (major, minor) = (
                vk::api_version_major(properties.api_version),
                vk::api_version_minor(properties.api_version),
            );
            return Err(format!("`{name}` has Vulkan {major}.{minor}, 1.2 is needed"));
        }
        let extensions = instance.device_extensions(physical);
        let has =
            |name: &CStr| extensions.iter().any(|extension| extension.extension_name_as_c_str() == Ok(name));
        // A device is no newer than what its instance was made for.
        let newer = properties.api_version.min(instance.version) >= vk::API_VERSION_1_3;
        let offered = newer || has(khr::synchronization2::NAME);
        let (timeline, second) = instance.features(physical, offered);
        if !timeline {
            return Err(format!("`{name}` has no timeline semaphores"));
        }
        let families = instance.queue_families(physical);
        let Some(family) = families.iter().position(|family| {
            family.queue_count > 0 && family.queue_flags.contains(vk::QueueFlags::COMPUTE)
        }) else {
            return Err(format!("`{name}` has no queue for kernels"));
        };
        let memory = instance.memory(physical);
        let largest_heap = heaps(&memory).iter().map(|heap| heap.size).max().unwrap_or(0);
        let buffers = if newer { instance.max_buffer(physical) } else { u64::MAX };
        Ok(Facts {
            physical,
            name,
            kind: properties.device_type,
            limits: properties.limits,
            memory,
            max_block_bytes: instance.max_allocation(physical).min(buffers).min(largest_heap),
            family: u32::try_from(family).expect("devices have few queue families"),
            synchronization2: match (second, newer) {
                (true, true) => Synchronization2::Core,
                (true, false) => Synchronization2::Extension,
                (false, _) => Synchronization2::Absent,
            },
            memory_budget: has(ext::memory_budget::NAME),
            portability_subset: has(khr::portability_subset::NAME),
            vendor: properties.vendor_id,
            device: properties.device_id,
            cache_uuid: properties.pipeline_cache_uuid,
        })
    }

    /// The extensions that are switched on.
    pub(crate) fn extensions(&self) -> Vec<&'static CStr> {
        let mut names = Vec::new();
        if self.synchronization2 == Synchronization2::Extension {
            names.push(khr::synchronization2::NAME);
        }
        if self.memory_budget {
            names.push(ext::memory_budget::NAME);
        }
        if self.portability_subset {
            names.push(khr::portability_subset::NAME);
        }
        names
    }

    /// A memory type among `allowed` that has all of `needed` and the most of `wanted`, first things first.
    pub(crate) fn memory_type(
        &self,
        allowed: u32,
        needed: vk::MemoryPropertyFlags,
        wanted: &[vk::MemoryPropertyFlags],
    ) -> Option<u32> {
        let fits = |index: &u32| {
            let flags = self.memory.memory_types[*index as usize].property_flags;
            allowed & (1 << index) != 0 && flags.contains(needed)
        };
        // Of equals the first: drivers list the fastest first.
        (0..self.memory.memory_type_count).filter(fits).rev().max_by_key(|index| {
            let flags = self.memory.memory_types[*index as usize].property_flags;
            wanted.iter().fold(0_u32, |score, want| score * 2 + u32::from(flags.contains(*want)))
        })
    }

    /// Host and device share memory: the device is no card of its own, and has memory that both reach well.
    pub(crate) fn is_unified(&self) -> bool {
        let both = vk::MemoryPropertyFlags::DEVICE_LOCAL | MAPPABLE;
        matches!(self.kind, vk::PhysicalDeviceType::INTEGRATED_GPU | vk::PhysicalDeviceType::CPU)
            && self.memory_type(u32::MAX, both, &[]).is_some()
    }

    /// What the device can do, as core wants to know it.
    pub(crate) fn capabilities(&self, unified: bool) -> Capabilities {
        let allocations = u64::from(self.limits.max_memory_allocation_count);
        Capabilities {
            queues: 1,
            max_block_bytes: self.max_block_bytes,
            max_binding_bytes: u64::from(self.limits.max_storage_buffer_range),
            max_groups: self.limits.max_compute_work_group_count,
            max_blocks: allocations.saturating_sub(OWN_ALLOCATIONS).max(1),
            alignment: self.limits.min_storage_buffer_offset_alignment.max(CACHE_LINE),
            sub_allocation: true,
            reusable_recordings: true,
            abandons_on_loss: false,
            loss_is_sticky: false,
            unified_memory: unified,
        }
    }
}

/// Memory that the host writes and reads through a mapping, with no flushes.
pub(crate) const MAPPABLE: vk::MemoryPropertyFlags = vk::MemoryPropertyFlags::from_raw(
    vk::MemoryPropertyFlags::HOST_VISIBLE.as_raw() | vk::MemoryPropertyFlags::HOST_COHERENT.as_raw(),
);

fn heaps(memory: &vk::PhysicalDeviceMemoryProperties) -> &[vk::MemoryHeap] {
    &memory.memory_heaps[..memory.memory_heap_count as usize]
}

/// The device to use: the first whose name contains `wanted`, or the most capable kind of all.
pub(crate) fn choose(instance: &Instance, wanted: Option<&str>) -> Result<Facts, BackendError> {
    let mut usable = Vec::new();
    let mut refused = Vec::new();
    for physical in instance.physical_devices()? {
        match Facts::of(instance, physical) {
            Ok(facts) => usable.push(facts),
            Err(reason) => refused.push(reason),
        }
    }
    let names: Vec<String> = usable.iter().map(|facts| format!("`{}`", facts.name)).collect();
    let chosen = match wanted {
        Some(wanted) => usable.into_iter().find(|facts| facts.name.contains(wanted)),
        None => usable.into_iter().min_by_key(|facts| rank(facts.kind)),
    };
    chosen.ok_or_else(|| {
        let reason = match (wanted, names.as_slice(), refused.as_slice()) {
            (Some(wanted), [_, ..], _) => {
                format!("no Vulkan device has `{wanted}` in its name; there is: {}", names.join(", "))
            }
            (_, _, []) => "there is no Vulkan device".to_owned(),
            (_, _, refused) => format!("no Vulkan device can be used: {}", refused.join("; ")),
        };
        unavailable("choose a Vulkan device", reason, DRIVER_FIX)
    })
}

fn rank(kind: vk::PhysicalDeviceType) -> u32 {
    match kind {
        vk::PhysicalDeviceType::DISCRETE_GPU => 0,
        vk::PhysicalDeviceType::INTEGRATED_GPU => 1,
        vk::PhysicalDeviceType::VIRTUAL_GPU => 2,
        vk::PhysicalDeviceType::CPU => 4,
        _ => 3,
    }
}
