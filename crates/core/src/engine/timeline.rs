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
use crate::engine::driver::NativeSequence;
use crate::engine::execution::{ExecutionCell, Progress};
use crate::engine::gate::Pass;
use crate::engine::jobs::Job;
use crate::engine::pool::Grant;
use crate::engine::scopes::ScopeCell;
use crate::engine::tensors::Memory;
use crate::engine::wakers::{Woken, wake_each};
use crate::error::{BackendErrorKind, Error};
use crate::event::{Event, EventKind};
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Mutex, MutexGuard};

/// One queue. Lock order: `retiring` before `state`.
pub(crate) struct Queue {
    pub id: QueueId,
    state: Mutex<QueueState>,
    /// Something is in flight or waits for a point. Changed under the lock of `state`.
    busy: AtomicBool,
    /// Held by the thread that retires, so that executions retire in order.
    retiring: Mutex<()>,
}

#[derive(Default)]
struct QueueState {
    /// Every point up to here was submitted.
    submitted: u64,
    /// Every point up to here has retired.
    retired: u64,
    inflight: VecDeque<Flight>,
    /// Memory that is free once the point has retired.
    pending: BTreeMap<u64, Vec<Deferred>>,
}

/// An execution that the device may be at, with the native recording that it uses meanwhile.
pub(crate) struct Flight {
    pub execution: Arc<ExecutionCell>,
    pub native: NativeSequence,
}

/// The executions that one pass has retired, and how they ended.
type Retired = SmallVec<[(Arc<ExecutionCell>, Progress); 2]>;

/// What a pass leaves to be done once no lock is held (L15).
#[derive(Default)]
pub(crate) struct AfterPass {
    /// Whom to wake.
    pub wake: Vec<Woken>,
    /// Whose execution hooks are due.
    pub due: Vec<Arc<ScopeCell>>,
    /// What to drop.
    pub free: Vec<Arc<ExecutionCell>>,
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
        Queue {
            id,
            state: Mutex::new(QueueState::default()),
            busy: AtomicBool::new(false),
            retiring: Mutex::new(()),
        }
    }

    /// Takes in what was submitted just now. The caller holds the engine's `submitting`, which orders points.
    pub(crate) fn push(&self, flight: Flight) {
        let mut state = self.state.lock();
        state.submitted = flight.execution.point.value;
        state.inflight.push_back(flight);
        self.busy.store(true, Ordering::Relaxed);
    }

    /// The next point that retires something, if there is one.
    fn next_target(&self) -> Option<TimelinePoint> {
        let state = self.state.lock();
        let execution = state.inflight.front().map(|flight| flight.execution.point.value);
        let memory = state.pending.keys().next().copied();
        let value = match (execution, memory) {
            (Some(a), Some(b)) => a.min(b),
            (a, b) => a.or(b)?,
        };
        Some(TimelinePoint { queue: self.id, value })
    }

    /// Takes out what the device has finished with, up to `completed`.
    fn take_completed(&self, completed: u64) -> (SmallVec<[Flight; 2]>, Vec<Deferred>) {
        let mut state = self.state.lock();
        // A submission that is just under way may have completed: it retires once it was taken in.
        let completed = completed.min(state.submitted);
        state.retired = state.retired.max(completed);
        let mut flights = SmallVec::new();
        while state.inflight.front().is_some_and(|flight| flight.execution.point.value <= completed)
            && let Some(flight) = state.inflight.pop_front()
        {
            flights.push(flight);
        }
        let mut memory = Vec::new();
        while let Some(first) = state.pending.first_entry()
            && *first.key() <= completed
        {
            memory.extend(first.remove());
        }
        self.busy.store(!state.is_idle(), Ordering::Relaxed);
        (flights, memory)
    }

    /// Keeps memory until `point` has retired, or hands it back if it has.
    fn defer(&self, point: TimelinePoint, deferred: Deferred) -> Option<Deferred> {
        let mut state = self.state.lock();
        if state.retired >= point.value {
            return Some(deferred);
        }
        state.pending.entry(point.value).or_default().push(deferred);
        self.busy.store(true, Ordering::Relaxed);
        None
    }

    /// The execution of a point, while it is in flight.
    pub(crate) fn inflight_at(&self, point: TimelinePoint) -> Option<Arc<ExecutionCell>> {
        let state = self.state.lock();
        let value = |flight: &Flight| flight.execution.point.value;
        let at = state.inflight.binary_search_by_key(&point.value, value).ok()?;
        Some(state.inflight[at].execution.clone())
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
    pub(super) fn take_pending(&self, bytes: &RangeInclusive<u64>) -> Option<Grant> {
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
    pub(super) fn in_flight(&self) -> Vec<Arc<ExecutionCell>> {
        self.state.lock().inflight.iter().map(|flight| flight.execution.clone()).collect()
    }
}

impl QueueState {
    fn is_idle(&self) -> bool {
        self.inflight.is_empty() && self.pending.is_empty()
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
        self.queues.iter().all(|queue| queue.state.lock().is_idle())
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
        if let Some(pass) = self.driver_pass() {
            self.wait_inside(&pass, targets, timeout);
        }
    }

    /// As [`Engine::wait_device`], and then [`Engine::retire_completed`].
    pub(crate) fn wait_and_retire(
        self: &Arc<Self>,
        pass: Pass<'_>,
        targets: &[TimelinePoint],
        timeout: Option<Duration>,
        due: &mut Vec<Arc<ScopeCell>>,
    ) {
        self.wait_inside(&pass, targets, timeout);
        self.retire_inside(pass, due);
    }

    fn wait_inside(&self, _pass: &Pass<'_>, targets: &[TimelinePoint], timeout: Option<Duration>) {
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
        self.driver_pass().map_or(0, |pass| self.retire_inside(pass, due))
    }

    fn retire_inside(self: &Arc<Self>, pass: Pass<'_>, due: &mut Vec<Arc<ScopeCell>>) -> u64 {
        let mut retired = Retired::new();
        let mut after = AfterPass::default();
        for queue in &self.queues {
            self.retire_queue(queue, &mut retired, &mut after);
        }
        let count = retired.len() as u64;
        drop(retired);
        drop(after.free);
        if count > 0 {
            self.after_retirement();
        }
        // Woken outside lock and gate: a waker is foreign code (L15).
        drop(pass);
        wake_each(after.wake);
        if !after.due.is_empty() {
            due.append(&mut after.due);
        }
        count
    }

    /// Adds what has retired to `retired`, to be dropped once no lock is held.
    fn retire_queue(self: &Arc<Self>, queue: &Queue, retired: &mut Retired, after: &mut AfterPass) {
        // Also waits for another thread's pass to publish what it has taken: a waiter must not spin.
        let _in_order = queue.retiring.lock();
        if !queue.busy.load(Ordering::Relaxed) {
            return;
        }
        let Some(completed) = self.completed_point(queue) else { return };
        let (flights, memory) = queue.take_completed(completed);
        let first = retired.len();
        for Flight { execution, native } in flights {
            let end = self.collect_execution(&execution, native);
            retired.push((execution, end));
        }
        // Before anybody learns of the results: who then looks at the figures, or trims, finds it all.
        if !memory.is_empty() {
            memory.into_iter().for_each(|deferred| self.defer(deferred));
        }
        for (execution, end) in &retired[first..] {
            self.publish_execution(execution, *end, after);
        }
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
        let mut deferred = deferred;
        for point in deferred.frontier.clone().points() {
            match self.queue(point.queue).defer(*point, deferred) {
                Some(back) => deferred = back,
                None => return,
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
