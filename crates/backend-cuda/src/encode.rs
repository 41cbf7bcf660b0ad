//! What each operation becomes: commands with addresses, and the memory of the recording's own that they name.
//!
//! Not here: submitting them (`sequence.rs`).

use std::sync::Arc;

use smallvec::SmallVec;
use tenure_core::operation::{Binding, BlockRange, Operation, ReadCell};
use tenure_core::{BackendError, BackendErrorKind};

use crate::backend::CudaBackend;
use crate::buffer::DeviceMemory;
use crate::commands::{Command, Launch, Use, Word};
use crate::device::Device;
use crate::error::unsupported;
use crate::ffi::Current;
use crate::heap::Piece;
use crate::heap::ffi::Pinned;
use crate::kernel::CudaKernel;

/// Bytes that a fill by copies writes from the host; from there it doubles on the device.
const TILE_BYTES: usize = 16 << 10;

/// Parameters of a dispatch begin at multiples of it.
const PARAMETER_ALIGNMENT: usize = 16;

/// A recording in native terms.
#[derive(Default)]
pub(crate) struct Recording {
    pub commands: Vec<Command>,
    /// Pinned memory that the commands name.
    pub pieces: Vec<Piece<Pinned>>,
    pub reads: Vec<ReadBack>,
    /// The parameters of all dispatches.
    pub parameters: Parameters,
}

/// A read-back: where the bytes arrive, and who gets them.
pub(crate) struct ReadBack {
    pub piece: Piece<Pinned>,
    pub into: Arc<ReadCell>,
}

/// Parameters of dispatches, and lengths of their bindings. They go to the device once: what a recording is submitted with does not change.
#[derive(Default)]
pub(crate) struct Parameters {
    bytes: Vec<u8>,
    /// What points to them: pointers of launches, whose addresses are known when all are.
    uses: Vec<Pointer>,
    placed: Option<Placed>,
}

/// One pointer of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pointer {
    command: usize,
    index: usize,
    /// Where in the parameters it points to.
    offset: usize,
}

struct Placed {
    from: Piece<Pinned>,
    /// None where the device had no room: it reads them from where they are.
    to: Option<Piece<DeviceMemory>>,
}

impl Placed {
    /// Where the device finds them.
    fn address(&self) -> u64 {
        match &self.to {
            Some(piece) => piece.memory().address() + piece.offset() as u64,
            // Addresses are of one space, as `Facts::check` saw.
            None => self.from.address() as u64,
        }
    }
}

/// A range of device memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    address: u64,
    bytes: usize,
}

impl Place {
    fn of(range: &BlockRange<'_, CudaBackend>) -> Option<Self> {
        let block = range.block.filter(|_| range.bytes > 0)?;
        let bytes = usize::try_from(range.bytes).expect("a block fits the address space");
        Some(Place { address: block.address() + range.offset, bytes })
    }

    /// The bytes from `from` on.
    fn part(self, from: usize, bytes: usize) -> Self {
        Place { address: self.address + from as u64, bytes }
    }
}

/// A dispatch, as core hands it over.
struct Dispatch<'a> {
    kernel: &'a CudaKernel,
    bindings: &'a [Binding<'a, CudaBackend>],
    groups: [u32; 3],
    parameters: &'a [u8],
    label: &'a str,
}

impl Recording {
    pub(crate) fn push(
        &mut self,
        device: &Device,
        operation: &Operation<'_, CudaBackend>,
    ) -> Result<(), BackendError> {
        let current = device.context.enter()?;
        match operation {
            Operation::Write { target, bytes } => {
                let Some(target) = Place::of(target) else { return Ok(()) };
                self.upload(device, &current, bytes, target)
            }
            Operation::Read { source, into } => {
                let Some(source) = Place::of(source) else {
                    into.deliver(Vec::new());
                    return Ok(());
                };
                let piece = device.pinned.take(&current, source.bytes)?;
                let (from, to) = (source.address, piece.address());
                self.commands.push(Command::ToHost { from, to, bytes: source.bytes });
                self.reads.push(ReadBack { piece, into: Arc::clone(into) });
                Ok(())
            }
            Operation::Copy { source, target } => {
                if let (Some(source), Some(target)) = (Place::of(source), Place::of(target)) {
                    self.copy(source, target);
                }
                Ok(())
            }
            Operation::Fill { target, pattern } => {
                let Some(target) = Place::of(target) else { return Ok(()) };
                self.fill(device, &current, target, pattern)
            }
            Operation::Dispatch { kernel, bindings, groups, parameters, label } => {
                let groups = *groups;
                self.dispatch(device, &Dispatch { kernel, bindings, groups, parameters, label })
            }
        }
    }

