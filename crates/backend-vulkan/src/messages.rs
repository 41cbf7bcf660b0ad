//! [`Messages`]: what the validation layer says.
//!
//! Not here: switching the layer on (`instance.rs`).

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// Texts that are kept between two calls of [`Messages::take`]; further ones are only counted.
const KEPT: usize = 256;

/// A shared sink for the messages of the validation layer. Clones are the same sink; several backends may write to
/// one, and it outlives them: what the layer finds while a device is destroyed can be read afterwards.
#[derive(Clone, Default)]
pub struct Messages {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    count: AtomicU64,
    texts: Mutex<Vec<String>>,
}

impl Messages {
    /// An empty sink.
    pub fn new() -> Self {
        Messages::default()
    }

    /// Messages so far.
    pub fn count(&self) -> u64 {
        self.inner.count.load(Ordering::Relaxed)
    }

    /// The texts since the last call, the first 256 of them.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.inner.texts.lock())
    }

    /// One more message. Called by the driver's loader from any thread.
    pub(crate) fn add(&self, text: String) {
        self.inner.count.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(target: "tenure::vulkan", "{text}");
        let mut texts = self.inner.texts.lock();
        if texts.len() < KEPT {
            texts.push(text);
        }
    }
}

impl fmt::Debug for Messages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Messages").field("count", &self.count()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_are_one_sink_and_all_messages_are_counted() {
        let messages = Messages::new();
        let clone = messages.clone();
        for at in 0..300 {
            clone.add(format!("message {at}"));
        }
        assert_eq!(messages.count(), 300);
        assert_eq!(messages.take().len(), KEPT);
        assert!(clone.take().is_empty());
        assert_eq!(clone.count(), 300);
    }
}
