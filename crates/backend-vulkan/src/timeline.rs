//! Queues and their timelines: submitting, asking how far a queue is, waiting, and waking who waits.
//!
//! Each queue has a timeline semaphore that its submissions raise to their points. Who waits waits for it and for one
//! semaphore more, which `interrupt` raises from the host. Drivers of devices sleep in such a wait; those of software
//! devices may poll, which costs time and nothing else. Not here: what is submitted (`sequence.rs`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ash::vk;
use parking_lot::Mutex;
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
    interrupt: Semaphore,
    api: Arc<Api>,
}

#[derive(Default)]
struct Waiters {
    /// Threads that wait now, or are on their way.
    blocked: usize,
    /// The value of the interrupt's semaphore.
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
        Ok(Timelines { queues, waiters: Mutex::default(), interrupt, api: api.clone() })
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
        let (own, others): (SmallVec<[_; 2]>, SmallVec<[_; 2]>) =
            waits.iter().partition(|wait| wait.queue == point.queue);
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
        let queue = self.queue(id);
        let value = queue.semaphore.value()?;
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
        self.api.alive()?;
        let next = {
            let mut waiters = self.waiters.lock();
            if std::mem::take(&mut waiters.latched) {
                return Ok(WaitStatus::Woken);
            }
            waiters.blocked += 1;
            waiters.interrupts + 1
        };
        let targets = targets.iter().map(|target| (self.queue(target.queue).semaphore.raw, target.value));
        let (semaphores, values): (SmallVec<[_; 4]>, SmallVec<[_; 4]>) =
            targets.chain([(self.interrupt.raw, next)]).unzip();
        let woken = wait_any(&self.api, &semaphores, &values, nanoseconds(timeout));
        self.waiters.lock().blocked -= 1;
        Ok(if woken? { WaitStatus::Woken } else { WaitStatus::TimedOut })
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
        // Under the lock, so that the value only rises.
        waiters.interrupts += 1;
        let signalled = self.interrupt.signal(waiters.interrupts);
        // It fails on a lost device only, where every wait ends by itself.
        let _ = signalled;
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

/// A time as the driver takes it; none is for ever.
fn nanoseconds(timeout: Option<Duration>) -> u64 {
    timeout.map_or(u64::MAX, |timeout| u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX))
}
