//! Ctrl-C: cancels the batch's scope, and wakes whoever waits for it.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

use tenure::ScopeRef;

use crate::batch::BatchError;

/// Whether the user wants the batch to end.
#[derive(Clone, Default)]
pub struct Cancel {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    asked: bool,
    scope: Option<ScopeRef>,
}

impl Cancel {
    /// Cancels at Ctrl-C and at a termination signal.
    pub fn on_signal() -> Result<Self, BatchError> {
        let cancel = Cancel::default();
        let asked = cancel.clone();
        ctrlc::set_handler(move || asked.ask()).map_err(BatchError::Signal)?;
        Ok(cancel)
    }

    fn ask(&self) {
        let scope = {
            let mut state = self.lock();
            state.asked = true;
            state.scope.clone()
        };
        self.shared.changed.notify_all();
        if let Some(scope) = scope {
            scope.cancel();
        }
    }

    /// The scope to cancel; at once if the user has asked already.
    pub fn watch(&self, scope: &ScopeRef) {
        let asked = {
            let mut state = self.lock();
            state.scope = Some(scope.clone());
            state.asked
        };
        if asked {
            scope.cancel();
        }
    }

    /// True once the user has asked.
    pub fn is_asked(&self) -> bool {
        self.lock().asked
    }

    /// Blocks until the user asks.
    pub fn wait(&self) {
        let mut state = self.lock();
        while !state.asked {
            state = self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
