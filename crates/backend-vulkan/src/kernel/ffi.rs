//! Pipelines, their layouts, and the descriptor sets that bind buffers to them: the unsafe code.
//!
//! As in the crate's `ffi.rs`: each object has one owner that destroys it, and the safe functions stand on the SPI's
//! contract. Not here: programs (`shader.rs`), dispatching (`commands/ffi.rs`).

use std::ffi::CString;
use std::sync::Arc;

use ash::vk;
use tenure_core::BackendError;

use crate::error::compile;
use crate::ffi::Api;

/// A layout of kernels: so many storage buffers in descriptor set 0.
pub(crate) struct Layout {
    pub set: vk::DescriptorSetLayout,
    pub pipeline: vk::PipelineLayout,
    pub buffers: u32,
    api: Arc<Api>,
}

impl Layout {
    pub(crate) fn new(api: &Arc<Api>, buffers: u32) -> Result<Self, BackendError> {
        let binding = |index| {
            vk::DescriptorSetLayoutBinding::default()
                .binding(index)
                .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
                .descriptor_count(1)
                .stage_flags(vk::ShaderStageFlags::COMPUTE)
        };
        let bindings: Vec<_> = (0..buffers).map(binding).collect();
        let info = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings);
        // SAFETY: the info is complete.
        let set = unsafe { api.device.create_descriptor_set_layout(&info, None) };
        let set = api.check("vkCreateDescriptorSetLayout", set)?;
        // From here on dropping takes back what there is.
        let mut layout = Layout { set, pipeline: vk::PipelineLayout::null(), buffers, api: api.clone() };
        let sets = [set];
        let info = vk::PipelineLayoutCreateInfo::default().set_layouts(&sets);
        // SAFETY: the info is complete, and the set's layout alive.
        let pipeline = unsafe { api.device.create_pipeline_layout(&info, None) };
        layout.pipeline = api.check("vkCreatePipelineLayout", pipeline)?;
        let label = format!("tenure: {buffers} buffers");
        api.name(layout.set, &label);
        api.name(layout.pipeline, &label);
        Ok(layout)
    }
}

impl Drop for Layout {
    fn drop(&mut self) {
        // SAFETY: no recording with it will be submitted, and it is destroyed once. Of none it is nothing.
        unsafe { self.api.device.destroy_pipeline_layout(self.pipeline, None) };
        // SAFETY: as above; kernels and sets share this object.
        unsafe { self.api.device.destroy_descriptor_set_layout(self.set, None) }
    }
}

/// A pool of descriptor sets.
pub(crate) struct DescriptorPool {
    raw: vk::DescriptorPool,
    api: Arc<Api>,
}

impl DescriptorPool {
    /// Room for `sets` sets with `buffers` buffers in all.
    pub(crate) fn new(api: &Arc<Api>, sets: u32, buffers: u32, label: &str) -> Result<Self, BackendError> {
        let sizes = [vk::DescriptorPoolSize::default()
            .ty(vk::DescriptorType::STORAGE_BUFFER)
            .descriptor_count(buffers)];
        let info = vk::DescriptorPoolCreateInfo::default().max_sets(sets).pool_sizes(&sizes);
        // SAFETY: the info is complete.
        let raw = unsafe { api.device.create_descriptor_pool(&info, None) };
        let raw = api.check("vkCreateDescriptorPool", raw)?;
        api.name(raw, label);
        Ok(DescriptorPool { raw, api: api.clone() })
    }

    /// One more set, which lives until the pool is reset. None if there is no room for it.
    pub(crate) fn allocate(&mut self, layout: &Layout) -> Result<Option<vk::DescriptorSet>, BackendError> {
        let layouts = [layout.set];
        let info = vk::DescriptorSetAllocateInfo::default().descriptor_pool(self.raw).set_layouts(&layouts);
        // SAFETY: pool and layout are alive and, by `&mut`, nobody else uses the pool.
        match unsafe { self.api.device.allocate_descriptor_sets(&info) } {
            Ok(sets) => Ok(Some(sets[0])),
            Err(vk::Result::ERROR_OUT_OF_POOL_MEMORY | vk::Result::ERROR_FRAGMENTED_POOL) => Ok(None),
            Err(result) => self.api.check("vkAllocateDescriptorSets", Err(result)),
        }
    }

    /// Frees every set. None of them is in flight.
    pub(crate) fn reset(&mut self) -> Result<(), BackendError> {
        // SAFETY: by the contract of `Scope::reset` none of the sets is in flight.
        let reset =
            unsafe { self.api.device.reset_descriptor_pool(self.raw, vk::DescriptorPoolResetFlags::empty()) };
        self.api.check("vkResetDescriptorPool", reset)
    }
}

