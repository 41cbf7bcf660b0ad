//! The one place where bytes are copied, counted, so that a test can show that nothing is copied twice.

use std::collections::TryReserveError;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::ffi::Range;

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
        self.count(source.len() as u64);
    }

    /// Copies between ranges of one length, of one block or two.
    pub(crate) fn copy_range(&self, source: &Range, target: &Range) {
        source.copy_to(target);
        self.count(source.bytes);
    }

    /// Repeats `pattern` over `target`, whose length is a multiple of the pattern's.
    pub(crate) fn fill(&self, pattern: &[u8], target: &mut [u8]) {
        match pattern {
            [byte] => target.fill(*byte),
            _ => target.chunks_exact_mut(pattern.len()).for_each(|chunk| chunk.copy_from_slice(pattern)),
        }
    }

    /// A copy of its own, for a read-back; an error if there is no room for it.
    pub(crate) fn collect(&self, source: &[u8]) -> Result<Vec<u8>, TryReserveError> {
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(source.len())?;
        bytes.extend_from_slice(source);
        self.count(source.len() as u64);
        Ok(bytes)
    }

    fn count(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_count_and_fills_do_not() {
        let copier = Copier::default();
        let mut target = [0; 6];
        copier.copy(&[1, 2, 3, 4, 5, 6], &mut target);
        assert_eq!((target, copier.copied()), ([1, 2, 3, 4, 5, 6], 6));
        assert_eq!(copier.collect(&target[..2]).expect("room"), [1, 2]);
        assert_eq!(copier.copied(), 8);
        copier.fill(&[9], &mut target);
        assert_eq!(target, [9; 6]);
        copier.fill(&[1, 2, 3], &mut target);
        assert_eq!(target, [1, 2, 3, 1, 2, 3]);
        copier.fill(&[7, 7], &mut []);
        assert_eq!(copier.copied(), 8);
    }
}
