//! A condition variable for parking_lot's mutexes that a fork can live with.
//!
//! parking_lot keeps the threads that wait in a table of the process, linked through their own memory. A fork inherits the
//! table without the threads, and its new threads are given that memory: then the links make a loop, and whoever comes to
//! them never comes back. tenure's threads wait here for most of their lives, so they wait by the standard library, which has
//! no such table. A mutex is waited for a moment only. Not here: what is waited for.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar as StdCondvar, Mutex as StdMutex, MutexGuard as StdMutexGuard, PoisonError};
use std::time::Instant;

use parking_lot::MutexGuard;

/// As parking_lot's condition variable, for threads that may wait while the process forks.
///
/// Whoever changes what is waited for does so with the mutex locked, and notifies then or afterwards.
#[derive(Debug, Default)]
pub struct Condvar {
    /// How often everybody was woken. Locked by a waiter before it unlocks the mutex: no wake falls in between.
    wakes: StdMutex<u64>,
    woken: StdCondvar,
    /// Threads that wait, so that waking nobody costs nothing. Changed with the mutex locked.
    waiters: AtomicUsize,
}

/// How a wait with a deadline ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    /// Whether the time was over first.
    pub fn timed_out(&self) -> bool {
        self.0
    }
}

impl Condvar {
    /// Nobody waits.
    pub const fn new() -> Self {
        Condvar { wakes: StdMutex::new(0), woken: StdCondvar::new(), waiters: AtomicUsize::new(0) }
    }

    /// Unlocks the mutex, waits to be woken, and locks it again.
    pub fn wait<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>) {
        self.wait_in(guard, None);
    }

    /// The same, until a moment at the latest.
    pub fn wait_until<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        deadline: Instant,
    ) -> WaitTimeoutResult {
        WaitTimeoutResult(!self.wait_in(guard, Some(deadline)))
    }

    /// False if the time was over first.
    fn wait_in<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, deadline: Option<Instant>) -> bool {
        self.waiters.fetch_add(1, Ordering::Relaxed);
        let mut wakes = self.lock_wakes();
        let seen = *wakes;
        let in_time = MutexGuard::unlocked(guard, || {
            while *wakes == seen {
                wakes = match deadline {
                    None => self.woken.wait(wakes).unwrap_or_else(PoisonError::into_inner),
                    Some(at) => {
                        let left = at.saturating_duration_since(Instant::now());
                        if left.is_zero() {
                            return false;
                        }
                        self.woken.wait_timeout(wakes, left).unwrap_or_else(PoisonError::into_inner).0
                    }
                };
            }
            // Let go before the mutex is locked: whoever notifies takes them the other way round.
            drop(wakes);
            true
        });
        self.waiters.fetch_sub(1, Ordering::Relaxed);
        in_time
    }

    /// Wakes everybody who waits.
    pub fn notify_all(&self) {
        // The mutex orders this after the wait of whoever has not seen the change.
        if self.waiters.load(Ordering::Relaxed) > 0 {
            *self.lock_wakes() += 1;
            self.woken.notify_all();
        }
    }

    fn lock_wakes(&self) -> StdMutexGuard<'_, u64> {
        // Nothing panics while it is locked.
        self.wakes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;
    use std::time::Duration;

    use parking_lot::Mutex;

    use super::*;

    #[test]
    fn no_wake_is_lost() {
        let shared = Arc::new((Mutex::new(0_u32), Condvar::new()));
        let threads: Vec<_> = (0..4)
            .map(|own| {
                let shared = shared.clone();
                thread::spawn(move || {
                    let (turn, changed) = &*shared;
                    for _ in 0..2_000 {
                        let mut turn = turn.lock();
                        while *turn % 4 != own {
                            changed.wait(&mut turn);
                        }
                        *turn += 1;
                        drop(turn);
                        changed.notify_all();
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(*shared.0.lock(), 8_000);
        assert_eq!(shared.1.waiters.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_wait_ends_with_its_time() {
        let (mutex, changed) = (Mutex::new(()), Condvar::new());
        let mut guard = mutex.lock();
        let past = Instant::now();
        assert!(changed.wait_until(&mut guard, past).timed_out());
        assert!(changed.wait_until(&mut guard, past + Duration::from_millis(1)).timed_out());
        changed.notify_all();
    }
}
