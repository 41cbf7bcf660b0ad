//! The watchdog: a thread that ends the process when a case runs for too long, after saying which.
//!
//! A case that hangs cannot be stopped, only left: so the process ends. Not here: what is said (`harness.rs`).

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// Watches the cases that run.
pub(crate) struct Watchdog {
    shared: Arc<Shared>,
    limit: Duration,
    thread: Option<thread::JoinHandle<()>>,
}

struct Shared {
    watched: Mutex<Watched>,
    changed: Condvar,
}

#[derive(Default)]
struct Watched {
    /// Case and the moment at which it has run for too long, in the order of their begin.
    running: Vec<(u64, &'static str, Instant)>,
    last: u64,
    stopped: bool,
}

/// A case that is being watched. Ends with the guard.
pub(crate) struct Watch<'a> {
    shared: &'a Shared,
    number: u64,
}

impl Watchdog {
    /// Calls `expired` with the id of the first case that runs for longer than `limit`.
    pub(crate) fn new(limit: Duration, expired: impl FnOnce(&'static str) + Send + 'static) -> Self {
        let shared = Arc::new(Shared { watched: Mutex::new(Watched::default()), changed: Condvar::new() });
        let watched = shared.clone();
        let thread = thread::Builder::new()
            .name("conformance-watchdog".to_owned())
            .spawn(move || {
                if let Some(id) = watched.wait_for_expiry() {
                    expired(id);
                }
            })
            .expect("the system gives a thread for the watchdog");
        Watchdog { shared, limit, thread: Some(thread) }
    }

    /// Watches a case while the guard lives.
    pub(crate) fn watch(&self, id: &'static str) -> Watch<'_> {
        let number = {
            let mut watched = self.shared.watched.lock();
            watched.last += 1;
            let number = watched.last;
            // A moment beyond what the clock can say is no limit.
            if let Some(at) = Instant::now().checked_add(self.limit) {
                watched.running.push((number, id, at));
            }
            number
        };
        self.shared.changed.notify_all();
        Watch { shared: &self.shared, number }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.shared.watched.lock().stopped = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        self.shared.watched.lock().running.retain(|(number, ..)| *number != self.number);
    }
}

impl Shared {
    fn wait_for_expiry(&self) -> Option<&'static str> {
        let mut watched = self.watched.lock();
        loop {
            if watched.stopped {
                return None;
            }
            match watched.running.first().copied() {
                None => self.changed.wait(&mut watched),
                Some((_, id, at)) if at <= Instant::now() => return Some(id),
                Some((.., at)) => {
                    self.changed.wait_until(&mut watched, at);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_case_that_runs_for_too_long_is_named() {
        let (sender, expired) = mpsc::channel();
        let watchdog = Watchdog::new(Duration::from_millis(1), move |id| sender.send(id).unwrap());
        let _watch = watchdog.watch("loss/hangs");
        assert_eq!(expired.recv(), Ok("loss/hangs"));
    }

    #[test]
    fn a_case_that_ends_is_not() {
        let (sender, expired) = mpsc::channel();
        let watchdog = Watchdog::new(Duration::from_secs(3600), move |id| sender.send(id).unwrap());
        drop(watchdog.watch("loss/quick"));
        drop(watchdog);
        // The sender went with the watchdog, and nothing was sent.
        assert!(expired.recv().is_err());
    }
}
