//! [`Probe`]: a test's hold on an instrumented backend. Cheap to clone, not generic, and good after shutdown.
//!
//! Not here: what the figures and controls mean inside (the module's other files).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tenure_core::{BackendErrorKind, QueueId};

use super::calls::{CallKind, CallSet};
use super::forbid::ForbidGuard;
use super::lifetimes::{Lifetimes, ObjectKind};
use super::shared::{Life, Shared};

/// Observes and controls an [`Instrumented`](super::Instrumented) backend.
#[derive(Clone)]
pub struct Probe {
    shared: Arc<Shared>,
}

impl Probe {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Probe { shared }
    }

    // Observing.

    /// How often these calls were made, failed ones included.
    pub fn calls(&self, calls: impl Into<CallSet>) -> u64 {
        self.shared.state.lock().counts.sum(calls.into())
    }

    /// The balance of one kind of object.
    pub fn lifetimes(&self, kind: ObjectKind) -> Lifetimes {
        *self.shared.state.lock().checker.ledger.of(kind)
    }

    /// What was found wrong so far, in words.
    pub fn violations(&self) -> Vec<String> {
        self.shared.state.lock().checker.violations.texts()
    }

    /// The last point that was submitted to the queue; 0 for none.
    ///
    /// # Panics
    /// If there is no such queue.
    pub fn submitted(&self, queue: QueueId) -> u64 {
        self.shared.state.lock().checker.queues[queue.0 as usize].submitted
    }

    /// The last point of the queue that core was told is complete; 0 for none.
    ///
    /// # Panics
    /// As [`Probe::submitted`].
    pub fn reported(&self, queue: QueueId) -> u64 {
        self.shared.state.lock().checker.queues[queue.0 as usize].reported
    }

    /// Blocks until these calls were made at least `count` times in all. False if `timeout` was over first.
    #[must_use = "the time may have been over first"]
    pub fn wait_calls(&self, calls: impl Into<CallSet>, count: u64, timeout: Duration) -> bool {
        let calls = calls.into();
        self.shared.wait_until(timeout, |state| state.counts.sum(calls) >= count)
    }

    /// Blocks until `value` was submitted to the queue. False if `timeout` was over first.
    #[must_use = "the time may have been over first"]
    pub fn wait_submitted(&self, queue: QueueId, value: u64, timeout: Duration) -> bool {
        self.shared.wait_until(timeout, |state| {
            let queue = &state.checker.queues[queue.0 as usize];
            queue.submitted >= value && queue.submitting.is_none()
        })
    }

    /// Blocks until the inner backend has really finished what was submitted. Points that are held stay held.
    pub fn settle(&self) {
        self.shared.settle();
    }

    /// Whether the backend was shut down.
    pub fn is_shut_down(&self) -> bool {
        self.shared.state.lock().life == Life::ShutDown
    }

    /// Blocks until the backend was shut down. False if `timeout` was over first.
    #[must_use = "the time may have been over first"]
    pub fn wait_shutdown(&self, timeout: Duration) -> bool {
        self.shared.wait_until(timeout, |state| state.life == Life::ShutDown)
    }

    // The log.

    /// Switches the log of calls on.
    pub fn log_on(&self) {
        self.shared.set_logging(true);
    }

    /// Switches the log of calls off; its lines stay.
    pub fn log_off(&self) {
        self.shared.set_logging(false);
    }

    /// The lines of the log so far, the last 4096 at most.
    pub fn log(&self) -> Vec<String> {
        self.shared.state.lock().log.lines()
    }

    /// Empties the log.
    pub fn clear_log(&self) {
        self.shared.state.lock().log.clear();
    }

    // Faults.

    /// The `n`-th of these calls from now, counted from 1, fails with `error`. It does not reach the inner backend,
    /// except where it gives an object back or collects: nothing really leaks, the error is returned all the same.
    /// `DeviceLost` loses the device for ever, as [`Probe::lose_device`].
    ///
    /// # Panics
    /// If `n` is 0 or none of the calls can fail.
    pub fn fail_nth(&self, calls: impl Into<CallSet>, n: u64, error: BackendErrorKind) {
        self.shared.state.lock().faults.fail_nth(calls.into(), n, error);
    }

    /// Each `period`-th of these calls fails.
    ///
    /// # Panics
    /// As [`Probe::fail_nth`].
    pub fn fail_every(&self, calls: impl Into<CallSet>, period: u64, error: BackendErrorKind) {
        self.shared.state.lock().faults.fail_every(calls.into(), period, error);
    }

    /// All of these calls fail.
    ///
    /// # Panics
    /// As [`Probe::fail_nth`].
    pub fn fail_always(&self, calls: impl Into<CallSet>, error: BackendErrorKind) {
        self.fail_every(calls, 1, error);
    }

    /// Forgets what is planned. A lost device stays lost.
    pub fn clear_faults(&self) {
        self.shared.state.lock().faults.clear();
    }

    /// How many calls were made to fail. A sweep over `k` ends with the first run whose fault was not hit.
    pub fn faults_hit(&self) -> u64 {
        self.shared.state.lock().faults.hits()
    }

    /// The call that was made to fail last.
    pub fn last_fault(&self) -> Option<CallKind> {
        self.shared.state.lock().faults.last()
    }

    /// Loses the device now: waits until the inner backend has finished what was submitted, and answers `DeviceLost`
    /// for ever from then on. A kernel that waits for this thread would never let it return.
    pub fn lose_device(&self) {
        self.shared.lose(CallKind::Completed);
    }

    /// As [`Probe::lose_device`], but no call says so: only the engine knows, and has to tell core by
    /// `notify_lost`. Core may then give back what was in flight.
    pub fn lose_silently(&self) {
        self.shared.settle();
        self.shared.state.lock().checker.end_all_points();
    }

    /// Whether the device is lost, by a fault or by itself.
    pub fn is_lost(&self) -> bool {
        self.shared.is_lost()
    }

    /// Changes the bytes that all blocks may have together; `None` is what the inner backend gives.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.shared.state.lock().checker.capacity_bytes = bytes;
    }

    // Holding completions back.

    /// Points that are submitted from now on are not reported complete, on any queue.
    pub fn hold(&self) {
        for queue in &mut self.shared.state.lock().checker.queues {
            queue.gate.hold(queue.submitted);
        }
    }

    /// Points that are submitted to this queue from now on are not reported complete.
    ///
    /// # Panics
    /// As [`Probe::submitted`].
    pub fn hold_queue(&self, queue: QueueId) {
        let mut state = self.shared.state.lock();
        let queue = &mut state.checker.queues[queue.0 as usize];
        queue.gate.hold(queue.submitted);
    }

    /// The submitted points of this queue that are held back, in order.
    ///
    /// # Panics
    /// As [`Probe::submitted`].
    pub fn held(&self, queue: QueueId) -> Vec<u64> {
        let state = self.shared.state.lock();
        let queue = &state.checker.queues[queue.0 as usize];
        queue
            .flights
            .iter()
            .map(|(value, _)| *value)
            .filter(|value| !queue.gate.lets_through(*value))
            .collect()
    }

    /// Releases the next held point of the queue, and returns it; `None` if no point is held.
    ///
    /// # Panics
    /// As [`Probe::submitted`].
    pub fn release_one(&self, queue: QueueId) -> Option<u64> {
        let next = self.held(queue).first().copied()?;
        self.release(queue, next);
        Some(next)
    }

    /// Releases the queue's points up to `point`, submitted already or not. Later ones stay held.
    ///
    /// # Panics
    /// As [`Probe::submitted`].
    pub fn release(&self, queue: QueueId, point: u64) {
        self.shared.state.lock().checker.queues[queue.0 as usize].gate.release(point);
        self.wake();
    }

    /// Releases everything and holds nothing back any more.
    pub fn release_all(&self) {
        for queue in &mut self.shared.state.lock().checker.queues {
            queue.gate = Default::default();
        }
        self.wake();
    }

    fn wake(&self) {
        self.shared.gates.notify_all();
        // Who waits in the inner backend for other points looks again.
        self.shared.with_device(|device| device.nudge());
    }

    // Forbidding.

    /// While the guard lives, every driver call on this thread is a violation.
    pub fn forbid_calls_here(&self) -> ForbidGuard {
        self.forbid_here(CallSet::ALL)
    }

    /// While the guard lives, these calls are violations on this thread.
    pub fn forbid_here(&self, calls: impl Into<CallSet>) -> ForbidGuard {
        ForbidGuard::new(self.shared.id, calls.into())
    }
}

impl fmt::Debug for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.shared.state.lock();
        let mut debug = f.debug_struct("Probe");
        for kind in ObjectKind::ALL {
            debug.field(&kind.to_string(), state.checker.ledger.of(kind));
        }
        debug.field("life", &state.life).field("violations", &state.checker.violations.texts());
        debug.finish_non_exhaustive()
    }
}
