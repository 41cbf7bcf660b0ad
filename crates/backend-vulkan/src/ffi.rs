//! The objects of a device, each with one owner that destroys it: the unsafe code.
//!
//! An object shares the [`Api`], so the device goes after everything that was made on it. Dropping destroys at once:
//! that the device has finished with an object is the duty of who drops it, which is core's by the SPI (L4) and this
//! crate's for what it makes for itself. The safe functions here stand on that duty, and on handles of this crate
//! being of this device. They are for this crate alone. Not here: pipelines and descriptor sets (`kernel/ffi.rs`),
//! recording commands (`commands/ffi.rs`), instances (`instance/ffi.rs`).

use std::ffi::CString;
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};

use ash::prelude::VkResult;
use ash::{ext, khr, vk};
use tenure_core::BackendError;

use crate::error::{failed, lost};
use crate::instance::Synchronization2;
use crate::instance::ffi::Instance;

/// The functions of one device, and whether it is lost.
pub(crate) struct Api {
    pub device: ash::Device,
    pub synchronization2: Second,
    /// The device is this backend's own, and destroyed with this object.
    pub owned: bool,
    names: Option<ext::debug_utils::Device>,
    /// The first cause (L23).
    lost: OnceLock<BackendError>,
    /// After the device: it goes last.
    pub instance: Instance,
}

/// Where the functions of synchronization2 are.
pub(crate) enum Second {
    Core,
    Extension(khr::synchronization2::Device),
    Absent,
}

impl Api {
    /// A device that is destroyed with this object if it is `owned`.
    pub(crate) fn new(
        instance: Instance,
        device: ash::Device,
        second: Synchronization2,
        owned: bool,
    ) -> Self {
        let synchronization2 = match second {
            Synchronization2::Core => Second::Core,
            Synchronization2::Extension => {
                Second::Extension(khr::synchronization2::Device::new(&instance.raw, &device))
            }
            Synchronization2::Absent => Second::Absent,
        };
        let names = instance.debug_utils.then(|| ext::debug_utils::Device::new(&instance.raw, &device));
        Api { device, synchronization2, names, owned, lost: OnceLock::new(), instance }
    }

    /// What the driver answered. A loss is remembered.
    pub(crate) fn check<T>(&self, operation: &'static str, answer: VkResult<T>) -> Result<T, BackendError> {
        answer.map_err(|result| {
            if result == vk::Result::ERROR_DEVICE_LOST {
                return self.lose(operation, "the driver lost the device");
            }
            failed(operation, result)
        })
    }

    /// The device is lost from now on.
    pub(crate) fn lose(&self, operation: &'static str, reason: &str) -> BackendError {
        self.lost.get_or_init(|| lost(operation, reason)).clone()
    }

    /// # Errors
    /// The first cause, once the device is lost.
    pub(crate) fn alive(&self) -> Result<(), BackendError> {
        self.lost.get().map_or(Ok(()), |error| Err(error.clone()))
    }

    /// Gives an object its name for the driver's tools.
    pub(crate) fn name(&self, object: impl vk::Handle, label: &str) {
        let Some(names) = &self.names else { return };
        let Ok(label) = CString::new(label.replace('\0', " ")) else { return };
        let info = vk::DebugUtilsObjectNameInfoEXT::default().object_handle(object).object_name(&label);
        // SAFETY: the extension is on, and the object is alive: its owner names it.
        let named = unsafe { names.set_debug_utils_object_name(&info) };
        // A name is a comfort: without room for it the work goes on.
        let _ = named;
    }

    /// The queue that the device was made with.
    pub(crate) fn queue(&self, family: u32) -> vk::Queue {
        // SAFETY: the device was made with one queue of this family.
        unsafe { self.device.get_device_queue(family, 0) }
    }
}

impl Drop for Api {
    fn drop(&mut self) {
        if !self.owned {
            return;
        }
        // SAFETY: nobody else has the device any more. What it answers does not matter: it is destroyed now.
        let _ = unsafe { self.device.device_wait_idle() };
        // SAFETY: everything made on the device shared this object, so it is gone, and the device is ours.
        unsafe { self.device.destroy_device(None) }
    }
}

/// A buffer with memory of its own, mapped where the host reaches it.
pub(crate) struct RawBuffer {
    pub buffer: vk::Buffer,
    pub memory: vk::DeviceMemory,
    pub bytes: u64,
    /// What the driver took for it.
    pub allocated: u64,
    mapped: Option<NonNull<u8>>,
    owner: Owner,
    api: Arc<Api>,
}

