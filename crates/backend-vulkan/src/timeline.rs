//! Queues and their timelines: submitting, asking how far a queue is, waiting, and waking who waits.
//!
//! Each queue has a timeline semaphore that its submissions raise to their points. Of those who wait one waits in the
//! driver, for what anybody wants first and for one semaphore more, which is raised from the host to bring it back. The
//! others wait for that one: drivers of software devices poll when they wait for any of several semaphores, and many
//! that poll take the time of the work that they wait for. Not here: what is submitted (`sequence.rs`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ash::vk;
use parking_lot::{Condvar, Mutex, MutexGuard};
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
        Ok(Queue { raw, lock, semaphore, submitted: AtomicU64::new(0), order, _pool: pool })
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
    /// The leader has come back, or waits are to end.
    changed: Condvar,
    interrupt: Semaphore,
    api: Arc<Api>,
}

/// Points of several queues.
type Points = SmallVec<[TimelinePoint; 2]>;

struct Waiters {
    /// What each thread that waits waits for.
    wanted: Vec<(u64, Points)>,
    /// Names threads in `wanted`.
    next_id: u64,
    /// What the one thread that waits in the driver waits for.
    leading: Option<Points>,
    /// What was last seen of each queue.
    completed: Vec<u64>,
    /// The value of the interrupt's semaphore.
    raised: u64,
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
        let interrupt = Semaphore::new(api, "tenure: interrupt")?;
        let waiters = Waiters {
            wanted: Vec::new(),
            next_id: 0,
            leading: None,
            completed: vec![0; queues.len()],
            raised: 0,
            interrupts: 0,
            latched: false,
        };
        let changed = Condvar::new();
        Ok(Timelines { queues, waiters: Mutex::new(waiters), changed, interrupt, api: api.clone() })
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
        let (own, others): (Points, Points) =
            waits.iter().copied().partition(|wait| wait.queue == point.queue);
        let others: SmallVec<[_; 2]> =
            others.iter().map(|wait| (self.queue(wait.queue).semaphore.raw, wait.value)).collect();
        let both = [queue.order, commands];
        queue.submit(
            &self.api,
            &Batch {
                // The queue runs in order; only what the barrier does is missing.
                commands: if own.is_empty() { &both[1..] } else { &both },
                waits: &others,
                signal: (queue.semaphore.raw, point.value),
            },
        )?;
        queue.submitted.store(point.value, Ordering::Release);
        Ok(())
    }

    pub(crate) fn completed(&self, id: QueueId) -> Result<u64, BackendError> {
        self.api.alive()?;
        let value = self.queue(id).semaphore.value()?;
        // A lost device may raise its semaphores to anything.
        if value == u64::MAX {
            return Err(self.api.lose("vkGetSemaphoreCounterValue", "a timeline ran beyond its points"));
        }
        Ok(value)
    }

    /// See `Backend::wait_any`.
    pub(crate) fn wait_any(
        &self,
        targets: &[TimelinePoint],
        timeout: Option<Duration>,
    ) -> Result<WaitStatus, BackendError> {
        // A moment beyond what the clock can say is no limit.
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut waiters = self.waiters.lock();
        if std::mem::take(&mut waiters.latched) {
            return Ok(WaitStatus::Woken);
        }
        let id = waiters.next_id;
        waiters.next_id += 1;
        waiters.wanted.push((id, targets.into()));
        let answer = self.wait_among(&mut waiters, targets, deadline);
        waiters.wanted.retain(|(other, _)| *other != id);
        answer
    }

    /// Waits as one of `waiters`: in the driver if nobody else does, else for who does.
    fn wait_among(
        &self,
        waiters: &mut MutexGuard<'_, Waiters>,
        targets: &[TimelinePoint],
        deadline: Option<Instant>,
    ) -> Result<WaitStatus, BackendError> {
        let interrupts = waiters.interrupts;
        loop {
            if waiters.interrupts != interrupts || waiters.have_seen(targets) {
                return Ok(WaitStatus::Woken);
            }
            self.api.alive()?;
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                // What has completed counts before the time.
                self.look(waiters, targets)?;
                let woken = waiters.have_seen(targets);
                return Ok(if woken { WaitStatus::Woken } else { WaitStatus::TimedOut });
            }
            let Some(leading) = &waiters.leading else {
                self.lead(waiters, left)?;
                continue;
            };
            if !covers(leading, targets) {
                self.nudge(waiters);
            }
            match deadline {
                None => self.changed.wait(waiters),
                Some(deadline) => _ = self.changed.wait_until(waiters, deadline),
            }
        }
    }

    /// Waits in the driver for what anybody wants first, and tells everybody.
    fn lead(
        &self,
        waiters: &mut MutexGuard<'_, Waiters>,
        left: Option<Duration>,
    ) -> Result<(), BackendError> {
        let goals = waiters.goals();
        let raised = (self.interrupt.raw, waiters.raised + 1);
        let points = goals.iter().map(|goal| (self.queue(goal.queue).semaphore.raw, goal.value));
        let (semaphores, values): (SmallVec<[_; 4]>, SmallVec<[_; 4]>) = points.chain([raised]).unzip();
        waiters.leading = Some(goals.clone());
        let waited =
            MutexGuard::unlocked(waiters, || wait_any(&self.api, &semaphores, &values, nanoseconds(left)));
        waiters.leading = None;
        let looked = waited.and_then(|_| self.look(waiters, &goals));
        // Somebody is done, or leads next, or sees the loss.
        self.changed.notify_all();
        looked
    }

    /// Asks the driver how far the queues of these points are.
    fn look(&self, waiters: &mut Waiters, points: &[TimelinePoint]) -> Result<(), BackendError> {
        for point in points {
            let value = self.completed(point.queue)?;
            let seen = &mut waiters.completed[point.queue.0 as usize];
            *seen = value.max(*seen);
        }
        Ok(())
    }

    /// Brings the leader back. Under the lock, so that the value only rises.
    fn nudge(&self, waiters: &mut Waiters) {
        waiters.raised += 1;
        let signalled = self.interrupt.signal(waiters.raised);
        // It fails on a lost device only, where every wait ends by itself.
        let _ = signalled;
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
        if waiters.wanted.is_empty() {
            waiters.latched = true;
            return;
        }
        waiters.interrupts += 1;
        if waiters.leading.is_some() {
            self.nudge(&mut waiters);
        }
        drop(waiters);
        self.changed.notify_all();
    }
}

impl Waiters {
    fn have_seen(&self, targets: &[TimelinePoint]) -> bool {
        targets.iter().any(|target| self.completed[target.queue.0 as usize] >= target.value)
    }

    /// The first point of each queue that anybody wants.
    fn goals(&self) -> Points {
        let mut goals = Points::new();
        for point in self.wanted.iter().flat_map(|(_, points)| points) {
            match goals.iter_mut().find(|goal| goal.queue == point.queue) {
                Some(goal) => goal.value = goal.value.min(point.value),
                None => goals.push(*point),
            }
        }
        goals
    }
}

/// Whether who waits for `goals` comes back when any of `targets` completes.
fn covers(goals: &[TimelinePoint], targets: &[TimelinePoint]) -> bool {
    targets
        .iter()
        .all(|target| goals.iter().any(|goal| goal.queue == target.queue && goal.value <= target.value))
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

/// A time as the driver takes it; none is for ever.
fn nanoseconds(timeout: Option<Duration>) -> u64 {
    timeout.map_or(u64::MAX, |timeout| u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests;
