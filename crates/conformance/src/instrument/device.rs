//! What the decorator itself asks of the inner backend: to finish, and to wake up.
//!
//! Not here: calls that pass through (`ffi.rs`).

use tenure_core::backend::{Backend, TimelinePoint};

/// The inner backend without its types.
pub(super) trait Device: Send + Sync {
    /// Blocks until the inner backend has completed these points, or has lost its device.
    fn settle(&self, points: &[TimelinePoint]);

    /// Makes a thread that waits in the inner backend look again.
    fn nudge(&self);
}

impl<B: Backend> Device for B {
    fn settle(&self, points: &[TimelinePoint]) {
        for point in points {
            // A backend that fails here has lost its device: nothing runs on it any more.
            while self.completed(point.queue).is_ok_and(|value| value < point.value) {
                if self.wait_any(&[*point], None).is_err() {
                    break;
                }
            }
        }
    }

    fn nudge(&self) {
        self.interrupt();
    }
}
