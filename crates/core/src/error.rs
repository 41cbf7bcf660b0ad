//! The errors that users get: [`Error`], [`RunError`], and the parts they carry.
//!
//! Errors own no tensor, sequence or scope: they carry labels and numbers, so that holding one keeps no
//! device memory alive (L20). Not here: the SPI's errors (`backend_error.rs`) and reports of what went
//! right (`report.rs`).

use std::fmt;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

pub use crate::backend_error::{BackendError, BackendErrorKind};
use crate::report::{CleanupError, DetachedHook, Holder, Outcome, ScopeReport};

/// An error of the user's, or of a driver, of any type; shared, so that errors can be cloned.
pub type SharedError = Arc<dyn std::error::Error + Send + Sync>;

/// What a cleanup hook returns as its error: anything that `?` accepts.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A place in the user's source.
pub type Site = &'static Location<'static>;

/// What tenure's calls return instead of a value.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The resource was destroyed, its scope has finished, or its manager has closed (L3).
    #[error("{kind} `{label}` is stale: {why}")]
    Stale {
        /// What kind of resource it was.
        kind: ResourceKind,
        /// Its label.
        label: Arc<str>,
        /// How and where its life ended.
        why: EndOfLife,
    },
    /// The manager has closed or is closing.
    #[error("manager `{manager}` is closed")]
    Closed {
        /// The manager's label.
        manager: Arc<str>,
    },
    /// The process is a fork of the one that opened the manager.
    #[error("manager `{manager}` belongs to the parent process; open a new one after fork")]
    ForkedProcess {
        /// The manager's label.
        manager: Arc<str>,
    },
    /// The sequence is running; nothing was changed (L7).
    #[error("sequence `{sequence}` is running; wait for its execution first")]
    Busy {
        /// The sequence's name.
        sequence: Arc<str>,
    },
    /// A live sequence of the scope has this name already (L8).
    #[error("scope `{scope}` already has a sequence `{name}`; use `replace` to destroy the old one")]
    NameTaken {
        /// The name.
        name: Arc<str>,
        /// The scope's label.
        scope: Arc<str>,
    },
    /// The scope has no live sequence of this name.
    #[error("scope `{scope}` has no sequence `{name}`")]
    UnknownName {
        /// The name.
        name: Arc<str>,
        /// The scope's label.
        scope: Arc<str>,
    },
    /// The scope is running its cleanup: new entries are refused (L10).
    #[error("scope `{scope}` is finishing")]
    ScopeFinishing {
        /// The scope's label.
        scope: Arc<str>,
    },
    /// The scope has finished.
    #[error("scope `{scope}` has already finished as {outcome}")]
    ScopeFinished {
        /// The scope's label.
        scope: Arc<str>,
        /// How it ended.
        outcome: Outcome,
    },
    /// The scope's entries were moved out of this handle (L17).
    #[error("scope `{scope}` was moved out of this handle")]
    ScopeMoved {
        /// The scope's label.
        scope: Arc<str>,
    },
    /// The scope was cancelled: submitted work completes, the rest does not start (L16).
    #[error("scope `{scope}` was cancelled")]
    Cancelled {
        /// The scope's label.
        scope: Arc<str>,
    },
    /// The wait was asked for from inside what it waits for (L15).
    #[error("waiting for {what} from inside its own cleanup would deadlock")]
    WouldDeadlock {
        /// What was waited for.
        what: Arc<str>,
    },
    /// The wait's time was over; nothing was changed (L7).
    #[error("{what} did not complete within {after:?}")]
    TimedOut {
        /// What was waited for.
        what: Arc<str>,
        /// The time given.
        after: Duration,
    },
    /// The memory is not to be had, after reclaiming, waiting and trimming (L20).
    #[error(transparent)]
    OutOfMemory(Arc<OutOfMemory>),
    /// The device allows no more allocations (L22).
    #[error("tensor `{label}`: the device allows {limit} allocations at a time and all are in use")]
    TooManyBlocks {
        /// The tensor's label.
        label: Arc<str>,
        /// The device's limit.
        limit: u64,
    },
    /// The size passes a limit of the device (L22).
    #[error("`{label}` needs {requested} bytes, the device's {which} is {limit} bytes")]
    TooLarge {
        /// The tensor's or kernel's label.
        label: Arc<str>,
        /// Bytes asked for.
        requested: u64,
        /// The limit in bytes.
        limit: u64,
        /// Which limit: "largest block" or "largest binding".
        which: &'static str,
    },
    /// A dispatch has more workgroups than the device runs (L22).
    #[error("kernel `{kernel}` in {groups:?} workgroups, the device runs at most {limit:?}")]
    TooManyGroups {
        /// The kernel's label.
        kernel: Arc<str>,
        /// Workgroups asked for, in each direction.
        groups: [u32; 3],
        /// The device's limits, in each direction.
        limit: [u32; 3],
    },
    /// The shape's size in bytes does not fit 64 bits (L22).
    #[error("tensor `{label}`: the shape {shape:?} of {element_bytes}-byte elements overflows")]
    SizeOverflow {
        /// The tensor's label.
        label: Arc<str>,
        /// The shape asked for, in elements.
        shape: Vec<u64>,
        /// Bytes an element.
        element_bytes: u64,
    },
    /// The number of elements does not fit.
    #[error("`{label}` has {expected} elements, {actual} were given")]
    Length {
        /// The tensor's label.
        label: Arc<str>,
        /// Elements of the tensor or view.
        expected: u64,
        /// Elements given.
        actual: u64,
    },
    /// The range is not inside the tensor.
    #[error("range {start}..{end} is outside `{label}`, which has {length} elements")]
    OutOfRange {
        /// The tensor's label.
        label: Arc<str>,
        /// First element.
        start: u64,
        /// One past the last element.
        end: u64,
        /// Elements of the tensor.
        length: u64,
    },
    /// The tensor has another element type.
    #[error("`{label}` holds {expected}, not {actual}")]
    WrongType {
        /// The tensor's label.
        label: Arc<str>,
        /// The tensor's element type.
        expected: &'static str,
        /// The type asked for.
        actual: &'static str,
    },
    /// The resource belongs to another manager.
    #[error("{kind} `{label}` belongs to manager `{owner}`, not to `{manager}`")]
    ForeignManager {
        /// What kind of resource.
        kind: ResourceKind,
        /// Its label.
        label: Arc<str>,
        /// The manager that owns it.
        owner: Arc<str>,
        /// The manager that was asked.
        manager: Arc<str>,
    },
    /// One operation names a range for writing and again, overlapping, for another use.
    #[error("operation `{operation}` uses overlapping ranges of `{tensor}` and writes one of them")]
    Aliased {
        /// The tensor's label.
        tensor: Arc<str>,
        /// The operation's label.
        operation: Arc<str>,
    },
    /// The dispatch does not fit the kernel's binding layout.
    #[error("kernel `{kernel}`: {problem}")]
    Binding {
        /// The kernel's label.
        kernel: Arc<str>,
        /// What does not fit.
        problem: Arc<str>,
    },
    /// The scope is no ancestor of the one that registers.
    #[error("scope `{ancestor}` is no ancestor of scope `{scope}`")]
    NotAnAncestor {
        /// The scope named as ancestor.
        ancestor: Arc<str>,
        /// The scope that registers.
        scope: Arc<str>,
    },
    /// The result is not there yet: its execution has not completed.
    #[error("`{what}` has no result yet; wait for its execution first")]
    NotReady {
        /// What was read.
        what: Arc<str>,
    },
    /// An option or a combination of options is not possible.
    #[error("{option}: {problem}")]
    InvalidOption {
        /// The option.
        option: &'static str,
        /// Why it cannot be.
        problem: Arc<str>,
    },
    /// The node's payload was taken before (L26).
    #[error("node {node} of graph `{graph}` was consumed: its payload was taken by an earlier step")]
    NodeConsumed {
        /// The graph's label.
        graph: Arc<str>,
        /// The node's number.
        node: u64,
    },
    /// Somebody takes the node's payload, or looks at it, just now.
    #[error("node {node} of graph `{graph}` is in use")]
    NodeBusy {
        /// The graph's label.
        graph: Arc<str>,
        /// The node's number.
        node: u64,
    },
    /// The device is lost; this is the first cause (L23).
    #[error("the device is lost: {cause}")]
    DeviceLost {
        /// What the driver said first.
        cause: BackendError,
        /// The process must restart before a device can be opened again.
        restart: bool,
    },
    /// Submitted work failed on the device.
    #[error("execution {execution} of sequence `{sequence}` failed: {cause}")]
    Execution {
        /// The sequence's name.
        sequence: Arc<str>,
        /// The execution's number in its scope, from 1.
        execution: u64,
        /// What the device said.
        cause: BackendError,
    },
    /// The backend failed at something that is neither memory nor loss.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// Cleanup failed. Everything ran all the same (L13).
    #[error(transparent)]
    Cleanup(Arc<CleanupFailure>),
    /// Something failed after its scope's report was out: an execution that was late, or its hook.
    #[error("after its scope had finished: {0}")]
    AfterFinish(Arc<CleanupError>),
    /// The manager could not close in time, or closed with something left over (L28).
    #[error(
        "manager `{manager}` did not become idle within {after:?}{}; it closes itself when it does",
        Late(detached_hooks)
    )]
    CloseTimedOut {
        /// The manager's label.
        manager: Arc<str>,
        /// The time given.
        after: Duration,
        /// Hooks that outlived their deadline and have not come back.
        detached_hooks: Vec<DetachedHook>,
    },
}

