//! Loading Vulkan, and making or taking over an instance and a device on it: the unsafe code.
//!
//! What is made here is destroyed when its last owner drops: an [`Instance`] outlives everything made on it, for all
//! of it shares it. Not here: objects of a device (`ffi.rs` of the crate).

use std::ffi::{CStr, c_char, c_void};
use std::sync::Arc;

use ash::{ext, khr, vk};
use tenure_core::BackendError;

use crate::error::{DRIVER_FIX, failed, unavailable};
use crate::messages::Messages;

const LAYER: &CStr = c"VK_LAYER_KHRONOS_validation";

/// Loads the loader library of the system.
pub(crate) fn load() -> Result<ash::Entry, BackendError> {
    // SAFETY: the system's Vulkan loader is a library whose initialisation has no requirements.
    unsafe { ash::Entry::load() }.map_err(|error| {
        unavailable("load Vulkan", format!("there is no Vulkan loader ({error})"), DRIVER_FIX)
    })
}

/// The version of the loader; 1.0 where it does not say.
pub(crate) fn loader_version(entry: &ash::Entry) -> u32 {
    // SAFETY: a plain query.
    let version = unsafe { entry.try_enumerate_instance_version() };
    version.ok().flatten().unwrap_or(vk::API_VERSION_1_0)
}

/// Whether the validation layer is installed.
pub(crate) fn has_validation(entry: &ash::Entry) -> bool {
    // SAFETY: a plain query.
    let layers = unsafe { entry.enumerate_instance_layer_properties() }.unwrap_or_default();
    layers.iter().any(|layer| layer.layer_name_as_c_str() == Ok(LAYER))
}

/// The names of the instance's extensions, of the loader or of a layer.
fn extensions(entry: &ash::Entry, layer: Option<&CStr>) -> Vec<vk::ExtensionProperties> {
    // SAFETY: a plain query.
    unsafe { entry.enumerate_instance_extension_properties(layer) }.unwrap_or_default()
}

fn has(extensions: &[vk::ExtensionProperties], name: &CStr) -> bool {
    extensions.iter().any(|extension| extension.extension_name_as_c_str() == Ok(name))
}

/// An instance, ours or an engine's.
pub(crate) struct Instance {
    pub raw: ash::Instance,
    /// The instance has the extension for names and messages.
    pub debug_utils: bool,
    /// The version of Vulkan that it was made for.
    pub version: u32,
    life: Life,
    /// Keeps the library loaded.
    _entry: ash::Entry,
}

enum Life {
    Owned {
        messenger: Option<(ext::debug_utils::Instance, vk::DebugUtilsMessengerEXT)>,
        /// The messenger points at it.
        _messages: Option<Box<Messages>>,
    },
    Foreign {
        /// L6: held until the last native object is gone.
        _keep_alive: Arc<dyn Send + Sync>,
    },
}

impl Instance {
    /// Makes an instance. With `messages`, the validation layer is on and says there what it finds.
    pub(crate) fn new(entry: ash::Entry, messages: Option<Messages>) -> Result<Self, BackendError> {
        let offered = extensions(&entry, None);
        let debug_utils = has(&offered, ext::debug_utils::NAME);
        let portable = has(&offered, khr::portability_enumeration::NAME);
        let mut names: Vec<*const c_char> = Vec::new();
        let mut layers: Vec<*const c_char> = Vec::new();
        let mut flags = vk::InstanceCreateFlags::empty();
        if debug_utils {
            names.push(ext::debug_utils::NAME.as_ptr());
        }
        if portable {
            names.push(khr::portability_enumeration::NAME.as_ptr());
            flags |= vk::InstanceCreateFlags::ENUMERATE_PORTABILITY_KHR;
        }
        let messages = messages.map(Box::new);
        if messages.is_some() {
            layers.push(LAYER.as_ptr());
            names.push(ext::validation_features::NAME.as_ptr());
        }
        let version = loader_version(&entry).min(vk::API_VERSION_1_3);
        let application = vk::ApplicationInfo::default().engine_name(c"tenure").api_version(version);
        let enabled = [vk::ValidationFeatureEnableEXT::SYNCHRONIZATION_VALIDATION];
        let mut features = vk::ValidationFeaturesEXT::default().enabled_validation_features(&enabled);
        // Once chained, for what happens while the instance itself is made and destroyed, and once as an object.
        let mut early = messages.as_deref().map(messenger_info);
        let mut info = vk::InstanceCreateInfo::default()
            .application_info(&application)
            .enabled_layer_names(&layers)
            .enabled_extension_names(&names)
            .flags(flags);
        if let Some(early) = &mut early {
            info = info.push_next(early).push_next(&mut features);
        }
        // SAFETY: everything that the info points at lives until the call returns, and the sink longer than the
        // instance: it is dropped after it.
        let raw = unsafe { entry.create_instance(&info, None) }.map_err(|result| match result {
            vk::Result::ERROR_INCOMPATIBLE_DRIVER => {
                unavailable("vkCreateInstance", "no Vulkan driver is installed", DRIVER_FIX)
            }
            result => failed("vkCreateInstance", result),
        })?;
        let mut instance = Instance {
            debug_utils,
            version,
            life: Life::Owned { messenger: None, _messages: None },
            raw,
            _entry: entry,
        };
        if let Some(messages) = messages {
            let functions = ext::debug_utils::Instance::new(&instance._entry, &instance.raw);
            let info = messenger_info(&messages);
            // SAFETY: the extension is on, and the sink outlives the messenger.
            let messenger = unsafe { functions.create_debug_utils_messenger(&info, None) }
                .map_err(|result| failed("vkCreateDebugUtilsMessengerEXT", result))?;
            instance.life =
                Life::Owned { messenger: Some((functions, messenger)), _messages: Some(messages) };
        }
        Ok(instance)
    }

