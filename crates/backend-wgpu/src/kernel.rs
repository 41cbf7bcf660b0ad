//! Kernels: the WGSL form of a source, compiled, with what its text says of its bindings.
//!
//! The layout follows the text: a kernel whose text declares all bindings writable is taken as it is, whatever narrower
//! access its source declares. Compiled kernels are cached by text, so compiling one again costs nothing. Not here:
//! binding and dispatching (`encode.rs`).

use std::sync::Arc;

use tenure_core::kernel::{DeviceKernel, DeviceProgram, KernelForm};
use tenure_core::{Access, BackendError, BackendErrorKind, KernelSource};
use wgpu::naga::{AddressSpace, Module, StorageAccess, front::wgsl};
use wgpu::{
    BindGroupLayoutDescriptor, BindGroupLayoutEntry, BindingType, BufferBindingType,
    ComputePipelineDescriptor, PipelineLayoutDescriptor, ShaderModuleDescriptor, ShaderSource, ShaderStages,
};

use crate::device::{Device, WORD};
use crate::error::{compile as refused, unsupported};

/// A compiled kernel, shared with the recordings that name it.
#[derive(Clone, Debug)]
pub struct WgpuKernel {
    pub(crate) compiled: Arc<Compiled>,
}

impl WgpuKernel {
    /// The pipeline.
    pub fn pipeline(&self) -> &wgpu::ComputePipeline {
        &self.compiled.pipeline
    }
}

#[derive(Debug)]
pub(crate) struct Compiled {
    pub id: u64,
    pub pipeline: wgpu::ComputePipeline,
    pub layout: wgpu::BindGroupLayout,
    /// The bindings of the source, in order.
    pub bindings: Vec<Layout>,
    /// The binding after them, if the text declares one: its smallest size in bytes.
    pub parameters: Option<u64>,
}

/// What the text declares of one binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// The text cannot write it.
    pub read_only: bool,
    /// Fewest bytes that can be bound, a multiple of [`WORD`].
    pub smallest: u64,
}

/// What a compiled kernel depends on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct KernelKey {
    text: Arc<str>,
    entry: Arc<str>,
    accesses: Vec<Access>,
}

impl Device {
    /// # Errors
    /// `Unsupported` if there is no WGSL form, `Compile` with the place in the text.
    pub(crate) fn compile(&self, source: &KernelSource) -> Result<WgpuKernel, BackendError> {
        let Some((form, text)) = source.device_forms().find_map(wgsl_text) else {
            let forms: Vec<String> = source.forms().iter().map(KernelForm::name).collect();
            let forms = if forms.is_empty() { "no form at all".to_owned() } else { forms.join(", ") };
            let message = format!("kernel `{}` has no WGSL; it has {forms}", source.label());
            return Err(unsupported("compile", message));
        };
        let key =
            KernelKey { text: text.clone(), entry: form.entry.clone(), accesses: source.bindings().to_vec() };
        if let Some(kernel) = self.kernels.lock().get(&key) {
            return Ok(kernel);
        }
        let compiled = self.compile_text(source.label(), text, &form.entry, source.bindings())?;
        let kernel = WgpuKernel { compiled: Arc::new(compiled) };
        let forgotten = self.kernels.lock().insert(key, kernel.clone());
        drop(forgotten);
        Ok(kernel)
    }

    pub(crate) fn compile_text(
        &self,
        label: &str,
        text: &str,
        entry: &str,
        accesses: &[Access],
    ) -> Result<Compiled, BackendError> {
        let module = wgsl::parse_str(text)
            .map_err(|error| refused(label, &error.emit_to_string_with_path(text, label)))?;
        let declared = declared(&module, accesses).map_err(|message| refused(label, &message))?;
        let (bindings, parameters) = declared;
        let read_only = bindings.iter().map(|layout| layout.read_only).chain(parameters.map(|_| true));
        let entries: Vec<BindGroupLayoutEntry> = (0..).zip(read_only).map(layout_entry).collect();
        let made = self.checked("compile", || {
            let module = self.device.create_shader_module(ShaderModuleDescriptor {
                label: Some(label),
                source: ShaderSource::Wgsl(text.into()),
            });
            let layout = self.device.create_bind_group_layout(&BindGroupLayoutDescriptor {
                label: Some(label),
                entries: &entries,
            });
            let pipeline_layout = self.device.create_pipeline_layout(&PipelineLayoutDescriptor {
                label: Some(label),
                bind_group_layouts: &[Some(&layout)],
                immediate_size: 0,
            });
            let pipeline = self.device.create_compute_pipeline(&ComputePipelineDescriptor {
                label: Some(label),
                layout: Some(&pipeline_layout),
                module: &module,
                entry_point: Some(entry),
                compilation_options: Default::default(),
                cache: None,
            });
            (layout, pipeline)
        });
        let (layout, pipeline) = made.map_err(|error| match error.kind {
            // Found out about the text, not about the device.
            BackendErrorKind::Driver => {
                BackendError { source: error.source, ..refused(label, &error.message) }
            }
            _ => error,
        })?;
        Ok(Compiled { id: self.next_id(), pipeline, layout, bindings, parameters })
    }
}

