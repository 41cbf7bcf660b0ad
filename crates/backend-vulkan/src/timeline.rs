//! Queues and their timelines: submitting, asking how far a queue is, waiting, and waking who waits.
//!
//! Each queue has a timeline semaphore that its submissions raise to their points. Who waits does so in the driver, for
//! the one semaphore of its queue; with a time it looks for interrupts now and then. A second semaphore, raised from the host, would
//! bring it back at once; but drivers whose timelines are made of something else, as those of software devices are, wait for any of
//! several by polling them all, which takes the time of the work that is waited for. Not here: what is submitted
//! (`sequence.rs`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ash::vk;
use parking_lot::{Condvar, Mutex};
use smallvec::SmallVec;
use tenure_core::backend::{TimelinePoint, WaitStatus};
use tenure_core::{BackendError, QueueId};

use crate::commands::ORDER;
use crate::commands::ffi::{Batch, Commands, submit};
use crate::ffi::{Api, CommandPool, Semaphore, wait_any};

/// The lock of a queue that others submit to as well: the engine's own, when tenure is embedded.
///
/// Implemented for mutexes; an engine implements it for whatever it has.
pub trait QueueLock: Send + Sync + 'static {
    /// Calls `submit`, once, while nobody else uses the queue.
    fn locked(&self, submit: &mut dyn FnMut());
}

impl<T: Send + 'static> QueueLock for std::sync::Mutex<T> {
    fn locked(&self, submit: &mut dyn FnMut()) {
        // What it guards is not looked at: that its owner panicked does not matter here.
        let _guard = self.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        submit();
    }
}

impl<T: Send + 'static> QueueLock for Mutex<T> {
    fn locked(&self, submit: &mut dyn FnMut()) {
        let _guard = self.lock();
        submit();
    }
}

/// One queue of the device.
pub(crate) struct Queue {
    raw: vk::Queue,
    lock: Arc<dyn QueueLock>,
    semaphore: Semaphore,
    /// The last point that was submitted.
    submitted: AtomicU64,
    /// Every point up to this one is known to have completed.
    completed: AtomicU64,
    /// What every point up to this one wrote is visible to all that is submitted from now on.
    visible: AtomicU64,
    /// Recorded once, submitted before what has to come after everything before it.
    order: vk::CommandBuffer,
    /// `order` lives in it.
    _pool: CommandPool,
}

impl Queue {
    fn new(
        api: &Arc<Api>,
        family: u32,
        raw: vk::Queue,
        lock: Arc<dyn QueueLock>,
        label: &str,
    ) -> Result<Self, BackendError> {
        let mut pool = CommandPool::new(api, family, label)?;
        let order = pool.allocate()?;
        let commands = Commands::new(api, order);
        commands.begin(vk::CommandBufferUsageFlags::SIMULTANEOUS_USE)?;
        commands.barrier(ORDER);
        commands.end()?;
        api.name(order, label);
        let semaphore = Semaphore::new(api, label)?;
        let [submitted, completed, visible] = Default::default();
        Ok(Queue { raw, lock, semaphore, submitted, completed, visible, order, _pool: pool })
    }

    /// Submits under the queue's lock.
    pub(crate) fn submit(&self, api: &Api, batch: &Batch<'_>) -> Result<(), BackendError> {
        api.alive()?;
        let mut answer = None;
        self.lock.locked(&mut || answer = Some(submit(api, self.raw, batch)));
        answer.expect("a queue's lock calls what it is given")
    }
}

/// All queues, and those who wait for them.
pub(crate) struct Timelines {
    pub queues: Vec<Queue>,
    waiters: Mutex<Waiters>,
    /// For waits that have no target.
    interrupted: Condvar,
    api: Arc<Api>,
}

/// For how long a wait in the driver that can be interrupted goes unlooked at. An interrupt is seen after this time at the latest; each look
/// costs some microseconds.
const SLICE: Duration = Duration::from_millis(4);