    /// Takes an engine's instance, which is never destroyed here.
    pub(crate) fn foreign(
        entry: ash::Entry,
        raw: ash::Instance,
        debug_utils: bool,
        version: u32,
        keep_alive: Arc<dyn Send + Sync>,
    ) -> Self {
        Instance { raw, debug_utils, version, life: Life::Foreign { _keep_alive: keep_alive }, _entry: entry }
    }

    pub(crate) fn physical_devices(&self) -> Result<Vec<vk::PhysicalDevice>, BackendError> {
        // SAFETY: a plain query.
        let devices = unsafe { self.raw.enumerate_physical_devices() };
        devices.map_err(|result| match result {
            vk::Result::ERROR_INITIALIZATION_FAILED => {
                unavailable("vkEnumeratePhysicalDevices", "no Vulkan driver starts", DRIVER_FIX)
            }
            result => failed("vkEnumeratePhysicalDevices", result),
        })
    }

    pub(crate) fn properties(&self, device: vk::PhysicalDevice) -> vk::PhysicalDeviceProperties {
        // SAFETY: the device is of this instance.
        unsafe { self.raw.get_physical_device_properties(device) }
    }

    /// The largest allocation, in bytes.
    pub(crate) fn max_allocation(&self, device: vk::PhysicalDevice) -> u64 {
        let mut limits = vk::PhysicalDeviceMaintenance3Properties::default();
        let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut limits);
        // SAFETY: the device is of this instance, and both structures exist since version 1.1.
        unsafe { self.raw.get_physical_device_properties2(device, &mut properties) }
        limits.max_memory_allocation_size
    }

    /// The largest buffer, in bytes. For devices of version 1.3.
    pub(crate) fn max_buffer(&self, device: vk::PhysicalDevice) -> u64 {
        let mut limits = vk::PhysicalDeviceMaintenance4Properties::default();
        let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut limits);
        // SAFETY: the device is of this instance, and the caller saw that it knows the structure.
        unsafe { self.raw.get_physical_device_properties2(device, &mut properties) }
        limits.max_buffer_size
    }

    /// Whether the device has timeline semaphores and, with its version or extension, synchronization2.
    pub(crate) fn features(&self, device: vk::PhysicalDevice, synchronization2: bool) -> (bool, bool) {
        let mut timeline = vk::PhysicalDeviceTimelineSemaphoreFeatures::default();
        let mut second = vk::PhysicalDeviceSynchronization2Features::default();
        let mut features = vk::PhysicalDeviceFeatures2::default().push_next(&mut timeline);
        if synchronization2 {
            features = features.push_next(&mut second);
        }
        // SAFETY: the device is of this instance and knows the structures.
        unsafe { self.raw.get_physical_device_features2(device, &mut features) }
        (timeline.timeline_semaphore == vk::TRUE, second.synchronization2 == vk::TRUE)
    }

    pub(crate) fn device_extensions(&self, device: vk::PhysicalDevice) -> Vec<vk::ExtensionProperties> {
        // SAFETY: the device is of this instance.
        unsafe { self.raw.enumerate_device_extension_properties(device) }.unwrap_or_default()
    }

    pub(crate) fn queue_families(&self, device: vk::PhysicalDevice) -> Vec<vk::QueueFamilyProperties> {
        // SAFETY: the device is of this instance.
        unsafe { self.raw.get_physical_device_queue_family_properties(device) }
    }

    pub(crate) fn memory(&self, device: vk::PhysicalDevice) -> vk::PhysicalDeviceMemoryProperties {
        // SAFETY: the device is of this instance.
        unsafe { self.raw.get_physical_device_memory_properties(device) }
    }

    /// What the driver says of each heap: used and budget, in bytes. For devices with the extension.
    pub(crate) fn memory_budget(&self, device: vk::PhysicalDevice) -> Vec<(u64, u64)> {
        let mut budget = vk::PhysicalDeviceMemoryBudgetPropertiesEXT::default();
        let mut properties = vk::PhysicalDeviceMemoryProperties2::default().push_next(&mut budget);
        // SAFETY: the device is of this instance, and the caller saw that it has the extension.
        unsafe { self.raw.get_physical_device_memory_properties2(device, &mut properties) }
        let heaps = properties.memory_properties.memory_heap_count as usize;
        (0..heaps).map(|heap| (budget.heap_usage[heap], budget.heap_budget[heap])).collect()
    }

    /// Makes a device with one queue of `family`, timeline semaphores, and synchronization2 if asked for.
    pub(crate) fn create_device(
        &self,
        device: vk::PhysicalDevice,
        family: u32,
        synchronization2: bool,
        extensions: &[&CStr],
    ) -> Result<ash::Device, BackendError> {
        let priorities = [1.0];
        let queues =
            [vk::DeviceQueueCreateInfo::default().queue_family_index(family).queue_priorities(&priorities)];
        let names: Vec<*const c_char> = extensions.iter().map(|name| name.as_ptr()).collect();
        let mut timeline = vk::PhysicalDeviceTimelineSemaphoreFeatures::default().timeline_semaphore(true);
        let mut second = vk::PhysicalDeviceSynchronization2Features::default().synchronization2(true);
        let mut info = vk::DeviceCreateInfo::default()
            .queue_create_infos(&queues)
            .enabled_extension_names(&names)
            .push_next(&mut timeline);
        if synchronization2 {
            info = info.push_next(&mut second);
        }
        // SAFETY: the device is of this instance and has what is asked for; the info's parts outlive the call.
        unsafe { self.raw.create_device(device, &info, None) }
            .map_err(|result| failed("vkCreateDevice", result))
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let Life::Owned { messenger, .. } = &mut self.life else { return };
        if let Some((functions, messenger)) = messenger.take() {
            // SAFETY: it was made by these functions, and is destroyed once.
            unsafe { functions.destroy_debug_utils_messenger(messenger, None) };
        }
        // SAFETY: everything that was made on the instance shares it, and so is gone.
        unsafe { self.raw.destroy_instance(None) }
    }
}

