//! Queues, their timelines, and those who wait for them.
//!
//! A queue is a stream. Each submission ends with an event; events go round in a pool of the queue. A thread for each queue
//! in use, the watcher, waits for the oldest event, and tells what has completed. It notices a lost device too, which
//! ends every wait in the driver. Waits of other queues are waits for events on the device. Not here: what is submitted
//! (`sequence.rs`).

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tenure_core::backend::{Condvar, QueueId, TimelinePoint, WaitStatus};
use tenure_core::{BackendError, BackendErrorKind};

use crate::error::{Loss, driver};
use crate::ffi::{Context, Current, Event, Stream};

/// Threads that are blocked in [`Timelines::wait_any`].
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    state: Mutex<WaitState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct WaitState {
    blocked: usize,
    interrupts: u64,
    /// An interrupt that found nobody blocked: the next wait returns at once.
    latched: bool,
}

impl Waiters {
    /// Something has changed that somebody may wait for.
    pub(crate) fn wake(&self) {
        // The lock keeps it from falling between somebody's look and their wait.
        drop(self.state.lock());
        self.changed.notify_all();
    }

    fn interrupt(&self) {
        let mut state = self.state.lock();
        if state.blocked > 0 {
            state.interrupts += 1;
        } else {
            state.latched = true;
        }
        drop(state);
        self.changed.notify_all();
    }

    fn wait(
        &self,
        reached: impl Fn() -> Result<bool, BackendError>,
        timeout: Option<Duration>,
    ) -> Result<WaitStatus, BackendError> {
        // A moment beyond what the clock can say is no limit.
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut state = self.state.lock();
        if std::mem::take(&mut state.latched) {
            return Ok(WaitStatus::Woken);
        }
        let interrupts = state.interrupts;
        state.blocked += 1;
        let mut in_time = true;
        // What happened counts before the time: an interrupt that came with the last moment is not lost.
        let status = loop {
            match reached() {
                Err(lost) => break Err(lost),
                Ok(true) => break Ok(WaitStatus::Woken),
                Ok(false) if state.interrupts != interrupts => break Ok(WaitStatus::Woken),
                Ok(false) if !in_time => break Ok(WaitStatus::TimedOut),
                Ok(false) => {}
            }
            match deadline {
                None => self.changed.wait(&mut state),
                Some(at) => in_time = !self.changed.wait_until(&mut state, at).timed_out(),
            }
        };
        state.blocked -= 1;
        status
    }
}

/// All queues.
pub(crate) struct Timelines {
    queues: Vec<Queue>,
    context: Arc<Context>,
}

/// One queue.
pub(crate) struct Queue {
    pub stream: Stream,
    completed: AtomicU64,
    flight: Mutex<Flight>,
    /// Something was submitted, or the end has come. The watcher waits here.
    arrived: Condvar,
}

#[derive(Default)]
struct Flight {
    /// What was submitted and not seen to have completed, in order.
    points: VecDeque<Pending>,
    submitted: u64,
    /// Events that nobody has.
    idle: Vec<Arc<Event>>,
    life: Life,
    watcher: Option<JoinHandle<()>>,
}

struct Pending {
    value: u64,
    event: Arc<Event>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Life {
    #[default]
    Running,
    /// What was submitted is waited for, and then the watcher ends.
    Stopping,
}

impl Timelines {
    pub(crate) fn new(current: &Current<'_>, queues: u32) -> Result<Arc<Self>, BackendError> {
        let queue = |_| {
            let stream = Stream::new(current)?;
            let (completed, flight) = (AtomicU64::new(0), Mutex::default());
            Ok(Queue { stream, completed, flight, arrived: Condvar::new() })
        };
        let queues = (0..queues).map(queue).collect::<Result<_, BackendError>>()?;
        Ok(Arc::new(Timelines { queues, context: current.context.clone() }))
    }

    /// The queue of that number.
    pub(crate) fn queue(&self, id: QueueId) -> &Queue {
        self.queues.get(id.0 as usize).unwrap_or_else(|| panic!("there is no {id}"))
    }

