//! The suite on the Vulkan backend, with the validation layer where it is installed: whatever it says fails the case.
//!
//! Not here: the backend.

use tenure_backend_vulkan::{Messages, VulkanBackend, VulkanOptions};

use crate::expectations::Expectations;
use crate::harness::Suite;

/// The suite; `staged` on a device whose memory the host is made not to reach.
pub(super) fn suite(name: &str, staged: bool) -> Suite {
    let messages = Messages::new();
    let validated = VulkanBackend::has_validation();
    let sink = messages.clone();
    let open = move || {
        let options = VulkanOptions::builder().force_staging(staged);
        VulkanBackend::with_options(&match validated {
            true => options.validation(sink.clone()).build(),
            false => options.build(),
        })
    };
    Suite::new(name, open).complaints(move || messages.take()).expectations(expectations())
}

fn expectations() -> Expectations {
    Expectations::new()
}