    fn upload(
        &mut self,
        device: &Device,
        current: &Current<'_>,
        bytes: &[u8],
        target: Place,
    ) -> Result<(), BackendError> {
        let piece = device.pinned.take(current, bytes.len())?;
        piece.write(bytes);
        let (from, to) = (piece.address(), target.address);
        self.commands.push(Command::ToDevice { from, to, bytes: target.bytes });
        self.pieces.push(piece);
        Ok(())
    }

    /// Copies as many bytes as the target has.
    fn copy(&mut self, source: Place, target: Place) {
        let (from, to, bytes) = (source.address, target.address, target.bytes);
        self.commands.push(Command::Copy { from, to, bytes });
    }

    fn fill(
        &mut self,
        device: &Device,
        current: &Current<'_>,
        target: Place,
        pattern: &[u8],
    ) -> Result<(), BackendError> {
        if let Some(word) = word_of(target, pattern) {
            let count = target.bytes / word.bytes();
            self.commands.push(Command::Set { to: target.address, word, count });
            return Ok(());
        }
        // A tile from the host, and then what is filled already, again and again.
        let repeats = (TILE_BYTES.min(target.bytes) / pattern.len()).max(1);
        let tile = pattern.repeat(repeats);
        let mut filled = tile.len();
        self.upload(device, current, &tile, target.part(0, filled))?;
        while filled < target.bytes {
            let more = filled.min(target.bytes - filled);
            self.copy(target.part(0, more), target.part(filled, more));
            filled += more;
        }
        Ok(())
    }

    fn dispatch(&mut self, device: &Device, dispatch: &Dispatch<'_>) -> Result<(), BackendError> {
        let Dispatch { kernel, bindings, groups, parameters, label } = *dispatch;
        let most = device.facts.max_grid;
        if groups.iter().zip(&most).any(|(groups, most)| groups > most) {
            let message = format!("kernel `{label}` in {groups:?} blocks, the device runs {most:?} at most");
            return Err(unsupported("dispatch", message));
        }
        let takes = kernel.program.pointers;
        let lengths = kernel.program.lengths;
        let has = bindings.len() + usize::from(!parameters.is_empty()) + usize::from(lengths);
        if takes != has {
            let message = format!("kernel `{label}` takes {takes} pointers, the dispatch has {has}");
            return Err(unsupported("dispatch", message));
        }
        if groups.contains(&0) {
            return Ok(());
        }
        let mut pointers: SmallVec<[u64; 8]> = bindings
            .iter()
            .map(|binding| Place::of(&binding.range).map_or(device.dummy.address(), |place| place.address))
            .collect();
        if !parameters.is_empty() {
            self.parameters.add(self.commands.len(), &mut pointers, parameters);
        }
        if lengths {
            let bytes: Vec<u8> =
                bindings.iter().flat_map(|binding| binding.range.bytes.to_ne_bytes()).collect();
            self.parameters.add(self.commands.len(), &mut pointers, &bytes);
        }
        let program = kernel.program.clone();
        let uses = bindings.iter().filter_map(|binding| {
            let Place { address, bytes } = Place::of(&binding.range)?;
            Some(Use { start: address, end: address + bytes as u64, writes: binding.access.writes() })
        });
        let uses = uses.collect();
        self.commands.push(Command::Launch(Launch { program, grid: groups, pointers, uses }));
        Ok(())
    }

