//! The end of one piece of work, to be waited for.
//!
//! Not here: whether the work succeeded (`health.rs`).

use std::sync::Arc;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

/// The end of one piece of work.
#[derive(Debug, Default)]
pub struct Completion {
    at: Mutex<Option<Instant>>,
    changed: Condvar,
}

impl Completion {
    /// Still to come.
    pub fn new() -> Arc<Completion> {
        Arc::default()
    }

    /// It is over now.
    pub fn finish(&self) {
        *self.at.lock() = Some(Instant::now());
        self.changed.notify_all();
    }

    /// Whether it is over.
    pub fn is_done(&self) -> bool {
        self.at.lock().is_some()
    }

    /// When it was over.
    pub fn at(&self) -> Option<Instant> {
        *self.at.lock()
    }

    /// Blocks until it is over.
    pub fn wait(&self) {
        let mut at = self.at.lock();
        while at.is_none() {
            self.changed.wait(&mut at);
        }
    }
}
