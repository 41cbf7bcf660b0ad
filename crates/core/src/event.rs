//! Events: what happened to which resource, as data and as text (L27).
//!
//! Listeners pull: an [`EventLog`] collects, and its owner takes. So no user code runs where an event arises.
//! Contract events read the same on every backend; driver events are a separate stream.

use std::fmt;
use std::sync::Arc;

use crate::error::Site;
use crate::report::Outcome;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicUsize, Ordering};

/// Which of the two streams an event belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventStream {
    /// The same text on every backend.
    Contract,
    /// What was asked of the driver; differs with the pool and the device.
    Driver,
}

/// One event.
#[derive(Clone, Debug)]
pub struct Event {
    /// What happened.
    pub kind: EventKind,
    /// The scope it happened in, by id and label; none for the manager itself.
    pub scope: Option<(u64, Arc<str>)>,
    /// Where the resource was made, if it has a creation site.
    pub site: Option<Site>,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EventKind {
    /// A scope was opened.
    ScopeOpened,
    /// A scope began to finish.
    ScopeFinishing,
    /// A scope has finished.
    ScopeFinished(Outcome),
    /// A scope was cancelled.
    ScopeCancelled,
    /// A tensor was made. Bytes as asked for.
    Acquire {
        /// The tensor's id.
        tensor: u64,
        /// Its label.
        label: Arc<str>,
        /// Its size in bytes.
        bytes: u64,
    },
    /// A tensor can no longer be used.
    Retire {
        /// The tensor's id.
        tensor: u64,
        /// Its label.
        label: Arc<str>,
        /// Its size in bytes.
        bytes: u64,
    },
    /// The device has finished with a tensor's memory and the pool has it back.
    Reclaim {
        /// The tensor's id.
        tensor: u64,
        /// Its label.
        label: Arc<str>,
        /// Its size in bytes.
        bytes: u64,
    },
    /// An execution was submitted.
    Submit {
        /// The sequence's name.
        sequence: Arc<str>,
        /// The execution's number in its scope.
        execution: u64,
    },
    /// An execution retired.
    Complete {
        /// The sequence's name.
        sequence: Arc<str>,
        /// The execution's number in its scope.
        execution: u64,
        /// False if it failed.
        ok: bool,
    },
    /// A hook was run.
    Hook {
        /// The hook's label.
        label: Arc<str>,
        /// The execution it ran for, if it is an execution hook.
        execution: Option<u64>,
        /// How it ended.
        end: HookEnd,
    },
    /// Dead nodes of a graph were swept.
    Sweep {
        /// The graph's label.
        graph: Arc<str>,
        /// Nodes removed.
        nodes: u64,
        /// Bytes of their payloads.
        bytes: u64,
    },
    /// The device was lost.
    DeviceLost,
    /// The manager has closed.
    Closed,
    /// The driver gave a block.
    Allocate {
        /// Its size in bytes.
        bytes: u64,
    },
    /// A block went back to the driver.
    Free {
        /// Its size in bytes.
        bytes: u64,
    },
    /// The pool was trimmed.
    Trim {
        /// Bytes given back.
        bytes: u64,
    },
    /// A sequence was encoded into its native form (L9).
    Encode {
        /// The sequence's name.
        sequence: Arc<str>,
        /// Number of operations.
        operations: usize,
    },
}

/// How a hook's run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HookEnd {
    /// It returned Ok.
    Ok,
    /// It returned an error.
    Failed,
    /// It panicked.
    Panicked,
    /// It outlived its deadline.
    TimedOut,
    /// It was not run: a device hook after loss, or a hook that never came back.
    Skipped,
}

impl EventKind {
    /// The stream it belongs to.
    pub fn stream(&self) -> EventStream {
        match self {
            EventKind::Allocate { .. }
            | EventKind::Free { .. }
            | EventKind::Trim { .. }
            | EventKind::Encode { .. } => EventStream::Driver,
            _ => EventStream::Contract,
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((_, label)) = &self.scope {
            write!(f, "[{label}] ")?;
        }
        match &self.kind {
            EventKind::ScopeOpened => f.write_str("open"),
            EventKind::ScopeFinishing => f.write_str("finishing"),
            EventKind::ScopeFinished(outcome) => write!(f, "finished {outcome}"),
            EventKind::ScopeCancelled => f.write_str("cancelled"),
            EventKind::Acquire { label, bytes, .. } => write!(f, "acquire `{label}` {bytes} bytes"),
            EventKind::Retire { label, bytes, .. } => write!(f, "retire `{label}` {bytes} bytes"),
            EventKind::Reclaim { label, bytes, .. } => write!(f, "reclaim `{label}` {bytes} bytes"),
            EventKind::Submit { sequence, execution } => write!(f, "submit `{sequence}` #{execution}"),
            EventKind::Complete { sequence, execution, ok } => {
                write!(f, "complete `{sequence}` #{execution} {}", if *ok { "ok" } else { "failed" })
            }
            EventKind::Hook { label, execution, end } => {
                write!(f, "hook `{label}`")?;
                if let Some(execution) = execution {
                    write!(f, " for #{execution}")?;
                }
                write!(f, " {}", format!("{end:?}").to_lowercase())
            }
            EventKind::Sweep { graph, nodes, bytes } => {
                write!(f, "sweep `{graph}` {nodes} nodes {bytes} bytes")
            }
            EventKind::DeviceLost => f.write_str("device lost"),
            EventKind::Closed => f.write_str("closed"),
            EventKind::Allocate { bytes } => write!(f, "driver allocate {bytes} bytes"),
            EventKind::Free { bytes } => write!(f, "driver free {bytes} bytes"),
            EventKind::Trim { bytes } => write!(f, "trim {bytes} bytes"),
            EventKind::Encode { sequence, operations } => {
                write!(f, "encode `{sequence}` {operations} operations")
            }
        }
    }
}

/// Collects the events of one manager from its making until it is dropped.
#[derive(Debug)]
pub struct EventLog {
    hub: Arc<EventHub>,
    buffer: Arc<Buffer>,
}

impl EventLog {
    /// Takes what was collected since the last take, in order.
    pub fn take(&self) -> Vec<Event> {
        std::mem::take(&mut *self.buffer.events.lock())
    }

