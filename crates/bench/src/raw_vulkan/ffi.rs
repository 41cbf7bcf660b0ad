//! The calls of the raw program: the unsafe code.
//!
//! One [`Raw`] owns everything that is made on its device, and destroys it when the device is idle. The numbers that it
//! gives out are its own: using those of another is a panic or the wrong object of the same kind, never a dangling one.

use std::ffi::CStr;

use ash::vk;
use tenure::{Access, KernelSource};
use tenure_bench::measure::Failure;

use super::{Buffer, Commands, Program, Step};

/// The entry point of all programs here.
const ENTRY: &CStr = c"main";

/// The same program for tenure, so that both sides run the same words.
pub fn tenure_kernel(label: &str, bindings: &[Access], words: &[u32]) -> KernelSource {
    // SAFETY: the programs of this package check what they index against the buffers' lengths, and write no binding that
    // the benches declare as read.
    unsafe { KernelSource::new(label, bindings).spirv(words, "main") }
}

/// A device with one queue, and all that was made on it.
pub struct Raw {
    /// Its driver's name for it.
    pub name: String,
    // Loaded functions are used as long as this lives.
    _entry: ash::Entry,
    pub instance: ash::Instance,
    #[cfg(feature = "gpu-allocator")]
    pub physical: vk::PhysicalDevice,
    pub device: ash::Device,
    queue: vk::Queue,
    memory: vk::PhysicalDeviceMemoryProperties,
    pool: vk::CommandPool,
    timeline: vk::Semaphore,
    submitted: u64,
    buffers: Vec<RawBuffer>,
    programs: Vec<RawProgram>,
    commands: Vec<vk::CommandBuffer>,
    descriptors: Vec<vk::DescriptorPool>,
}

struct RawBuffer {
    buffer: vk::Buffer,
    memory: vk::DeviceMemory,
    bytes: u64,
    mapped: *const u8,
}

struct RawProgram {
    module: vk::ShaderModule,
    sets: vk::DescriptorSetLayout,
    layout: vk::PipelineLayout,
    pipeline: vk::Pipeline,
}