/// Who destroys a buffer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    Tenure,
    Engine,
}

// SAFETY: handles and mappings of Vulkan belong to no thread.
unsafe impl Send for RawBuffer {}
// SAFETY: shared access to the mapping goes through `write` and `read`, whose callers exclude conflicts.
unsafe impl Sync for RawBuffer {}

impl RawBuffer {
    /// Makes one. `choose` picks the memory type among those that the buffer allows, and says whether to map it.
    pub(crate) fn new(
        api: &Arc<Api>,
        bytes: u64,
        choose: impl FnOnce(u32) -> Result<(u32, bool), BackendError>,
        label: &str,
    ) -> Result<Self, BackendError> {
        let usage = vk::BufferUsageFlags::TRANSFER_SRC
            | vk::BufferUsageFlags::TRANSFER_DST
            | vk::BufferUsageFlags::STORAGE_BUFFER;
        let info = vk::BufferCreateInfo::default().size(bytes).usage(usage);
        // SAFETY: the info is complete.
        let buffer = unsafe { api.device.create_buffer(&info, None) };
        let buffer = api.check("vkCreateBuffer", buffer)?;
        // From here on dropping takes back what there is.
        let memory = vk::DeviceMemory::null();
        let mut raw = RawBuffer {
            buffer,
            memory,
            bytes,
            allocated: 0,
            mapped: None,
            owner: Owner::Tenure,
            api: api.clone(),
        };
        // SAFETY: the buffer is alive.
        let needs = unsafe { api.device.get_buffer_memory_requirements(buffer) };
        let (memory_type, map) = choose(needs.memory_type_bits)?;
        let info =
            vk::MemoryAllocateInfo::default().allocation_size(needs.size).memory_type_index(memory_type);
        // SAFETY: the info is complete.
        let memory = unsafe { api.device.allocate_memory(&info, None) };
        raw.memory = api.check("vkAllocateMemory", memory)?;
        raw.allocated = needs.size;
        // SAFETY: the memory is as large as the buffer needs, of a type that it allows, and neither is bound.
        let bound = unsafe { api.device.bind_buffer_memory(buffer, raw.memory, 0) };
        api.check("vkBindBufferMemory", bound)?;
        if map {
            // SAFETY: the type is one that the host can map, and the memory is not mapped.
            let mapped =
                unsafe { api.device.map_memory(raw.memory, 0, vk::WHOLE_SIZE, vk::MemoryMapFlags::empty()) };
            raw.mapped = NonNull::new(api.check("vkMapMemory", mapped)?.cast());
        }
        api.name(raw.buffer, label);
        api.name(raw.memory, label);
        Ok(raw)
    }

    /// An engine's buffer: never mapped, named or destroyed here.
    pub(crate) fn of_engine(api: &Arc<Api>, buffer: vk::Buffer, bytes: u64) -> Self {
        RawBuffer {
            buffer,
            memory: vk::DeviceMemory::null(),
            bytes,
            allocated: 0,
            mapped: None,
            owner: Owner::Engine,
            api: api.clone(),
        }
    }

    pub(crate) fn is_mapped(&self) -> bool {
        self.mapped.is_some()
    }

    fn place(&self, offset: u64, bytes: usize) -> NonNull<u8> {
        let inside = offset.checked_add(bytes as u64).is_some_and(|end| end <= self.bytes);
        assert!(inside, "range {offset}+{bytes} is outside a buffer of {} bytes", self.bytes);
        let mapped = self.mapped.expect("the host reaches only what is mapped");
        let offset = usize::try_from(offset).expect("inside the mapping");
        // SAFETY: the offset is inside the mapping, or one past its end.
        unsafe { mapped.add(offset) }
    }

    /// Copies from the host. For ranges that nobody uses.
    pub(crate) fn write(&self, offset: u64, bytes: &[u8]) {
        let to = self.place(offset, bytes.len());
        // SAFETY: `place` checked the range; by the SPI, or as the range's only owner, nobody else uses it.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to.as_ptr(), bytes.len()) }
    }

    /// Copies to the host. For ranges that nobody writes.
    pub(crate) fn read(&self, offset: u64, bytes: &mut [u8]) {
        let from = self.place(offset, bytes.len());
        // SAFETY: as in `write`.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), bytes.as_mut_ptr(), bytes.len()) }
    }
}

