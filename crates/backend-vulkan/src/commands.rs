//! Command buffers, and the barriers that this backend uses in all of them.
//!
//! Not here: what a recording puts into one (`encode.rs`).

pub(crate) mod ffi;

use ash::vk;

use crate::hazards::Barrier;

const EVERYTHING: vk::AccessFlags = vk::AccessFlags::from_raw(
    vk::AccessFlags::MEMORY_READ.as_raw() | vk::AccessFlags::MEMORY_WRITE.as_raw(),
);

/// At the start of every recording: what completed before, as the host has seen, is visible. It waits for nothing.
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

/// At the end of a recording that used `stages`: the host sees what was written.
pub(crate) fn show(stages: vk::PipelineStageFlags) -> Barrier {
    Barrier {
        from: stages,
        done: vk::AccessFlags::MEMORY_WRITE,
        to: vk::PipelineStageFlags::HOST,
        next: vk::AccessFlags::HOST_READ,
    }
}