    /// Makes a submission of what `enqueue` puts into the queue's stream.
    ///
    /// If it fails half-way, what it has put there ends before this returns: on an error nothing is in flight.
    pub(crate) fn submit(
        self: &Arc<Self>,
        current: &Current<'_>,
        point: TimelinePoint,
        waits: &[TimelinePoint],
        enqueue: impl FnOnce(&Stream) -> Result<(), BackendError>,
    ) -> Result<(), BackendError> {
        let queue = self.queue(point.queue);
        let event = self.prepare(current, point)?;
        let enqueued = (|| {
            // The queue itself runs in order.
            for wait in waits.iter().filter(|wait| wait.queue != point.queue) {
                self.queue(wait.queue).hold(current, &queue.stream, wait.value)?;
            }
            enqueue(&queue.stream)?;
            event.record(current, &queue.stream)
        })();
        let mut flight = queue.flight.lock();
        if let Err(error) = enqueued {
            flight.idle.push(event);
            drop(flight);
            // A loss ends it as well.
            let _ = queue.stream.synchronize(current);
            return Err(error);
        }
        flight.submitted = point.value;
        flight.points.push_back(Pending { value: point.value, event });
        drop(flight);
        queue.arrived.notify_all();
        Ok(())
    }

    /// An event for the submission, and a watcher at the first need.
    fn prepare(
        self: &Arc<Self>,
        current: &Current<'_>,
        point: TimelinePoint,
    ) -> Result<Arc<Event>, BackendError> {
        let mut flight = self.queue(point.queue).flight.lock();
        assert!(point.value > flight.submitted, "points of {} rise", point.queue);
        assert_eq!(flight.life, Life::Running, "a submission after shutdown");
        if flight.watcher.is_none() {
            let timelines = self.clone();
            let watcher = std::thread::Builder::new()
                .name(format!("tenure-cuda-{}", point.queue.0))
                .spawn(move || timelines.watch(point.queue))
                .map_err(|error| driver("submit", format!("no thread: {error}")).with_source(error))?;
            flight.watcher = Some(watcher);
        }
        match flight.idle.pop() {
            Some(event) => Ok(event),
            None => Ok(Arc::new(Event::new(current)?)),
        }
    }

    /// A watcher's life.
    fn watch(&self, id: QueueId) {
        if let Err(error) = self.follow(self.queue(id)) {
            // Without its events nobody can tell how far a queue is, as after an engine has destroyed the context: that is a
            // loss too, if it is none already, and all points end with it.
            let message = format!("the queue's events are lost: {}", error.message);
            let lost = BackendError::new(BackendErrorKind::DeviceLost, error.operation, message);
            self.context.lose(Loss::Context, lost);
        }
    }

    /// Tells what has completed, until the end.
    fn follow(&self, queue: &Queue) -> Result<(), BackendError> {
        let current = self.context.enter()?;
        while let Some(event) = queue.oldest() {
            event.synchronize(&current)?;
            queue.complete(&current)?;
            self.context.waiters.wake();
        }
        Ok(())
    }

    pub(crate) fn completed(&self, id: QueueId) -> Result<u64, BackendError> {
        self.context.alive()?;
        Ok(self.queue(id).completed.load(Ordering::Acquire))
    }

    /// See `Backend::wait_any`.
    pub(crate) fn wait_any(
        &self,
        targets: &[TimelinePoint],
        timeout: Option<Duration>,
    ) -> Result<WaitStatus, BackendError> {
        let reached = || {
            self.context.alive()?;
            Ok(targets.iter().any(|target| self.queue(target.queue).has_completed(target.value)))
        };
        self.context.waiters.wait(reached, timeout)
    }

    /// See `Backend::interrupt`.
    pub(crate) fn interrupt(&self) {
        self.context.waiters.interrupt();
    }

