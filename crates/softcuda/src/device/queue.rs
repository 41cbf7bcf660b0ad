//! A queue of tasks with a thread of its own, which is made for the first task.
//!
//! Not here: what tasks do.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

use parking_lot::{Condvar, Mutex};

use super::completion::Completion;
use crate::code::{Answer, Code};
use crate::modes::random::Random;

/// The most yields before a task when delays are on.
const YIELDS: u64 = 24;

/// A piece of work for a queue's thread.
pub struct Task {
    /// What has to be over before it starts.
    pub after: Vec<Arc<Completion>>,
    /// What it does. It does not panic.
    pub work: Box<dyn FnOnce() + Send>,
    /// Over when the work is.
    pub done: Arc<Completion>,
}

/// A queue of tasks: they run one after the other, in the order in which they came.
#[derive(Debug)]
pub struct Queue {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// Tells the delays of this queue from those of others.
    number: u64,
}

#[derive(Debug, Default)]
struct Shared {
    tasks: Mutex<Tasks>,
    arrived: Condvar,
}

#[derive(Default)]
struct Tasks {
    waiting: VecDeque<Task>,
    closed: bool,
}

impl std::fmt::Debug for Tasks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tasks").field("waiting", &self.waiting.len()).field("closed", &self.closed).finish()
    }
}

impl Queue {
    /// An empty queue. It has no thread yet.
    pub fn new(number: u64) -> Queue {
        Queue { shared: Arc::default(), thread: None, number }
    }

    /// Makes sure that there is a thread.
    ///
    /// # Errors
    /// `OPERATING_SYSTEM` if none can be made.
    pub fn start(&mut self, seed: impl Fn() -> u64 + Send + 'static) -> Answer {
        if self.thread.is_none() {
            let (shared, number) = (self.shared.clone(), self.number);
            let body = move || run(&shared, number, &seed);
            let thread = Builder::new().name(format!("softcuda {number}")).spawn(body);
            self.thread = Some(thread.map_err(|_| Code::OPERATING_SYSTEM)?);
        }
        Ok(())
    }

    /// Adds a task. The queue was started.
    pub fn push(&self, task: Task) {
        debug_assert!(self.thread.is_some());
        self.shared.tasks.lock().waiting.push_back(task);
        self.shared.arrived.notify_one();
    }

    /// No tasks come any more: the thread ends after those that are there.
    pub fn close(&self) {
        self.shared.tasks.lock().closed = true;
        self.shared.arrived.notify_one();
    }

    /// Waits for the thread of a queue that was closed.
    pub fn join(self) {
        if let Some(thread) = self.thread {
            // A task does not panic, so there is nothing to learn from the answer.
            let _ = thread.join();
        }
    }
}

fn run(shared: &Shared, number: u64, seed: &dyn Fn() -> u64) {
    let mut random: Option<(u64, Random)> = None;
    while let Some(task) = next(shared) {
        for completion in task.after {
            completion.wait();
        }
        match seed() {
            0 => random = None,
            seed => {
                if random.as_ref().is_none_or(|(old, _)| *old != seed) {
                    random = Some((seed, Random::new(seed, number)));
                }
            }
        }
        if let Some((_, random)) = &mut random {
            for _ in 0..random.below(YIELDS) {
                std::thread::yield_now();
            }
        }
        (task.work)();
        task.done.finish();
    }
}

fn next(shared: &Shared) -> Option<Task> {
    let mut tasks = shared.tasks.lock();
    loop {
        if let Some(task) = tasks.waiting.pop_front() {
            return Some(task);
        }
        if tasks.closed {
            return None;
        }
        shared.arrived.wait(&mut tasks);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(after: Vec<Arc<Completion>>, work: impl FnOnce() + Send + 'static) -> (Task, Arc<Completion>) {
        let done = Completion::new();
        (Task { after, work: Box::new(work), done: done.clone() }, done)
    }

    #[test]
    fn tasks_run_in_order_and_after_what_they_wait_for() {
        let (mut one, mut two) = (Queue::new(1), Queue::new(2));
        one.start(|| 7).unwrap();
        two.start(|| 0).unwrap();
        let log = Arc::new(Mutex::new(Vec::new()));
        let gate = Completion::new();
        let write = |what: &'static str| {
            let log = log.clone();
            move || log.lock().push(what)
        };
        let (first, first_done) = task(vec![gate.clone()], write("first"));
        let (second, _) = task(vec![first_done], write("second"));
        let (third, third_done) = task(Vec::new(), write("third"));
        two.push(second);
        two.push(third);
        one.push(first);
        assert!(!third_done.is_done());
        gate.finish();
        third_done.wait();
        one.close();
        two.close();
        one.join();
        two.join();
        assert_eq!(*log.lock(), ["first", "second", "third"]);
    }

    #[test]
    fn closing_runs_what_is_there() {
        let mut queue = Queue::new(1);
        queue.start(|| 0).unwrap();
        let (last, done) = task(Vec::new(), || ());
        queue.push(last);
        queue.close();
        queue.join();
        assert!(done.is_done());
    }
}