fn wgsl_text(form: &DeviceKernel) -> Option<(&DeviceKernel, &Arc<str>)> {
    match &form.program {
        DeviceProgram::Wgsl(text) => Some((form, text)),
        _ => None,
    }
}

fn layout_entry((binding, read_only): (u32, bool)) -> BindGroupLayoutEntry {
    let ty = BindingType::Buffer {
        ty: BufferBindingType::Storage { read_only },
        has_dynamic_offset: false,
        min_binding_size: None,
    };
    BindGroupLayoutEntry { binding, visibility: ShaderStages::COMPUTE, ty, count: None }
}

/// What the text declares, held against the source's bindings. What it does not declare has the source's access.
fn declared(module: &Module, accesses: &[Access]) -> Result<(Vec<Layout>, Option<u64>), String> {
    let undeclared = |access: &Access| Layout { read_only: !access.writes(), smallest: WORD };
    let mut bindings: Vec<Layout> = accesses.iter().map(undeclared).collect();
    let mut parameters = None;
    for (_, variable) in module.global_variables.iter() {
        let Some(place) = variable.binding else { continue };
        let name = variable.name.as_deref().unwrap_or("without a name");
        let at = format!("`{name}` at group {}, binding {}", place.group, place.binding);
        let AddressSpace::Storage { access } = variable.space else {
            return Err(format!("{at} is no storage buffer"));
        };
        let index = place.binding as usize;
        if place.group != 0 || index > accesses.len() {
            let count = accesses.len();
            return Err(format!("{at} is nothing that a dispatch binds: the source has {count} bindings"));
        }
        let size = module.types[variable.ty].inner.try_size(module.to_ctx());
        let smallest = u64::from(size.ok_or_else(|| format!("{at} has a type without a size"))?);
        let smallest = smallest.next_multiple_of(WORD).max(WORD);
        let read_only = !access.contains(StorageAccess::STORE);
        match bindings.get_mut(index) {
            Some(layout) => *layout = Layout { read_only, smallest },
            None if read_only => parameters = Some(smallest),
            None => return Err(format!("{at} holds the parameters, which a kernel cannot write")),
        }
    }
    Ok((bindings, parameters))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str, accesses: &[Access]) -> Result<(Vec<Layout>, Option<u64>), String> {
        declared(&wgsl::parse_str(text).expect("it parses"), accesses)
    }

    #[test]
    fn the_text_says_what_is_bound() {
        let text = "struct P { a: f32, b: vec2<u32> }
            @group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;
            @group(0) @binding(1) var<storage, read_write> y: array<u32>;
            @group(0) @binding(3) var<storage, read> p: P;";
        let (bindings, parameters) = of(text, &[Access::Read, Access::Read, Access::Write]).expect("it fits");
        let layout = |read_only, smallest| Layout { read_only, smallest };
        assert_eq!(bindings, [layout(true, 16), layout(false, 4), layout(false, 4)]);
        assert_eq!(parameters, Some(16));
    }

    #[test]
    fn what_a_dispatch_does_not_bind_is_refused() {
        for (text, part) in [
            ("@group(0) @binding(2) var<storage, read> x: array<u32>;", "`x` at group 0, binding 2"),
            ("@group(1) @binding(0) var<storage, read> x: array<u32>;", "`x` at group 1, binding 0"),
            ("@group(0) @binding(0) var<uniform> x: vec4<u32>;", "is no storage buffer"),
            ("@group(0) @binding(1) var<storage, read_write> x: u32;", "cannot write"),
        ] {
            let message = of(text, &[Access::Read]).expect_err("it does not fit");
            assert!(message.contains(part), "{message}");
        }
    }
}