impl Drop for RawBuffer {
    fn drop(&mut self) {
        if self.owner == Owner::Engine {
            return;
        }
        // SAFETY: the device has finished with it (L4), and it is destroyed once.
        unsafe { self.api.device.destroy_buffer(self.buffer, None) };
        // SAFETY: the buffer in it is gone; freeing unmaps. Of no memory it is nothing.
        unsafe { self.api.device.free_memory(self.memory, None) }
    }
}

/// A timeline semaphore.
pub(crate) struct Semaphore {
    pub raw: vk::Semaphore,
    api: Arc<Api>,
}

impl Semaphore {
    pub(crate) fn new(api: &Arc<Api>, label: &str) -> Result<Self, BackendError> {
        let mut kind = vk::SemaphoreTypeCreateInfo::default().semaphore_type(vk::SemaphoreType::TIMELINE);
        let info = vk::SemaphoreCreateInfo::default().push_next(&mut kind);
        // SAFETY: the info is complete, and timeline semaphores are on.
        let raw = unsafe { api.device.create_semaphore(&info, None) };
        let raw = api.check("vkCreateSemaphore", raw)?;
        api.name(raw, label);
        Ok(Semaphore { raw, api: api.clone() })
    }

    pub(crate) fn value(&self) -> Result<u64, BackendError> {
        // SAFETY: the semaphore is alive.
        let value = unsafe { self.api.device.get_semaphore_counter_value(self.raw) };
        self.api.check("vkGetSemaphoreCounterValue", value)
    }
}

impl Drop for Semaphore {
    fn drop(&mut self) {
        // SAFETY: nothing that was submitted names it any more, and it is destroyed once.
        unsafe { self.api.device.destroy_semaphore(self.raw, None) }
    }
}

/// Blocks until one of the semaphores has its value. False if the time was over first.
pub(crate) fn wait_any(
    api: &Api,
    semaphores: &[vk::Semaphore],
    values: &[u64],
    nanoseconds: u64,
) -> Result<bool, BackendError> {
    let info = vk::SemaphoreWaitInfo::default()
        .flags(vk::SemaphoreWaitFlags::ANY)
        .semaphores(semaphores)
        .values(values);
    // SAFETY: the semaphores are alive, and there are as many values.
    match unsafe { api.device.wait_semaphores(&info, nanoseconds) } {
        Ok(()) => Ok(true),
        Err(vk::Result::TIMEOUT) => Ok(false),
        Err(result) => api.check("vkWaitSemaphores", Err(result)),
    }
}

/// A pool of command buffers of one queue family.
pub(crate) struct CommandPool {
    raw: vk::CommandPool,
    api: Arc<Api>,
}

impl CommandPool {
    pub(crate) fn new(api: &Arc<Api>, family: u32, label: &str) -> Result<Self, BackendError> {
        let info = vk::CommandPoolCreateInfo::default()
            .queue_family_index(family)
            .flags(vk::CommandPoolCreateFlags::RESET_COMMAND_BUFFER);
        // SAFETY: the info is complete.
        let raw = unsafe { api.device.create_command_pool(&info, None) };
        let raw = api.check("vkCreateCommandPool", raw)?;
        api.name(raw, label);
        Ok(CommandPool { raw, api: api.clone() })
    }

    /// One more command buffer, which lives as long as the pool.
    pub(crate) fn allocate(&mut self) -> Result<vk::CommandBuffer, BackendError> {
        let info = vk::CommandBufferAllocateInfo::default()
            .command_pool(self.raw)
            .level(vk::CommandBufferLevel::PRIMARY)
            .command_buffer_count(1);
        // SAFETY: the pool is alive and, by `&mut`, nobody else uses it.
        let buffers = unsafe { self.api.device.allocate_command_buffers(&info) };
        Ok(self.api.check("vkAllocateCommandBuffers", buffers)?[0])
    }

    /// Empties every command buffer. None of them is in flight.
    pub(crate) fn reset(&mut self) -> Result<(), BackendError> {
        // SAFETY: by the contract of `Scope::reset` none of the buffers is in flight.
        let reset =
            unsafe { self.api.device.reset_command_pool(self.raw, vk::CommandPoolResetFlags::empty()) };
        self.api.check("vkResetCommandPool", reset)
    }
}

impl Drop for CommandPool {
    fn drop(&mut self) {
        // SAFETY: none of its buffers is in flight (L4), and it is destroyed once.
        unsafe { self.api.device.destroy_command_pool(self.raw, None) }
    }
}
