//! Who waits: lists of wakers, one a waiter, so that polling again with another waker leaves nothing behind (L18).
//!
//! A waker is foreign code. It is cloned where a [`Waiter`] is made, and dropped and woken by callers that hold no lock
//! (L15); what is cloned under a lock is an `Arc` of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;

use crate::engine::quiet::quietly;

/// A waker that was taken from a list.
pub(crate) type Woken = Arc<Waker>;

/// Identifies one who waits: a future, or a job of the cleanup queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WaiterId(u64);

impl WaiterId {
    /// Who goes on with the execution hooks of a scope, from the cleanup queue.
    pub(crate) const EXECUTIONS_JOB: WaiterId = WaiterId(1);
    /// Who goes on with the finish of a scope, from the cleanup queue.
    pub(crate) const FINISH_JOB: WaiterId = WaiterId(2);

    /// Another one.
    pub(crate) fn new() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(16);
        WaiterId(LAST.fetch_add(1, Ordering::Relaxed))
    }
}

/// The waker of a poll that looks once: nobody is woken by it. In a static, so that it is the same one everywhere.
pub(crate) static NOBODY: &Waker = Waker::noop();

/// One who waits, with the waker of this poll; or one who looks once and is not to be woken.
pub(crate) struct Waiter(Option<(WaiterId, Woken)>);

impl Waiter {
    /// Clones the waker: the caller holds no lock.
    pub(crate) fn new(id: WaiterId, waker: &Waker) -> Self {
        Waiter(Some((id, Arc::new(waker.clone()))))
    }

    /// Who looks once and waits for nothing.
    pub(crate) fn nobody() -> Self {
        Waiter(None)
    }

    /// As [`Waiter::new`], by the id that this waiter has from its first wait on.
    pub(crate) fn of(id: &mut Option<WaiterId>, waker: &Waker) -> Self {
        if waker.will_wake(NOBODY) {
            return Waiter::nobody();
        }
        Waiter::new(*id.get_or_insert_with(WaiterId::new), waker)
    }
}

/// Wakers, one a waiter.
#[derive(Default)]
pub(crate) struct Wakers(Vec<(WaiterId, Woken)>);

impl Wakers {
    /// Wakes the waiter at the next occasion. The waker that it had before comes back.
    #[must_use = "dropped where no lock is held"]
    pub(crate) fn register(&mut self, waiter: &Waiter) -> Option<Woken> {
        let (id, waker) = waiter.0.as_ref()?;
        if let Some((_, known)) = self.0.iter_mut().find(|(known, _)| known == id) {
            return Some(std::mem::replace(known, waker.clone()));
        }
        self.0.push((*id, waker.clone()));
        None
    }

    /// The waiter waits no more.
    #[must_use = "dropped where no lock is held"]
    pub(crate) fn remove(&mut self, id: WaiterId) -> Option<Woken> {
        let at = self.0.iter().position(|(known, _)| *known == id)?;
        Some(self.0.swap_remove(at).1)
    }

    /// All of them, to be woken.
    pub(crate) fn take(&mut self) -> Vec<Woken> {
        let mut all = Vec::new();
        self.take_into(&mut all);
        all
    }

    /// The same, added to others.
    pub(crate) fn take_into(&mut self, all: &mut Vec<Woken>) {
        if !self.0.is_empty() {
            all.extend(self.0.drain(..).map(|(_, waker)| waker));
        }
    }
}

/// Wakes everybody. One that panics keeps no other asleep. The caller holds no lock (L15).
#[inline]
pub(crate) fn wake_each(wakers: Vec<Woken>) {
    if !wakers.is_empty() {
        wake_all(wakers);
    }
}

fn wake_all(wakers: Vec<Woken>) {
    for waker in wakers {
        if quietly(move || waker.wake_by_ref()).is_none() {
            tracing::error!(target: "tenure", "a waker panicked");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn other() -> Waker {
        struct Other;
        impl std::task::Wake for Other {
            fn wake(self: Arc<Self>) {}
        }
        Waker::from(Arc::new(Other))
    }

    #[test]
    fn a_waiter_has_one_waker() {
        let mut wakers = Wakers::default();
        let [mut a, mut b] = [None, None];
        assert!(wakers.register(&Waiter::of(&mut a, &other())).is_none());
        for _ in 0..1000 {
            assert!(wakers.register(&Waiter::of(&mut a, &other())).is_some());
        }
        assert!(wakers.register(&Waiter::of(&mut b, &other())).is_none());
        let (a, _b) = (a.unwrap(), b.unwrap());
        assert!(wakers.remove(a).is_some() && wakers.remove(a).is_none());
        assert_eq!((wakers.take().len(), wakers.take().len()), (1, 0));
    }

    #[test]
    fn who_looks_once_is_not_kept() {
        let mut wakers = Wakers::default();
        let mut id = None;
        assert!(wakers.register(&Waiter::of(&mut id, NOBODY)).is_none());
        assert!(wakers.register(&Waiter::nobody()).is_none());
        assert!(id.is_none() && wakers.take().is_empty());
    }
}
