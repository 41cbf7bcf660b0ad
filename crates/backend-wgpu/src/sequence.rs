//! Native recordings: lists of operations from which each submission's commands are encoded anew (L9).
//!
//! Not here: encoding one operation (`bytes.rs`, `dispatch.rs`), and copies outside a recording (`transfer.rs`).

use std::sync::Arc;

use smallvec::SmallVec;
use tenure_core::BackendError;
use tenure_core::backend::{QueueId, Sequence, Submission};
use tenure_core::operation::{BlockRange, Operation, ReadCell};

use crate::backend::WgpuBackend;
use crate::device::{Device, WORD};
use crate::dispatch::Dispatch;
use crate::encode::{Encoder, Range};
use crate::staging::{PIECE, Piece, ReadBacks};
use crate::transfer::Submitted;

/// One native recording.
pub struct WgpuSequence {
    device: Arc<Device>,
    label: String,
    operations: Vec<WgpuOperation>,
    /// What the last submission reads back.
    reads: Reads,
}

enum WgpuOperation {
    Write { target: Range, bytes: Arc<[u8]> },
    Read { source: Option<Range>, into: Arc<ReadCell> },
    Copy { source: Range, target: Range },
    Fill { target: Range, pattern: SmallVec<[u8; 16]> },
    Dispatch(Dispatch),
}

/// Read-backs of one submission.
#[derive(Default)]
struct Reads {
    staging: ReadBacks,
    /// In order.
    cells: Vec<Cell>,
}

/// One read-back: who gets it, and where it is.
struct Cell {
    into: Arc<ReadCell>,
    pieces: Vec<Piece>,
    bytes: u64,
}

fn range_of(range: &BlockRange<'_, WgpuBackend>) -> Option<Range> {
    let block = range.block.filter(|_| range.bytes > 0)?;
    Some(Range { storage: block.storage.clone(), offset: range.offset, bytes: range.bytes })
}

impl WgpuSequence {
    pub(crate) fn new(device: Arc<Device>, label: &str) -> Self {
        WgpuSequence { device, label: label.to_owned(), operations: Vec::new(), reads: Reads::default() }
    }

    fn push(&mut self, operation: &Operation<'_, WgpuBackend>) -> Result<(), BackendError> {
        let operation = match operation {
            Operation::Write { target, bytes } => {
                let Some(target) = range_of(target) else { return Ok(()) };
                WgpuOperation::Write { target, bytes: (*bytes).clone() }
            }
            Operation::Read { source, into } => {
                WgpuOperation::Read { source: range_of(source), into: (*into).clone() }
            }
            Operation::Copy { source, target } => {
                let (Some(source), Some(target)) = (range_of(source), range_of(target)) else {
                    return Ok(());
                };
                WgpuOperation::Copy { source, target }
            }
            Operation::Fill { target, pattern } => {
                let Some(target) = range_of(target) else { return Ok(()) };
                WgpuOperation::Fill { target, pattern: SmallVec::from_slice(pattern) }
            }
            Operation::Dispatch { kernel, bindings, groups, parameters, label } => {
                let dispatch = Dispatch {
                    kernel: kernel.compiled.clone(),
                    bindings: bindings.iter().map(|bound| (range_of(&bound.range), bound.access)).collect(),
                    groups: *groups,
                    parameters: SmallVec::from_slice(parameters),
                };
                dispatch.check(&self.device.limits, label)?;
                WgpuOperation::Dispatch(dispatch)
            }
        };
        self.operations.push(operation);
        Ok(())
    }

    fn encode(&self, encoder: &mut Encoder<'_>, staging: &mut ReadBacks) -> Result<Vec<Cell>, BackendError> {
        let mut parameters = self.parameters(encoder)?.into_iter();
        let mut cells = Vec::new();
        for operation in &self.operations {
            match operation {
                WgpuOperation::Write { target, bytes } => encoder.write(bytes, target)?,
                WgpuOperation::Read { source, into } => {
                    let pieces = match source {
                        None => Vec::new(),
                        Some(source) => staging.copy(encoder, source)?,
                    };
                    let bytes = source.as_ref().map_or(0, |source| source.bytes);
                    cells.push(Cell { into: into.clone(), pieces, bytes });
                }
                WgpuOperation::Copy { source, target } => encoder.copy(source, target)?,
                WgpuOperation::Fill { target, pattern } => encoder.fill(target, pattern)?,
                WgpuOperation::Dispatch(dispatch) => {
                    let parameters = parameters.next().flatten();
                    encoder.dispatch(dispatch, parameters)?;
                }
            }
        }
        Ok(cells)
    }

