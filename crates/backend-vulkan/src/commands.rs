//! Command buffers, and the barriers that this backend uses in all of them.
//!
//! Not here: what a recording puts into one (`encode.rs`).

pub(crate) mod ffi;

use ash::vk;

use crate::hazards::Barrier;

const EVERYTHING: vk::AccessFlags =
    vk::AccessFlags::from_raw(vk::AccessFlags::MEMORY_READ.as_raw() | vk::AccessFlags::MEMORY_WRITE.as_raw());

/// At the start of a transfer, and of every recording on an engine's device, which others submit to as well: what
/// completed before, as the host has seen, is visible. It waits for nothing.
pub(crate) const SEE: Barrier = Barrier {
    from: vk::PipelineStageFlags::TOP_OF_PIPE,
    done: vk::AccessFlags::empty(),
    to: vk::PipelineStageFlags::ALL_COMMANDS,
    next: EVERYTHING,
};

/// Between two submissions to one queue: everything before completes, and is visible after.
pub(crate) const ORDER: Barrier = Barrier {
    from: vk::PipelineStageFlags::ALL_COMMANDS,
    done: vk::AccessFlags::MEMORY_WRITE,
    to: vk::PipelineStageFlags::ALL_COMMANDS,
    next: EVERYTHING,
};

/// At the end of an upload: what comes later on the queue sees what was copied.
pub(crate) const COPIED: Barrier = Barrier {
    from: vk::PipelineStageFlags::TRANSFER,
    done: vk::AccessFlags::TRANSFER_WRITE,
    to: vk::PipelineStageFlags::ALL_COMMANDS,
    next: EVERYTHING,
};

/// At the end of a recording that wrote in `stages`: the host sees what was written.
pub(crate) fn show(stages: vk::PipelineStageFlags) -> Barrier {
    Barrier {
        from: stages,
        done: vk::AccessFlags::MEMORY_WRITE,
        to: vk::PipelineStageFlags::HOST,
        next: vk::AccessFlags::HOST_READ,
    }
}

#[cfg(test)]
mod tests {
    use super::ffi::Commands;
    use super::*;
    use crate::backend::{VulkanBackend, VulkanOptions};
    use crate::ffi::{CommandPool, RawBuffer};
    use crate::heap::Reach;
    use crate::messages::Messages;

    /// What the layer says of two copies, the second of which reads what the first writes.
    fn said(between: Option<Barrier>) -> Option<Vec<String>> {
        if !VulkanBackend::has_validation() {
            println!("skipped: the validation layer is not installed");
            return None;
        }
        let messages = Messages::new();
        let options = VulkanOptions::default().with_validation(messages.clone());
        let backend =
            VulkanBackend::with_options(&options).inspect_err(|error| println!("skipped: {error}")).ok()?;
        let device = backend.device();
        let choose = |allowed| Reach::Device.memory_type(&device.facts, allowed);
        let buffer = || RawBuffer::new(&device.api, 64, choose, "buffer").expect("room");
        let [a, b, c] = std::array::from_fn(|_| buffer());
        let mut pool = CommandPool::new(&device.api, device.facts.family, "pool").expect("room");
        let commands = Commands::new(&device.api, pool.allocate().expect("room"));
        commands.begin(vk::CommandBufferUsageFlags::empty()).expect("it begins");
        commands.copy(a.buffer, 0, b.buffer, 0, 64);
        if let Some(barrier) = between {
            commands.barrier(barrier);
        }
        commands.copy(b.buffer, 0, c.buffer, 0, 64);
        commands.end().expect("it ends");
        Some(messages.take())
    }

    #[test]
    fn the_layer_sees_a_barrier_that_is_missing() {
        let Some(said) = said(None) else { return };
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].contains("SYNC-HAZARD-READ"), "{said:?}");
    }

    #[test]
    fn the_layer_sees_a_barrier_that_is_there() {
        let Some(said) = said(Some(ORDER)) else { return };
        assert_eq!(said, [""; 0]);
    }
}
