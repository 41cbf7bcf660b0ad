//! The timeline of the one queue, and who polls wgpu, so that completions are noticed, buffers mapped and memory given
//! back.
//!
//! On a device of our own who waits polls, for what it waits for, unless it waits with a time: a poll cannot be interrupted.
//! (With a time limit it could end by itself, but wgpu 30 panics where such a poll ends while another one finds all work
//! complete.) The reclaimer, a thread of this backend, polls for those who wait with a time, and for what nobody waits
//! for: it looks for that now and then while there is work, and sleeps when there is none for a while. On a device
//! that an engine shares with us it is the reclaimer alone that polls, since a poll calls the engine's own callbacks.
//!
//! While a poll waits wgpu keeps a lock for reading that destroying a buffer or presenting a frame takes for
//! writing. So on an engine's device a poll lasts [`SHARED_SLICE`] at most; on our own device
//! nobody takes that lock for writing, since blocks are dropped and never destroyed explicitly.
//!
//! Not here: submitting (`sequence.rs`, `transfer.rs`). No call into wgpu is made under the lock of this file.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use tenure_core::BackendError;
use tenure_core::backend::{Condvar, TimelinePoint, WaitStatus};
use wgpu::{PollError, PollStatus, PollType, SubmissionIndex};

use crate::error::{driver, lost, panic_text};

/// How long one poll of a device that is not ours may hold wgpu's lock.
const SHARED_SLICE: Duration = Duration::from_millis(1);

/// How long the reclaimer leaves new work to who may wait for it. Told of every submission, it would poll beside
/// whoever submits one thing after the other and waits for each.
const SHORT_REST: Duration = Duration::from_millis(2);

/// Short rests without any work before one that lasts until there is some.
const SHORT_RESTS: u32 = 10;

/// Everything that moves: what was submitted, what has completed, who is told.
#[derive(Debug)]
pub(crate) struct Timeline {
    state: Mutex<State>,
    /// Something was submitted, or the end has come. The reclaimer waits here.
    arrived: Condvar,
    /// A mapping was made. Who has polled waits here for the callbacks of others.
    mapped: Condvar,
    /// Something completed, the device is lost, or a wait is to end.
    changed: Condvar,
    ownership: Ownership,
}

/// Polls the device: see [`polled`].
pub(crate) type Poll<'a> = &'a dyn Fn(PollType) -> Polled;

/// What a poll comes to; the text of wgpu's panic where it has panicked.
pub(crate) type Polled = Result<Result<PollStatus, PollError>, String>;

/// Who made the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ownership {
    /// This backend: it destroys the device.
    Own,
    /// An engine: it shares the device with us and outlives us, or not.
    Shared,
}

/// A submission to wait for: that of a sequence, or a transfer of our own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket(u64);

#[derive(Debug)]
struct Pending {
    index: SubmissionIndex,
    /// The timeline's value that completes with it; `None` for a transfer.
    value: Option<u64>,
    /// Mappings that were asked for with it and are not made yet.
    mappings: Arc<AtomicUsize>,
}

#[derive(Debug, Default)]
struct State {
    pending: VecDeque<Pending>,
    /// Submissions so far, transfers included, and how many of them have completed.
    submitted: u64,
    finished: u64,
    /// The timeline's value.
    completed: u64,
    /// The first cause of the loss.
    lost: Option<Arc<str>>,
    /// Threads blocked in `wait_any`.
    blocked: usize,
    /// Threads that poll because they wait.
    pollers: usize,
    /// Threads that wait for targets with a time, and rely on the reclaimer.
    relying: usize,
    rest: Rest,
    interrupts: u64,
    /// An interrupt that found nobody blocked: the next wait returns at once.
    latched: bool,
    life: Life,
    reclaimer: Option<JoinHandle<()>>,
}

/// What the reclaimer does while it does not poll.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Rest {
    /// It is at work, and looks before it rests.
    #[default]
    None,
    /// It looks again in a moment.
    Short,
    /// It looks when told.
    Long,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Life {
    #[default]
    Running,
    /// What was submitted is waited for, and then the reclaimer ends.
    Stopping,
}

impl Timeline {
    pub(crate) fn new(ownership: Ownership) -> Arc<Self> {
        Arc::new(Timeline {
            state: Mutex::default(),
            arrived: Condvar::new(),
            mapped: Condvar::new(),
            changed: Condvar::new(),
            ownership,
        })
    }