impl Error {
    /// The first error of type `E` in this error, what it carries, and their sources.
    pub fn find<E: std::error::Error + 'static>(&self) -> Option<&E> {
        let mut next: Option<&(dyn std::error::Error + 'static)> = Some(self);
        while let Some(error) = next {
            if let Some(found) = error.downcast_ref::<E>() {
                return Some(found);
            }
            next = match error.downcast_ref::<Error>() {
                Some(error) => error.carried(),
                None => error.source(),
            };
        }
        None
    }

    /// The error that this one's message shows, as a value.
    fn carried(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Backend(error) => Some(error),
            Error::DeviceLost { cause, .. } | Error::Execution { cause, .. } => Some(cause),
            Error::OutOfMemory(error) => Some(error.as_ref()),
            Error::Cleanup(failure) => Some(&failure.primary),
            Error::AfterFinish(error) => Some(error),
            _ => None,
        }
    }

    /// True if the device is lost (L23).
    pub fn is_device_lost(&self) -> bool {
        match self {
            Error::DeviceLost { .. } => true,
            Error::Backend(error) => error.kind == BackendErrorKind::DeviceLost,
            _ => false,
        }
    }
}

/// Names late hooks in a message.
struct Late<'a>(&'a [DetachedHook]);

impl fmt::Display for Late<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for hook in self.0 {
            write!(f, "; hook `{}` of scope `{}` has not come back", hook.hook, hook.scope)?;
        }
        Ok(())
    }
}