#[derive(Debug, Default)]
struct Waiters {
    /// Threads whose waits can be interrupted.
    blocked: usize,
    interrupts: u64,
    /// An interrupt that found nobody: the next wait returns at once.
    latched: bool,
}

impl Timelines {
    /// Timelines of one queue.
    pub(crate) fn new(
        api: &Arc<Api>,
        family: u32,
        queue: vk::Queue,
        lock: Arc<dyn QueueLock>,
    ) -> Result<Self, BackendError> {
        let queues = vec![Queue::new(api, family, queue, lock, "tenure: queue 0")?];
        let (waiters, interrupted) = (Mutex::default(), Condvar::new());
        Ok(Timelines { queues, waiters, interrupted, api: api.clone() })
    }

    /// The queue of that number.
    pub(crate) fn queue(&self, id: QueueId) -> &Queue {
        self.queues.get(id.0 as usize).unwrap_or_else(|| panic!("there is no {id}"))
    }

    /// Submits a recording that completes `point`, after `waits`.
    pub(crate) fn submit(
        &self,
        commands: vk::CommandBuffer,
        point: TimelinePoint,
        waits: &[TimelinePoint],
    ) -> Result<(), BackendError> {
        let queue = self.queue(point.queue);
        let last = queue.submitted.load(Ordering::Acquire);
        assert!(point.value > last, "points of {} rise", point.queue);
        let own = waits.iter().filter(|wait| wait.queue == point.queue).map(|wait| wait.value).max();
        let others = waits.iter().filter(|wait| wait.queue != point.queue);
        let mut semaphores: SmallVec<[_; 2]> =
            others.map(|wait| (self.queue(wait.queue).semaphore.raw, wait.value)).collect();
        let completed = queue.completed.load(Ordering::Acquire);
        let both = [queue.order, commands];
        let (commands, visible) = if own.is_some_and(|own| own > completed) {
            // The queue runs in order; only what the barrier does is missing.
            (&both[..], last)
        } else {
            // What has completed is not thereby visible to the device. Waiting for a value that the semaphore has already
            // makes it so, and holds nothing up.
            if completed > queue.visible.load(Ordering::Relaxed) {
                semaphores.push((queue.semaphore.raw, completed));
            }
            (&both[1..], completed)
        };
        let signal = (queue.semaphore.raw, point.value);
        queue.submit(&self.api, &Batch { commands, waits: &semaphores, signal })?;
        queue.visible.fetch_max(visible, Ordering::Relaxed);
        queue.submitted.store(point.value, Ordering::Release);
        Ok(())
    }

    pub(crate) fn completed(&self, id: QueueId) -> Result<u64, BackendError> {
        self.api.alive()?;
        let queue = self.queue(id);
        let known = queue.completed.load(Ordering::Acquire);
        if known == queue.submitted.load(Ordering::Acquire) {
            // There is no more to ask for. The driver's answer takes locks that its own threads are at.
            return Ok(known);
        }
        let value = queue.semaphore.value()?;
        // A lost device may raise its semaphores to anything.
        if value == u64::MAX {
            return Err(self.api.lose("vkGetSemaphoreCounterValue", "a timeline ran beyond its points"));
        }
        queue.completed.fetch_max(value, Ordering::AcqRel);
        Ok(value)
    }

    /// See `Backend::wait_any`.
    pub(crate) fn wait_any(
        &self,
        targets: &[TimelinePoint],
        timeout: Option<Duration>,
    ) -> Result<WaitStatus, BackendError> {
        if timeout.is_none() && !targets.is_empty() {
            let goals = Goals::new(self, targets);
            // The device's work ends, and so does this. It takes no interrupt that is meant for another.
            while !goals.wait(self, u64::MAX)? {}
            return Ok(WaitStatus::Woken);
        }
        // A moment beyond what the clock can say is no limit.
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let interrupts = {
            let mut waiters = self.waiters.lock();
            if std::mem::take(&mut waiters.latched) {
                return Ok(WaitStatus::Woken);
            }
            waiters.blocked += 1;
            waiters.interrupts
        };
        let answer = if targets.is_empty() {
            self.wait_for_interrupt(interrupts, deadline)
        } else {
            self.wait_in_driver(targets, interrupts, deadline)
        };
        self.waiters.lock().blocked -= 1;
        answer
    }

