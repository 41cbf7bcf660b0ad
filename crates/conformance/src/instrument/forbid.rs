//! Threads in which no driver call may happen for a while: a guard sets it, the decorator records what breaks it.
//!
//! Not here: recording the violation (`shared.rs`).

use std::cell::RefCell;
use std::fmt;
use std::marker::PhantomData;

use super::calls::{CallKind, CallSet};

/// While it lives, these calls are violations on this thread.
#[must_use = "calls are forbidden only while the guard lives"]
pub struct ForbidGuard {
    probe: u64,
    calls: CallSet,
    /// It belongs to its thread.
    not_send: PhantomData<*const ()>,
}

thread_local! {
    /// What is forbidden here, by the number of the decorator.
    static FORBIDDEN: RefCell<Vec<(u64, CallSet)>> = const { RefCell::new(Vec::new()) };
}

impl ForbidGuard {
    pub(super) fn new(probe: u64, calls: CallSet) -> Self {
        FORBIDDEN.with_borrow_mut(|forbidden| forbidden.push((probe, calls)));
        ForbidGuard { probe, calls, not_send: PhantomData }
    }
}

impl Drop for ForbidGuard {
    fn drop(&mut self) {
        let mine = (self.probe, self.calls);
        // A thread that is ending has no list any more, and nothing to take out of it.
        let _ = FORBIDDEN.try_with(|forbidden| {
            let mut forbidden = forbidden.borrow_mut();
            if let Some(at) = forbidden.iter().rposition(|entry| *entry == mine) {
                forbidden.remove(at);
            }
        });
    }
}

impl fmt::Debug for ForbidGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForbidGuard").field("calls", &self.calls).finish_non_exhaustive()
    }
}

/// Whether this call is forbidden on this thread.
pub(super) fn is_forbidden(probe: u64, kind: CallKind) -> bool {
    FORBIDDEN
        .try_with(|forbidden| {
            forbidden.borrow().iter().any(|(owner, calls)| *owner == probe && calls.contains(kind))
        })
        .unwrap_or(false)
}
