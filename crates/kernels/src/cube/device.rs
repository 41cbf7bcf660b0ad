//! What CubeCL wants to know before it defines a kernel: a workgroup's size, and a device's properties.
//!
//! Kernels are compiled for no device in particular: the properties are those that every backend has. Not here: the
//! device that runs the kernel, whose limits its backend checks.

use std::sync::Arc;

use cubecl::ir::features::Features;
use cubecl::ir::{DeviceIdentity, HardwareProperties, MemoryDeviceProperties};
use cubecl::prelude::*;
use cubecl::profile::TimingMethod;

/// Settings for workgroups of this many invocations in x, y, z, with no checks but the kernel's own: a backend compiles
/// WGSL with bounds checks in any case. Indices have 32 bits.
pub fn settings([x, y, z]: [u32; 3]) -> KernelSettings {
    KernelSettings::new(*CubeDim::new_3d(x, y, z), ExecutionMode::Unchecked, AddressType::U32)
}

/// A device with what WebGPU guarantees and nothing more: no subgroups, no 64-bit types, 16 KiB of shared memory.
pub fn device() -> Arc<DeviceProperties> {
    Arc::new(DeviceProperties::new(
        Features::default(),
        MemoryDeviceProperties::new(128 << 20, 256),
        HardwareProperties {
            load_width: 128,
            vector_register_count: None,
            plane_size_min: 32,
            plane_size_max: 32,
            max_bindings: 8,
            max_shared_memory_size: 16 << 10,
            max_cube_count: (65_535, 65_535, 65_535),
            max_units_per_cube: 256,
            max_cube_dim: (256, 256, 64),
            num_streaming_multiprocessors: None,
            num_tensor_cores: None,
            min_tensor_cores_dim: None,
            num_cpu_cores: None,
            last_level_cache_size: None,
            max_vector_size: 4,
            cube_mma_reserved_shared_memory: 0,
        },
        TimingMethod::System,
        DeviceIdentity { name: "portable".into(), fingerprint: "portable".into(), physical: None },
    ))
}

/// Properties of the target, as CubeCL has them by default.
pub fn target() -> Arc<TargetProperties> {
    Arc::new(TargetProperties::default())
}

/// A buffer argument that has a tensor of its own.
pub fn buffer() -> BufferCompilationArg {
    BufferCompilationArg { inplace: None }
}
