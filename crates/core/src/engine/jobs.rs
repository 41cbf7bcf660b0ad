//! The queue of cleanup work: what is to do, who does it, and who sleeps until there is some.
//!
//! Not here: doing it (`engine/threads.rs`).

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use crate::engine::adoption::AdoptedMemory;
use crate::engine::driver::NativeKernel;
use crate::engine::finish::Mode;
use crate::engine::scopes::ScopeCell;
use crate::engine::wait::Parker;
use crate::sync::{Condvar, Mutex};

/// One piece of work for the cleanup thread.
pub(crate) enum Job {
    /// Go on with this scope: its due execution hooks, or its finish. Polled once; what is pending puts itself back.
    Scope(Arc<ScopeCell>, Mode),
    /// A kernel that nothing names any more.
    DestroyKernel(Arc<NativeKernel>),
    /// Memory of the host engine that the device has finished with.
    Release(AdoptedMemory),
    /// The last manager handle is gone.
    Close,
}

/// Work for the cleanup thread, and who sleeps until there is some.
#[derive(Default)]
pub(crate) struct CleanupQueue {
    inner: Mutex<QueueInner>,
    ready: Condvar,
}

#[derive(Default)]
struct QueueInner {
    jobs: VecDeque<Job>,
    /// Threads that wait for something else and run jobs meanwhile.
    sleepers: Vec<Weak<Parker>>,
    /// The cleanup thread with another number is detached.
    generation: u64,
    stopped: bool,
}

impl QueueInner {
    /// Closing is no job to run inside a wait: it would wait for the waiting hook.
    fn inline_job(&self) -> Option<usize> {
        self.jobs.iter().position(|job| !matches!(job, Job::Close))
    }
}

/// Keeps a parker among the sleepers.
pub(crate) struct Sleeper<'a> {
    queue: &'a CleanupQueue,
    parker: Weak<Parker>,
}

impl Drop for Sleeper<'_> {
    fn drop(&mut self) {
        self.queue.inner.lock().sleepers.retain(|known| !known.ptr_eq(&self.parker));
    }
}

impl CleanupQueue {
    pub(crate) fn try_pop(&self) -> Option<Job> {
        self.inner.lock().jobs.pop_front()
    }

    /// A job to run inside a wait, unless this is the cleanup thread of an older `generation`.
    pub(crate) fn try_pop_inline(&self, generation: Option<u64>) -> Option<Job> {
        let mut inner = self.inner.lock();
        if generation.is_some_and(|generation| generation != inner.generation) {
            return None;
        }
        let at = inner.inline_job()?;
        inner.jobs.remove(at)
    }

    pub(crate) fn has_inline_job(&self) -> bool {
        self.inner.lock().inline_job().is_some()
    }

    pub(crate) fn len(&self) -> usize {
        self.inner.lock().jobs.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Unparks `parker` whenever a job arrives.
    pub(crate) fn sleeper(&self, parker: &Arc<Parker>) -> Sleeper<'_> {
        let parker = Arc::downgrade(parker);
        self.inner.lock().sleepers.push(parker.clone());
        Sleeper { queue: self, parker }
    }

    pub(crate) fn push(&self, job: Job) {
        let sleepers: Vec<Arc<Parker>> = {
            let mut inner = self.inner.lock();
            inner.jobs.push_back(job);
            inner.sleepers.iter().filter_map(Weak::upgrade).collect()
        };
        self.ready.notify_all();
        for parker in sleepers {
            parker.unpark();
        }
    }

    /// The next job for the thread of this generation; none once it is detached or stopped.
    pub(crate) fn pop(&self, generation: u64) -> Option<Job> {
        let mut inner = self.inner.lock();
        loop {
            if inner.generation != generation {
                return None;
            }
            if let Some(job) = inner.jobs.pop_front() {
                return Some(job);
            }
            if inner.stopped {
                return None;
            }
            self.ready.wait(&mut inner);
        }
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.inner.lock().stopped
    }

    pub(crate) fn stop(&self) {
        self.inner.lock().stopped = true;
        self.ready.notify_all();
    }

    /// Another cleanup thread takes the place of the one of generation `old`: its number; none if one has already.
    pub(crate) fn take_over(&self, old: u64) -> Option<u64> {
        let generation = {
            let mut inner = self.inner.lock();
            if inner.generation != old {
                return None;
            }
            inner.generation += 1;
            inner.generation
        };
        self.ready.notify_all();
        Some(generation)
    }

    pub(crate) fn generation(&self) -> u64 {
        self.inner.lock().generation
    }
}
