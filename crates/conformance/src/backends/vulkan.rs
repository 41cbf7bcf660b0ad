//! The suite on the Vulkan backend, with the validation layer where it is installed: whatever it says fails the case.
//!
//! Not here: the backend.

use std::sync::OnceLock;

use tenure_backend_vulkan::{Messages, VulkanBackend, VulkanBuffer, VulkanOptions};

use crate::expectations::Expectations;
use crate::harness::Suite;

/// The suite; `staged` on a device whose memory the host is made not to reach.
pub(super) fn suite(name: &str, staged: bool) -> Suite {
    let messages = Messages::new();
    let validated = VulkanBackend::has_validation();
    let sink = messages.clone();
    // Drivers are unloaded with the last instance: one that stays open keeps what they load, which is most of the time
    // that opening takes.
    let first = OnceLock::new();
    let open = move || {
        let options = VulkanOptions::builder().force_staging(staged);
        let options = match validated {
            true => options.validation(sink.clone()).build(),
            false => options.build(),
        };
        if first.get().is_none() {
            let _ = first.set(VulkanBackend::with_options(&options)?);
        }
        VulkanBackend::with_options(&options)
    };
    Suite::new(name, open)
        .engine_memory::<VulkanBackend>(|block| VulkanBuffer { buffer: block.buffer(), bytes: block.bytes() })
        .complaints(move || messages.take())
        .expectations(expectations())
}

/// Everything is required but what needs host closures as kernels, which a device never runs, and more than the one
/// queue that the backend has.
fn expectations() -> Expectations {
    const QUEUES: &str = "the backend has one queue";
    let unsupported = [
        ("sequences/another_queue_waits_for_the_write", QUEUES),
        ("sequences/hazards_wait_on_the_device", QUEUES),
        ("sequences/reads_on_two_queues_wait_for_nothing", QUEUES),
        ("sequences/a_diamond_across_queues", QUEUES),
        ("sequences/queues_retire_on_their_own", QUEUES),
        ("sequences/a_child_works_on_its_parents_queue", QUEUES),
        ("field/c02_two_queues_share_a_tensor", QUEUES),
        ("field/c18_no_loss_to_fragmentation", QUEUES),
        ("threads/queues_of_their_own_share_a_tensor", QUEUES),
    ];
    unsupported
        .into_iter()
        .fold(super::device_expectations(), |list, (case, reason)| list.unsupported(case, reason))
}
