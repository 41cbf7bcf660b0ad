//! What each operation becomes in a command buffer, with the barriers that it needs.
//!
//! Copies take any offset and length. Fills by words and bindings do not: what is not aligned for them goes by copies.
//! Not here: which barriers are needed (`hazards.rs`), beginning and ending a recording (`sequence.rs`).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ash::vk;
use smallvec::SmallVec;
use tenure_core::operation::{Binding, BlockRange, Operation};
use tenure_core::{Access, BackendError};

use crate::backend::VulkanBackend;
use crate::commands::ffi::Commands;
use crate::device::Device;
use crate::hazards::{Use, UseKind};
use crate::heap::Piece;
use crate::kernel::VulkanKernel;
use crate::kernel::ffi::{BoundRange, update_set};
use crate::scope::Arena;
use crate::sequence::{ReadBack, Recording};

/// Bytes that a fill by copies writes from the host; from there it doubles on the device.
const TILE_BYTES: usize = 16 << 10;

/// Records operations of one sequence.
pub(crate) struct Encoder<'a> {
    pub device: &'a Device,
    pub arena: &'a mut Arena,
    pub commands: Commands<'a>,
    pub recording: &'a mut Recording,
}

/// A range of a buffer.
#[derive(Clone, Copy)]
struct Place {
    buffer: vk::Buffer,
    offset: u64,
    bytes: u64,
}

impl Place {
    fn of(range: &BlockRange<'_, VulkanBackend>) -> Option<Self> {
        let block = range.block?;
        let place = Place { buffer: block.buffer(), offset: range.offset, bytes: range.bytes };
        (range.bytes > 0).then_some(place)
    }

    fn of_piece(piece: &Piece) -> Self {
        Place { buffer: piece.buffer(), offset: piece.offset(), bytes: piece.bytes() }
    }

    /// The bytes from `from` on.
    fn part(self, from: u64, bytes: u64) -> Self {
        Place { offset: self.offset + from, bytes, ..self }
    }

    fn end(self) -> u64 {
        self.offset + self.bytes
    }

    fn used(self, kind: UseKind) -> Use {
        Use { buffer: self.buffer, start: self.offset, end: self.end(), kind }
    }
}

/// A dispatch, as core hands it over.
struct Dispatch<'a> {
    kernel: &'a VulkanKernel,
    bindings: &'a [Binding<'a, VulkanBackend>],
    groups: [u32; 3],
    parameters: &'a [u8],
}

