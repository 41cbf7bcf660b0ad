//! Evaluation: from a recording to a submission. Checks everything, pins what the recording names, encodes
//! if it must, computes what has to complete before, submits, and moves the frontiers.
//!
//! Lock order here: sequence, scope (briefly), `submitting`, execution, queue `state`, tensor.

use std::sync::Arc;

use crate::backend::{Submission, TimelinePoint};
use crate::engine::Engine;
use crate::engine::arena::Arena;
use crate::engine::driver::NativeSequence;
use crate::engine::execution::ExecutionCell;
use crate::engine::recording::Recording;
use crate::engine::scopes::Admission;
use crate::engine::sequences::{Native, SequenceCell, SequenceInner};
use crate::engine::timeline::Frontier;
use crate::engine::wakers::wake_each;
use crate::error::Error;
use crate::event::EventKind;
use crate::sequence::SequenceState;

/// Keeps the tensors of a recording from being reclaimed until the submission's frontier covers them.
struct Pins<'a> {
    recording: &'a Recording,
    pinned: usize,
}

impl<'a> Pins<'a> {
    /// # Errors
    /// `Stale`, naming the first tensor that was destroyed (L3).
    fn new(recording: &'a Recording) -> Result<Self, Error> {
        let mut pins = Pins { recording, pinned: 0 };
        for tensor in &recording.tensors {
            tensor.handle.cell.pin(tensor.writes)?;
            pins.pinned += 1;
        }
        Ok(pins)
    }

    /// What has to complete before the recording may run (hazards of all kinds, across queues).
    fn waits(&self) -> Frontier {
        let mut waits = Frontier::default();
        for tensor in &self.recording.tensors {
            tensor.handle.cell.uses_before(tensor.writes, &mut waits);
        }
        waits
    }

    /// The recording was submitted: its tensors are in use until `point`.
    fn cover(&self, point: TimelinePoint) {
        for tensor in &self.recording.tensors {
            tensor.handle.cell.use_until(point, tensor.writes);
        }
    }
}

impl Drop for Pins<'_> {
    fn drop(&mut self) {
        for tensor in &self.recording.tensors[..self.pinned] {
            let cell = &tensor.handle.cell;
            cell.engine.unpin(cell);
        }
    }
}

impl Engine {
    /// Submits one evaluation of `sequence`.
    pub(crate) fn evaluate(
        self: &Arc<Self>,
        sequence: &Arc<SequenceCell>,
    ) -> Result<Arc<ExecutionCell>, Error> {
        let pass = self.enter();
        let mut inner = sequence.inner.lock();
        sequence.check(&inner)?;
        let _pass = pass.map_err(|error| sequence.stale_if_closed(error))?;
        if let Some(lost) = self.lost_error() {
            return Err(lost);
        }
        let admission = match sequence.scope.admit_execution() {
            Ok(admission) => admission,
            Err(error) => {
                if matches!(error, Error::Cancelled { .. }) {
                    inner.state = SequenceState::Cancelled;
                }
                return Err(error);
            }
        };
        match self.submit(sequence, &mut inner, admission) {
            Ok(execution) => Ok(execution),
            Err(error) => {
                drop(inner);
                // As if it had not been asked for: no execution, no hook (L11).
                let mut wake = Vec::new();
                sequence.scope.withdraw_execution(&mut wake);
                wake_each(wake);
                Err(error)
            }
        }
    }

    fn submit(
        self: &Arc<Self>,
        sequence: &Arc<SequenceCell>,
        inner: &mut SequenceInner,
        admission: Admission,
    ) -> Result<Arc<ExecutionCell>, Error> {
        let SequenceInner { recording, native, .. } = &mut *inner;
        let pins = Pins::new(recording)?;
        let (mut encoded, arena) = self.encoded(sequence, recording, native)?;
        let queue = self.queue(arena.queue);
        let mut submitting = self.submitting.lock();
        let last = &mut submitting[queue.id.0 as usize];
        let point = TimelinePoint { queue: queue.id, value: *last + 1 };
        let waits = pins.waits();
        // The native recording is filled in after the driver took it; who retires waits for this lock.
        let execution = Arc::new(ExecutionCell::new(
            point,
            sequence.scope.next_number(),
            sequence.clone(),
            admission.hooks,
        ));
        let mut slot = execution.native.lock();
        queue.announce(&execution);
        let submission = Submission { point, waits: waits.points(), label: &sequence.name };
        // SAFETY: the sequence is not running, so its last submission was collected; the pins and, from
        // `cover` on, the frontier keep what it names (L4); `submitting` orders points and submissions.
        if let Err(error) = unsafe { self.driver.submit(&mut encoded, &submission) } {
            queue.withdraw(&execution);
            drop(slot);
            drop(submitting);
            *native = Native::Stale(encoded, arena);
            drop(pins);
            self.note_backend_error(&error);
            return Err(self.backend_error(error));
        }
        *last = point.value;
        queue.confirm(point);
        sequence.scope.take_number(execution.number);
        pins.cover(point);
        drop(pins);
        *native = Native::InFlight(arena);
        inner.state = SequenceState::Running;
        self.emit(Some(&sequence.scope), None, || EventKind::Submit {
            sequence: sequence.name.clone(),
            execution: execution.number,
        });
        *slot = Some(encoded);
        drop(slot);
        drop(submitting);
        self.work_submitted(queue.id, execution.hooks.is_some());
        Ok(execution)
    }

    /// The native recording, mirroring the recording: as it is, or encoded now (L9).
    fn encoded(
        &self,
        sequence: &SequenceCell,
        recording: &Recording,
        native: &mut Native,
    ) -> Result<(NativeSequence, Arc<Arena>), Error> {
        let (mut empty, arena) = match std::mem::replace(native, Native::None) {
            Native::Encoded(encoded, arena) => return Ok((encoded, arena)),
            Native::Stale(mut stale, arena) => {
                // SAFETY: the sequence is not running: its last submission has completed and was collected.
                match unsafe { self.driver.reset_sequence(&mut stale) } {
                    Ok(()) => (stale, arena),
                    Err(error) => {
                        arena.recycle(self, stale);
                        return Err(self.backend_error(error));
                    }
                }
            }
            Native::None => {
                let arena = sequence.scope.arena()?;
                (arena.open_sequence(self, &sequence.name)?, arena)
            }
            Native::InFlight(_) => unreachable!("a sequence in flight is running"),
        };
        if let Err(error) = recording.encode(self, &mut empty) {
            *native = Native::Stale(empty, arena);
            return Err(error);
        }
        self.emit(Some(&sequence.scope), None, || EventKind::Encode {
            sequence: sequence.name.clone(),
            operations: recording.operations.len(),
        });
        Ok((empty, arena))
    }
}