    /// Waits for what was submitted and ends the watchers; twice is nothing. A lost device is not waited for.
    pub(crate) fn stop(&self) {
        let take = |queue: &Queue| {
            let mut flight = queue.flight.lock();
            flight.life = Life::Stopping;
            queue.arrived.notify_all();
            flight.watcher.take()
        };
        let watchers: Vec<_> = self.queues.iter().filter_map(take).collect();
        for watcher in watchers {
            if self.context.alive().is_ok() {
                // It ends without a panic: it runs nobody's code.
                let _ = watcher.join();
            }
        }
    }
}

impl Queue {
    fn has_completed(&self, value: u64) -> bool {
        self.completed.load(Ordering::Acquire) >= value
    }

    /// Makes another stream wait for a point of this queue, on the device.
    fn hold(&self, current: &Current<'_>, other: &Stream, value: u64) -> Result<(), BackendError> {
        // With the lock held the event is not recorded anew before the wait has it.
        let flight = self.flight.lock();
        let at = flight.points.partition_point(|pending| pending.value < value);
        // What is not in flight any more has completed.
        flight.points.get(at).map_or(Ok(()), |pending| other.wait(current, &pending.event))
    }

    /// The event of the oldest submission in flight; `None` at the end.
    fn oldest(&self) -> Option<Arc<Event>> {
        let mut flight = self.flight.lock();
        loop {
            if let Some(pending) = flight.points.front() {
                return Some(pending.event.clone());
            }
            if flight.life == Life::Stopping {
                return None;
            }
            self.arrived.wait(&mut flight);
        }
    }

    /// Takes everything out that has completed, the oldest at least.
    fn complete(&self, current: &Current<'_>) -> Result<(), BackendError> {
        let mut flight = self.flight.lock();
        while let Some(pending) = flight.points.front() {
            if !pending.event.has_come(current)? {
                break;
            }
            let Pending { value, event } = flight.points.pop_front().expect("it is in front");
            flight.idle.push(event);
            self.completed.store(value, Ordering::Release);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    fn never() -> Result<bool, BackendError> {
        Ok(false)
    }

    /// Waits until so many threads are blocked.
    fn until_blocked(waiters: &Waiters, blocked: usize) {
        while waiters.state.lock().blocked < blocked {
            std::thread::yield_now();
        }
    }

    #[test]
    fn an_interrupt_that_finds_nobody_ends_the_next_wait_only() {
        let waiters = Waiters::default();
        waiters.interrupt();
        waiters.interrupt();
        assert_eq!(waiters.wait(never, None).unwrap(), WaitStatus::Woken);
        assert_eq!(waiters.wait(never, Some(Duration::ZERO)).unwrap(), WaitStatus::TimedOut);
    }

    #[test]
    fn an_interrupt_ends_every_wait_that_is_blocked() {
        let waiters = &Waiters::default();
        std::thread::scope(|threads| {
            let waits: Vec<_> = [None, Some(Duration::from_secs(3600)), Some(Duration::MAX)]
                .into_iter()
                .map(|timeout| threads.spawn(move || waiters.wait(never, timeout)))
                .collect();
            until_blocked(waiters, 3);
            waiters.interrupt();
            for wait in waits {
                assert_eq!(wait.join().expect("no panic").unwrap(), WaitStatus::Woken);
            }
        });
        assert_eq!(waiters.wait(never, Some(Duration::ZERO)).unwrap(), WaitStatus::TimedOut);
    }

    #[test]
    fn what_has_happened_counts_before_the_time() {
        let waiters = Waiters::default();
        assert_eq!(waiters.wait(|| Ok(true), Some(Duration::ZERO)).unwrap(), WaitStatus::Woken);
    }

    #[test]
    fn a_loss_ends_a_wait() {
        let (waiters, lost) = (&Waiters::default(), &AtomicBool::new(false));
        let reached = move || match lost.load(Ordering::Acquire) {
            true => Err(BackendError::new(BackendErrorKind::DeviceLost, "test", "lost")),
            false => Ok(false),
        };
        std::thread::scope(|threads| {
            let wait = threads.spawn(move || waiters.wait(reached, None));
            until_blocked(waiters, 1);
            // Waking for no reason ends nothing.
            waiters.wake();
            lost.store(true, Ordering::Release);
            waiters.wake();
            assert_eq!(wait.join().expect("no panic").unwrap_err().kind, BackendErrorKind::DeviceLost);
        });
    }
}