impl Encoder<'_> {
    pub(crate) fn encode(&mut self, operation: &Operation<'_, VulkanBackend>) -> Result<(), BackendError> {
        match operation {
            Operation::Write { target, bytes } => {
                let Some(target) = Place::of(target) else { return Ok(()) };
                let source = self.upload(bytes)?;
                self.copy(source, target);
            }
            Operation::Read { source, into } => {
                let Some(source) = Place::of(source) else {
                    into.deliver(Vec::new());
                    return Ok(());
                };
                let piece = self.device.read_backs.take(source.bytes)?;
                self.copy(source, Place::of_piece(&piece));
                self.recording.reads.push(ReadBack { piece, into: Arc::clone(into) });
            }
            Operation::Copy { source, target } => {
                if let (Some(source), Some(target)) = (Place::of(source), Place::of(target)) {
                    self.copy(source, target);
                }
            }
            Operation::Fill { target, pattern } => {
                let Some(target) = Place::of(target) else { return Ok(()) };
                self.fill(target, pattern)?;
            }
            Operation::Dispatch { kernel, bindings, groups, parameters, .. } => {
                self.dispatch(&Dispatch { kernel, bindings, groups: *groups, parameters })?;
            }
        }
        Ok(())
    }

    /// The barrier that has to stand before what uses these ranges.
    fn order(&mut self, uses: &[Use]) {
        if let Some(barrier) = self.recording.hazards.order(uses) {
            self.commands.barrier(barrier);
        }
    }

    /// Memory that the commands may read from now on, with these bytes.
    fn upload(&mut self, bytes: &[u8]) -> Result<Place, BackendError> {
        let piece = self.device.uploads.take(bytes.len() as u64)?;
        piece.write(bytes);
        self.device.copied.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        let place = Place::of_piece(&piece);
        self.recording.pieces.push(piece);
        Ok(place)
    }

    /// Copies as many bytes as the target has.
    fn copy(&mut self, source: Place, target: Place) {
        self.order(&[source.used(UseKind::CopyRead), target.used(UseKind::CopyWrite)]);
        self.commands.copy(source.buffer, source.offset, target.buffer, target.offset, target.bytes);
    }

    fn fill(&mut self, target: Place, pattern: &[u8]) -> Result<(), BackendError> {
        match Words::of(target, pattern) {
            Some(words) => self.fill_words(target, pattern, words),
            None => self.fill_tiles(target, pattern),
        }
    }

    /// The words between two word boundaries by the driver's fill, the bytes around them by copies.
    fn fill_words(&mut self, target: Place, pattern: &[u8], words: Words) -> Result<(), BackendError> {
        let Words { skip, bytes, word } = words;
        if bytes > 0 {
            let middle = target.part(skip, bytes);
            self.order(&[middle.used(UseKind::CopyWrite)]);
            self.commands.fill(middle.buffer, middle.offset, middle.bytes, word);
        }
        for (from, length) in [(0, skip), (skip + bytes, target.bytes - skip - bytes)] {
            if length > 0 {
                let edge: Vec<u8> = (from..from + length).map(|at| at_of(pattern, at)).collect();
                let source = self.upload(&edge)?;
                self.copy(source, target.part(from, length));
            }
        }
        Ok(())
    }

    /// A tile from the host, and then what is filled already, again and again.
    fn fill_tiles(&mut self, target: Place, pattern: &[u8]) -> Result<(), BackendError> {
        let whole = (TILE_BYTES / pattern.len() * pattern.len()) as u64;
        let tile = pattern.repeat((whole.min(target.bytes) as usize).div_ceil(pattern.len()));
        let source = self.upload(&tile)?;
        let mut filled = source.bytes.min(target.bytes);
        self.copy(source, target.part(0, filled));
        while filled < target.bytes {
            let more = filled.min(target.bytes - filled);
            self.copy(target.part(0, more), target.part(filled, more));
            filled += more;
        }
        Ok(())
    }

    fn dispatch(&mut self, dispatch: &Dispatch<'_>) -> Result<(), BackendError> {
        let Dispatch { kernel, bindings, groups, parameters } = *dispatch;
        let most = self.device.facts.limits.max_compute_work_group_count;
        assert!(
            groups.iter().zip(&most).all(|(groups, most)| groups <= most),
            "core refuses too many groups"
        );
        let layout = kernel.pipeline.layout.clone();
        assert_eq!(layout.buffers as usize, bindings.len() + 1, "core binds what the kernel declares");
        let mut bound = SmallVec::<[BoundRange; 8]>::new();
        let mut uses = SmallVec::<[Use; 8]>::new();
        let mut back = SmallVec::<[(Place, Place); 2]>::new();
        for binding in bindings {
            let Some(place) = Place::of(&binding.range) else {
                bound.push(self.nothing());
                continue;
            };
            let place = if place.offset.is_multiple_of(self.device.binding_alignment) {
                place
            } else {
                // A binding may not begin here: the kernel works on a copy.
                let copy = self.scratch(place)?;
                if binding.access.writes() {
                    back.push((copy, place));
                }
                copy
            };
            let kind =
                if binding.access == Access::Read { UseKind::KernelRead } else { UseKind::KernelWrite };
            uses.push(place.used(kind));
            bound.push(BoundRange { buffer: place.buffer, offset: place.offset, bytes: place.bytes });
        }
        bound.push(self.parameters(parameters)?);
        let set = self.arena.set(&layout)?;
        self.recording.sets.push((layout.buffers, set));
        update_set(&self.device.api, set, &bound);
        self.order(&uses);
        self.commands.dispatch(&kernel.pipeline, set, groups);
        for (copy, place) in back {
            self.copy(copy, place);
        }
        Ok(())
    }

    /// What stands in for an empty tensor: one byte, in which no element of a kernel has room, so that the kernel
    /// sees a length of 0 and touches nothing.
    fn nothing(&self) -> BoundRange {
        BoundRange { buffer: self.device.dummy.buffer, offset: 0, bytes: 1 }
    }

    /// A copy of the range that a binding can begin at. Also for bindings that are only written: what the kernel does not
    /// write keeps its old contents.
    fn scratch(&mut self, place: Place) -> Result<Place, BackendError> {
        let piece = self.device.scratch.take(place.bytes)?;
        let copy = Place::of_piece(&piece);
        self.recording.pieces.push(piece);
        self.copy(place, copy);
        Ok(copy)
    }

    /// The parameters as a buffer, padded to whole words.
    fn parameters(&mut self, parameters: &[u8]) -> Result<BoundRange, BackendError> {
        if parameters.is_empty() {
            return Ok(self.nothing());
        }
        let mut padded: SmallVec<[u8; 64]> = SmallVec::from_slice(parameters);
        padded.resize(parameters.len().next_multiple_of(4), 0);
        let place = self.upload(&padded)?;
        Ok(BoundRange { buffer: place.buffer, offset: place.offset, bytes: place.bytes })
    }
}

