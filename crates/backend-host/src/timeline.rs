//! Queues: one worker thread each, made at the first submission, and the timelines that they move.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use tenure_core::backend::{QueueId, TimelinePoint, WaitStatus};

use crate::sequence::Work;

/// Everything that moves: what each queue has completed, and who is told.
#[derive(Debug)]
pub(crate) struct Timelines {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    queues: Vec<QueueState>,
    /// Threads blocked in a wait.
    blocked: usize,
    interrupts: u64,
    /// An interrupt that found nobody blocked: the next wait returns at once.
    latched: bool,
    stopping: bool,
}

#[derive(Debug, Default)]
struct QueueState {
    submitted: u64,
    completed: u64,
    work: VecDeque<Work>,
    worker: Option<JoinHandle<()>>,
}

impl Timelines {
    pub(crate) fn new(queues: u32) -> Arc<Self> {
        let queues = (0..queues).map(|_| QueueState::default()).collect();
        let state = State { queues, blocked: 0, interrupts: 0, latched: false, stopping: false };
        Arc::new(Timelines { state: Mutex::new(state), changed: Condvar::new() })
    }

    pub(crate) fn completed(&self, queue: QueueId) -> u64 {
        self.state.lock().queues[queue.0 as usize].completed
    }

    /// Puts work at the end of its queue.
    pub(crate) fn submit(self: &Arc<Self>, work: Work) -> std::io::Result<()> {
        let point = work.point;
        let mut state = self.state.lock();
        assert!(!state.stopping, "a submission after shutdown");
        let queue = &mut state.queues[point.queue.0 as usize];
        assert!(point.value > queue.submitted, "points of {} rise", point.queue);
        if queue.worker.is_none() {
            let timelines = self.clone();
            let name = format!("tenure-host-{}", point.queue.0);
            let worker = std::thread::Builder::new().name(name).spawn(move || timelines.work(point.queue))?;
            queue.worker = Some(worker);
        }
        queue.submitted = point.value;
        queue.work.push_back(work);
        drop(state);
        self.changed.notify_all();
        Ok(())
    }

    /// A worker's life: each piece of work after what it waits for.
    fn work(&self, id: QueueId) {
        let at = id.0 as usize;
        loop {
            let work = {
                let mut state = self.state.lock();
                loop {
                    if let Some(work) = state.queues[at].work.pop_front() {
                        break work;
                    }
                    if state.stopping {
                        return;
                    }
                    self.changed.wait(&mut state);
                }
            };
            self.wait_for(&work.waits);
            let point = work.point;
            work.run();
            self.state.lock().queues[at].completed = point.value;
            self.changed.notify_all();
        }
    }

    /// Blocks a worker until other queues have come so far. A point that will never be submitted is not waited for.
    fn wait_for(&self, waits: &[TimelinePoint]) {
        let mut state = self.state.lock();
        for wait in waits {
            loop {
                let queue = &state.queues[wait.queue.0 as usize];
                if queue.completed >= wait.value || (state.stopping && queue.submitted < wait.value) {
                    break;
                }
                self.changed.wait(&mut state);
            }
        }
    }

    pub(crate) fn wait_any(&self, targets: &[TimelinePoint], timeout: Option<Duration>) -> WaitStatus {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut state = self.state.lock();
        if std::mem::take(&mut state.latched) {
            return WaitStatus::Woken;
        }
        let interrupts = state.interrupts;
        state.blocked += 1;
        let mut status = WaitStatus::Woken;
        while state.interrupts == interrupts
            && targets.iter().all(|target| state.queues[target.queue.0 as usize].completed < target.value)
        {
            match deadline {
                None => self.changed.wait(&mut state),
                Some(at) => {
                    if self.changed.wait_until(&mut state, at).timed_out() {
                        status = WaitStatus::TimedOut;
                        break;
                    }
                }
            }
        }
        state.blocked -= 1;
        status
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

    /// Runs what was submitted and ends the workers; twice is nothing.
    pub(crate) fn stop(&self) {
        let workers: Vec<JoinHandle<()>> = {
            let mut state = self.state.lock();
            state.stopping = true;
            state.queues.iter_mut().filter_map(|queue| queue.worker.take()).collect()
        };
        self.changed.notify_all();
        for worker in workers {
            // A kernel may hold the last owner of the backend: its worker cannot wait for itself.
            if worker.thread().id() != std::thread::current().id() {
                let _ = worker.join();
            }
        }
    }
}
