//! The gate: counts calls that are inside the engine, so that closing can wait for the last to leave.
//!
//! Not here: who may enter (`engine/mod.rs`).

use std::cell::RefCell;
use std::time::Instant;

use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::sync::{Condvar, Mutex, thread_local};

thread_local! {
    /// The gates that this thread is inside of, by address.
    static INSIDE: RefCell<Vec<usize>> = RefCell::new(Vec::new());
}

#[derive(Default)]
pub(crate) struct Gate {
    inside: AtomicUsize,
    awaited: AtomicBool,
    lock: Mutex<()>,
    left: Condvar,
}

/// One call inside the engine.
pub(crate) struct Pass<'a> {
    gate: &'a Gate,
}

impl Gate {
    /// Counts a call in. The caller checks the phase afterwards: a close that began before sees the count,
    /// one that begins later is seen by the check (both sides are sequentially consistent).
    pub(crate) fn enter(&self) -> Pass<'_> {
        self.inside.fetch_add(1, Ordering::SeqCst);
        // Handles are dropped by destructors of thread-locals too, when the count may be gone already.
        let _ = INSIDE.try_with(|inside| inside.borrow_mut().push(self.address()));
        Pass { gate: self }
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// True while this thread is inside.
    pub(crate) fn is_thread_inside(&self) -> bool {
        INSIDE.try_with(|inside| inside.borrow().contains(&self.address())).unwrap_or(false)
    }

    /// Waits until nobody but `own` calls of this thread are inside. False if the time was over first.
    pub(crate) fn wait_empty(&self, own: usize, deadline: Option<Instant>) -> bool {
        self.awaited.store(true, Ordering::SeqCst);
        let mut guard = self.lock.lock();
        while self.inside.load(Ordering::SeqCst) > own {
            match deadline {
                None => self.left.wait(&mut guard),
                Some(at) => {
                    if self.left.wait_until(&mut guard, at).timed_out() {
                        return self.inside.load(Ordering::SeqCst) <= own;
                    }
                }
            }
        }
        true
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        let _ = INSIDE.try_with(|inside| {
            let mut inside = inside.borrow_mut();
            // The one that was entered last, but where two engines' calls end in another order.
            if inside.last() == Some(&self.gate.address()) {
                inside.pop();
            } else if let Some(at) = inside.iter().rposition(|gate| *gate == self.gate.address()) {
                inside.remove(at);
            }
        });
        self.gate.inside.fetch_sub(1, Ordering::SeqCst);
        // Only a closing engine waits here: a lock is taken only when the count may matter to it.
        if self.gate.awaited.load(Ordering::SeqCst) {
            let _guard = self.gate.lock.lock();
            self.gate.left.notify_all();
        }
    }
}
