//! wgpu as a careful program would use it by hand: what the backend is compared with.

use tenure_bench::measure::Failure;
use wgpu::{
    BindGroup, BindGroupDescriptor, BindGroupEntry, BufferDescriptor, BufferUsages, CommandEncoderDescriptor,
    ComputePassDescriptor, ComputePipeline, ComputePipelineDescriptor, Device, DeviceDescriptor, Instance,
    InstanceDescriptor, InstanceFlags, PollType, Queue, RequestAdapterOptions, ShaderModuleDescriptor,
    ShaderSource,
};

/// A device with one program on it, whose one buffer is bound.
pub struct Raw {
    /// The device, as its driver names it.
    pub name: String,
    device: Device,
    queue: Queue,
    pipeline: ComputePipeline,
    bound: BindGroup,
}

impl Raw {
    /// The program is WGSL, its entry point `main`.
    pub fn open(program: &str) -> Result<Raw, Failure> {
        let mut descriptor = InstanceDescriptor::new_without_display_handle();
        // As the backend: without wgpu's own debugging aids.
        descriptor.flags = InstanceFlags::empty();
        let instance = Instance::new(descriptor);
        let adapter = pollster::block_on(instance.request_adapter(&RequestAdapterOptions::default()))?;
        let (device, queue) = pollster::block_on(adapter.request_device(&DeviceDescriptor::default()))?;
        let module = device.create_shader_module(ShaderModuleDescriptor {
            label: None,
            source: ShaderSource::Wgsl(program.into()),
        });
        let pipeline = device.create_compute_pipeline(&ComputePipelineDescriptor {
            label: None,
            layout: None,
            module: &module,
            entry_point: Some("main"),
            compilation_options: Default::default(),
            cache: None,
        });
        let buffer = device.create_buffer(&BufferDescriptor {
            label: None,
            size: 256,
            usage: BufferUsages::STORAGE,
            mapped_at_creation: false,
        });
        let bound = device.create_bind_group(&BindGroupDescriptor {
            label: None,
            layout: &pipeline.get_bind_group_layout(0),
            entries: &[BindGroupEntry { binding: 0, resource: buffer.as_entire_binding() }],
        });
        Ok(Raw { name: adapter.get_info().name, device, queue, pipeline, bound })
    }

    /// One workgroup, encoded, submitted and waited for: command buffers of wgpu cannot be submitted again.
    pub fn run(&self) {
        let mut encoder = self.device.create_command_encoder(&CommandEncoderDescriptor::default());
        {
            let mut pass = encoder.begin_compute_pass(&ComputePassDescriptor::default());
            pass.set_pipeline(&self.pipeline);
            pass.set_bind_group(0, &self.bound, &[]);
            pass.dispatch_workgroups(1, 1, 1);
        }
        let submission = self.queue.submit([encoder.finish()]);
        let wait = PollType::Wait { submission_index: Some(submission), timeout: None };
        self.device.poll(wait).expect("the device is there");
    }
}
