//! The one place where bytes are copied, counted, so that a test can show that nothing is copied twice.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts the bytes that went through it.
#[derive(Debug, Default)]
pub(crate) struct Copier {
    bytes: AtomicU64,
}

impl Copier {
    pub(crate) fn copied(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Copies between slices of one length.
    pub(crate) fn copy(&self, source: &[u8], target: &mut [u8]) {
        target.copy_from_slice(source);
        self.bytes.fetch_add(source.len() as u64, Ordering::Relaxed);
    }

    /// Repeats `pattern` over `target`, whose length is a multiple of the pattern's.
    pub(crate) fn fill(&self, pattern: &[u8], target: &mut [u8]) {
        match pattern {
            [byte] => target.fill(*byte),
            _ => target.chunks_exact_mut(pattern.len()).for_each(|chunk| chunk.copy_from_slice(pattern)),
        }
    }

    /// A copy of its own, for a read-back.
    pub(crate) fn collect(&self, source: &[u8]) -> Vec<u8> {
        self.bytes.fetch_add(source.len() as u64, Ordering::Relaxed);
        source.to_vec()
    }
}
