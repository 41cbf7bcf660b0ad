//! Kernels: the first form that this device takes, as a pipeline.
//!
//! Not here: programs (`shader.rs`), and recording a dispatch (`encode.rs`).

pub(crate) mod ffi;

use std::sync::Arc;

use ash::vk;
use tenure_core::kernel::KernelForm;
use tenure_core::{BackendError, KernelSource};

use crate::device::Device;
use crate::error::unsupported;
use crate::kernel::ffi::{Layout, Pipeline};
use crate::shader;

/// A compiled kernel.
pub struct VulkanKernel {
    pub(crate) pipeline: Pipeline,
}

impl VulkanKernel {
    /// The driver's pipeline. Valid while the kernel is not destroyed; never to be destroyed by others.
    pub fn pipeline(&self) -> vk::Pipeline {
        self.pipeline.raw
    }
}

impl std::fmt::Debug for VulkanKernel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VulkanKernel").field("pipeline", &self.pipeline.raw).finish_non_exhaustive()
    }
}

impl Device {
    pub(crate) fn compile(&self, source: &KernelSource) -> Result<VulkanKernel, BackendError> {
        self.api.alive()?;
        for kernel in source.device_forms() {
            let Some(words) = shader::words(source, kernel)? else { continue };
            // The parameters are one buffer more.
            let layout = self.layout(source.bindings().len() as u32 + 1, source.label())?;
            let pipeline = self.cache.pipeline(layout, &words, &kernel.entry, source.label())?;
            return Ok(VulkanKernel { pipeline });
        }
        let forms: Vec<String> = source.forms().iter().map(KernelForm::name).collect();
        let forms = if forms.is_empty() { "no form at all".to_owned() } else { forms.join(", ") };
        let label = source.label();
        Err(unsupported("compile", format!("kernel `{label}` has no WGSL and no SPIR-V; it has {forms}")))
    }

    /// The layout of so many buffers, made once.
    fn layout(&self, buffers: u32, label: &str) -> Result<Arc<Layout>, BackendError> {
        let most = self
            .facts
            .limits
            .max_per_stage_descriptor_storage_buffers
            .min(self.facts.limits.max_descriptor_set_storage_buffers);
        if buffers > most {
            let wants = buffers - 1;
            let message = format!(
                "kernel `{label}` has {wants} bindings, the device takes {} and parameters",
                most - 1
            );
            return Err(unsupported("compile", message));
        }
        let mut layouts = self.layouts.lock();
        if let Some(layout) = layouts.get(&buffers) {
            return Ok(layout.clone());
        }
        let layout = Arc::new(Layout::new(&self.api, buffers)?);
        layouts.insert(buffers, layout.clone());
        Ok(layout)
    }
}
