//! Native recordings: lists of host operations that workers share, so that a re-submission copies nothing (L9).

use std::sync::Arc;

use parking_lot::Mutex;
use tenure_core::backend::{QueueId, Sequence, Submission, TimelinePoint};
use tenure_core::operation::{BlockRange, Operation, ReadCell};
use tenure_core::{BackendError, BackendErrorKind};

use crate::backend::{Device, HostBackend};
use crate::error::{broken, caught, out_of_memory};
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
pub(crate) enum HostOperation {
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
    /// Runs the operations in order, up to the first that fails. Never panics, and has let go of the recording
    /// when it returns.
    pub(crate) fn run(self) {
        let Work { device, operations, outcome, .. } = self;
        let result = caught(|| operations.iter().try_for_each(|operation| operation.run(&device)));
        *outcome.lock() = result.unwrap_or_else(|panic| Err(broken(&panic)));
        // The sequence shares the recording, so nothing ends here unless its owner was too early; then these are
        // destructors of user code.
        if let Err(panic) = caught(|| drop(operations)) {
            *outcome.lock() = Err(broken(&panic));
        }
    }
}

impl HostOperation {
    fn run(&self, device: &Device) -> Result<(), BackendError> {
        match self {
            HostOperation::Write { target, bytes } => {
                target.with_write(|target| device.copier.copy(bytes, target));
            }
            HostOperation::Read { source, into } => {
                let bytes = source.with_read(|source| device.copier.collect(source)).map_err(|error| {
                    let message = format!("no {} bytes for a read-back", source.bytes);
                    out_of_memory("read back", message).with_source(error)
                })?;
                into.deliver(bytes);
            }
            HostOperation::Copy { source, target } => {
                device.copier.copy_range(source, target);
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

    fn push(&mut self, operation: HostOperation) {
        // Not in flight, by contract: the worker has let go, and nothing is cloned.
        Arc::make_mut(&mut self.operations).push(operation);
    }

    pub(crate) fn send(&self, point: TimelinePoint, waits: &[TimelinePoint]) -> Result<(), BackendError> {
        assert_eq!(point.queue, self.queue, "a sequence is submitted to its scope's queue");
        // The queue itself runs in order.
        let waits = waits.iter().copied().filter(|wait| wait.queue != self.queue).collect();
        let work = Work {
            point,
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
        self.push(operation);
        Ok(())
    }

    unsafe fn submit(&mut self, submission: &Submission<'_>) -> Result<(), BackendError> {
        self.send(submission.point, submission.waits)
    }

    fn collect(&mut self) -> Result<(), BackendError> {
        std::mem::replace(&mut *self.outcome.lock(), Ok(()))
    }

    unsafe fn reset(&mut self) -> Result<(), BackendError> {
        self.operations = Arc::new(Vec::new());
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod testing {
    //! Recordings without core, for the tests of this crate.

    use tenure_core::KernelSource;

    use super::*;
    use crate::kernel::compile;

    pub(crate) fn point(queue: u32, value: u64) -> TimelinePoint {
        TimelinePoint { queue: QueueId(queue), value }
    }

    /// A recording of one dispatch that calls `run`.
    pub(crate) fn calling(
        device: &Arc<Device>,
        queue: u32,
        run: impl Fn() + Send + Sync + 'static,
    ) -> HostSequence {
        let mut sequence = HostSequence::new(device.clone(), QueueId(queue));
        sequence.push(dispatch(KernelSource::new("call", &[]).host(move |_| run()), Vec::new()));
        sequence
    }

    pub(super) fn dispatch(source: KernelSource, ranges: Vec<Range>) -> HostOperation {
        HostOperation::Dispatch(Dispatch {
            kernel: compile(&source).expect("it has the host form").run,
            bindings: ranges.into_iter().zip(source.bindings().iter().copied()).collect(),
            groups: [1; 3],
            parameters: Vec::new(),
            label: source.label().to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use tenure_core::backend::{BlockRequest, WaitStatus};
    use tenure_core::{Access, KernelSource};

    use super::testing::{calling, dispatch, point};
    use super::*;
    use crate::backend::HostOptions;
    use crate::buffer::HostBlock;

    fn device() -> Arc<Device> {
        Arc::new(Device::new(HostOptions::default()))
    }

    fn block(device: &Device) -> HostBlock {
        device.allocate(&BlockRequest { bytes: 256, label: "block" }).expect("room")
    }

    fn recording(device: &Arc<Device>, operations: impl IntoIterator<Item = HostOperation>) -> HostSequence {
        let mut sequence = HostSequence::new(device.clone(), QueueId(0));
        operations.into_iter().for_each(|operation| sequence.push(operation));
        sequence
    }

    /// Submits, waits, collects.
    fn run(sequence: &mut HostSequence, value: u64) -> Result<(), BackendError> {
        sequence.send(point(0, value), &[]).expect("submitted");
        let status = sequence.device.timelines.wait_any(&[point(0, value)], None);
        assert_eq!(status, WaitStatus::Woken);
        sequence.collect()
    }

    fn contents(block: &HostBlock, offset: u64, bytes: u64) -> Vec<u8> {
        block.range(offset, bytes).with_read(<[u8]>::to_vec)
    }

    #[test]
    fn operations_run_in_order() {
        let device = device();
        let (one, two) = (block(&device), block(&device));
        let add = KernelSource::new("add one", &[Access::Read, Access::ReadWrite]).host(|arguments| {
            let ([from], [to]) = arguments.slices::<u8, 1, 1>([0], [1]);
            to.iter_mut().zip(from).for_each(|(to, from)| *to += *from);
        });
        let mut sequence = recording(
            &device,
            [
                HostOperation::Write { target: one.range(0, 4), bytes: [1, 2, 3, 4].into() },
                HostOperation::Copy { source: one.range(0, 4), target: two.range(16, 4) },
                HostOperation::Fill { target: one.range(0, 4), pattern: vec![5, 6] },
                dispatch(add, vec![one.range(0, 4), two.range(16, 4)]),
                HostOperation::Copy { source: two.range(16, 4), target: two.range(18, 4) },
            ],
        );
        run(&mut sequence, 1).expect("it runs");
        assert_eq!(contents(&one, 0, 4), [5, 6, 5, 6]);
        assert_eq!(contents(&two, 16, 6), [6, 8, 6, 8, 8, 10]);
        assert_eq!(device.copier.copied(), 12);
        device.timelines.stop();
    }

    #[test]
    fn a_read_is_delivered_before_the_point_completes() {
        let device = device();
        let block = block(&device);
        let cell = Arc::new(ReadCell::default());
        let sequence = recording(
            &device,
            [
                HostOperation::Fill { target: block.range(0, 3), pattern: vec![7] },
                HostOperation::Read { source: block.range(0, 3), into: cell.clone() },
            ],
        );
        sequence.send(point(0, 1), &[]).expect("submitted");
        device.timelines.wait_any(&[point(0, 1)], None);
        // Only core can take the bytes out; nothing was collected yet.
        let shown = format!("{cell:?}");
        assert!(shown.contains("[7, 7, 7]"), "{shown}");
        device.timelines.stop();
    }

    #[test]
    fn a_second_submission_shares_the_recording() {
        let device = device();
        let mut sequence = calling(&device, 0, || ());
        let before = Arc::as_ptr(&sequence.operations);
        for value in 1..=3 {
            run(&mut sequence, value).expect("it runs");
            // The worker had let go before the point completed.
            assert_eq!(Arc::strong_count(&sequence.operations), 1);
        }
        sequence.push(HostOperation::Fill { target: block(&device).range(0, 1), pattern: vec![1] });
        assert_eq!(Arc::as_ptr(&sequence.operations), before, "recording on copies nothing");
        device.timelines.stop();
    }

    #[test]
    fn a_failure_ends_its_recording_and_is_collected_once() {
        let device = device();
        let block = block(&device);
        let panics = KernelSource::new("bad", &[]).host(|_| panic!("at {}", 4));
        let fails = KernelSource::new("bad", &[]).host_fallible(|_| Err("at 4".to_owned()));
        for (value, source, text) in
            [(1, panics, "kernel `bad`: panicked: at 4"), (2, fails, "kernel `bad`: at 4")]
        {
            let rest = HostOperation::Fill { target: block.range(0, 4), pattern: vec![1] };
            let mut sequence = recording(&device, [dispatch(source, Vec::new()), rest]);
            let error = run(&mut sequence, value).expect_err("the kernel is bad");
            assert_eq!(error.kind, BackendErrorKind::Execution);
            assert_eq!(&*error.message, text);
            assert_eq!(contents(&block, 0, 4), [0; 4]);
            sequence.collect().expect("told once");
        }
        run(&mut calling(&device, 0, || ()), 3).expect("the queue goes on");
        device.timelines.stop();
    }

    #[test]
    fn a_broken_recording_does_not_end_the_worker() {
        let device = device();
        let block = block(&device);
        let outside = HostOperation::Fill { target: block.range(255, 2), pattern: vec![1] };
        let longer = HostOperation::Write { target: block.range(0, 2), bytes: [1].into() };
        for (value, operation) in [(1, outside), (2, longer)] {
            let error = run(&mut recording(&device, [operation]), value).expect_err("it is broken");
            assert_eq!(error.kind, BackendErrorKind::Execution);
        }
        run(&mut calling(&device, 0, || ()), 3).expect("the queue goes on");
        device.timelines.stop();
    }

    #[test]
    fn captures_that_panic_when_dropped_on_the_worker_do_not_end_it() {
        struct Bad;
        impl Drop for Bad {
            fn drop(&mut self) {
                panic!("no way out");
            }
        }
        let device = device();
        let (go, gone) = std::sync::mpsc::channel::<()>();
        let gone = Mutex::new(gone);
        let bad = Bad;
        let sequence = calling(&device, 0, move || {
            let _held = &bad;
            gone.lock().recv().expect("told to go");
        });
        sequence.send(point(0, 1), &[]).expect("submitted");
        // Too early, against the contract: the worker is the last to hold the kernel.
        drop(sequence);
        go.send(()).expect("the kernel listens");
        run(&mut calling(&device, 0, || ()), 2).expect("the queue goes on");
        device.timelines.stop();
    }
}