    /// Makes the reclaimer on first need. Called before anything is submitted: then a failure submits nothing.
    pub(crate) fn start(self: &Arc<Self>, device: &wgpu::Device) -> Result<(), BackendError> {
        let mut state = self.state.lock();
        state.check("submit")?;
        assert_eq!(state.life, Life::Running, "a submission after shutdown");
        if state.reclaimer.is_none() {
            let (timeline, device) = (self.clone(), device.clone());
            let thread = std::thread::Builder::new()
                .name("tenure-wgpu-reclaimer".to_owned())
                .spawn(move || timeline.reclaim(&device))
                .map_err(|error| {
                    driver("submit", format!("no reclaimer thread: {error}")).with_source(error)
                })?;
            state.reclaimer = Some(thread);
        }
        Ok(())
    }

    /// Takes a submission into the books. Everything that has to happen when it completes was asked for before.
    pub(crate) fn submitted(
        &self,
        index: SubmissionIndex,
        value: Option<u64>,
        mappings: Arc<AtomicUsize>,
    ) -> Ticket {
        let mut state = self.state.lock();
        state.submitted += 1;
        let ticket = Ticket(state.submitted);
        if state.lost.is_some() {
            // Loss ends all points (L23).
            state.finished = state.submitted;
        } else {
            state.pending.push_back(Pending { index, value, mappings });
        }
        let rest = state.rest;
        drop(state);
        if rest == Rest::Long {
            self.arrived.notify_all();
        }
        ticket
    }

    /// A mapping was made, or failed.
    pub(crate) fn mapped(&self) {
        // The lock keeps it from falling between a look and the wait after it.
        drop(self.state.lock());
        self.mapped.notify_all();
    }

    /// The last submission so far.
    pub(crate) fn last(&self) -> Ticket {
        Ticket(self.state.lock().submitted)
    }

    /// Blocks until a submission has completed.
    pub(crate) fn wait(
        &self,
        poll: Poll<'_>,
        ticket: Ticket,
        operation: &'static str,
    ) -> Result<(), BackendError> {
        let mut state = self.state.lock();
        loop {
            state.check(operation)?;
            if state.finished >= ticket.0 {
                return Ok(());
            }
            match self.ownership {
                Ownership::Own => self.poll_for(&mut state, poll, ticket),
                Ownership::Shared => self.changed.wait(&mut state),
            }
        }
    }

    pub(crate) fn check(&self, operation: &'static str) -> Result<(), BackendError> {
        self.state.lock().check(operation)
    }

    pub(crate) fn completed(&self) -> Result<u64, BackendError> {
        let state = self.state.lock();
        state.check("completed")?;
        Ok(state.completed)
    }

    /// The device is lost, for ever. Only the first cause counts, and what is told while stopping is our own doing.
    pub(crate) fn lose(&self, cause: &str) {
        let mut state = self.state.lock();
        if state.lost.is_some() {
            return;
        }
        state.lost = Some(cause.into());
        state.pending.clear();
        state.finished = state.submitted;
        drop(state);
        self.arrived.notify_all();
        self.mapped.notify_all();
        self.changed.notify_all();
    }

    /// See `Backend::wait_any`.
    pub(crate) fn wait_any(
        &self,
        poll: Poll<'_>,
        targets: &[TimelinePoint],
        timeout: Option<Duration>,
    ) -> Result<WaitStatus, BackendError> {
        let mut state = self.state.lock();
        if self.ownership == Ownership::Own && timeout.is_none() && !targets.is_empty() {
            // It takes no interrupt that is meant for another.
            return self.poll_until(&mut state, poll, targets);
        }
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        state.check("wait_any")?;
        if std::mem::take(&mut state.latched) {
            return Ok(WaitStatus::Woken);
        }
        let interrupts = state.interrupts;
        let relies = usize::from(!targets.is_empty());
        state.blocked += 1;
        state.relying += relies;
        if !state.has_reached(targets) && relies > 0 && state.rest != Rest::None {
            self.arrived.notify_all();
        }
        let mut in_time = true;
        // What happened counts before the time: an interrupt that came with the last moment is not lost.
        let status = loop {
            if let Err(lost) = state.check("wait_any") {
                break Err(lost);
            }
            if state.has_reached(targets) || state.interrupts != interrupts {
                break Ok(WaitStatus::Woken);
            }
            if !in_time {
                break Ok(WaitStatus::TimedOut);
            }
            match deadline {
                None => self.changed.wait(&mut state),
                Some(at) => in_time = !self.changed.wait_until(&mut state, at).timed_out(),
            }
        };
        state.blocked -= 1;
        state.relying -= relies;
        status
    }