/// How the driver's fill does a range: `bytes` from `skip` on with `word`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Words {
    skip: u64,
    bytes: u64,
    word: u32,
}

impl Words {
    /// None for a pattern that no word holds.
    fn of(target: Place, pattern: &[u8]) -> Option<Self> {
        let fits = match pattern.len() {
            1 | 2 | 4 => true,
            // Such as the zero of a large element.
            length => length.is_multiple_of(4) && pattern.chunks_exact(4).all(|word| word == &pattern[..4]),
        };
        if !fits {
            return None;
        }
        let start = target.offset.next_multiple_of(4).min(target.end());
        let skip = start - target.offset;
        let bytes = (target.bytes - skip) / 4 * 4;
        // The pattern goes on from where the range begins, which need not be a word's begin.
        let word = u32::from_le_bytes(std::array::from_fn(|at| at_of(pattern, skip + at as u64)));
        // The driver writes the word as the device keeps it, low byte first.
        Some(Words { skip, bytes, word })
    }
}

/// The byte of a repeated pattern at a distance from its begin.
fn at_of(pattern: &[u8], at: u64) -> u8 {
    pattern[(at % pattern.len() as u64) as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(offset: u64, bytes: u64) -> Place {
        Place { buffer: vk::Buffer::null(), offset, bytes }
    }

    #[test]
    fn words_are_where_the_drivers_fill_can_be() {
        let words = |offset, bytes, pattern: &[u8]| Words::of(place(offset, bytes), pattern);
        assert_eq!(words(8, 16, &[7]), Some(Words { skip: 0, bytes: 16, word: 0x0707_0707 }));
        assert_eq!(words(5, 10, &[7]), Some(Words { skip: 3, bytes: 4, word: 0x0707_0707 }));
        assert_eq!(words(5, 2, &[7]).map(|words| (words.skip, words.bytes)), Some((2, 0)));
        assert_eq!(words(6, 8, &[1, 2, 3, 4]), Some(Words { skip: 2, bytes: 4, word: 0x0201_0403 }));
        assert_eq!(words(3, 8, &[1, 2]), Some(Words { skip: 1, bytes: 4, word: 0x0102_0102 }));
        assert_eq!(words(0, 16, &[0; 8]), Some(Words { skip: 0, bytes: 16, word: 0 }));
        assert_eq!(words(0, 12, &[1, 2, 3]), None);
        assert_eq!(words(0, 16, &[1, 2, 3, 4, 5, 6, 7, 8]), None);
    }
}