impl Drop for DescriptorPool {
    fn drop(&mut self) {
        // SAFETY: none of its sets is in flight (L4), and it is destroyed once.
        unsafe { self.api.device.destroy_descriptor_pool(self.raw, None) }
    }
}

/// A range of a buffer, as a kernel's binding.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BoundRange {
    pub buffer: vk::Buffer,
    pub offset: u64,
    pub bytes: u64,
}

/// Points a set that is not in flight at buffers, bindings 0, 1, 2, ...
pub(crate) fn update_set(api: &Api, set: vk::DescriptorSet, ranges: &[BoundRange]) {
    let infos: Vec<[vk::DescriptorBufferInfo; 1]> = ranges
        .iter()
        .map(|range| {
            [vk::DescriptorBufferInfo::default().buffer(range.buffer).offset(range.offset).range(range.bytes)]
        })
        .collect();
    let writes: Vec<vk::WriteDescriptorSet<'_>> = infos
        .iter()
        .zip(0..)
        .map(|(info, binding)| {
            vk::WriteDescriptorSet::default()
                .dst_set(set)
                .dst_binding(binding)
                .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
                .buffer_info(info)
        })
        .collect();
    // SAFETY: the set belongs to the recording that is being made: it is not in flight, and nobody else has it.
    unsafe { api.device.update_descriptor_sets(&writes, &[]) }
}

/// A cache of what the driver compiled.
pub(crate) struct RawCache {
    raw: vk::PipelineCache,
    api: Arc<Api>,
}

impl RawCache {
    /// A cache that begins with `data`, which this driver once gave, or with nothing.
    pub(crate) fn new(api: &Arc<Api>, data: &[u8]) -> Result<Self, BackendError> {
        let info = vk::PipelineCacheCreateInfo::default().initial_data(data);
        // SAFETY: the data is none, or what the same driver gave: its header and checksum were looked at.
        let raw = unsafe { api.device.create_pipeline_cache(&info, None) };
        let raw = api.check("vkCreatePipelineCache", raw)?;
        api.name(raw, "tenure: pipeline cache");
        Ok(RawCache { raw, api: api.clone() })
    }

    pub(crate) fn data(&self) -> Result<Vec<u8>, BackendError> {
        // SAFETY: the cache is alive; the driver synchronises its use.
        let data = unsafe { self.api.device.get_pipeline_cache_data(self.raw) };
        self.api.check("vkGetPipelineCacheData", data)
    }
}

impl Drop for RawCache {
    fn drop(&mut self) {
        // SAFETY: no pipeline is being made with it, and it is destroyed once.
        unsafe { self.api.device.destroy_pipeline_cache(self.raw, None) }
    }
}

/// A compiled kernel.
pub(crate) struct Pipeline {
    pub raw: vk::Pipeline,
    pub layout: Arc<Layout>,
    api: Arc<Api>,
}

impl Pipeline {
    /// Compiles SPIR-V that was checked.
    pub(crate) fn new(
        cache: &RawCache,
        layout: Arc<Layout>,
        words: &[u32],
        entry: &str,
        label: &str,
    ) -> Result<Self, BackendError> {
        let api = cache.api.clone();
        let entry = CString::new(entry).map_err(|error| compile(label, error))?;
        let info = vk::ShaderModuleCreateInfo::default().code(words);
        // SAFETY: the words are a SPIR-V module, by naga or by the promise of who handed them in.
        let module = unsafe { api.device.create_shader_module(&info, None) };
        let module = api.check("vkCreateShaderModule", module)?;
        let stage = vk::PipelineShaderStageCreateInfo::default()
            .stage(vk::ShaderStageFlags::COMPUTE)
            .module(module)
            .name(&entry);
        let infos = [vk::ComputePipelineCreateInfo::default().stage(stage).layout(layout.pipeline)];
        // SAFETY: module, layout and cache are alive, and the module has the entry point.
        let pipelines = unsafe { api.device.create_compute_pipelines(cache.raw, &infos, None) };
        // SAFETY: no pipeline needs its module once it is made.
        unsafe { api.device.destroy_shader_module(module, None) };
        let raw = api.check("vkCreateComputePipelines", pipelines.map_err(|(_, result)| result))?[0];
        api.name(raw, label);
        Ok(Pipeline { raw, layout, api })
    }
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        // SAFETY: the device has finished with it, and no recording with it will be submitted (SPI,
        // `Backend::destroy_kernel`).
        unsafe { self.api.device.destroy_pipeline(self.raw, None) }
    }
}