impl Raw {
    /// Opens the device whose driver calls it `name`.
    pub fn open(name: &str) -> Result<Raw, Failure> {
        // SAFETY: the system's loader is a Vulkan loader.
        let entry = unsafe { ash::Entry::load() }?;
        let application = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_2);
        let info = vk::InstanceCreateInfo::default().application_info(&application);
        // SAFETY: the info names no layer and no extension.
        let instance = unsafe { entry.create_instance(&info, None) }?;
        // SAFETY: the instance is alive.
        let devices = unsafe { instance.enumerate_physical_devices() }?;
        let named = |physical: &vk::PhysicalDevice| {
            // SAFETY: the device is one of this instance.
            let properties = unsafe { instance.get_physical_device_properties(*physical) };
            properties.device_name_as_c_str().is_ok_and(|own| own.to_string_lossy() == name)
        };
        let physical =
            devices.into_iter().find(named).ok_or_else(|| format!("there is no device `{name}`"))?;
        // SAFETY: as above.
        let families = unsafe { instance.get_physical_device_queue_family_properties(physical) };
        let family = families.iter().position(|family| family.queue_flags.contains(vk::QueueFlags::COMPUTE));
        let family = family.ok_or("the device has no queue that computes")? as u32;
        let queues =
            [vk::DeviceQueueCreateInfo::default().queue_family_index(family).queue_priorities(&[1.0])];
        let mut features = vk::PhysicalDeviceVulkan12Features::default().timeline_semaphore(true);
        let info = vk::DeviceCreateInfo::default().queue_create_infos(&queues).push_next(&mut features);
        // SAFETY: the family is the device's, and the feature is one that the backend needs as well.
        let device = unsafe { instance.create_device(physical, &info, None) }?;
        // SAFETY: the device was made with one queue of the family.
        let queue = unsafe { device.get_device_queue(family, 0) };
        // SAFETY: as above.
        let memory = unsafe { instance.get_physical_device_memory_properties(physical) };
        let info = vk::CommandPoolCreateInfo::default().queue_family_index(family);
        // SAFETY: the family is the one that the device was made with.
        let pool = unsafe { device.create_command_pool(&info, None) }?;
        let mut kind = vk::SemaphoreTypeCreateInfo::default().semaphore_type(vk::SemaphoreType::TIMELINE);
        let info = vk::SemaphoreCreateInfo::default().push_next(&mut kind);
        // SAFETY: timeline semaphores are on.
        let timeline = unsafe { device.create_semaphore(&info, None) }?;
        Ok(Raw {
            name: name.to_owned(),
            _entry: entry,
            instance,
            #[cfg(feature = "gpu-allocator")]
            physical,
            device,
            queue,
            memory,
            pool,
            timeline,
            submitted: 0,
            buffers: Vec::new(),
            programs: Vec::new(),
            commands: Vec::new(),
            descriptors: Vec::new(),
        })
    }

    /// A buffer for kernels with memory of its own, which the host sees.
    pub fn buffer(&mut self, bytes: u64) -> Result<Buffer, Failure> {
        let usage = vk::BufferUsageFlags::STORAGE_BUFFER | vk::BufferUsageFlags::TRANSFER_DST;
        let info = vk::BufferCreateInfo::default().size(bytes).usage(usage);
        // SAFETY: the size is not 0.
        let buffer = unsafe { self.device.create_buffer(&info, None) }?;
        // SAFETY: the buffer is this device's.
        let needs = unsafe { self.device.get_buffer_memory_requirements(buffer) };
        let wanted = vk::MemoryPropertyFlags::HOST_VISIBLE | vk::MemoryPropertyFlags::HOST_COHERENT;
        let fits = |index: &u32| {
            let flags = self.memory.memory_types[*index as usize].property_flags;
            needs.memory_type_bits & (1 << index) != 0 && flags.contains(wanted)
        };
        let kind = (0..self.memory.memory_type_count).find(fits).ok_or("no memory that the host sees")?;
        let info = vk::MemoryAllocateInfo::default().allocation_size(needs.size).memory_type_index(kind);
        // SAFETY: the type is one of the device's.
        let memory = unsafe { self.device.allocate_memory(&info, None) }?;
        // SAFETY: the memory is as large and of a type as the buffer needs, and neither is bound.
        unsafe { self.device.bind_buffer_memory(buffer, memory, 0) }?;
        // SAFETY: the memory is host-visible and not mapped.
        let mapped =
            unsafe { self.device.map_memory(memory, 0, vk::WHOLE_SIZE, vk::MemoryMapFlags::empty()) }?;
        self.buffers.push(RawBuffer { buffer, memory, bytes, mapped: mapped.cast() });
        Ok(Buffer(self.buffers.len() - 1))
    }

    /// What the memory needs that a buffer of `bytes` is bound to.
    #[cfg(feature = "gpu-allocator")]
    pub fn requirements(&self, bytes: u64) -> Result<vk::MemoryRequirements, Failure> {
        let info = vk::BufferCreateInfo::default().size(bytes).usage(vk::BufferUsageFlags::STORAGE_BUFFER);
        // SAFETY: the size is not 0.
        let buffer = unsafe { self.device.create_buffer(&info, None) }?;
        // SAFETY: the buffer is this device's.
        let needs = unsafe { self.device.get_buffer_memory_requirements(buffer) };
        // SAFETY: nothing uses it.
        unsafe { self.device.destroy_buffer(buffer, None) };
        Ok(needs)
    }

    /// The words of a buffer. Everything that was submitted has been waited for.
    pub fn read(&self, buffer: Buffer) -> Vec<u32> {
        let RawBuffer { mapped, bytes, .. } = self.buffers[buffer.0];
        let words = mapped.cast::<u32>();
        // SAFETY: a mapping is aligned for words, as long as its buffer, and coherent; `&self` and the wait exclude writers.
        unsafe { std::slice::from_raw_parts(words, bytes as usize / 4) }.to_vec()
    }

    /// A program whose bindings 0 to `bindings` are buffers.
    pub fn program(&mut self, words: &[u32], bindings: u32) -> Result<Program, Failure> {
        let info = vk::ShaderModuleCreateInfo::default().code(words);
        // SAFETY: the words are valid SPIR-V: naga wrote them.
        let module = unsafe { self.device.create_shader_module(&info, None) }?;
        let slots: Vec<_> = (0..bindings)
            .map(|binding| {
                vk::DescriptorSetLayoutBinding::default()
                    .binding(binding)
                    .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
                    .descriptor_count(1)
                    .stage_flags(vk::ShaderStageFlags::COMPUTE)
            })
            .collect();
        let info = vk::DescriptorSetLayoutCreateInfo::default().bindings(&slots);
        // SAFETY: the bindings are distinct.
        let sets = unsafe { self.device.create_descriptor_set_layout(&info, None) }?;
        let of = [sets];
        let info = vk::PipelineLayoutCreateInfo::default().set_layouts(&of);
        // SAFETY: the set's layout is this device's.
        let layout = unsafe { self.device.create_pipeline_layout(&info, None) }?;
        let stage = vk::PipelineShaderStageCreateInfo::default()
            .stage(vk::ShaderStageFlags::COMPUTE)
            .module(module)
            .name(ENTRY);
        let info = [vk::ComputePipelineCreateInfo::default().stage(stage).layout(layout)];
        // SAFETY: the layout has the program's bindings, and the module has this entry point.
        let made = unsafe { self.device.create_compute_pipelines(vk::PipelineCache::null(), &info, None) };
        let pipeline = made.map_err(|(_, error)| error)?[0];
        self.programs.push(RawProgram { module, sets, layout, pipeline });
        Ok(Program(self.programs.len() - 1))
    }

    /// Records steps once.
    pub fn record(&mut self, steps: &[Step]) -> Result<Commands, Failure> {
        let info = vk::CommandBufferAllocateInfo::default().command_pool(self.pool).command_buffer_count(1);
        // SAFETY: the pool is this device's, and `&mut self` excludes other users of it.
        let commands = unsafe { self.device.allocate_command_buffers(&info) }?[0];
        let info = vk::CommandBufferBeginInfo::default();
        // SAFETY: it is new.
        unsafe { self.device.begin_command_buffer(commands, &info) }?;
        for step in steps {
            match step {
                Step::Dispatch { program, buffers, groups } => {
                    self.dispatch(commands, *program, buffers, *groups)?;
                }
                Step::Fill { buffer, word } => {
                    let buffer = self.buffers[buffer.0].buffer;
                    // SAFETY: it is being recorded, and the buffer is a target of transfers.
                    unsafe { self.device.cmd_fill_buffer(commands, buffer, 0, vk::WHOLE_SIZE, *word) };
                }
                Step::Barrier => self.barrier(commands),
            }
        }
        // SAFETY: it is being recorded.
        unsafe { self.device.end_command_buffer(commands) }?;
        self.commands.push(commands);
        Ok(Commands(self.commands.len() - 1))
    }

    fn dispatch(
        &mut self,
        commands: vk::CommandBuffer,
        program: Program,
        buffers: &[Buffer],
        groups: u32,
    ) -> Result<(), Failure> {
        let program = &self.programs[program.0];
        let compute = vk::PipelineBindPoint::COMPUTE;
        let sizes = [vk::DescriptorPoolSize::default()
            .ty(vk::DescriptorType::STORAGE_BUFFER)
            .descriptor_count(buffers.len() as u32)];
        let info = vk::DescriptorPoolCreateInfo::default().max_sets(1).pool_sizes(&sizes);
        // SAFETY: the sizes are not 0: all programs here have a binding.
        let pool = unsafe { self.device.create_descriptor_pool(&info, None) }?;
        self.descriptors.push(pool);
        let layouts = [program.sets];
        let info = vk::DescriptorSetAllocateInfo::default().descriptor_pool(pool).set_layouts(&layouts);
        // SAFETY: the pool has room for one such set.
        let set = unsafe { self.device.allocate_descriptor_sets(&info) }?[0];
        let ranges: Vec<_> = buffers
            .iter()
            .map(|buffer| {
                [vk::DescriptorBufferInfo::default()
                    .buffer(self.buffers[buffer.0].buffer)
                    .range(vk::WHOLE_SIZE)]
            })
            .collect();
        let writes: Vec<_> = ranges
            .iter()
            .enumerate()
            .map(|(binding, range)| {
                vk::WriteDescriptorSet::default()
                    .dst_set(set)
                    .dst_binding(binding as u32)
                    .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
                    .buffer_info(range)
            })
            .collect();
        // SAFETY: the set is new and in no recording, the buffers are storage buffers of this device.
        unsafe { self.device.update_descriptor_sets(&writes, &[]) };
        // SAFETY: it is being recorded.
        unsafe { self.device.cmd_bind_pipeline(commands, compute, program.pipeline) };
        // SAFETY: it is being recorded, and the set has the layout of the pipeline's.
        unsafe {
            self.device.cmd_bind_descriptor_sets(commands, compute, program.layout, 0, &[set], &[]);
        }
        // SAFETY: it is being recorded, and everything that the pipeline uses is bound.
        unsafe { self.device.cmd_dispatch(commands, groups, 1, 1) };
        Ok(())
    }

    fn barrier(&self, commands: vk::CommandBuffer) {
        let stages = vk::PipelineStageFlags::COMPUTE_SHADER | vk::PipelineStageFlags::TRANSFER;
        let barrier = [vk::MemoryBarrier::default()
            .src_access_mask(vk::AccessFlags::SHADER_WRITE | vk::AccessFlags::TRANSFER_WRITE)
            .dst_access_mask(vk::AccessFlags::SHADER_READ | vk::AccessFlags::SHADER_WRITE)];
        let flags = vk::DependencyFlags::empty();
        // SAFETY: it is being recorded, and the queue has these stages.
        unsafe { self.device.cmd_pipeline_barrier(commands, stages, stages, flags, &barrier, &[], &[]) };
    }

    /// Submits recordings, in order, by one call. None of them is in flight.
    pub fn submit(&mut self, commands: &[Commands]) -> Result<u64, Failure> {
        let buffers: smallvec::SmallVec<[vk::CommandBuffer; 16]> =
            commands.iter().map(|commands| self.commands[commands.0]).collect();
        let values = [self.submitted + 1];
        let semaphores = [self.timeline];
        let mut timeline = vk::TimelineSemaphoreSubmitInfo::default().signal_semaphore_values(&values);
        let info = [vk::SubmitInfo::default()
            .command_buffers(&buffers)
            .signal_semaphores(&semaphores)
            .push_next(&mut timeline)];
        // SAFETY: the recordings are complete and, by the contract of the callers in this package, not in flight; the
        // value is above all before; `&mut self` excludes other users of the queue.
        unsafe { self.device.queue_submit(self.queue, &info, vk::Fence::null()) }?;
        self.submitted += 1;
        Ok(self.submitted)
    }

    /// Waits for what `submit` answered.
    pub fn wait(&self, value: u64) -> Result<(), Failure> {
        let (semaphores, values) = ([self.timeline], [value]);
        let info = vk::SemaphoreWaitInfo::default().semaphores(&semaphores).values(&values);
        // SAFETY: the semaphore is a timeline of this device.
        Ok(unsafe { self.device.wait_semaphores(&info, u64::MAX) }?)
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // SAFETY: `&mut self` excludes other users. What it answers changes nothing: all is destroyed now.
        let _ = unsafe { self.device.device_wait_idle() };
        for RawBuffer { buffer, memory, .. } in self.buffers.drain(..) {
            // SAFETY: the device is idle.
            unsafe { self.device.destroy_buffer(buffer, None) };
            // SAFETY: as above; the buffer is gone, and the mapping goes with the memory.
            unsafe { self.device.free_memory(memory, None) };
        }
        for pool in self.descriptors.drain(..) {
            // SAFETY: the device is idle.
            unsafe { self.device.destroy_descriptor_pool(pool, None) };
        }
        for RawProgram { module, sets, layout, pipeline } in self.programs.drain(..) {
            // SAFETY: the device is idle.
            unsafe { self.device.destroy_pipeline(pipeline, None) };
            // SAFETY: as above.
            unsafe { self.device.destroy_pipeline_layout(layout, None) };
            // SAFETY: as above.
            unsafe { self.device.destroy_descriptor_set_layout(sets, None) };
            // SAFETY: as above.
            unsafe { self.device.destroy_shader_module(module, None) };
        }
        // SAFETY: the device is idle; its command buffers go with it.
        unsafe { self.device.destroy_command_pool(self.pool, None) };
        // SAFETY: the device is idle.
        unsafe { self.device.destroy_semaphore(self.timeline, None) };
        // SAFETY: everything that was made on it is gone.
        unsafe { self.device.destroy_device(None) };
        // SAFETY: as above.
        unsafe { self.instance.destroy_instance(None) };
    }
}