/// Kinds of resources, for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ResourceKind {
    /// A tensor.
    Tensor,
    /// A sequence.
    Sequence,
    /// A compiled kernel.
    Kernel,
    /// A scope.
    Scope,
}

impl fmt::Display for ResourceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ResourceKind::Tensor => "tensor",
            ResourceKind::Sequence => "sequence",
            ResourceKind::Kernel => "kernel",
            ResourceKind::Scope => "scope",
        })
    }
}

/// How a resource's life ended, for [`Error::Stale`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EndOfLife {
    /// Destroyed explicitly, there.
    Destroyed(Site),
    /// Its scope finished.
    ScopeFinished(Arc<str>),
    /// Its manager closed.
    ManagerClosed(Arc<str>),
    /// Replaced by a new one of the same name, there.
    Replaced(Site),
}

impl fmt::Display for EndOfLife {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EndOfLife::Destroyed(site) => write!(f, "destroyed at {site}"),
            EndOfLife::ScopeFinished(scope) => write!(f, "scope `{scope}` has finished"),
            EndOfLife::ManagerClosed(manager) => write!(f, "manager `{manager}` has closed"),
            EndOfLife::Replaced(site) => write!(f, "replaced at {site}"),
        }
    }
}

/// The figures of a request for memory that could not be met (L20). All sizes in bytes.
#[derive(Clone, Debug)]
pub struct OutOfMemory {
    /// Label of the tensor asked for.
    pub label: Arc<str>,
    /// Bytes asked for.
    pub requested: u64,
    /// The manager's budget, if it has one.
    pub budget: Option<u64>,
    /// Bytes that tensors held.
    pub live: u64,
    /// Bytes waiting for the device.
    pub retired: u64,
    /// Bytes kept for reuse.
    pub cached: u64,
    /// The largest holders, largest first.
    pub largest: Vec<Holder>,
    /// What the driver said, where it was asked.
    pub driver: Option<BackendError>,
    /// What the out-of-memory callback answered, if it failed.
    pub callback: Option<SharedError>,
}

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "out of memory for `{}`: {} bytes requested", self.label, self.requested)?;
        if let Some(budget) = self.budget {
            write!(f, ", budget {budget}")?;
        }
        write!(f, ", live {}, retired {}, cached {}", self.live, self.retired, self.cached)?;
        for (at, holder) in self.largest.iter().enumerate() {
            f.write_str(if at == 0 { "; largest: " } else { ", " })?;
            write!(f, "`{}` {} bytes", holder.label, holder.bytes)?;
        }
        if let Some(driver) = &self.driver {
            write!(f, "; driver: {driver}")?;
        }
        if let Some(callback) = &self.callback {
            write!(f, "; callback: {callback}")?;
        }
        Ok(())
    }
}

