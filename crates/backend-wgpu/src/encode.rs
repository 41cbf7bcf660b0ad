//! The encoder of one submission: plain commands, bounces through scratch, and dispatches.
//!
//! WebGPU copies whole words between different buffers, and binds at aligned offsets. What does not fit that goes
//! through scratch, here and in `bytes.rs`. Not here: which operations there are (`sequence.rs`).

use std::sync::Arc;

use smallvec::SmallVec;
use tenure_core::BackendError;
use wgpu::{
    BindGroupDescriptor, BindGroupEntry, BindingResource, BufferBinding, BufferSize, CommandEncoder,
    CommandEncoderDescriptor, ComputePass, ComputePassDescriptor,
};

use crate::buffer::Storage;
use crate::cache::BindGroupKey;
use crate::device::{Device, WORD};
use crate::kernel::Compiled;
use crate::staging::Uploads;

/// A range of a buffer in device memory.
#[derive(Clone, Debug)]
pub(crate) struct Range {
    pub storage: Arc<Storage>,
    pub offset: u64,
    pub bytes: u64,
}

impl Range {
    pub(crate) fn part(&self, from: u64, bytes: u64) -> Range {
        Range { storage: self.storage.clone(), offset: self.offset + from, bytes }
    }
}

/// Commands on their way to the queue.
pub(crate) struct Encoder<'a> {
    pub device: &'a Device,
    /// Open while dispatches follow each other. It ends before the commands do, also where encoding has failed.
    pass: Option<ComputePass<'static>>,
    commands: CommandEncoder,
    pub uploads: Uploads,
    /// Scratch that is used until everything is encoded.
    kept: Vec<Arc<Storage>>,
}

/// Encoded commands.
pub(crate) struct Encoded {
    pub commands: wgpu::CommandBuffer,
    pub uploads: Uploads,
}

impl<'a> Encoder<'a> {
    /// Everything from here to `finish` is inside one [`Device::checked`], or is checked by itself.
    pub(crate) fn new(device: &'a Device, label: &str) -> Self {
        let commands = device.device.create_command_encoder(&CommandEncoderDescriptor { label: Some(label) });
        Encoder { device, pass: None, commands, uploads: Uploads::default(), kept: Vec::new() }
    }

    pub(crate) fn finish(mut self) -> Encoded {
        self.commands();
        for scratch in self.kept {
            self.device.give_scratch(scratch);
        }
        Encoded { commands: self.commands.finish(), uploads: self.uploads }
    }

    /// For commands outside a pass.
    pub(crate) fn commands(&mut self) -> &mut CommandEncoder {
        self.pass = None;
        &mut self.commands
    }

    /// Scratch until everything is encoded.
    pub(crate) fn keep_scratch(&mut self, bytes: u64) -> Result<Arc<Storage>, BackendError> {
        let scratch = self.device.scratch(bytes)?;
        self.kept.push(scratch.clone());
        Ok(scratch)
    }

    /// Copies whole words: offsets and size are multiples of [`WORD`], the buffers differ.
    pub(crate) fn copy_words(
        &mut self,
        source: (&wgpu::Buffer, u64),
        target: (&wgpu::Buffer, u64),
        bytes: u64,
    ) {
        self.commands().copy_buffer_to_buffer(source.0, source.1, target.0, target.1, bytes);
    }

    /// Sets whole words to zero.
    pub(crate) fn clear_words(&mut self, storage: &Storage, offset: u64, bytes: u64) {
        if bytes > 0 {
            self.commands().clear_buffer(&storage.buffer, offset, Some(bytes));
        }
    }

    /// Parameters in device memory, their size a multiple of [`WORD`].
    pub(crate) fn parameters(&mut self, bytes: &[u8]) -> Result<Range, BackendError> {
        let mut padded: SmallVec<[u8; 128]> = SmallVec::from_slice(bytes);
        padded.resize(bytes.len().next_multiple_of(WORD as usize), 0);
        let scratch = self.keep_scratch(padded.len() as u64)?;
        let slot = self.uploads.put(self.device, 0, &padded)?;
        let size = padded.len() as u64;
        self.copy_words((&slot.buffer, slot.offset), (&scratch.buffer, 0), size);
        Ok(Range { storage: scratch, offset: 0, bytes: size })
    }

    /// Dispatches with ranges that can be bound as they are.
    pub(crate) fn dispatch_bound(
        &mut self,
        kernel: &Compiled,
        ranges: &[Range],
        groups: [u32; 3],
    ) -> Result<(), BackendError> {
        let group = self.device.bind_group(kernel, ranges)?;
        let commands = &mut self.commands;
        let pass = self.pass.get_or_insert_with(|| {
            commands.begin_compute_pass(&ComputePassDescriptor::default()).forget_lifetime()
        });
        pass.set_pipeline(&kernel.pipeline);
        pass.set_bind_group(0, &group, &[]);
        pass.dispatch_workgroups(groups[0], groups[1], groups[2]);
        Ok(())
    }
}

impl Device {
    fn bind_group(&self, kernel: &Compiled, ranges: &[Range]) -> Result<wgpu::BindGroup, BackendError> {
        let key = BindGroupKey {
            kernel: kernel.id,
            ranges: ranges.iter().map(|range| (range.storage.id, range.offset, range.bytes)).collect(),
        };
        if let Some(group) = self.bind_groups.lock().get(&key) {
            return Ok(group);
        }
        let entries: SmallVec<[BindGroupEntry<'_>; 4]> = (0..).zip(ranges).map(entry).collect();
        let descriptor = BindGroupDescriptor { label: None, layout: &kernel.layout, entries: &entries };
        let group = self.checked("bind", || self.device.create_bind_group(&descriptor))?;
        let forgotten = self.bind_groups.lock().insert(key, group.clone());
        drop(forgotten);
        Ok(group)
    }
}

fn entry((binding, range): (u32, &Range)) -> BindGroupEntry<'_> {
    let resource = BindingResource::Buffer(BufferBinding {
        buffer: &range.storage.buffer,
        offset: range.offset,
        size: BufferSize::new(range.bytes),
    });
    BindGroupEntry { binding, resource }
}
