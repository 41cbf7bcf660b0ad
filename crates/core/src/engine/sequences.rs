//! Sequences: a recording, its state, and the native recording that mirrors it. Also how a scope opens, finds and destroys its sequences (L8). Not here: checking operations
//! (`engine/recording.rs`), evaluating (`engine/evaluate.rs`), and the rest of a scope (`engine/scopes.rs`).

use std::sync::Arc;

use crate::engine::arena::Arena;
use crate::engine::driver::NativeSequence;
use crate::engine::recording::Recording;
use crate::engine::scopes::{ScopeCell, ScopeInner};
use crate::engine::stack::Entry;
use crate::engine::{Engine, frames};
use crate::error::{EndOfLife, Error, ResourceKind, Site};
use crate::sequence::SequenceState;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Mutex, MutexGuard};

pub(crate) struct SequenceCell {
    /// Its place on the scope's stack.
    pub entry: u64,
    pub name: Arc<str>,
    pub named: bool,
    pub scope: Arc<ScopeCell>,
    pub site: Site,
    /// Those that the user has. An anonymous sequence gets no more once there are none.
    handles: AtomicUsize,
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
    pub(crate) fn end(&self, why: EndOfLife) {
        self.end_locked(self.inner.lock(), why);
    }

    fn end_locked(&self, mut inner: MutexGuard<'_, SequenceInner>, why: EndOfLife) {
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
        // Under the lock: who closes meets the sequence before, and waits for the lock, or finds the gate taken.
        let pass = (!matches!(native, Native::None)).then(|| self.engine().gate.enter());
        drop(inner);
        native.recycle(self.engine());
        drop(pass);
        drop(recording);
    }

    /// The user has one handle more.
    pub(crate) fn add_handle(&self) {
        // Whoever makes one has the cell from a handle or from the scope: as an `Arc`'s count.
        self.handles.fetch_add(1, Ordering::Relaxed);
    }

    /// The user has one handle less. An anonymous sequence that has none goes, once it is not running (L8).
    pub(crate) fn drop_handle(self: &Arc<Self>) {
        if self.handles.fetch_sub(1, Ordering::AcqRel) > 1 || self.named {
            return;
        }
        let mut inner = self.inner.lock();
        inner.forgotten = true;
        if inner.state == SequenceState::Running {
            // `retired` does the rest.
            return;
        }
        self.end_locked(inner, EndOfLife::Destroyed(self.site));
        self.scope.forget_sequence(self);
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

impl ScopeCell {
    /// Opens a sequence as the newest entry of the stack.
    pub(crate) fn open_sequence(
        self: &Arc<Self>,
        name: Option<Arc<str>>,
        site: Site,
    ) -> Result<Arc<SequenceCell>, Error> {
        self.engine.check_open()?;
        let mut inner = self.lock_for_entry()?;
        if let Some(name) = &name
            && inner.names.contains_key(name)
        {
            return Err(Error::NameTaken { name: name.clone(), scope: self.label.clone() });
        }
        Ok(self.push_sequence(&mut inner, name, site))
    }

    /// Opens a named sequence in the place of the one that has the name: at no moment is the name free (L8).
    pub(crate) fn replace_sequence(
        self: &Arc<Self>,
        name: Arc<str>,
        site: Site,
    ) -> Result<Arc<SequenceCell>, Error> {
        let _pass = self.engine.enter()?;
        let mut inner = self.lock_for_entry()?;
        let old = inner.names.remove(&name);
        if let Some(old) = &old {
            inner.stack.remove(old.entry);
        }
        let new = self.push_sequence(&mut inner, Some(name), site);
        drop(inner);
        if let Some(old) = old {
            old.end(EndOfLife::Replaced(site));
        }
        Ok(new)
    }

    fn push_sequence(
        self: &Arc<Self>,
        inner: &mut ScopeInner,
        name: Option<Arc<str>>,
        site: Site,
    ) -> Arc<SequenceCell> {
        let entry = inner.stack.next_id();
        let cell = Arc::new(SequenceCell {
            entry,
            named: name.is_some(),
            name: name.unwrap_or_else(|| self.engine.anonymous_name.clone()),
            scope: self.clone(),
            site,
            handles: AtomicUsize::new(0),
            inner: Mutex::new(SequenceInner {
                state: SequenceState::Recording,
                life: Life::Live,
                recording: Recording::default(),
                native: Native::None,
                forgotten: false,
            }),
        });
        inner.stack.push(entry, Entry::Sequence(cell.clone()));
        if cell.named {
            inner.names.insert(cell.name.clone(), cell.clone());
        }
        cell
    }

    pub(crate) fn find_sequence(&self, name: &str) -> Result<Arc<SequenceCell>, Error> {
        self.inner
            .lock()
            .names
            .get(name)
            .cloned()
            .ok_or_else(|| Error::UnknownName { name: name.into(), scope: self.label.clone() })
    }

    /// Destroys one sequence. Twice is nothing.
    pub(crate) fn destroy_sequence(&self, cell: &Arc<SequenceCell>, why: EndOfLife) {
        // Closing waits until the native recording is back in its arena.
        let _pass = self.engine.gate.enter();
        self.forget_sequence(cell);
        cell.end(why);
    }

    /// Takes a sequence off the stack, and gives its name free.
    fn forget_sequence(&self, cell: &Arc<SequenceCell>) {
        let mut inner = self.inner.lock();
        // Never the last owner: the caller has the sequence.
        inner.stack.remove(cell.entry);
        if cell.named && inner.names.get(&cell.name).is_some_and(|named| Arc::ptr_eq(named, cell)) {
            inner.names.remove(&cell.name);
        }
    }

    /// An anonymous sequence that has no handle and is not running goes by itself (L8).
    pub(crate) fn release_anonymous(&self, cell: &Arc<SequenceCell>) {
        self.destroy_sequence(cell, EndOfLife::Destroyed(cell.site));
    }

    /// The sequences in creation order.
    pub(crate) fn sequences(&self, which: impl Fn(&SequenceCell) -> bool) -> Vec<Arc<SequenceCell>> {
        self.inner.lock().stack.sequences().filter(|cell| which(cell)).cloned().collect()
    }
}