fn messenger_info(messages: &Messages) -> vk::DebugUtilsMessengerCreateInfoEXT<'static> {
    vk::DebugUtilsMessengerCreateInfoEXT::default()
        .message_severity(
            vk::DebugUtilsMessageSeverityFlagsEXT::ERROR | vk::DebugUtilsMessageSeverityFlagsEXT::WARNING,
        )
        .message_type(
            vk::DebugUtilsMessageTypeFlagsEXT::VALIDATION | vk::DebugUtilsMessageTypeFlagsEXT::PERFORMANCE,
        )
        .pfn_user_callback(Some(on_message))
        .user_data(std::ptr::from_ref(messages).cast_mut().cast())
}

unsafe extern "system" fn on_message(
    _severity: vk::DebugUtilsMessageSeverityFlagsEXT,
    _kind: vk::DebugUtilsMessageTypeFlagsEXT,
    data: *const vk::DebugUtilsMessengerCallbackDataEXT<'_>,
    user: *mut c_void,
) -> vk::Bool32 {
    // SAFETY: the loader hands over a valid structure or none.
    let data = unsafe { data.as_ref() };
    // SAFETY: the pointer was made from a sink that outlives the messenger and the instance.
    let messages = unsafe { user.cast::<Messages>().as_ref() };
    if let (Some(data), Some(messages)) = (data, messages) {
        // SAFETY: texts in the structure end with a zero and live until this function returns.
        let id = unsafe { data.message_id_name_as_c_str() };
        // SAFETY: as above.
        let text = unsafe { data.message_as_c_str() };
        let id = id.unwrap_or_default().to_string_lossy();
        let text = text.unwrap_or_default().to_string_lossy();
        messages.add(format!("{id}: {text}"));
    }
    vk::FALSE
}
