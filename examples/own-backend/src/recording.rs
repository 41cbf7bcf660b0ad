//! Recordings of the inline backend: operations as data, run one after the other at submission.
//!
//! Not here: timelines (`backend.rs`).

use std::ops::Range;
use std::sync::Arc;

use tenure_core::backend::{Scope, Sequence, Submission};
use tenure_core::kernel::{HostBinding, HostKernel};
use tenure_core::operation::{BlockRange, Operation, ReadCell};
use tenure_core::{Access, BackendError, BackendErrorKind, HostArguments};

use crate::backend::{InlineBackend, Timelines};
use crate::block::{AlignedBytes, InlineBlock};

/// An arena has nothing to keep: it only makes sequences.
#[derive(Debug)]
pub struct InlineScope {
    timelines: Arc<Timelines>,
}

/// A list of steps.
pub struct InlineSequence {
    timelines: Arc<Timelines>,
    steps: Vec<Step>,
    /// What the last submission failed with.
    failure: Option<BackendError>,
}

/// One operation, with everything that it needs.
enum Step {
    Write { target: Place, bytes: Arc<[u8]> },
    Read { source: Place, into: Arc<ReadCell> },
    Copy { source: Place, target: Place },
    Fill { target: Place, pattern: Vec<u8> },
    Dispatch { kernel: HostKernel, bindings: Vec<(Place, Access)>, groups: [u32; 3], parameters: Vec<u8> },
}

/// A range of a block; no block for the range of an empty tensor.
struct Place {
    block: Option<InlineBlock>,
    range: Range<usize>,
}

impl InlineScope {
    /// An arena whose sequences tell `timelines` what has completed.
    pub fn new(timelines: Arc<Timelines>) -> Self {
        InlineScope { timelines }
    }
}

impl Scope<InlineBackend> for InlineScope {
    fn open_sequence(&mut self, _label: &str) -> Result<InlineSequence, BackendError> {
        Ok(InlineSequence { timelines: self.timelines.clone(), steps: Vec::new(), failure: None })
    }

    unsafe fn recycle(&mut self, sequence: InlineSequence) {
        drop(sequence);
    }

    unsafe fn reset(&mut self) -> Result<(), BackendError> {
        Ok(())
    }
}

impl Sequence<InlineBackend> for InlineSequence {
    unsafe fn record(&mut self, operation: &Operation<'_, InlineBackend>) -> Result<(), BackendError> {
        self.steps.push(match operation {
            Operation::Write { target, bytes } => {
                Step::Write { target: Place::of(target), bytes: Arc::clone(bytes) }
            }
            Operation::Read { source, into } => {
                Step::Read { source: Place::of(source), into: Arc::clone(into) }
            }
            Operation::Copy { source, target } => {
                Step::Copy { source: Place::of(source), target: Place::of(target) }
            }
            Operation::Fill { target, pattern } => {
                Step::Fill { target: Place::of(target), pattern: pattern.to_vec() }
            }
            Operation::Dispatch { kernel, bindings, groups, parameters, .. } => Step::Dispatch {
                kernel: (*kernel).clone(),
                bindings: bindings.iter().map(|bound| (Place::of(&bound.range), bound.access)).collect(),
                groups: *groups,
                parameters: parameters.to_vec(),
            },
        });
        Ok(())
    }

    unsafe fn submit(&mut self, submission: &Submission<'_>) -> Result<(), BackendError> {
        // What it waits for was submitted before, and so it has completed: nothing is left to wait for.
        self.failure = self.steps.iter().try_for_each(Step::run).err();
        self.timelines.complete(submission.point);
        Ok(())
    }

    fn collect(&mut self) -> Result<(), BackendError> {
        self.failure.take().map_or(Ok(()), Err)
    }

    unsafe fn reset(&mut self) -> Result<(), BackendError> {
        self.steps.clear();
        Ok(())
    }
}

impl Place {
    fn of(range: &BlockRange<'_, InlineBackend>) -> Place {
        // A block is smaller than the address space, and core keeps ranges inside blocks.
        let offset = range.offset as usize;
        Place { block: range.block.cloned(), range: offset..offset + range.bytes as usize }
    }

    fn read(&self) -> AlignedBytes {
        match &self.block {
            Some(block) => block.read(self.range.clone()),
            None => AlignedBytes::zeroed(0),
        }
    }

    fn write(&self, bytes: &[u8]) {
        if let Some(block) = &self.block {
            block.write(self.range.start, bytes);
        }
    }
}

impl Step {
    fn run(&self) -> Result<(), BackendError> {
        match self {
            Step::Write { target, bytes } => target.write(bytes),
            Step::Read { source, into } => into.deliver(source.read().as_slice().to_vec()),
            Step::Copy { source, target } => target.write(source.read().as_slice()),
            Step::Fill { target, pattern } => {
                let bytes: Vec<u8> = pattern.iter().copied().cycle().take(target.range.len()).collect();
                target.write(&bytes);
            }
            Step::Dispatch { kernel, bindings, groups, parameters } => {
                return dispatch(kernel, bindings, *groups, parameters);
            }
        }
        Ok(())
    }
}

/// Runs a kernel on copies of its bindings and copies back what it may write.
fn dispatch(
    kernel: &HostKernel,
    bindings: &[(Place, Access)],
    groups: [u32; 3],
    parameters: &[u8],
) -> Result<(), BackendError> {
    let mut copies: Vec<AlignedBytes> = bindings.iter().map(|(place, _)| place.read()).collect();
    let bound = copies
        .iter_mut()
        .zip(bindings)
        .map(|(copy, (_, access))| match access {
            Access::Read => HostBinding::Read(copy.as_slice()),
            Access::Write | Access::ReadWrite => HostBinding::Write(copy.as_mut_slice()),
        })
        .collect();
    let mut arguments = HostArguments::new(groups, parameters, bound);
    let result = kernel.run(&mut arguments);
    drop(arguments);
    for (copy, (place, access)) in copies.iter().zip(bindings) {
        if access.writes() {
            place.write(copy.as_slice());
        }
    }
    result.map_err(|message| BackendError::new(BackendErrorKind::Execution, "submit", message))
}