    /// Blocks until there were more than so many interrupts.
    fn wait_for_interrupt(
        &self,
        interrupts: u64,
        deadline: Option<Instant>,
    ) -> Result<WaitStatus, BackendError> {
        let mut waiters = self.waiters.lock();
        let mut in_time = true;
        while waiters.interrupts == interrupts {
            self.api.alive()?;
            if !in_time {
                return Ok(WaitStatus::TimedOut);
            }
            match deadline {
                None => self.interrupted.wait(&mut waiters),
                Some(at) => in_time = !self.interrupted.wait_until(&mut waiters, at).timed_out(),
            }
        }
        Ok(WaitStatus::Woken)
    }

    /// Blocks until one of `targets` has completed or there were more than so many interrupts.
    fn wait_in_driver(
        &self,
        targets: &[TimelinePoint],
        interrupts: u64,
        deadline: Option<Instant>,
    ) -> Result<WaitStatus, BackendError> {
        let goals = Goals::new(self, targets);
        loop {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let slice = left.map_or(SLICE, |left| left.min(SLICE));
            // What has completed counts before the time.
            if goals.wait(self, slice.as_nanos() as u64)? {
                return Ok(WaitStatus::Woken);
            }
            if self.waiters.lock().interrupts != interrupts {
                return Ok(WaitStatus::Woken);
            }
            if left == Some(slice) {
                return Ok(WaitStatus::TimedOut);
            }
        }
    }

    /// Waits until everything that was submitted has completed, or the device is lost.
    pub(crate) fn drain(&self) {
        for queue in &self.queues {
            let last = queue.submitted.load(Ordering::Acquire);
            // A loss completes everything too.
            let _ = wait_for(&self.api, &queue.semaphore, last);
        }
    }

    /// See `Backend::interrupt`.
    pub(crate) fn interrupt(&self) {
        let mut waiters = self.waiters.lock();
        if waiters.blocked == 0 {
            waiters.latched = true;
            return;
        }
        waiters.interrupts += 1;
        drop(waiters);
        self.interrupted.notify_all();
    }
}

/// The first point of each queue that a thread waits for.
struct Goals {
    points: SmallVec<[TimelinePoint; 2]>,
    semaphores: SmallVec<[vk::Semaphore; 2]>,
    values: SmallVec<[u64; 2]>,
}

impl Goals {
    fn new(timelines: &Timelines, targets: &[TimelinePoint]) -> Self {
        let mut points = SmallVec::<[TimelinePoint; 2]>::new();
        for point in targets {
            match points.iter_mut().find(|known| known.queue == point.queue) {
                Some(known) => known.value = known.value.min(point.value),
                None => points.push(*point),
            }
        }
        let semaphores = points.iter().map(|point| timelines.queue(point.queue).semaphore.raw).collect();
        let values = points.iter().map(|point| point.value).collect();
        Goals { points, semaphores, values }
    }

    /// Blocks in the driver; false if the time was over first.
    fn wait(&self, timelines: &Timelines, nanoseconds: u64) -> Result<bool, BackendError> {
        timelines.api.alive()?;
        let reached = wait_any(&timelines.api, &self.semaphores, &self.values, nanoseconds)?;
        if reached && let [point] = self.points[..] {
            timelines.queue(point.queue).completed.fetch_max(point.value, Ordering::AcqRel);
        }
        Ok(reached)
    }
}

/// Blocks until a semaphore of this backend's own has its value.
pub(crate) fn wait_for(api: &Api, semaphore: &Semaphore, value: u64) -> Result<(), BackendError> {
    if value == 0 {
        return Ok(());
    }
    api.alive()?;
    while !wait_any(api, &[semaphore.raw], &[value], u64::MAX)? {}
    Ok(())
}

#[cfg(test)]
mod tests;
