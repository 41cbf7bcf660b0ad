//! Locks, condition variables, atomics and threads: parking_lot's and std's, or shuttle's under the
//! feature `shuttle`, which explores interleavings of the real engine.
//!
//! Everything that core shares between threads comes from here.

#[cfg(not(feature = "shuttle"))]
mod real {
    pub(crate) use crate::condvar::Condvar;
    pub(crate) use parking_lot::{Mutex, MutexGuard};
    pub(crate) use std::sync::atomic;
    pub(crate) use std::thread;
    pub(crate) use std::thread_local;

    use std::cell::Cell;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Numbers the threads that ask, from 0.
    pub(crate) fn thread_number() -> usize {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        thread_local! {
            /// Beyond all numbers: none yet. Without a lazy beginning, which each call would ask for.
            static NUMBER: Cell<usize> = const { Cell::new(usize::MAX) };
        }
        // Plain data: a destructor of another thread-local still finds it.
        NUMBER.with(|number| {
            if number.get() == usize::MAX {
                number.set(NEXT.fetch_add(1, Ordering::Relaxed));
            }
            number.get()
        })
    }
}

#[cfg(feature = "shuttle")]
mod modelled {
    use std::ops::{Deref, DerefMut};
    use std::time::Instant;

    pub(crate) use shuttle::sync::atomic;
    pub(crate) use shuttle::thread;
    pub(crate) use shuttle::thread_local;

    /// Numbers threads the same way in every run of one schedule.
    pub(crate) fn thread_number() -> usize {
        shuttle::current::me().into()
    }

    /// shuttle's mutex with parking_lot's signatures.
    #[derive(Debug, Default)]
    pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

    pub(crate) struct MutexGuard<'a, T>(Option<shuttle::sync::MutexGuard<'a, T>>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Mutex(shuttle::sync::Mutex::new(value))
        }

        pub(crate) fn get_mut(&mut self) -> &mut T {
            self.0.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner())
        }

        pub(crate) fn into_inner(self) -> T {
            self.0.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner())
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            MutexGuard(Some(self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())))
        }
    }

    impl<T> Deref for MutexGuard<'_, T> {
        type Target = T;

        fn deref(&self) -> &T {
            self.0.as_ref().expect("the guard is only empty inside a wait")
        }
    }

    impl<T> DerefMut for MutexGuard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            self.0.as_mut().expect("the guard is only empty inside a wait")
        }
    }

    /// shuttle's condition variable with parking_lot's signatures. Timed waits do not time out.
    #[derive(Debug, Default)]
    pub(crate) struct Condvar(shuttle::sync::Condvar);

    pub(crate) struct WaitTimeoutResult;

    impl WaitTimeoutResult {
        pub(crate) fn timed_out(&self) -> bool {
            false
        }
    }

    impl Condvar {
        pub(crate) fn new() -> Self {
            Condvar(shuttle::sync::Condvar::new())
        }

        pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
            let held = guard.0.take().expect("the guard is only empty inside a wait");
            guard.0 = Some(self.0.wait(held).unwrap_or_else(|poisoned| poisoned.into_inner()));
        }

        pub(crate) fn wait_until<T>(
            &self,
            guard: &mut MutexGuard<'_, T>,
            _deadline: Instant,
        ) -> WaitTimeoutResult {
            self.wait(guard);
            WaitTimeoutResult
        }

        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }
    }
}

/// A borrow flag across threads: only ever tried, so nobody waits in it, and shuttle need not model it.
pub(crate) use parking_lot::RwLock as BorrowLock;

#[cfg(feature = "shuttle")]
pub(crate) use modelled::*;
#[cfg(not(feature = "shuttle"))]
pub(crate) use real::*;
