//! Sequences: a recording, its state, and the native recording that mirrors it.
//!
//! Not here: checking operations (`engine/recording.rs`), evaluating (`engine/evaluate.rs`), and the list
//! of a scope's sequences (`engine/scopes.rs`).

use std::sync::Arc;

use crate::engine::arena::Arena;
use crate::engine::driver::NativeSequence;
use crate::engine::recording::Recording;
use crate::engine::scopes::ScopeCell;
use crate::engine::{Engine, frames};
use crate::error::{EndOfLife, Error, ResourceKind, Site};
use crate::sequence::SequenceState;
use crate::sync::Mutex;

pub(crate) struct SequenceCell {
    /// Its place on the scope's stack.
    pub entry: u64,
    pub name: Arc<str>,
    pub named: bool,
    pub scope: Arc<ScopeCell>,
    pub site: Site,
    pub inner: Mutex<SequenceInner>,
}

pub(crate) struct SequenceInner {
    pub state: SequenceState,
    pub life: Life,
    pub recording: Recording,
    pub native: Native,
    /// The user has no handle of an anonymous sequence any more.
    pub forgotten: bool,
}

/// The life of a sequence or tensor.
#[derive(Clone, Debug)]
pub(crate) enum Life {
    Live,
    Ended(EndOfLife),
}

/// The native recording behind a sequence.
pub(crate) enum Native {
    /// None was made yet.
    None,
    /// It holds something else than the recording: it must be reset and encoded.
    Stale(NativeSequence, Arc<Arena>),
    /// It mirrors the recording and can be submitted.
    Encoded(NativeSequence, Arc<Arena>),
    /// The device may be using it: it is with the execution.
    InFlight(Arc<Arena>),
}

impl Native {
    /// Gives the native recording back, before the recording that keeps its kernels goes: no destructor of user
    /// code runs under the arena's lock (L15).
    pub(crate) fn recycle(self, engine: &Engine) {
        if let Native::Stale(native, arena) | Native::Encoded(native, arena) = self {
            let _pass = engine.gate.enter();
            arena.recycle(engine, native);
        }
    }
}

impl SequenceCell {
    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.scope.engine
    }

    /// The error if the sequence cannot be changed or evaluated now (L3, L7).
    pub(crate) fn check(&self, inner: &SequenceInner) -> Result<(), Error> {
        if let Life::Ended(why) = &inner.life {
            return Err(self.stale(why.clone()));
        }
        match inner.state {
            SequenceState::Running => Err(Error::Busy { sequence: self.name.clone() }),
            // Cleanup was not cancelled: the scope's hooks may use what was recorded.
            SequenceState::Cancelled if frames::inside_hook_under(&self.scope) => Ok(()),
            SequenceState::Cancelled => Err(Error::Cancelled { scope: self.scope.label.clone() }),
            _ => Ok(()),
        }
    }

    /// L6: a handle that outlives its manager is stale, from the moment that the manager closes.
    pub(crate) fn stale_if_closed(&self, error: Error) -> Error {
        match error {
            Error::Closed { .. } => self.stale(self.engine().closed_reason()),
            other => other,
        }
    }

    fn stale(&self, why: EndOfLife) -> Error {
        Error::Stale { kind: ResourceKind::Sequence, label: self.name.clone(), why }
    }

    /// The device has finished with the last submission: takes the native recording back.
    pub(crate) fn retired(self: &Arc<Self>, native: NativeSequence, ok: bool) {
        let engine = self.engine();
        let mut inner = self.inner.lock();
        inner.state = if ok { SequenceState::Finished } else { SequenceState::Failed };
        let arena = match std::mem::replace(&mut inner.native, Native::None) {
            Native::InFlight(arena) => arena,
            _ => unreachable!("a running sequence's native recording is with its execution"),
        };
        let ended = matches!(inner.life, Life::Ended(_));
        let mut garbage = None;
        if ended {
            // L5: destroyed while running; what it kept alive goes now.
            garbage = Some(std::mem::take(&mut inner.recording));
            drop(inner);
            arena.recycle(engine, native);
        } else {
            inner.native = if ok && engine.capabilities.reusable_recordings {
                Native::Encoded(native, arena)
            } else {
                Native::Stale(native, arena)
            };
            let forgotten = inner.forgotten;
            drop(inner);
            if forgotten {
                // L8: an anonymous sequence that has retired is reclaimed by itself.
                self.scope.release_anonymous(self);
            }
        }
        drop(garbage);
    }

    /// Ends the sequence's life. Twice is nothing. What it holds goes now, or when the device has finished.
    pub(crate) fn end(self: &Arc<Self>, why: EndOfLife) {
        let engine = self.engine();
        let mut inner = self.inner.lock();
        if matches!(inner.life, Life::Ended(_)) {
            return;
        }
        inner.life = Life::Ended(why);
        if inner.state == SequenceState::Running {
            // L4: still in flight; `retired` does the rest.
            return;
        }
        let recording = std::mem::take(&mut inner.recording);
        let native = std::mem::replace(&mut inner.native, Native::None);
        drop(inner);
        native.recycle(engine);
        drop(recording);
    }

    /// The last handle is gone.
    pub(crate) fn forget(self: &Arc<Self>) {
        if self.named {
            return;
        }
        let mut inner = self.inner.lock();
        inner.forgotten = true;
        let running = inner.state == SequenceState::Running;
        drop(inner);
        if !running {
            self.scope.release_anonymous(self);
        }
    }

    pub(crate) fn state(&self) -> SequenceState {
        self.inner.lock().state
    }

    /// The scope was cancelled: what has not started never does (L16).
    pub(crate) fn cancel(&self) {
        let mut inner = self.inner.lock();
        if matches!(inner.state, SequenceState::Recording | SequenceState::Ready) {
            inner.state = SequenceState::Cancelled;
        }
    }
}