    /// A copy of what was collected since the last take, in order.
    pub fn events(&self) -> Vec<Event> {
        self.buffer.events.lock().clone()
    }

    /// The contract events, one a line, grouped by scope in the order in which scopes first appear: the
    /// text that is the same on every backend.
    pub fn contract_text(&self) -> String {
        let mut groups: Vec<(Option<u64>, Vec<String>)> = Vec::new();
        for event in self.buffer.events.lock().iter() {
            if event.kind.stream() != EventStream::Contract {
                continue;
            }
            let id = event.scope.as_ref().map(|(id, _)| *id);
            let at = groups.iter().position(|(group, _)| *group == id).unwrap_or_else(|| {
                groups.push((id, Vec::new()));
                groups.len() - 1
            });
            groups[at].1.push(event.to_string());
        }
        let mut text = String::new();
        for line in groups.into_iter().flat_map(|(_, lines)| lines) {
            text.push_str(&line);
            text.push('\n');
        }
        text
    }
}

impl Drop for EventLog {
    fn drop(&mut self) {
        self.hub.remove(&self.buffer);
    }
}

#[derive(Debug, Default)]
struct Buffer {
    events: Mutex<Vec<Event>>,
}

/// Where a manager's events go. One relaxed load when nobody listens (L27).
#[derive(Debug, Default)]
pub(crate) struct EventHub {
    listeners: AtomicUsize,
    buffers: Mutex<Vec<Arc<Buffer>>>,
}

impl EventHub {
    pub(crate) fn listen(self: &Arc<Self>) -> EventLog {
        let buffer = Arc::new(Buffer::default());
        let mut buffers = self.buffers.lock();
        buffers.push(buffer.clone());
        self.listeners.store(buffers.len(), Ordering::Relaxed);
        EventLog { hub: self.clone(), buffer }
    }

    fn remove(&self, buffer: &Arc<Buffer>) {
        let mut buffers = self.buffers.lock();
        buffers.retain(|other| !Arc::ptr_eq(other, buffer));
        self.listeners.store(buffers.len(), Ordering::Relaxed);
    }

    /// Whether anybody listens.
    #[inline]
    pub(crate) fn is_heard(&self) -> bool {
        self.listeners.load(Ordering::Relaxed) != 0
    }

    #[inline]
    pub(crate) fn emit(&self, make: impl FnOnce() -> Event) {
        if self.is_heard() {
            self.deliver(make());
        }
    }

    #[cold]
    fn deliver(&self, event: Event) {
        for buffer in self.buffers.lock().iter() {
            buffer.events.lock().push(event.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: EventKind, scope: Option<(u64, &str)>) -> Event {
        Event { kind, scope: scope.map(|(id, label)| (id, label.into())), site: None }
    }

    #[test]
    fn nothing_is_made_when_nobody_listens() {
        let hub = Arc::new(EventHub::default());
        hub.emit(|| panic!("made without a listener"));
        let log = hub.listen();
        hub.emit(|| event(EventKind::Closed, None));
        assert_eq!(log.take().len(), 1);
        drop(log);
        hub.emit(|| panic!("made after the last listener went"));
    }

    #[test]
    fn contract_text_groups_by_scope_and_leaves_driver_events_out() {
        let hub = Arc::new(EventHub::default());
        let log = hub.listen();
        hub.emit(|| event(EventKind::ScopeOpened, Some((1, "a"))));
        hub.emit(|| event(EventKind::ScopeOpened, Some((2, "b"))));
        hub.emit(|| event(EventKind::Allocate { bytes: 7 }, None));
        hub.emit(|| event(EventKind::ScopeFinished(Outcome::Completed), Some((1, "a"))));
        assert_eq!(log.contract_text(), "[a] open\n[a] finished Completed\n[b] open\n");
    }
}
