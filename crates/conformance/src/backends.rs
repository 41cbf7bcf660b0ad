//! The backends that this build of the suite has, by name, and what is expected of each. One entry a backend: a
//! feature, a constructor, its expectations.
//!
//! Not here: the backends. A backend of one's own needs no entry here, see [`Suite`].

use crate::expectations::Expectations;
use crate::harness::Suite;

/// Names that [`suite`] takes in this build.
pub const NAMES: &[&str] = &[
    #[cfg(feature = "host")]
    "host",
    #[cfg(feature = "vulkan")]
    "vulkan",
    #[cfg(feature = "vulkan")]
    "vulkan-staged",
    #[cfg(feature = "wgpu")]
    "wgpu",
    #[cfg(feature = "cuda")]
    "cuda",
    #[cfg(feature = "cuda")]
    "softcuda",
];

/// The suite of a backend; `None` if this build has none of that name.
pub fn suite(name: &str) -> Option<Suite> {
    match name {
        #[cfg(feature = "host")]
        "host" => Some(
            Suite::new(name, || Ok(tenure_backend_host::HostBackend::new()))
                .engine_memory::<tenure_backend_host::HostBackend>(tenure_backend_host::HostBlock::memory)
                .expectations(host_expectations()),
        ),
        #[cfg(feature = "vulkan")]
        "vulkan" => Some(vulkan::suite(name, false)),
        #[cfg(feature = "vulkan")]
        "vulkan-staged" => Some(vulkan::suite(name, true)),
        #[cfg(feature = "wgpu")]
        "wgpu" => {
            use tenure_backend_wgpu::{WgpuBackend, WgpuOptions, wgpu};
            // One instance for all managers of a run: so drivers are loaded once.
            let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
            descriptor.flags = wgpu::InstanceFlags::empty();
            let instance = wgpu::Instance::new(descriptor);
            let options = WgpuOptions::builder().instance(instance).build();
            let open = move || WgpuBackend::with_options(options.clone());
            Some(
                Suite::new(name, open)
                    .engine_memory::<WgpuBackend>(|block| block.buffer().clone())
                    .expectations(wgpu_expectations()),
            )
        }
        #[cfg(feature = "cuda")]
        "cuda" | "softcuda" => Some(cuda::suite(name)),
        _ => None,
    }
}

#[cfg(feature = "cuda")]
mod cuda;
#[cfg(feature = "vulkan")]
mod vulkan;
/// Everything is required but what needs host closures as kernels, which a device never runs.
#[cfg(any(feature = "vulkan", feature = "cuda"))]
fn device_expectations() -> Expectations {
    const HOST: &str = "a kernel on a device cannot fail alone, and host closures do not run there";
    let unsupported = [
        "sequences/a_failed_one_can_be_evaluated_again",
        "sequences/ways_out_of_failed",
        "sequences/a_failure_stays_with_its_execution",
        "hooks/a_kernel_that_fails_is_told_by_finish",
        "cancellation/failed_work_is_told_all_the_same",
        "observability/events_of_a_failed_execution",
        "input/wrong_parameters",
    ];
    let required = Expectations::new().require("*");
    unsupported.into_iter().fold(required, |list, case| list.unsupported(case, HOST))
}

/// What is expected of the wgpu backend. Topics of which every case runs are required. In the others what needs host
/// closures that fail, a second queue, blocks in ranges or recordings that repeat is skipped by its requirement: wgpu has
/// none of these for good.
pub fn wgpu_expectations() -> Expectations {
    let topics = [
        "ownership/*",
        "hazards/*",
        "scopes/*",
        "stack/*",
        "kompute/*",
        "adoption/*",
        "faults/*",
        "loss/*",
        // By name, so that nobody's kernels can stop compiling unnoticed.
        "field/c23_*",
        "input/*bindings*",
        "input/a_binding_at_any_element",
    ];
    topics.into_iter().fold(Expectations::new(), Expectations::require)
}

/// What is expected of the host backend: it runs host closures on two or more queues and has every
/// capability: nothing may be skipped.
pub fn host_expectations() -> Expectations {
    let topics = [
        "ownership/*",
        "sequences/*",
        "hazards/*",
        "scopes/*",
        "hooks/*",
        "stack/*",
        "kompute/*",
        "cancellation/*",
        "memory/*",
        "adoption/*",
        "faults/*",
        "loss/*",
        "observability/*",
        "graphs/*",
        "field/*",
        "threads/*",
        "input/*",
    ];
    topics.into_iter().fold(Expectations::new(), Expectations::require)
}
