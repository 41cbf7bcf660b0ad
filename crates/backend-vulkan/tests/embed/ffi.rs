//! An engine that has a Vulkan device of its own: the unsafe code of the test.

use std::ffi::c_void;
use std::sync::{Arc, Mutex};

use tenure_backend_vulkan::ash::{self, ext, vk};
use tenure_backend_vulkan::{QueueLock, RawDevice, VulkanBackend, VulkanOptions};

const LAYER: &std::ffi::CStr = c"VK_LAYER_KHRONOS_validation";

/// What the validation layer said.
static MESSAGES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// The engine.
pub struct Engine {
    entry: ash::Entry,
    instance: ash::Instance,
    physical: vk::PhysicalDevice,
    device: ash::Device,
}

impl Engine {
    pub fn new() -> Result<Self, String> {
        // SAFETY: the system's loader.
        let entry = unsafe { ash::Entry::load() }.map_err(|error| error.to_string())?;
        let application = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_2);
        let mut messenger = vk::DebugUtilsMessengerCreateInfoEXT::default()
            .message_severity(vk::DebugUtilsMessageSeverityFlagsEXT::ERROR)
            .message_type(vk::DebugUtilsMessageTypeFlagsEXT::VALIDATION)
            .pfn_user_callback(Some(on_message));
        let (layers, extensions) = ([LAYER.as_ptr()], [ext::debug_utils::NAME.as_ptr()]);
        let mut info = vk::InstanceCreateInfo::default().application_info(&application);
        if VulkanBackend::has_validation() {
            let names = info.enabled_layer_names(&layers).enabled_extension_names(&extensions);
            // It hears what is found while instance and device are made and destroyed: leaks.
            info = names.push_next(&mut messenger);
        }
        // SAFETY: the info is complete.
        let instance = unsafe { entry.create_instance(&info, None) }.map_err(|error| error.to_string())?;
        // SAFETY: a plain query.
        let devices = unsafe { instance.enumerate_physical_devices() }.map_err(|error| error.to_string())?;
        let physical = *devices.first().ok_or("there is no device")?;
        let priorities = [1.0];
        let queues =
            [vk::DeviceQueueCreateInfo::default().queue_family_index(0).queue_priorities(&priorities)];
        let mut timeline = vk::PhysicalDeviceTimelineSemaphoreFeatures::default().timeline_semaphore(true);
        let info = vk::DeviceCreateInfo::default().queue_create_infos(&queues).push_next(&mut timeline);
        // SAFETY: the device is of the instance, and the info complete.
        let device =
            unsafe { instance.create_device(physical, &info, None) }.map_err(|error| error.to_string())?;
        Ok(Engine { entry, instance, physical, device })
    }

    /// What it hands to tenure: without synchronization2, so that the first interface is used.
    pub fn raw(&self, queue_lock: Arc<dyn QueueLock>, keep_alive: Arc<dyn Send + Sync>) -> RawDevice {
        // SAFETY: the device has one queue of family 0.
        let queue = unsafe { self.device.get_device_queue(0, 0) };
        RawDevice {
            entry: self.entry.clone(),
            instance: self.instance.clone(),
            api_version: vk::API_VERSION_1_2,
            physical_device: self.physical,
            device: self.device.clone(),
            queue,
            queue_family: 0,
            queue_lock,
            synchronization2: false,
            memory_budget: false,
            debug_utils: false,
            keep_alive,
        }
    }

    /// Destroys device and instance. What the layer found, if it is installed.
    pub fn destroy(self) -> Vec<String> {
        // SAFETY: nobody uses the device any more.
        unsafe { self.device.destroy_device(None) };
        // SAFETY: its only device is gone.
        unsafe { self.instance.destroy_instance(None) };
        std::mem::take(&mut *MESSAGES.lock().expect("nobody panics with it"))
    }

    /// The device still answers.
    pub fn is_alive(&self) {
        // SAFETY: the device is alive, and nobody submits meanwhile.
        unsafe { self.device.device_wait_idle() }.expect("the device is alive");
    }
}

/// Embeds in the engine's device.
pub fn embed(raw: RawDevice, options: &VulkanOptions) -> VulkanBackend {
    // SAFETY: the handles are the engine's, which outlives the backend.
    unsafe { VulkanBackend::from_raw(raw, options) }.expect("the device has what tenure needs")
}

unsafe extern "system" fn on_message(
    _severity: vk::DebugUtilsMessageSeverityFlagsEXT,
    _kind: vk::DebugUtilsMessageTypeFlagsEXT,
    data: *const vk::DebugUtilsMessengerCallbackDataEXT<'_>,
    _user: *mut c_void,
) -> vk::Bool32 {
    // SAFETY: the loader hands over a valid structure or none.
    let data = unsafe { data.as_ref() };
    // SAFETY: its text ends with a zero and lives until this function returns.
    let text = data.and_then(|data| unsafe { data.message_as_c_str() });
    MESSAGES
        .lock()
        .expect("nobody panics with it")
        .push(text.unwrap_or_default().to_string_lossy().into_owned());
    vk::FALSE
}
