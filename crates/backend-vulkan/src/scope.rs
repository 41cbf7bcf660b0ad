//! Native arenas: a command pool, and descriptor pools whose sets are freed together.
//!
//! A command buffer and a set go from one sequence to the next; the pools are reset whole when core resets the arena.
//! Recording needs the pool to itself, so the arena is behind a lock that its sequences share. Not here: recording
//! (`sequence.rs`, `encode.rs`).

use std::collections::HashMap;
use std::sync::Arc;

use ash::vk;
use parking_lot::Mutex;
use tenure_core::BackendError;
use tenure_core::backend::{QueueId, Scope};

use crate::backend::VulkanBackend;
use crate::device::Device;
use crate::ffi::{Api, CommandPool};
use crate::kernel::ffi::{DescriptorPool, Layout};
use crate::sequence::VulkanSequence;

/// Sets in the first descriptor pool of an arena; each further one has twice as many as the last.
const FIRST_SETS: u32 = 16;

/// Sets in the largest pool.
const MOST_SETS: u32 = 1024;

/// Buffers a set on average, for the size of a pool.
const BUFFERS_A_SET: u32 = 4;

/// One native arena.
pub struct VulkanScope {
    device: Arc<Device>,
    queue: QueueId,
    arena: Arc<Mutex<Arena>>,
}

/// What an arena's sequences share.
pub(crate) struct Arena {
    api: Arc<Api>,
    label: String,
    commands: CommandPool,
    /// Command buffers that no sequence has.
    idle: Vec<vk::CommandBuffer>,
    pools: Vec<DescriptorPool>,
    /// The pool that sets are taken from; those before it are full.
    pool: usize,
    /// Sets that no recording has, by their number of buffers.
    sets: HashMap<u32, Vec<vk::DescriptorSet>>,
}

impl VulkanScope {
    pub(crate) fn new(device: &Arc<Device>, queue: QueueId, label: &str) -> Result<Self, BackendError> {
        device.api.alive()?;
        let commands = CommandPool::new(&device.api, device.facts.family, label)?;
        let arena = Arena {
            api: device.api.clone(),
            label: label.to_owned(),
            commands,
            idle: Vec::new(),
            pools: Vec::new(),
            pool: 0,
            sets: HashMap::new(),
        };
        Ok(VulkanScope { device: device.clone(), queue, arena: Arc::new(Mutex::new(arena)) })
    }
}

impl Arena {
    /// A set of this layout, for one recording.
    pub(crate) fn set(&mut self, layout: &Layout) -> Result<vk::DescriptorSet, BackendError> {
        if let Some(set) = self.sets.get_mut(&layout.buffers).and_then(Vec::pop) {
            return Ok(set);
        }
        while let Some(pool) = self.pools.get_mut(self.pool) {
            if let Some(set) = pool.allocate(layout)? {
                return Ok(set);
            }
            self.pool += 1;
        }
        let sets = (FIRST_SETS << self.pools.len().min(16)).min(MOST_SETS);
        let buffers = (sets * BUFFERS_A_SET).max(layout.buffers);
        let mut pool = DescriptorPool::new(&self.api, sets, buffers, &self.label)?;
        let set = pool.allocate(layout)?.expect("a new pool has room for a set");
        self.pools.push(pool);
        Ok(set)
    }

    /// A set that its recording does not need any more.
    pub(crate) fn give_set(&mut self, buffers: u32, set: vk::DescriptorSet) {
        self.sets.entry(buffers).or_default().push(set);
    }

    /// A command buffer that its sequence does not need any more, and that is empty.
    pub(crate) fn give_commands(&mut self, commands: vk::CommandBuffer) {
        self.idle.push(commands);
    }
}

impl Scope<VulkanBackend> for VulkanScope {
    fn open_sequence(&mut self, label: &str) -> Result<VulkanSequence, BackendError> {
        self.device.api.alive()?;
        let mut arena = self.arena.lock();
        let commands = match arena.idle.pop() {
            Some(commands) => commands,
            None => arena.commands.allocate()?,
        };
        self.device.api.name(commands, label);
        drop(arena);
        Ok(VulkanSequence::new(self.device.clone(), self.arena.clone(), self.queue, commands))
    }

    unsafe fn recycle(&mut self, sequence: VulkanSequence) {
        sequence.give_back();
    }

    unsafe fn reset(&mut self) -> Result<(), BackendError> {
        let mut arena = self.arena.lock();
        arena.commands.reset()?;
        arena.sets.clear();
        arena.pool = 0;
        arena.pools.iter_mut().try_for_each(DescriptorPool::reset)
    }
}

impl std::fmt::Debug for VulkanScope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VulkanScope").field("queue", &self.queue).finish_non_exhaustive()
    }
}
