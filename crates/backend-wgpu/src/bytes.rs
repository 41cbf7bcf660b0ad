//! Copies and fills of any bytes at any offset: whole words by wgpu's own commands, the rest by two small kernels.
//!
//! Not here: kernels of users (`kernel.rs`).

use std::sync::Arc;

use tenure_core::operation::MAX_PATTERN_BYTES;
use tenure_core::{Access, BackendError};

use crate::device::{Device, WORD};
use crate::encode::{Encoder, Range};
use crate::kernel::Compiled;
use crate::staging::{PIECE, Slot};

/// The two kernels, compiled at first need.
#[derive(Debug)]
pub(crate) struct ByteKernels {
    copy: Compiled,
    fill: Compiled,
}

/// Invocations in a workgroup of both.
const WORKGROUP: u64 = 64;
/// Bytes that one dispatch of them works on at most: far inside 32 bits, and in every device's binding size.
const CHUNK: u64 = 32 << 20;
/// Words that each invocation fills at least.
const FILL_WORDS: u64 = 16;
/// A fill of no more bytes is cheaper as an upload.
const SMALL_FILL: u64 = 16 << 10;

impl Device {
    fn byte_kernels(&self) -> Result<Arc<ByteKernels>, BackendError> {
        if let Some(kernels) = &*self.byte_kernels.lock() {
            return Ok(kernels.clone());
        }
        let copy = include_str!("copy_bytes.wgsl");
        let fill = include_str!("fill_words.wgsl");
        let kernels = Arc::new(ByteKernels {
            copy: self.compile_text("copy bytes", copy, "copy_bytes", &[Access::Read, Access::ReadWrite])?,
            fill: self.compile_text("fill words", fill, "fill_words", &[Access::ReadWrite])?,
        });
        Ok(self.byte_kernels.lock().get_or_insert(kernels).clone())
    }

    /// Bytes of one dispatch.
    fn chunk(&self) -> u64 {
        // The range that is bound begins at an aligned offset before the bytes, and ends with a whole word.
        CHUNK.min(self.limits.max_binding - self.limits.binding_alignment - WORD)
    }

    fn groups(&self, bytes: u64) -> [u32; 3] {
        let groups = (bytes / WORD + 2).div_ceil(WORKGROUP);
        // Invocations go on to further words, so fewer groups are enough.
        [u32::try_from(groups).unwrap_or(u32::MAX).min(self.limits.max_groups), 1, 1]
    }

    /// The words around the bytes, from an offset that can be bound, and how far into them the bytes begin.
    fn bindable(&self, range: &Range) -> (Range, u64) {
        let offset = range.offset - range.offset % self.limits.binding_alignment;
        let end = (range.offset + range.bytes).next_multiple_of(WORD);
        (Range { storage: range.storage.clone(), offset, bytes: end - offset }, range.offset - offset)
    }
}

/// Splits bytes into those before the first whole word, whole words, and the rest.
fn split(offset: u64, bytes: u64) -> [u64; 3] {
    let head = ((WORD - offset % WORD) % WORD).min(bytes);
    let body = (bytes - head) / WORD * WORD;
    [head, body, bytes - head - body]
}