    /// The command that brings the parameters to the device, if there are any and it has room. They have their place from now
    /// on.
    pub(crate) fn place_parameters(
        &mut self,
        device: &Device,
        current: &Current<'_>,
    ) -> Result<Option<Command>, BackendError> {
        let parameters = &mut self.parameters;
        if parameters.bytes.is_empty() {
            return Ok(None);
        }
        if parameters.placed.is_none() {
            let bytes = parameters.bytes.len();
            let from = device.pinned.take(current, bytes)?;
            let to = match device.parameters.take(current, bytes) {
                Ok(piece) => Some(piece),
                // L20: core may have all of the device's memory, cached or in use. Pinned memory will do, only more slowly.
                Err(error) if error.kind == BackendErrorKind::OutOfMemory => None,
                Err(error) => return Err(error),
            };
            from.write(&parameters.bytes);
            let placed = Placed { from, to };
            let begin = placed.address();
            for pointer in &parameters.uses {
                let Command::Launch(launch) = &mut self.commands[pointer.command] else {
                    unreachable!("only launches have parameters");
                };
                launch.pointers[pointer.index] = begin + pointer.offset as u64;
            }
            parameters.placed = Some(placed);
        }
        let placed = parameters.placed.as_ref().expect("they have their place");
        Ok(placed.to.is_some().then(|| Command::ToDevice {
            from: placed.from.address(),
            to: placed.address(),
            bytes: placed.from.bytes(),
        }))
    }
}

impl Parameters {
    /// Adds bytes, and a pointer to them.
    fn add(&mut self, command: usize, pointers: &mut SmallVec<[u64; 8]>, bytes: &[u8]) {
        self.bytes.resize(self.bytes.len().next_multiple_of(PARAMETER_ALIGNMENT), 0);
        self.uses.push(Pointer { command, index: pointers.len(), offset: self.bytes.len() });
        self.bytes.extend_from_slice(bytes);
        pointers.push(0);
    }
}

/// The word that fills the place, if one does: the smallest that the pattern repeats.
fn word_of(target: Place, pattern: &[u8]) -> Option<Word> {
    let repeats = |width: usize| {
        pattern.len().is_multiple_of(width)
            && pattern.chunks_exact(width).all(|word| word == &pattern[..width])
            && target.address.is_multiple_of(width as u64)
            && target.bytes.is_multiple_of(width)
    };
    // The device keeps words as the host does: low byte first.
    if repeats(1) {
        // Wide words are set faster than bytes.
        let wide = target.address.is_multiple_of(4) && target.bytes.is_multiple_of(4);
        let byte = pattern[0];
        return Some(if wide { Word::Four(u32::from_ne_bytes([byte; 4])) } else { Word::One(byte) });
    }
    if repeats(2) {
        return Some(Word::Two(u16::from_ne_bytes([pattern[0], pattern[1]])));
    }
    repeats(4).then(|| Word::Four(u32::from_ne_bytes([pattern[0], pattern[1], pattern[2], pattern[3]])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_set_where_they_can_be() {
        let word = |address, bytes, pattern: &[u8]| word_of(Place { address, bytes }, pattern);
        assert_eq!(word(8, 16, &[7]), Some(Word::Four(0x0707_0707)));
        assert_eq!(word(5, 10, &[7]), Some(Word::One(7)));
        assert_eq!(word(8, 10, &[7]), Some(Word::One(7)));
        assert_eq!(word(6, 10, &[1, 2]), Some(Word::Two(0x0201)));
        assert_eq!(word(5, 10, &[1, 2]), None);
        assert_eq!(word(8, 8, &[1, 2, 3, 4]), Some(Word::Four(0x0403_0201)));
        assert_eq!(word(6, 8, &[1, 2, 3, 4]), None);
        assert_eq!(word(8, 16, &[0; 8]), Some(Word::Four(0)));
        assert_eq!(word(8, 16, &[1, 2, 1, 2, 1, 2, 1, 2]), Some(Word::Two(0x0201)));
        assert_eq!(word(8, 12, &[1, 2, 3]), None);
        assert_eq!(word(8, 16, &[1, 2, 3, 4, 5, 6, 7, 8]), None);
    }

    #[test]
    fn parameters_are_aligned_one_after_the_other() {
        let mut parameters = Parameters::default();
        let mut pointers = SmallVec::from_slice(&[11, 12]);
        parameters.add(0, &mut pointers, &[1; 4]);
        parameters.add(0, &mut pointers, &[2; 20]);
        parameters.add(4, &mut SmallVec::new(), &[3; 1]);
        assert_eq!(pointers[..], [11, 12, 0, 0]);
        let places = parameters.uses.iter().map(|use_| (use_.command, use_.index, use_.offset));
        assert_eq!(places.collect::<Vec<_>>(), [(0, 2, 0), (0, 3, 16), (4, 0, 48)]);
        assert_eq!(parameters.bytes.len(), 49);
    }
}
