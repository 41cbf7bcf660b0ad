//! Picking an adapter and opening a device of our own on it.
//!
//! Not here: devices of engines, which are handed in (`backend.rs`).

use tenure_core::{BackendError, BackendInfo};
use wgpu::{
    Adapter, AdapterInfo, DeviceDescriptor, DeviceType, Features, Instance, InstanceDescriptor,
    InstanceFlags, MemoryHints, PowerPreference, RequestAdapterOptions,
};

use crate::backend::WgpuOptions;
use crate::error::unavailable;

/// What kernels may use where the device has it.
const KERNEL_FEATURES: Features =
    Features::SHADER_F16.union(Features::SHADER_F64).union(Features::SHADER_INT64).union(Features::SUBGROUP);

pub(crate) fn info(adapter: &AdapterInfo) -> BackendInfo {
    BackendInfo {
        name: "wgpu".to_owned(),
        device: format!("{} ({})", adapter.name, adapter.backend),
        software: adapter.device_type == DeviceType::Cpu,
    }
}

/// A device of our own.
pub(crate) struct Opened {
    pub instance: Instance,
    pub info: BackendInfo,
    pub device: wgpu::Device,
    pub queue: wgpu::Queue,
}

pub(crate) fn open(options: &WgpuOptions) -> Result<Opened, BackendError> {
    let instance = options.instance.clone().unwrap_or_else(|| instance(options));
    let adapter = pick(&instance, options)?;
    let descriptor = DeviceDescriptor {
        label: Some("tenure"),
        required_features: adapter.features() & KERNEL_FEATURES,
        required_limits: adapter.limits(),
        // Blocks are pooled by core: a second pool under it would only keep memory.
        memory_hints: MemoryHints::MemoryUsage,
        ..Default::default()
    };
    let (device, queue) = pollster::block_on(adapter.request_device(&descriptor)).map_err(|error| {
        unavailable(format!("{} gives no device: {error}", adapter.get_info().name)).with_source(error)
    })?;
    Ok(Opened { instance, info: info(&adapter.get_info()), device, queue })
}

fn instance(options: &WgpuOptions) -> Instance {
    let mut descriptor = InstanceDescriptor::new_without_display_handle();
    descriptor.backends = options.backends;
    descriptor.flags = if options.validation { InstanceFlags::debugging() } else { InstanceFlags::empty() };
    Instance::new(descriptor)
}

fn pick(instance: &Instance, options: &WgpuOptions) -> Result<Adapter, BackendError> {
    let Some(wanted) = &options.adapter else {
        let request = RequestAdapterOptions {
            power_preference: PowerPreference::HighPerformance,
            force_fallback_adapter: options.software,
            ..Default::default()
        };
        return pollster::block_on(instance.request_adapter(&request))
            .map_err(|error| unavailable(format!("wgpu finds no adapter: {error}")).with_source(error));
    };
    let adapters = pollster::block_on(instance.enumerate_adapters(options.backends));
    let names: Vec<String> = adapters.iter().map(|adapter| adapter.get_info().name).collect();
    let found = adapters.into_iter().find(|adapter| {
        let info = adapter.get_info();
        let fits = info.name.to_lowercase().contains(&wanted.to_lowercase());
        fits && (!options.software || info.device_type == DeviceType::Cpu)
    });
    found.ok_or_else(|| {
        let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        unavailable(format!("no adapter's name has `{wanted}` in it; there is: {names}"))
    })
}