    /// Polls until one of the points has completed.
    fn poll_until(
        &self,
        state: &mut MutexGuard<'_, State>,
        poll: Poll<'_>,
        targets: &[TimelinePoint],
    ) -> Result<WaitStatus, BackendError> {
        loop {
            state.check("wait_any")?;
            if state.has_reached(targets) {
                return Ok(WaitStatus::Woken);
            }
            match state.first_that_completes(targets) {
                Some(ticket) => self.poll_for(state, poll, ticket),
                // Another thread has polled for it, and is about to say so.
                None => self.changed.wait(state),
            }
        }
    }

    pub(crate) fn interrupt(&self) {
        let mut state = self.state.lock();
        if state.blocked > 0 {
            state.interrupts += 1;
        } else {
            state.latched = true;
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Waits for what was submitted and ends the reclaimer; twice is nothing.
    pub(crate) fn stop(&self) {
        let reclaimer = {
            let mut state = self.state.lock();
            state.life = Life::Stopping;
            state.reclaimer.take()
        };
        self.arrived.notify_all();
        let Some(reclaimer) = reclaimer else { return };
        // A callback of an engine's, which a poll of ours has called, may hold the last owner of the backend: the
        // reclaimer cannot wait for itself and ends after this poll.
        if reclaimer.thread().id() != std::thread::current().id() {
            // It ends without a panic: polls are caught.
            let _ = reclaimer.join();
        }
    }

    /// The reclaimer's life.
    fn reclaim(&self, device: &wgpu::Device) {
        let mut state = self.state.lock();
        while let Some(ticket) = self.due(&mut state) {
            let slice = match self.ownership {
                Ownership::Own => None,
                Ownership::Shared => Some(SHARED_SLICE),
            };
            self.poll(&mut state, &|poll| polled(device, poll), ticket, slice);
        }
    }

    /// Rests until the oldest submission has to be polled for; `None` at the end.
    fn due(&self, state: &mut MutexGuard<'_, State>) -> Option<Ticket> {
        // What is older than a rest is due, unless somebody polls.
        let mut old = 0;
        let mut rests = 0;
        loop {
            let at_once = self.ownership == Ownership::Shared || state.life == Life::Stopping;
            if state.pending.is_empty() {
                if state.life == Life::Stopping {
                    return None;
                }
            } else if at_once || state.relying > 0 || (state.pollers == 0 && state.finished < old) {
                return Some(Ticket(state.finished + 1));
            }
            old = state.submitted;
            if state.pending.is_empty() && (at_once || rests == SHORT_RESTS) {
                state.rest = Rest::Long;
                self.arrived.wait(state);
                rests = 0;
            } else {
                state.rest = Rest::Short;
                _ = self.arrived.wait_until(state, Instant::now() + SHORT_REST);
                rests = if state.submitted == old { rests + 1 } else { 0 };
            }
            state.rest = Rest::None;
        }
    }

    /// Polls because this thread waits for a submission.
    fn poll_for(&self, state: &mut MutexGuard<'_, State>, poll: Poll<'_>, ticket: Ticket) {
        state.pollers += 1;
        self.poll(state, poll, ticket, None);
        state.pollers -= 1;
    }

    /// Polls for a submission, and takes into the books what came of it.
    fn poll(
        &self,
        state: &mut MutexGuard<'_, State>,
        poll: Poll<'_>,
        ticket: Ticket,
        timeout: Option<Duration>,
    ) {
        // It has completed if it is not pending any more, or is lost.
        let Some(at) = ticket.0.checked_sub(state.finished + 1) else { return };
        let Some(pending) = state.pending.get(at as usize) else { return };
        let wait = PollType::Wait { submission_index: Some(pending.index.clone()), timeout };
        match MutexGuard::unlocked(state, || poll(wait)) {
            Ok(Ok(_)) => self.finish(state, ticket),
            Ok(Err(PollError::Timeout)) => {}
            Ok(Err(error @ PollError::WrongSubmissionIndex(..))) => {
                // The submission was refused and nobody was told: so does a device that was destroyed.
                let cause = format!("the device takes no submissions any more: {error}");
                MutexGuard::unlocked(state, || self.lose(&cause));
            }
            Err(panic) => MutexGuard::unlocked(state, || self.lose(&panic)),
        }
    }

    /// Everything up to a submission has completed.
    fn finish(&self, state: &mut MutexGuard<'_, State>, ticket: Ticket) {
        // Nothing is pending any more if the poll has told of a loss.
        while state.finished < ticket.0
            && let Some(oldest) = state.pending.front()
        {
            if oldest.mappings.load(Ordering::Acquire) > 0 {
                // Another thread is about to call back.
                self.mapped.wait(state);
                continue;
            }
            if let Some(value) = oldest.value {
                state.completed = state.completed.max(value);
            }
            state.pending.pop_front();
            state.finished += 1;
        }
        self.changed.notify_all();
    }
}

/// Polls. wgpu panics there when the driver reports a loss: then the text of that.
pub(crate) fn polled(device: &wgpu::Device, poll: PollType) -> Polled {
    catch_unwind(AssertUnwindSafe(|| device.poll(poll))).map_err(|panic| panic_text(&*panic))
}

impl State {
    fn has_reached(&self, targets: &[TimelinePoint]) -> bool {
        targets.iter().any(|target| self.completed >= target.value)
    }

    /// The first pending submission with which one of the points completes.
    fn first_that_completes(&self, targets: &[TimelinePoint]) -> Option<Ticket> {
        let first = targets.iter().map(|target| target.value).min()?;
        let reaches = |pending: &Pending| pending.value.is_some_and(|value| value >= first);
        let at = self.pending.iter().position(reaches)?;
        Some(Ticket(self.finished + 1 + at as u64))
    }

    fn check(&self, operation: &'static str) -> Result<(), BackendError> {
        match &self.lost {
            None => Ok(()),
            Some(cause) => Err(lost(operation, cause)),
        }
    }
}

#[cfg(test)]
mod tests {
    use tenure_core::{BackendErrorKind, QueueId};

    use super::*;

    fn point(value: u64) -> TimelinePoint {
        TimelinePoint { queue: QueueId(0), value }
    }

    /// For timelines on which nothing is submitted.
    fn no_poll(_: PollType) -> Polled {
        panic!("there is nothing to poll for")
    }

    #[test]
    fn an_interrupt_that_finds_nobody_ends_the_next_wait_only() {
        let timeline = Timeline::new(Ownership::Own);
        timeline.interrupt();
        timeline.interrupt();
        assert_eq!(timeline.wait_any(&no_poll, &[], None).expect("not lost"), WaitStatus::Woken);
        let status = timeline.wait_any(&no_poll, &[point(1)], Some(Duration::ZERO));
        assert_eq!(status.expect("not lost"), WaitStatus::TimedOut);
    }

    #[test]
    fn an_interrupt_ends_every_wait_that_is_blocked() {
        let timeline = &Timeline::new(Ownership::Own);
        std::thread::scope(|threads| {
            let waits: Vec<_> = [Duration::from_secs(3600), Duration::MAX]
                .map(Some)
                .into_iter()
                .map(|timeout| threads.spawn(move || timeline.wait_any(&no_poll, &[point(1)], timeout)))
                .collect();
            while timeline.state.lock().blocked < 2 {
                std::thread::yield_now();
            }
            timeline.interrupt();
            for wait in waits {
                assert_eq!(wait.join().expect("no panic").expect("not lost"), WaitStatus::Woken);
            }
        });
    }

    #[test]
    fn a_loss_ends_every_wait_for_ever_with_its_first_cause() {
        let timeline = &Timeline::new(Ownership::Own);
        std::thread::scope(|threads| {
            let wait = threads.spawn(move || timeline.wait_any(&no_poll, &[point(1)], Some(Duration::MAX)));
            while timeline.state.lock().blocked < 1 {
                std::thread::yield_now();
            }
            timeline.lose("the first");
            timeline.lose("the second");
            let error = wait.join().expect("no panic").expect_err("lost");
            assert_eq!((error.kind, &*error.message), (BackendErrorKind::DeviceLost, "the first"));
        });
        let error = timeline.completed().expect_err("lost for ever");
        assert_eq!((error.kind, &*error.message), (BackendErrorKind::DeviceLost, "the first"));
        timeline.wait(&no_poll, timeline.last(), "read").expect_err("lost");
        timeline.stop();
    }
}
