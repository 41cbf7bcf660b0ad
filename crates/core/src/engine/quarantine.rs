//! Quarantine: memory of a scope one of whose hooks outlived its deadline and has not come back. It stays
//! retired until the hook returns (L16).

use std::sync::Arc;

use crate::engine::Engine;
use crate::engine::timeline::Deferred;
use crate::report::DetachedHook;
use crate::sync::Mutex;

#[derive(Default)]
pub(crate) struct Quarantine {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// Hooks that have not come back.
    out: usize,
    held: Vec<Deferred>,
}

impl Quarantine {
    /// True while a hook has not come back.
    pub(crate) fn is_closed(&self) -> bool {
        self.inner.lock().out > 0
    }

    /// A hook outlived its deadline.
    pub(crate) fn hook_left(&self) {
        self.inner.lock().out += 1;
    }

    /// Keeps memory until the hooks are back.
    pub(crate) fn keep(&self, engine: &Arc<Engine>, deferred: Deferred) {
        let mut inner = self.inner.lock();
        if inner.out > 0 {
            inner.held.push(deferred);
            return;
        }
        drop(inner);
        engine.defer(deferred);
    }

    /// A hook has come back; the last one opens the quarantine.
    pub(crate) fn hook_returned(&self, engine: &Arc<Engine>, hook: &DetachedHook) {
        let held = {
            let mut inner = self.inner.lock();
            inner.out -= 1;
            if inner.out == 0 { std::mem::take(&mut inner.held) } else { Vec::new() }
        };
        for deferred in held {
            engine.defer(deferred);
        }
        engine.detached_hook_returned(hook);
    }
}