impl std::error::Error for OutOfMemory {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match (&self.callback, &self.driver) {
            (Some(callback), _) => Some(callback.as_ref()),
            (None, Some(driver)) => Some(driver),
            (None, None) => None,
        }
    }
}

/// What went wrong in a scope's cleanup: the earliest error and the others in run order (L13).
#[derive(Clone, Debug)]
pub struct CleanupFailure {
    /// The earliest error.
    pub primary: CleanupError,
    /// The others, in run order, bounded as the report is.
    pub others: Vec<CleanupError>,
    /// The report of the scope, complete.
    pub report: ScopeReport,
}

impl fmt::Display for CleanupFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A lone error comes back as it is (L13).
        self.primary.fmt(f)?;
        if !self.others.is_empty() {
            write!(f, " (and {} more)", self.report.error_count.saturating_sub(1))?;
        }
        Ok(())
    }
}

impl std::error::Error for CleanupFailure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(self.primary.source.as_ref())
    }
}

/// What ended a scope that had a body: the body's own error, or its cleanup's (L13).
#[derive(Debug)]
pub enum RunError<E> {
    /// The body failed. Its error is first, whatever the cleanup said; `report.errors` holds the rest.
    Body {
        /// The body's error, as it is.
        error: E,
        /// The report of the scope, with the cleanup's errors; none if finishing was refused.
        report: Option<Box<ScopeReport>>,
    },
    /// The body succeeded and the scope did not.
    Scope(Error),
}

impl<E> RunError<E> {
    /// The body's error, if the body failed.
    pub fn body(self) -> Option<E> {
        match self {
            RunError::Body { error, .. } => Some(error),
            RunError::Scope(_) => None,
        }
    }

    /// The report of the scope, if it came to one.
    pub fn report(&self) -> Option<&ScopeReport> {
        match self {
            RunError::Body { report, .. } => report.as_deref(),
            RunError::Scope(Error::Cleanup(failure)) => Some(&failure.report),
            RunError::Scope(_) => None,
        }
    }
}

impl<E: fmt::Display> fmt::Display for RunError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::Body { error, .. } => error.fmt(f),
            RunError::Scope(error) => error.fmt(f),
        }
    }
}

impl<E: std::error::Error + 'static> std::error::Error for RunError<E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            RunError::Body { error, .. } => error.source(),
            RunError::Scope(error) => error.source(),
        }
    }
}
