//! Ctrl-C: from the signal to the scope that it cancels.
//!
//! Not here: what is left undone after it (`batch.rs`) and the exit code (`app.rs`).

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use tenure::ScopeRef;

/// A request to stop that any thread can make, once. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Cancel {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
enum State {
    /// There is nothing to stop yet.
    #[default]
    Idle,
    /// The scope to cancel. Not an owner: a late signal finds it finished and does nothing.
    Attached(ScopeRef),
    /// The request was made.
    Requested,
}

impl Cancel {
    /// Makes a request of every Ctrl-C and of termination signals. Once in a process.
    ///
    /// # Errors
    /// What the system says, or that there is a handler already.
    pub fn on_signal(&self) -> Result<(), ctrlc::Error> {
        let cancel = self.clone();
        // The handler runs on a thread of its own, so that it may lock and wake.
        ctrlc::set_handler(move || cancel.request())
    }

    /// Asks to stop: what was submitted completes, the rest never starts (L16).
    pub fn request(&self) {
        let before = std::mem::replace(&mut *self.state(), State::Requested);
        if let State::Attached(scope) = before {
            scope.cancel();
        }
        self.shared.changed.notify_all();
    }

    /// Names the scope that a request cancels. An earlier request cancels it now.
    pub fn attach(&self, scope: &ScopeRef) {
        let mut state = self.state();
        if matches!(*state, State::Requested) {
            drop(state);
            scope.cancel();
            return;
        }
        *state = State::Attached(scope.clone());
    }

    /// True once the request was made.
    pub fn is_requested(&self) -> bool {
        matches!(*self.state(), State::Requested)
    }

    /// Blocks until the request is made.
    pub fn wait(&self) {
        let waiting = |state: &mut State| !matches!(state, State::Requested);
        let state = self.shared.changed.wait_while(self.state(), waiting);
        drop(state.unwrap_or_else(PoisonError::into_inner));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A state is replaced whole: a panic of a holder leaves a valid one.
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenure::{Outcome, ScopeState};

    #[test]
    fn a_request_cancels_the_attached_scope() {
        let manager = tenure::open("host").unwrap();
        let scope = manager.scope("batch").unwrap();
        let cancel = Cancel::default();
        cancel.attach(&scope);
        assert!(!scope.is_cancelled() && !cancel.is_requested());
        cancel.request();
        assert!(scope.is_cancelled() && cancel.is_requested());
        assert_eq!(scope.finish_blocking().unwrap().outcome, Outcome::Cancelled);
    }

    #[test]
    fn a_request_before_there_is_a_scope_is_not_lost() {
        let manager = tenure::open("host").unwrap();
        let scope = manager.scope("batch").unwrap();
        let cancel = Cancel::default();
        cancel.request();
        cancel.attach(&scope);
        assert!(scope.is_cancelled());
    }

    #[test]
    fn a_late_request_changes_nothing() {
        let manager = tenure::open("host").unwrap();
        let scope = manager.scope("batch").unwrap();
        let cancel = Cancel::default();
        cancel.attach(&scope);
        scope.finish_blocking().unwrap();
        cancel.request();
        assert_eq!(scope.state(), ScopeState::Finished(Outcome::Completed));
    }

    #[test]
    fn waiting_ends_with_the_request() {
        let cancel = Cancel::default();
        std::thread::scope(|threads| {
            threads.spawn(|| cancel.wait());
            cancel.request();
        });
        cancel.wait();
    }
}