impl Encoder<'_> {
    /// Copies from one range to another of the same size, which does not overlap it.
    pub(crate) fn copy(&mut self, source: &Range, target: &Range) -> Result<(), BackendError> {
        if Arc::ptr_eq(&source.storage, &target.storage) {
            // Neither a copy nor a dispatch may read and write one buffer.
            return self.copy_within(source, target);
        }
        if source.offset % WORD != target.offset % WORD {
            return self.copy_odd(source, target);
        }
        let [head, body, tail] = split(target.offset, target.bytes);
        self.copy_odd(&source.part(0, head), &target.part(0, head))?;
        if body > 0 {
            let from = (&source.storage.buffer, source.offset + head);
            self.copy_words(from, (&target.storage.buffer, target.offset + head), body);
        }
        self.copy_odd(&source.part(head + body, tail), &target.part(head + body, tail))
    }

    fn copy_within(&mut self, source: &Range, target: &Range) -> Result<(), BackendError> {
        let mut done = 0;
        while done < source.bytes {
            let bytes = (source.bytes - done).min(CHUNK);
            let part = source.part(done, bytes);
            let phase = part.offset % WORD;
            let words = (phase + bytes).next_multiple_of(WORD);
            let scratch = self.device.scratch(words)?;
            let from = (&part.storage.buffer, part.offset - phase);
            self.copy_words(from, (&scratch.buffer, 0), words);
            let bounced = Range { storage: scratch.clone(), offset: phase, bytes };
            self.copy(&bounced, &target.part(done, bytes))?;
            self.device.give_scratch(scratch);
            done += bytes;
        }
        Ok(())
    }

    /// Copies bytes one by one; the buffers differ.
    fn copy_odd(&mut self, source: &Range, target: &Range) -> Result<(), BackendError> {
        let mut done = 0;
        while done < source.bytes {
            let bytes = (source.bytes - done).min(self.device.chunk());
            let (from, from_byte) = self.device.bindable(&source.part(done, bytes));
            let (to, to_byte) = self.device.bindable(&target.part(done, bytes));
            let parameters = self.parameters(&words(&[from_byte, to_byte, bytes]))?;
            let kernels = self.device.byte_kernels()?;
            self.dispatch_bound(&kernels.copy, &[from, to, parameters], self.device.groups(bytes))?;
            done += bytes;
        }
        Ok(())
    }

    /// Copies from the host.
    pub(crate) fn write(&mut self, bytes: &[u8], target: &Range) -> Result<(), BackendError> {
        let mut done = 0;
        for piece in bytes.chunks(PIECE as usize) {
            let target = target.part(done, piece.len() as u64);
            let slot = self.uploads.put(self.device, target.offset % WORD, piece)?;
            self.write_slot(&slot, &target)?;
            done += piece.len() as u64;
        }
        Ok(())
    }

    /// Copies from staging, where the bytes begin as far from a whole word as they do in the target.
    fn write_slot(&mut self, slot: &Slot, target: &Range) -> Result<(), BackendError> {
        let [head, body, tail] = split(target.offset, target.bytes);
        if body > 0 {
            let from = (&slot.buffer, slot.offset + head);
            self.copy_words(from, (&target.storage.buffer, target.offset + head), body);
        }
        // Staging cannot be bound.
        for (at, bytes) in [(0, head), (head + body, tail)] {
            if bytes == 0 {
                continue;
            }
            let scratch = self.device.scratch(WORD)?;
            let phase = (slot.offset + at) % WORD;
            let from = (&slot.buffer, slot.offset + at - phase);
            self.copy_words(from, (&scratch.buffer, 0), WORD);
            let word = Range { storage: scratch.clone(), offset: phase, bytes };
            self.copy_odd(&word, &target.part(at, bytes))?;
            self.device.give_scratch(scratch);
        }
        Ok(())
    }

    /// Repeats the pattern.
    pub(crate) fn fill(&mut self, target: &Range, pattern: &[u8]) -> Result<(), BackendError> {
        if target.bytes <= SMALL_FILL {
            return self.write(&repeated(pattern, 0, target.bytes), target);
        }
        let [head, body, tail] = split(target.offset, target.bytes);
        self.write(&repeated(pattern, 0, head), &target.part(0, head))?;
        let words = target.part(head, body);
        if pattern.iter().all(|byte| *byte == 0) {
            self.clear_words(&words.storage, words.offset, body);
        } else {
            // As many patterns as end with a whole word.
            let period = pattern.len() as u64;
            let whole = if period.is_multiple_of(4) {
                period
            } else if period.is_multiple_of(2) {
                2 * period
            } else {
                4 * period
            };
            self.fill_words(&words, &repeated(pattern, head, whole))?;
        }
        self.write(&repeated(pattern, head + body, tail), &target.part(head + body, tail))
    }

    /// Repeats a pattern of whole words over whole words.
    fn fill_words(&mut self, target: &Range, pattern: &[u8]) -> Result<(), BackendError> {
        let period = pattern.len() as u64 / WORD;
        let mut done = 0;
        while done < target.bytes {
            let bytes = (target.bytes - done).min(self.device.chunk() / WORD * WORD);
            let (to, to_byte) = self.device.bindable(&target.part(done, bytes));
            let skipped = done / WORD % period;
            let mut parameters = words(&[to_byte / WORD, bytes / WORD, skipped, period]);
            parameters.extend_from_slice(pattern);
            parameters.resize(16 + 4 * MAX_PATTERN_BYTES, 0);
            let parameters = self.parameters(&parameters)?;
            let kernels = self.device.byte_kernels()?;
            self.dispatch_bound(&kernels.fill, &[to, parameters], self.device.groups(bytes / FILL_WORDS))?;
            done += bytes;
        }
        Ok(())
    }
}

/// Bytes `from..from + count` of the pattern's endless repetition.
fn repeated(pattern: &[u8], from: u64, count: u64) -> Vec<u8> {
    let skipped = (from % pattern.len() as u64) as usize;
    pattern.iter().copied().cycle().skip(skipped).take(count as usize).collect()
}

/// Small numbers as the kernels take them.
fn words(numbers: &[u64]) -> Vec<u8> {
    let small = |number: &u64| u32::try_from(*number).expect("a chunk is small").to_le_bytes();
    numbers.iter().flat_map(small).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_split_at_whole_words() {
        assert_eq!(split(0, 8), [0, 8, 0]);
        assert_eq!(split(3, 8), [1, 4, 3]);
        assert_eq!(split(1, 2), [2, 0, 0]);
        assert_eq!(split(2, 2), [2, 0, 0]);
        assert_eq!(split(4, 0), [0, 0, 0]);
        assert_eq!(split(4, 5), [0, 4, 1]);
    }
}
