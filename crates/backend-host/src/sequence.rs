//! Native recordings: lists of host operations that workers share, so that a re-submission copies nothing (L9).

use std::sync::Arc;

use parking_lot::Mutex;
use tenure_core::backend::{QueueId, Sequence, Submission, TimelinePoint};
use tenure_core::operation::{BlockRange, Operation, ReadCell};
use tenure_core::{BackendError, BackendErrorKind};

use crate::backend::{Device, HostBackend};
use crate::ffi::Range;
use crate::kernel::Dispatch;

/// One native recording.
pub struct HostSequence {
    device: Arc<Device>,
    queue: QueueId,
    operations: Arc<Vec<HostOperation>>,
    /// How the last submission ended.
    outcome: Arc<Mutex<Result<(), BackendError>>>,
}

#[derive(Clone)]
enum HostOperation {
    Write { target: Range, bytes: Arc<[u8]> },
    Read { source: Range, into: Arc<ReadCell> },
    Copy { source: Range, target: Range },
    Fill { target: Range, pattern: Vec<u8> },
    Dispatch(Dispatch),
}

/// One submission on its way through a queue.
pub(crate) struct Work {
    pub point: TimelinePoint,
    pub waits: Vec<TimelinePoint>,
    device: Arc<Device>,
    operations: Arc<Vec<HostOperation>>,
    outcome: Arc<Mutex<Result<(), BackendError>>>,
}

impl std::fmt::Debug for Work {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Work").field("point", &self.point).finish_non_exhaustive()
    }
}

impl Work {
    /// Runs the operations in order, up to the first that fails.
    pub(crate) fn run(self) {
        let result = self.operations.iter().try_for_each(|operation| operation.run(&self.device));
        *self.outcome.lock() = result;
    }
}

impl HostOperation {
    fn run(&self, device: &Device) -> Result<(), BackendError> {
        match self {
            HostOperation::Write { target, bytes } => {
                target.with_write(|target| device.copier.copy(bytes, target));
            }
            HostOperation::Read { source, into } => {
                into.deliver(source.with_read(|source| device.copier.collect(source)));
            }
            HostOperation::Copy { source, target } => {
                source.with_read(|source| target.with_write(|target| device.copier.copy(source, target)));
            }
            HostOperation::Fill { target, pattern } => {
                target.with_write(|target| device.copier.fill(pattern, target));
            }
            HostOperation::Dispatch(dispatch) => return dispatch.run(),
        }
        Ok(())
    }
}

fn range_of(range: &BlockRange<'_, HostBackend>) -> Range {
    match range.block {
        Some(block) => block.range(range.offset, range.bytes),
        None => Range { memory: None, offset: 0, bytes: 0 },
    }
}

impl HostSequence {
    pub(crate) fn new(device: Arc<Device>, queue: QueueId) -> Self {
        HostSequence {
            device,
            queue,
            operations: Arc::new(Vec::new()),
            outcome: Arc::new(Mutex::new(Ok(()))),
        }
    }
}

impl Sequence<HostBackend> for HostSequence {
    unsafe fn record(&mut self, operation: &Operation<'_, HostBackend>) -> Result<(), BackendError> {
        let operation = match operation {
            Operation::Write { target, bytes } => {
                HostOperation::Write { target: range_of(target), bytes: (*bytes).clone() }
            }
            Operation::Read { source, into } => {
                HostOperation::Read { source: range_of(source), into: (*into).clone() }
            }
            Operation::Copy { source, target } => {
                HostOperation::Copy { source: range_of(source), target: range_of(target) }
            }
            Operation::Fill { target, pattern } => {
                HostOperation::Fill { target: range_of(target), pattern: pattern.to_vec() }
            }
            Operation::Dispatch { kernel, bindings, groups, parameters, label } => {
                HostOperation::Dispatch(Dispatch {
                    kernel: kernel.run.clone(),
                    bindings: bindings.iter().map(|bound| (range_of(&bound.range), bound.access)).collect(),
                    groups: *groups,
                    parameters: parameters.to_vec(),
                    label: (*label).to_owned(),
                })
            }
        };
        // Not in flight, by contract: the worker has let go, and nothing is cloned.
        Arc::make_mut(&mut self.operations).push(operation);
        Ok(())
    }

    unsafe fn submit(&mut self, submission: &Submission<'_>) -> Result<(), BackendError> {
        assert_eq!(submission.point.queue, self.queue, "a sequence is submitted to its scope's queue");
        // The queue itself runs in order.
        let waits = submission.waits.iter().copied().filter(|wait| wait.queue != self.queue).collect();
        let work = Work {
            point: submission.point,
            waits,
            device: self.device.clone(),
            operations: self.operations.clone(),
            outcome: self.outcome.clone(),
        };
        self.device.timelines.submit(work).map_err(|error| {
            BackendError::new(BackendErrorKind::Driver, "submit", format!("no worker thread: {error}"))
                .with_source(error)
        })
    }

    fn collect(&mut self) -> Result<(), BackendError> {
        std::mem::replace(&mut *self.outcome.lock(), Ok(()))
    }

    unsafe fn reset(&mut self) -> Result<(), BackendError> {
        self.operations = Arc::new(Vec::new());
        Ok(())
    }
}
