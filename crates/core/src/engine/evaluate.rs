//! Evaluation: from a recording to a submission. Checks everything, pins what the recording names, encodes
//! if it must, computes what has to complete before, submits, and moves the frontiers.
//!
//! Lock order here: sequence, scope (briefly), `submitting`, queue `state` and tensors (briefly).

use std::sync::Arc;

use crate::backend::{Submission, TimelinePoint};
use crate::engine::Engine;
use crate::engine::execution::ExecutionCell;
use crate::engine::gate::Pass;
use crate::engine::recording::{RecordedTensor, Recording};
use crate::engine::sequences::{Native, SequenceCell, SequenceInner};
use crate::engine::timeline::{Flight, Frontier};
use crate::engine::wakers::wake_each;
use crate::error::Error;
use crate::event::EventKind;
use crate::sequence::SequenceState;

/// Keeps the tensors of a recording from being reclaimed: while it is encoded, or until the submission's frontier
/// covers them.
struct Pins<'a> {
    recording: &'a Recording,
    pinned: usize,
}

/// The tensors of a recording, pinned for one submission.
enum Pinned<'a> {
    /// With what has to complete before (hazards of all kinds, across queues).
    All(Pins<'a>, Frontier),
    /// A copy of the host's keeps this one busy: nothing is pinned.
    Busy(&'a RecordedTensor),
}

impl<'a> Pins<'a> {
    /// Pins all, and waits for copies of the host's that conflict.
    ///
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

    /// Pins all for a submission. The caller holds `submitting`: it must not wait for a host that copies.
    ///
    /// # Errors
    /// As [`Pins::new`].
    fn for_submission(recording: &'a Recording) -> Result<Pinned<'a>, Error> {
        let mut pins = Pins { recording, pinned: 0 };
        let mut waits = Frontier::default();
        for tensor in &recording.tensors {
            if !tensor.handle.cell.pin_for_use(tensor.writes, &mut waits)? {
                return Ok(Pinned::Busy(tensor));
            }
            pins.pinned += 1;
        }
        Ok(Pinned::All(pins, waits))
    }

    /// The recording was submitted: its tensors are in use until `point`, and that keeps them.
    fn cover(self, point: TimelinePoint) {
        let pins = std::mem::ManuallyDrop::new(self);
        for tensor in &pins.recording.tensors {
            let cell = &tensor.handle.cell;
            cell.engine.use_until(cell, point, tensor.writes);
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
    /// Submits one evaluation of `sequence`. The pass with which that was done is for a caller that waits at once.
    pub(crate) fn evaluate<'a>(
        self: &'a Arc<Self>,
        sequence: &Arc<SequenceCell>,
    ) -> Result<(Arc<ExecutionCell>, Pass<'a>), Error> {
        // Again from the beginning: making room takes locks that come before the sequence's.
        self.with_room(|| self.evaluate_once(sequence))
    }

    fn evaluate_once<'a>(
        self: &'a Arc<Self>,
        sequence: &Arc<SequenceCell>,
    ) -> Result<(Arc<ExecutionCell>, Pass<'a>), Error> {
        let pass = self.enter();
        let mut inner = sequence.inner.lock();
        sequence.check(&inner)?;
        let pass = pass.map_err(|error| sequence.stale_if_closed(error))?;
        if let Some(lost) = self.lost_error() {
            return Err(lost);
        }
        let hooks = match sequence.scope.admit_execution() {
            Ok(hooks) => hooks,
            Err(error) => {
                if matches!(error, Error::Cancelled { .. }) {
                    inner.state = SequenceState::Cancelled;
                }
                return Err(error);
            }
        };
        match self.submit(sequence, &mut inner, hooks) {
            Ok(execution) => Ok((execution, pass)),
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
        hooks: usize,
    ) -> Result<Arc<ExecutionCell>, Error> {
        let SequenceInner { recording, native, state, .. } = inner;
        let recording = &*recording;
        if !matches!(native, Native::Encoded(..)) {
            self.encode(sequence, recording, native)?;
        }
        let (mut submitting, pins, waits) = loop {
            let submitting = self.submitting.lock();
            match Pins::for_submission(recording)? {
                Pinned::All(pins, waits) => break (submitting, pins, waits),
                Pinned::Busy(tensor) => {
                    drop(submitting);
                    // Stale meanwhile is found out by the next attempt.
                    tensor.handle.cell.wait_for_host(tensor.writes);
                }
            }
        };
        let Native::Encoded(mut encoded, arena) = std::mem::replace(native, Native::None) else {
            unreachable!("it was encoded above, under the sequence's lock");
        };
        let queue = self.queue(arena.queue);
        let last = &mut submitting[queue.id.0 as usize];
        let point = TimelinePoint { queue: queue.id, value: *last + 1 };
        let submission = Submission { point, waits: waits.points(), label: &sequence.name };
        // SAFETY: the sequence is not running, so its last submission was collected; the pins and, from
        // `cover` on, the frontier keep what it names (L4); `submitting` orders points and submissions.
        if let Err(error) = unsafe { self.driver.submit(&mut encoded, &submission) } {
            drop(submitting);
            *native = Native::Stale(encoded, arena);
            drop(pins);
            self.note_backend_error(&error);
            return Err(self.backend_error(error));
        }
        *last = point.value;
        *native = Native::InFlight(arena);
        *state = SequenceState::Running;
        let scope = &sequence.scope;
        let number = scope.next_number();
        let execution = Arc::new(ExecutionCell::new(point, number, sequence.clone(), hooks));
        scope.take_number(number);
        // Found by whoever retires from here on; it then waits for the sequence's lock, which the caller holds.
        queue.push(Flight { execution: execution.clone(), native: encoded });
        pins.cover(point);
        self.emit(Some(scope), None, || EventKind::Submit {
            sequence: sequence.name.clone(),
            execution: number,
        });
        drop(submitting);
        self.work_submitted(queue.id, hooks > 0);
        Ok(execution)
    }

    /// Makes the native recording mirror the recording (L9).
    fn encode(
        &self,
        sequence: &SequenceCell,
        recording: &Recording,
        native: &mut Native,
    ) -> Result<(), Error> {
        // Only while it is encoded: what is submitted is pinned anew.
        let _pins = Pins::new(recording)?;
        let (mut empty, arena) = match std::mem::replace(native, Native::None) {
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
            Native::Encoded(..) | Native::InFlight(_) => unreachable!("only what is not encoded is"),
        };
        if let Err(error) = recording.encode(self, &mut empty) {
            *native = Native::Stale(empty, arena);
            return Err(error);
        }
        self.emit(Some(&sequence.scope), None, || EventKind::Encode {
            sequence: sequence.name.clone(),
            operations: recording.operations.len(),
        });
        *native = Native::Encoded(empty, arena);
        Ok(())
    }
}
