//! Queues: one worker thread each, made at the first submission, and the timelines that they move.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tenure_core::backend::{Condvar, QueueId, TimelinePoint, WaitStatus};

use crate::sequence::Work;

/// Everything that moves: what each queue has completed, and who is told.
#[derive(Debug)]
pub(crate) struct Timelines {
    state: Mutex<State>,
    /// Work was submitted, or the end was. Idle workers wait here.
    arrived: Condvar,
    /// A queue completed something, or a wait is to end. One for all queues: a wait may name several.
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
        Arc::new(Timelines { state: Mutex::new(state), arrived: Condvar::new(), changed: Condvar::new() })
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
        self.arrived.notify_all();
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
                    self.arrived.wait(&mut state);
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
                let never = state.stopping && state.queues[wait.queue.0 as usize].submitted < wait.value;
                if never || state.has_reached(*wait) {
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
        let mut in_time = true;
        // What happened counts before the time: an interrupt that came with the last moment is not lost.
        let status = loop {
            if state.interrupts != interrupts || targets.iter().any(|target| state.has_reached(*target)) {
                break WaitStatus::Woken;
            }
            if !in_time {
                break WaitStatus::TimedOut;
            }
            match deadline {
                None => self.changed.wait(&mut state),
                Some(at) => in_time = !self.changed.wait_until(&mut state, at).timed_out(),
            }
        };
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

    /// Runs what was submitted and ends the workers; twice is nothing. On a worker it only tells them to end.
    pub(crate) fn stop(&self) {
        let workers: Vec<JoinHandle<()>> = {
            let mut state = self.state.lock();
            state.stopping = true;
            state.queues.iter_mut().filter_map(|queue| queue.worker.take()).collect()
        };
        self.arrived.notify_all();
        self.changed.notify_all();
        // A kernel may hold the last owner of the backend. Its worker cannot wait for itself, nor for another one,
        // which may be waiting for what this one runs.
        let current = std::thread::current().id();
        if workers.iter().any(|worker| worker.thread().id() == current) {
            return;
        }
        for worker in workers {
            // It ends without a panic: `Work::run` lets none through.
            let _ = worker.join();
        }
    }
}

impl State {
    fn has_reached(&self, point: TimelinePoint) -> bool {
        self.queues[point.queue.0 as usize].completed >= point.value
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::backend::{Device, HostBackend, HostOptions};
    use crate::sequence::testing::{calling, point};

    fn device(queues: u32) -> Arc<Device> {
        Arc::new(Device::new(HostOptions::builder().queues(queues).build()))
    }

    /// Waits for a state that another thread is on its way to.
    fn until(timelines: &Timelines, reached: impl Fn(&State) -> bool) {
        while !reached(&timelines.state.lock()) {
            std::thread::yield_now();
        }
    }

    type Call = Box<dyn Fn() + Send + Sync>;

    /// A log, and a function that makes calls which write a number to it.
    fn log() -> (Arc<Mutex<Vec<u64>>>, impl Fn(u64) -> Call) {
        let log = Arc::new(Mutex::new(Vec::new()));
        let notes = log.clone();
        let note = move |number| -> Call {
            let notes = notes.clone();
            Box::new(move || notes.lock().push(number))
        };
        (log, note)
    }

    /// A call that blocks until told to go.
    fn gate() -> (mpsc::Sender<()>, impl Fn() + Send + Sync) {
        let (go, gone) = mpsc::channel();
        let gone = Mutex::new(gone);
        (go, move || gone.lock().recv().expect("told to go"))
    }

    #[test]
    fn a_queue_runs_in_order_on_a_thread_made_at_first_need() {
        let device = device(2);
        let timelines = &device.timelines;
        let (log, note) = log();
        assert!(timelines.state.lock().queues.iter().all(|queue| queue.worker.is_none()));
        for value in 1..=100 {
            calling(&device, 1, note(value)).send(point(1, value), &[]).expect("submitted");
        }
        while timelines.completed(QueueId(1)) < 100 {
            let target = point(1, timelines.completed(QueueId(1)) + 1);
            assert_eq!(timelines.wait_any(&[target], None), WaitStatus::Woken);
        }
        assert_eq!(*log.lock(), (1..=100).collect::<Vec<_>>());
        let made: Vec<bool> =
            timelines.state.lock().queues.iter().map(|queue| queue.worker.is_some()).collect();
        assert_eq!(made, [false, true]);
        timelines.stop();
    }

    #[test]
    fn work_waits_for_the_points_of_other_queues() {
        let device = device(3);
        let (log, note) = log();
        let (go, gated) = gate();
        calling(&device, 0, gated).send(point(0, 1), &[]).expect("submitted");
        calling(&device, 0, note(1)).send(point(0, 2), &[]).expect("submitted");
        calling(&device, 1, note(2)).send(point(1, 1), &[point(0, 2)]).expect("submitted");
        calling(&device, 2, note(3)).send(point(2, 1), &[point(1, 1), point(0, 1)]).expect("submitted");
        assert_eq!(device.timelines.completed(QueueId(2)), 0);
        go.send(()).expect("the gate listens");
        assert_eq!(device.timelines.wait_any(&[point(2, 1)], None), WaitStatus::Woken);
        assert_eq!(*log.lock(), [1, 2, 3]);
        device.timelines.stop();
    }

    #[test]
    fn one_target_of_several_is_enough() {
        let device = device(2);
        let (go, gated) = gate();
        calling(&device, 0, gated).send(point(0, 1), &[]).expect("submitted");
        calling(&device, 1, || ()).send(point(1, 1), &[]).expect("submitted");
        assert_eq!(device.timelines.wait_any(&[point(0, 1), point(1, 1)], None), WaitStatus::Woken);
        assert_eq!(device.timelines.completed(QueueId(0)), 0);
        go.send(()).expect("the gate listens");
        device.timelines.stop();
        assert_eq!(device.timelines.completed(QueueId(0)), 1);
    }

    #[test]
    fn an_interrupt_that_finds_nobody_ends_the_next_wait_only() {
        let timelines = Timelines::new(1);
        let wait = |timeout| timelines.wait_any(&[], timeout);
        timelines.interrupt();
        timelines.interrupt();
        assert_eq!(wait(None), WaitStatus::Woken);
        assert_eq!(wait(Some(Duration::ZERO)), WaitStatus::TimedOut);
    }

    #[test]
    fn an_interrupt_ends_every_wait_that_is_blocked() {
        let timelines = &Timelines::new(1);
        std::thread::scope(|threads| {
            let waits: Vec<_> = [None, None, Some(Duration::from_secs(3600)), Some(Duration::MAX)]
                .into_iter()
                .map(|timeout| threads.spawn(move || timelines.wait_any(&[point(0, 1)], timeout)))
                .collect();
            until(timelines, |state| state.blocked == 4);
            timelines.interrupt();
            for wait in waits {
                assert_eq!(wait.join().expect("no panic"), WaitStatus::Woken);
            }
        });
        // Nothing is left of it for the next one.
        assert_eq!(timelines.wait_any(&[], Some(Duration::ZERO)), WaitStatus::TimedOut);
    }

    #[test]
    fn what_has_completed_counts_before_the_time() {
        let device = device(1);
        let wait = |value| device.timelines.wait_any(&[point(0, value)], Some(Duration::ZERO));
        assert_eq!(wait(1), WaitStatus::TimedOut);
        calling(&device, 0, || ()).send(point(0, 1), &[]).expect("submitted");
        device.timelines.stop();
        assert_eq!(wait(1), WaitStatus::Woken);
        assert_eq!(wait(2), WaitStatus::TimedOut);
    }

    #[test]
    fn stopping_runs_what_was_submitted() {
        let device = device(2);
        let timelines = &device.timelines;
        let (log, note) = log();
        let (go, gated) = gate();
        calling(&device, 0, gated).send(point(0, 1), &[]).expect("submitted");
        for value in 2..=10 {
            calling(&device, 0, note(value)).send(point(0, value), &[]).expect("submitted");
        }
        calling(&device, 1, note(11)).send(point(1, 1), &[point(0, 10)]).expect("submitted");
        std::thread::scope(|threads| {
            threads.spawn(move || {
                until(timelines, |state| state.stopping);
                go.send(()).expect("the gate listens");
            });
            timelines.stop();
        });
        assert_eq!(*log.lock(), (2..=11).collect::<Vec<_>>());
        timelines.stop();
    }

    #[test]
    fn stopping_ends_a_wait_for_what_was_never_submitted() {
        let device = device(2);
        let (log, note) = log();
        calling(&device, 1, note(1)).send(point(1, 1), &[point(0, 1)]).expect("submitted");
        device.timelines.stop();
        assert_eq!(*log.lock(), [1]);
    }

    #[test]
    #[should_panic(expected = "after shutdown")]
    fn nothing_is_submitted_to_a_stopped_backend() {
        let device = device(1);
        device.timelines.stop();
        let _ = calling(&device, 0, || ()).send(point(0, 1), &[]);
    }

    #[test]
    #[should_panic(expected = "points of queue 0 rise")]
    fn points_rise() {
        let device = device(1);
        let sequence = calling(&device, 0, || ());
        sequence.send(point(0, 2), &[]).expect("submitted");
        let _ = sequence.send(point(0, 2), &[]);
    }

    #[test]
    fn a_kernel_may_drop_the_backend_while_another_queue_waits_for_it() {
        let backend = HostBackend::new();
        let device = backend.device().clone();
        let (give, given) = mpsc::channel::<HostBackend>();
        let given = Mutex::new(given);
        let drops = move || drop(given.lock().recv().expect("the backend"));
        calling(&device, 0, drops).send(point(0, 1), &[]).expect("submitted");
        calling(&device, 1, || ()).send(point(1, 1), &[point(0, 1)]).expect("submitted");
        give.send(backend).expect("the kernel listens");
        assert_eq!(device.timelines.wait_any(&[point(1, 1)], None), WaitStatus::Woken);
    }
}
