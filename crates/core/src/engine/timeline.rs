//! Queues and their timelines: what is in flight, what waits for a point to be freed, and the one pass that
//! retires what the device has completed.
//!
//! Not here: submitting (`engine/evaluate.rs`), the thread that waits (`engine/threads.rs`).

use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

use crate::backend::{QueueId, TimelinePoint};
use crate::engine::Engine;
use crate::engine::execution::ExecutionCell;
use crate::engine::jobs::Job;
use crate::engine::pool::Grant;
use crate::engine::scopes::ScopeCell;
use crate::engine::tensors::Memory;
use crate::engine::wakers::wake_each;
use crate::error::{BackendErrorKind, Error};
use crate::event::{Event, EventKind};
use crate::sync::{Mutex, MutexGuard};

/// One queue. Lock order: `retiring` before `state`.
pub(crate) struct Queue {
    pub id: QueueId,
    state: Mutex<QueueState>,
    /// Held by the thread that retires, so that executions retire in order.
    retiring: Mutex<()>,
}

#[derive(Default)]
struct QueueState {
    /// Every point up to here was submitted. Later ones are announced: nobody waits for them, they may be withdrawn.
    submitted: u64,
    /// Every point up to here has retired.
    retired: u64,
    inflight: VecDeque<Arc<ExecutionCell>>,
    /// Memory that is free once the point has retired.
    pending: BTreeMap<u64, Vec<Deferred>>,
}

/// Memory that its tensor gave up, with the points after which the device has finished with it.
pub(crate) struct Deferred {
    pub memory: Option<Memory>,
    pub frontier: Frontier,
    pub tensor: u64,
    pub label: Arc<str>,
    pub bytes: u64,
    pub scope: Option<(u64, Arc<str>)>,
}

/// The points after which something is free: at most one a queue.
#[derive(Clone, Debug, Default)]
pub(crate) struct Frontier(SmallVec<[TimelinePoint; 2]>);

impl Frontier {
    /// Adds a point; a later one of the same queue covers an earlier one.
    pub(crate) fn cover(&mut self, point: TimelinePoint) {
        match self.0.iter_mut().find(|known| known.queue == point.queue) {
            Some(known) => known.value = known.value.max(point.value),
            None => self.0.push(point),
        }
    }

    pub(crate) fn points(&self) -> &[TimelinePoint] {
        &self.0
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

impl Queue {
    pub(crate) fn new(id: QueueId) -> Self {
        Queue { id, state: Mutex::new(QueueState::default()), retiring: Mutex::new(()) }
    }

    /// Announces an execution that is about to be submitted. The caller holds the engine's `submitting`.
    pub(crate) fn announce(&self, execution: &Arc<ExecutionCell>) {
        self.state.lock().inflight.push_back(execution.clone());
    }

    /// The driver took the announced submission.
    pub(crate) fn confirm(&self, point: TimelinePoint) {
        self.state.lock().submitted = point.value;
    }

    /// Takes the announcement back: nothing was submitted. The caller still holds `submitting`.
    pub(crate) fn withdraw(&self, execution: &Arc<ExecutionCell>) {
        let mut state = self.state.lock();
        // The device cannot have completed it, but loss may have ended all points in between.
        if state.inflight.back().is_some_and(|last| Arc::ptr_eq(last, execution)) {
            state.inflight.pop_back();
        }
    }

    /// The next point that retires something, if there is one.
    fn next_target(&self) -> Option<TimelinePoint> {
        let state = self.state.lock();
        let execution = state.inflight.front().map(|execution| execution.point.value);
        let execution = execution.filter(|value| *value <= state.submitted);
        let memory = state.pending.keys().next().copied();
        let value = match (execution, memory) {
            (Some(a), Some(b)) => a.min(b),
            (a, b) => a.or(b)?,
        };
        Some(TimelinePoint { queue: self.id, value })
    }

    /// The execution of a point, while it is in flight.
    pub(crate) fn inflight_at(&self, point: TimelinePoint) -> Option<Arc<ExecutionCell>> {
        let state = self.state.lock();
        let at = state.inflight.binary_search_by_key(&point.value, |execution| execution.point.value).ok()?;
        Some(state.inflight[at].clone())
    }

    fn is_retired(&self, point: TimelinePoint) -> bool {
        self.state.lock().retired >= point.value
    }

    /// Keeps every thread from retiring what completes.
    pub(super) fn hold_retirement(&self) -> MutexGuard<'_, ()> {
        self.retiring.lock()
    }

    /// Bytes of the pool that are free once the device has finished with them.
    pub(super) fn pending_bytes(&self) -> u64 {
        let state = self.state.lock();
        let memory = state.pending.values().flatten().filter_map(|deferred| deferred.memory.as_ref());
        memory.map(Memory::pooled_bytes).sum()
    }

    /// Memory of `bytes` that a tensor has given up and the device still uses, with the point after which it does not: the
    /// one that is free first. What another queue uses too is left alone.
    pub(super) fn take_pending(&self, bytes: RangeInclusive<u64>) -> Option<Grant> {
        let mut state = self.state.lock();
        let fits = |deferred: &&mut Deferred| {
            let memory = deferred.memory.as_ref();
            deferred.frontier.points().len() == 1
                && memory.is_some_and(|memory| bytes.contains(&memory.pooled_bytes()))
        };
        let deferred = state.pending.values_mut().flatten().find(fits)?;
        let point = deferred.frontier.points()[0];
        match deferred.memory.take() {
            Some(Memory::Pooled(mut grant)) => {
                grant.after = Some(point);
                Some(grant)
            }
            other => {
                deferred.memory = other;
                None
            }
        }
    }

    /// What the driver has and has not finished.
    pub(super) fn submitted(&self) -> Vec<Arc<ExecutionCell>> {
        let state = self.state.lock();
        let submitted = state.inflight.iter().filter(|execution| execution.point.value <= state.submitted);
        submitted.cloned().collect()
    }
}

impl Engine {
    pub(crate) fn queue(&self, id: QueueId) -> &Queue {
        &self.queues[id.0 as usize]
    }

