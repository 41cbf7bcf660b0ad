//! Opening scopes, and letting go of them: roots of the manager, entries of a parent's stack.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::backend::QueueId;
use crate::engine::Engine;
use crate::engine::scopes::{ScopeCell, ScopeInner};
use crate::engine::stack::Entry;
use crate::error::{Error, Site};
use crate::event::EventKind;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicU64};

/// What to make a scope of.
pub(crate) struct ScopeRequest {
    pub label: Arc<str>,
    pub site: Site,
    pub queue: Option<QueueId>,
    pub hook_deadline: Option<Duration>,
    pub finish_deadline: Option<Duration>,
}

impl Engine {
    /// Opens a scope, below `parent` or as a root.
    pub(crate) fn open_scope(
        self: &Arc<Self>,
        request: ScopeRequest,
        parent: Option<&Arc<ScopeCell>>,
    ) -> Result<Arc<ScopeCell>, Error> {
        let _pass = self.enter()?;
        if !self.options.threads && (request.hook_deadline.is_some() || request.finish_deadline.is_some()) {
            return Err(Error::InvalidOption {
                option: "deadline",
                problem: "deadlines need tenure's threads, which this manager forbids".into(),
            });
        }
        let queue = request.queue.or(parent.map(|parent| parent.queue)).unwrap_or_default();
        if queue.0 >= self.capabilities.queues {
            return Err(Error::InvalidOption {
                option: "queue",
                problem: format!("the device has {} queues, {queue} was asked for", self.capabilities.queues)
                    .into(),
            });
        }
        let inherited = |own: Option<Duration>, pick: fn(&ScopeCell) -> Option<Duration>, default| {
            own.or(parent.and_then(|parent| pick(parent))).or(default)
        };
        let hook_deadline =
            inherited(request.hook_deadline, |parent| parent.hook_deadline, self.options.hook_deadline);
        let cell = Arc::new(ScopeCell {
            engine: self.clone(),
            id: self.next_scope(),
            label: request.label,
            site: request.site,
            queue,
            hook_deadline,
            finish_deadline: inherited(
                request.finish_deadline,
                |parent| parent.finish_deadline,
                self.options.finish_deadline,
            ),
            opened: Instant::now(),
            parent: Mutex::new(parent.cloned()),
            queued: Default::default(),
            submitted: AtomicU64::new(0),
            arena: Mutex::new(None),
            has_arena: AtomicBool::new(false),
            needs_cleanup_thread: AtomicBool::new(hook_deadline.is_some()),
            finished: AtomicBool::new(false),
            inner: Mutex::new(ScopeInner::new()),
        });
        match parent {
            Some(parent) => {
                let mut outer = parent.lock_for_entry()?;
                let entry = outer.stack.next_id();
                {
                    let mut inner = cell.inner.lock();
                    inner.cancelled = outer.cancelled;
                    inner.finish.entry = Some(entry);
                }
                outer.stack.push(entry, Entry::Child(cell.clone()));
            }
            None => self.add_root(&cell),
        }
        self.emit(Some(&cell), Some(cell.site), || EventKind::ScopeOpened);
        Ok(cell)
    }

    /// Takes a scope from its parent and makes it a root (L17).
    pub(crate) fn detach_scope(self: &Arc<Self>, cell: &Arc<ScopeCell>) -> Result<(), Error> {
        let _pass = self.enter()?;
        let Some(parent) = cell.parent() else { return cell.admits(&cell.inner.lock(), false) };
        // Both locks, the parent's first: neither of them can begin to finish it meanwhile.
        let mut outer = parent.inner.lock();
        let mut inner = cell.inner.lock();
        cell.admits(&inner, false)?;
        let entry = inner.finish.entry.take();
        if entry.and_then(|entry| outer.stack.remove(entry)).is_none() {
            // The parent has taken it from its stack: it is about to be finished.
            return Err(Error::ScopeFinishing { scope: cell.label.clone() });
        }
        cell.parent.lock().take();
        self.add_root(cell);
        Ok(())
    }

    /// The scope has finished: its parent, where it is the entry of this id, or the manager lets go of it. True if it
    /// was the last open root.
    pub(crate) fn remove_scope(&self, cell: &Arc<ScopeCell>, entry: Option<u64>) -> bool {
        let Some(entry) = entry else { return self.remove_root(cell) };
        let removed = cell.parent().and_then(|parent| parent.inner.lock().stack.remove(entry));
        drop(removed);
        false
    }
}