    /// The parameters of all dispatches, in order, uploaded by one copy so that passes are not cut by it.
    fn parameters(&self, encoder: &mut Encoder<'_>) -> Result<Vec<Option<Range>>, BackendError> {
        let alignment = self.device.limits.binding_alignment as usize;
        let mut bytes: Vec<u8> = Vec::new();
        let mut places = Vec::new();
        for operation in &self.operations {
            let WgpuOperation::Dispatch(dispatch) = operation else { continue };
            let own = dispatch.parameters.len();
            if own == 0 {
                places.push(None);
                continue;
            }
            places.push(Some((bytes.len() as u64, (own as u64).next_multiple_of(WORD))));
            bytes.extend_from_slice(&dispatch.parameters);
            bytes.resize(bytes.len().next_multiple_of(alignment), 0);
        }
        if bytes.is_empty() {
            return Ok(vec![None; places.len()]);
        }
        let storage = encoder.keep_scratch(bytes.len() as u64)?;
        let all = Range { storage, offset: 0, bytes: bytes.len() as u64 };
        encoder.write(&bytes, &all)?;
        Ok(places.into_iter().map(|place| place.map(|(from, own)| all.part(from, own))).collect())
    }

    fn send(&mut self, submission: &Submission<'_>) -> Result<(), BackendError> {
        let what = ("submit", submission.label);
        let encode = |encoder: &mut Encoder<'_>, staging: &mut ReadBacks| self.encode(encoder, staging);
        let Submitted { reads: staging, encoded: cells, .. } =
            self.device.submit(what, Some(submission.point.value), encode)?;
        self.reads = Reads { staging, cells };
        // The next submission is recorded anew; until then nothing has to be kept alive.
        self.operations.clear();
        Ok(())
    }
}

impl Reads {
    fn deliver(self, device: &Device) -> Result<(), BackendError> {
        for Cell { into, pieces, bytes } in &self.cells {
            let mut delivered = vec![0; *bytes as usize];
            self.staging.read_all(pieces, &mut delivered)?;
            into.deliver(delivered);
        }
        self.staging.end(&device.staging);
        Ok(())
    }
}

impl ReadBacks {
    /// Copies a range to staging.
    pub(crate) fn copy(
        &mut self,
        encoder: &mut Encoder<'_>,
        source: &Range,
    ) -> Result<Vec<Piece>, BackendError> {
        let mut pieces = Vec::new();
        let mut done = 0;
        while done < source.bytes {
            let part = source.part(done, (source.bytes - done).min(PIECE));
            // Whole words around the bytes: a block ends with one.
            let phase = part.offset % WORD;
            let (piece, slot) = self.room(encoder.device, phase, part.bytes)?;
            let words = (phase + part.bytes).next_multiple_of(WORD);
            let from = (&part.storage.buffer, part.offset - phase);
            encoder.copy_words(from, (&slot.buffer, slot.offset), words);
            pieces.push(piece);
            done += part.bytes;
        }
        Ok(pieces)
    }

    pub(crate) fn read_all(&self, pieces: &[Piece], into: &mut [u8]) -> Result<(), BackendError> {
        let mut rest = into;
        for piece in pieces {
            let (part, after) = rest.split_at_mut(piece.bytes() as usize);
            self.read(*piece, part)?;
            rest = after;
        }
        Ok(())
    }
}

impl Sequence<WgpuBackend> for WgpuSequence {
    unsafe fn record(&mut self, operation: &Operation<'_, WgpuBackend>) -> Result<(), BackendError> {
        self.push(operation)
    }

    unsafe fn submit(&mut self, submission: &Submission<'_>) -> Result<(), BackendError> {
        assert_eq!(submission.point.queue, QueueId(0), "there is one queue");
        let device = self.device.clone();
        device.run(|| self.send(submission))
    }

    fn collect(&mut self) -> Result<(), BackendError> {
        self.device.timeline.check("collect")?;
        let (device, reads) = (&*self.device, std::mem::take(&mut self.reads));
        device.run(|| reads.deliver(device))
    }

    unsafe fn reset(&mut self) -> Result<(), BackendError> {
        let (operations, reads) = (std::mem::take(&mut self.operations), std::mem::take(&mut self.reads));
        self.device.run(|| drop((operations, reads)));
        Ok(())
    }
}

impl std::fmt::Debug for WgpuSequence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WgpuSequence")
            .field("label", &self.label)
            .field("operations", &self.operations.len())
            .finish_non_exhaustive()
    }
}
