//! Blocking a thread on a future: a plain executor of one thread, which runs queued cleanup work while it
//! waits where nobody else would (L15).

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use crate::engine::Engine;
use crate::engine::wakers::NOBODY;
use crate::sync::{Condvar, Mutex};

/// One thread's place to sleep.
pub(crate) struct Parker {
    state: Mutex<ParkerState>,
    condition: Condvar,
    engine: Weak<Engine>,
}

#[derive(Default)]
struct ParkerState {
    awake: bool,
    /// It sleeps on the device, from where only an interrupt brings it back.
    on_device: bool,
}

impl Parker {
    fn new(engine: &Arc<Engine>) -> Self {
        Parker {
            state: Mutex::new(ParkerState::default()),
            condition: Condvar::new(),
            engine: Arc::downgrade(engine),
        }
    }

    pub(crate) fn unpark(&self) {
        let on_device = {
            let mut state = self.state.lock();
            state.awake = true;
            state.on_device
        };
        self.condition.notify_all();
        if on_device
            && let Some(engine) = self.engine.upgrade()
            && let Some(_pass) = engine.driver_pass()
        {
            engine.driver.interrupt();
        }
    }

    /// About to sleep on the device. False if somebody has unparked it: that counts as having slept.
    fn enter_device(&self) -> bool {
        let mut state = self.state.lock();
        state.on_device = !std::mem::take(&mut state.awake);
        state.on_device
    }

    fn leave_device(&self) {
        let mut state = self.state.lock();
        state.on_device = false;
        state.awake = false;
    }

    /// Sleeps until unparked, or until `deadline`; false if the time was over.
    pub(crate) fn park(&self, deadline: Option<Instant>) -> bool {
        let mut state = self.state.lock();
        while !state.awake {
            match deadline {
                None => self.condition.wait(&mut state),
                Some(at) => {
                    if self.condition.wait_until(&mut state, at).timed_out() {
                        break;
                    }
                }
            }
        }
        std::mem::take(&mut state.awake)
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
        // What is there at once needs nobody who sleeps and is woken.
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(NOBODY)) {
            return Some(output);
        }
        let parker = Arc::new(Parker::new(self));
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
            // A waker on the timeline thread may wait too: nobody else would retire meanwhile (L15).
            if self.options.threads && !self.on_timeline_thread() {
                parker.park(deadline);
            } else {
                self.drive_or_park(&parker, deadline);
            }
        }
    }

    /// Where nobody else retires: waits for the device if it has work, else sleeps until another thread unparks.
    fn drive_or_park(self: &Arc<Self>, parker: &Parker, deadline: Option<Instant>) {
        if self.retire_and_queue_hooks() > 0 {
            return;
        }
        let targets = self.next_targets();
        if targets.is_empty() {
            parker.park(deadline);
            return;
        }
        // With a time, so that it can be unparked.
        let left = deadline.map_or(Duration::MAX, |at| at.saturating_duration_since(Instant::now()));
        if parker.enter_device() {
            self.wait_device(&targets, Some(left));
            parker.leave_device();
        }
        self.retire_and_queue_hooks();
    }
}

/// The moment `after` from now; `None` where that is beyond what the clock can say.
pub(crate) fn deadline_after(after: Duration) -> Option<Instant> {
    Instant::now().checked_add(after)
}