    /// The next point of each queue that retires something.
    pub(crate) fn next_targets(&self) -> SmallVec<[TimelinePoint; 4]> {
        self.queues.iter().filter_map(Queue::next_target).collect()
    }

    /// True if everything submitted has retired.
    pub(crate) fn is_idle(&self) -> bool {
        self.queues.iter().all(|queue| {
            let state = queue.state.lock();
            state.inflight.is_empty() && state.pending.is_empty()
        })
    }

    /// Waits until passes that are under way have published what they took.
    pub(crate) fn settle_retirement(&self) {
        for queue in &self.queues {
            drop(queue.retiring.lock());
        }
    }

    /// Whether the device has completed and core has retired this point.
    pub(crate) fn is_retired(&self, point: TimelinePoint) -> bool {
        self.queue(point.queue).is_retired(point)
    }

    /// Blocks on the device until one of `targets` may have completed. Loss is noticed here and taken in.
    pub(crate) fn wait_device(self: &Arc<Self>, targets: &[TimelinePoint], timeout: Option<Duration>) {
        let Some(_pass) = self.driver_pass() else { return };
        if self.is_lost() {
            return;
        }
        let answer = self.driver.wait_any(targets, timeout);
        self.pass_interrupt_on();
        if let Err(error) = answer {
            self.note_backend_error(&error);
            if error.kind != BackendErrorKind::DeviceLost {
                self.record_teardown_error(Error::Backend(error));
            }
        }
    }

    /// Retires everything that the device has completed. Returns the number of executions, and adds the
    /// scopes whose execution hooks are now due to `due`.
    pub(crate) fn retire_completed(self: &Arc<Self>, due: &mut Vec<Arc<ScopeCell>>) -> u64 {
        let mut count = 0;
        for queue in &self.queues {
            count += self.retire_queue(queue, due);
        }
        count
    }

    fn retire_queue(self: &Arc<Self>, queue: &Queue, due: &mut Vec<Arc<ScopeCell>>) -> u64 {
        let mut wake = Vec::new();
        let mut count = 0;
        let mut free = Vec::new();
        let Some(pass) = self.driver_pass() else { return 0 };
        {
            // Also waits for another thread's pass to publish what it has taken: a waiter must not spin.
            let _in_order = queue.retiring.lock();
            if queue.next_target().is_none() {
                return 0;
            }
            let completed = match self.completed_point(queue) {
                Some(value) => value,
                None => return 0,
            };
            let (executions, memory) = {
                let mut state = queue.state.lock();
                if completed > state.retired {
                    state.retired = completed;
                }
                let split =
                    state.inflight.iter().take_while(|execution| execution.point.value <= completed).count();
                let executions: SmallVec<[Arc<ExecutionCell>; 1]> = state.inflight.drain(..split).collect();
                let memory = if state.pending.is_empty() {
                    BTreeMap::new()
                } else {
                    let later = completed.checked_add(1).map(|next| state.pending.split_off(&next));
                    std::mem::replace(&mut state.pending, later.unwrap_or_default())
                };
                (executions, memory)
            };
            let results: SmallVec<[_; 1]> =
                executions.iter().map(|execution| self.collect_execution(execution)).collect();
            // Before anybody learns of the results: who then looks at the figures, or trims, finds it all.
            for deferred in memory.into_values().flatten() {
                self.defer(deferred);
            }
            for (execution, result) in executions.into_iter().zip(results) {
                if let Some(result) = result {
                    count += 1;
                    self.publish_execution(&execution, result, &mut wake, due, &mut free);
                }
                free.push(execution);
            }
        }
        drop(free);
        if count > 0 {
            self.after_retirement();
        }
        // Woken outside lock and gate: a waker is foreign code (L15).
        drop(pass);
        wake_each(wake);
        count
    }

    /// How far the queue is: as the device says, or to the end once it is lost (L23).
    fn completed_point(&self, queue: &Queue) -> Option<u64> {
        if self.is_lost() {
            return Some(u64::MAX);
        }
        match self.driver.completed(queue.id) {
            Ok(value) => Some(value),
            Err(error) => {
                self.note_backend_error(&error);
                self.is_lost().then_some(u64::MAX)
            }
        }
    }

    /// Gives memory back to the pool, or to the engine that owns it: now, or once its frontier has retired (L4).
    pub(crate) fn defer(self: &Arc<Self>, deferred: Deferred) {
        for point in deferred.frontier.points() {
            let mut state = self.queue(point.queue).state.lock();
            if state.retired < point.value {
                state.pending.entry(point.value).or_default().push(deferred);
                return;
            }
        }
        let Deferred { memory, tensor, label, bytes, scope, .. } = deferred;
        match memory {
            Some(Memory::Pooled(grant)) => self.pool.lock().reclaim(grant),
            // Ends in the engine's own code, which runs on no thread that retires (L15).
            Some(Memory::Adopted(adopted)) => self.push_job(Job::Release(adopted)),
            None => {}
        }
        self.events.emit(|| Event { kind: EventKind::Reclaim { tensor, label, bytes }, scope, site: None });
    }
}
