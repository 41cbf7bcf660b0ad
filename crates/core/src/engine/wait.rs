//! Blocking a thread on a future: a plain executor of one thread, which runs queued cleanup work while it
//! waits where nobody else would (L15).

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use crate::engine::Engine;
use crate::engine::quiet::quietly;
use crate::sync::{Condvar, Mutex};

/// One thread's place to sleep.
#[derive(Default)]
pub(crate) struct Parker {
    awake: Mutex<bool>,
    condition: Condvar,
}

impl Parker {
    pub(crate) fn unpark(&self) {
        *self.awake.lock() = true;
        self.condition.notify_all();
    }

    /// Sleeps until unparked, or until `deadline`; false if the time was over.
    pub(crate) fn park(&self, deadline: Option<Instant>) -> bool {
        let mut awake = self.awake.lock();
        while !*awake {
            match deadline {
                None => self.condition.wait(&mut awake),
                Some(at) => {
                    if self.condition.wait_until(&mut awake, at).timed_out() {
                        break;
                    }
                }
            }
        }
        std::mem::take(&mut *awake)
    }
}

impl Wake for Parker {
    fn wake(self: Arc<Self>) {
        self.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.unpark();
    }
}

impl Engine {
    /// Runs `future` to its end on this thread; `None` if `deadline` came first.
    ///
    /// On the cleanup thread, and where there are no threads, queued cleanup work runs inline while the
    /// future is pending: nobody else would run it.
    pub(crate) fn block_on<F: Future>(
        self: &Arc<Self>,
        future: F,
        deadline: Option<Instant>,
    ) -> Option<F::Output> {
        let mut future = pin!(future);
        let parker = Arc::new(Parker::default());
        let waker = Waker::from(parker.clone());
        let mut context = Context::from_waker(&waker);
        let mut sleeper = None;
        loop {
            if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                return Some(output);
            }
            if deadline.is_some_and(|at| Instant::now() >= at) {
                return None;
            }
            // Asked anew each turn: a hook that outlived its deadline meanwhile serves nobody any more (L16).
            if self.serves_cleanup_here() {
                sleeper.get_or_insert_with(|| self.cleanup.sleeper(&parker));
                if self.run_inline() {
                    continue;
                }
            } else {
                sleeper = None;
            }
            if self.options.threads {
                parker.park(deadline);
            } else {
                self.drive_or_park(&parker, deadline);
            }
        }
    }

    /// Without threads: waits for the device if it has work, else sleeps until another thread unparks.
    fn drive_or_park(self: &Arc<Self>, parker: &Parker, deadline: Option<Instant>) {
        if self.retire_and_queue_hooks() > 0 {
            return;
        }
        let targets = self.next_targets();
        if targets.is_empty() {
            parker.park(deadline);
            return;
        }
        let timeout = deadline.map(|at| at.saturating_duration_since(Instant::now()));
        self.wait_device(&targets, timeout);
        self.retire_and_queue_hooks();
    }
}

/// The moment `after` from now; `None` where that is beyond what the clock can say.
pub(crate) fn deadline_after(after: Duration) -> Option<Instant> {
    Instant::now().checked_add(after)
}

/// Wakes everybody. A waker is foreign code: one that panics keeps no other asleep. The caller holds no lock (L15).
pub(crate) fn wake_each(wakers: impl IntoIterator<Item = Waker>) {
    for waker in wakers {
        if quietly(|| waker.wake()).is_none() {
            tracing::error!(target: "tenure", "a waker panicked");
        }
    }
}
