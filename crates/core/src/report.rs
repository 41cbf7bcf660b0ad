//! Reports: plain data about what a scope, a manager, a trim or a poll did.
//!
//! Reports own nothing of the device and can be kept for ever. Not here: how the figures come about.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::cleanup::Period;
use crate::error::{Error, SharedError, Site};
use crate::sequence::SequenceState;

/// Most errors that a report lists; the rest is counted (L16).
pub const MAX_REPORTED_ERRORS: usize = 64;

/// How a scope ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// `finish` was called and nothing had failed.
    Completed,
    /// The body or an execution failed.
    Failed,
    /// It was cancelled.
    Cancelled,
    /// Its executions did not retire within the deadline.
    TimedOut,
    /// The body panicked.
    Panicked,
    /// It was dropped without `finish`, or open when the manager closed.
    Abandoned,
    /// The device was lost.
    DeviceLost,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// One thing that went wrong while a scope was cleaned up, with all that is known of it (L13).
#[derive(Clone, Debug)]
pub struct CleanupError {
    /// What kind of fault.
    pub kind: CleanupErrorKind,
    /// The hook's label; none for an execution's own failure.
    pub hook: Option<Arc<str>>,
    /// The scope's label.
    pub scope: Arc<str>,
    /// The sequence's name, for execution hooks and failed executions.
    pub sequence: Option<Arc<str>>,
    /// The execution's number in its scope, from 1.
    pub execution: Option<u64>,
    /// The error itself, as the hook or device gave it.
    pub source: SharedError,
}

impl fmt::Display for CleanupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.hook, self.kind) {
            (Some(hook), CleanupErrorKind::Panicked) => write!(f, "hook `{hook}` panicked")?,
            (Some(hook), CleanupErrorKind::TimedOut) => write!(f, "hook `{hook}` outlived its deadline")?,
            (Some(hook), _) => write!(f, "hook `{hook}` failed")?,
            (None, _) => f.write_str("execution failed")?,
        }
        write!(f, " in scope `{}`", self.scope)?;
        if let (Some(sequence), Some(execution)) = (&self.sequence, self.execution) {
            write!(f, " (sequence `{sequence}`, execution {execution})")?;
        }
        write!(f, ": {}", self.source)
    }
}

impl std::error::Error for CleanupError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(self.source.as_ref())
    }
}

/// Kinds of [`CleanupError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CleanupErrorKind {
    /// The hook returned an error.
    Failed,
    /// The hook panicked; the source has the message.
    Panicked,
    /// The hook outlived its deadline.
    TimedOut,
    /// An execution failed and nobody had looked at it.
    Execution,
    /// The device was lost.
    DeviceLost,
}

/// One row a registration: how often a hook ran and for how long (L16).
#[derive(Clone, Debug)]
pub struct HookReport {
    /// The hook's label.
    pub label: Arc<str>,
    /// Its key, if it has one.
    pub key: Option<Arc<str>>,
    /// When it runs.
    pub period: Period,
    /// Runs that were started, failed ones included.
    pub runs: u64,
    /// Runs that failed, panicked or timed out.
    pub failed: u64,
    /// Runs that were skipped: a device hook after loss, or a hook that never came back (L14).
    pub skipped: u64,
    /// Time of all runs.
    pub total: Duration,
    /// Time of the longest run.
    pub longest: Duration,
}

/// What finishing a scope did (L16).
#[derive(Clone, Debug)]
pub struct ScopeReport {
    /// The scope's label.
    pub scope: Arc<str>,
    /// How it ended.
    pub outcome: Outcome,
    /// Executions that were submitted in it, not in the scopes below it.
    pub executions: u64,
    /// One row a registration, in the order of registration.
    pub hooks: Vec<HookReport>,
    /// Scope-local tensors that finishing retired. Those whose handles had gone before are not among them.
    pub released_tensors: u64,
    /// Bytes of those tensors.
    pub released_bytes: u64,
    /// Bytes that the policy's trim gave back at this finish.
    pub trimmed_bytes: u64,
    /// Most bytes that scope-local tensors held at a time.
    pub peak_bytes: u64,
    /// The first [`MAX_REPORTED_ERRORS`] errors, in run order.
    pub errors: Vec<CleanupError>,
    /// All errors.
    pub error_count: u64,
    /// From the scope's opening to the end of its finish.
    pub duration: Duration,
}

impl ScopeReport {
    /// The row of the hook with this label.
    pub fn hook(&self, label: &str) -> Option<&HookReport> {
        self.hooks.iter().find(|row| &*row.label == label)
    }
}

impl fmt::Display for ScopeReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "scope `{}`: {} after {:?}", self.scope, self.outcome, self.duration)?;
        writeln!(
            f,
            "  {} executions; released {} tensors, {} bytes; peak {} bytes; trimmed {} bytes",
            self.executions, self.released_tensors, self.released_bytes, self.peak_bytes, self.trimmed_bytes
        )?;
        for hook in &self.hooks {
            writeln!(
                f,
                "  hook `{}` ({:?}): {} runs, {} failed, {} skipped, total {:?}, longest {:?}",
                hook.label, hook.period, hook.runs, hook.failed, hook.skipped, hook.total, hook.longest
            )?;
        }
        for error in &self.errors {
            writeln!(f, "  error: {error}")?;
        }
        let hidden = self.error_count - self.errors.len() as u64;
        if hidden > 0 {
            writeln!(f, "  and {hidden} more errors")?;
        }
        Ok(())
    }
}

/// Bytes and driver blocks in one state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes, as granted (rounded up to what the pool hands out).
    pub bytes: u64,
    /// Driver blocks. A shared block counts once, by the most alive of what it holds.
    pub blocks: u64,
}

impl std::ops::Add for Usage {
    type Output = Usage;

    fn add(self, other: Usage) -> Usage {
        Usage {
            bytes: self.bytes.saturating_add(other.bytes),
            blocks: self.blocks.saturating_add(other.blocks),
        }
    }
}

/// The manager's memory at one moment: `reserved = live + retired + cached` in bytes and blocks (L19).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryReport {
    /// Held by tensors.
    pub live: Usage,
    /// Given up, and still used by the device or in quarantine.
    pub retired: Usage,
    /// Kept for reuse.
    pub cached: Usage,
    /// All that was taken from the driver.
    pub reserved: Usage,
    /// Memory of the host engine that tensors have, until it is released; no part of `reserved`.
    pub adopted: Usage,
    /// Most live bytes at a time.
    pub peak_live_bytes: u64,
    /// Most reserved bytes at a time.
    pub peak_reserved_bytes: u64,
    /// Tensors that are live, empty ones included.
    pub tensors: u64,
    /// Driver allocations that succeeded.
    pub allocations: u64,
    /// Driver frees.
    pub frees: u64,
    /// Blocks given up with a lost device (L23).
    pub abandoned: u64,
    /// Requests that ended in an error.
    pub failed_allocations: u64,
    /// Requests that were tried again after reclaiming and trimming (L20).
    pub retries: u64,
    /// Trims that looked for something to give back.
    pub trims: u64,
    /// Requests served without the driver.
    pub cache_hits: u64,
    /// Errors of frees and other teardown calls.
    pub teardown_errors: u64,
    /// The largest piece that can be granted without the driver, in bytes.
    pub largest_free_bytes: u64,
    /// The budget, if there is one.
    pub budget: Option<u64>,
}

impl fmt::Display for MemoryReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "reserved {} = live {} + retired {} + cached {} bytes; peak {} live, {} reserved; {} allocations, {} frees",
            self.reserved.bytes,
            self.live.bytes,
            self.retired.bytes,
            self.cached.bytes,
            self.peak_live_bytes,
            self.peak_reserved_bytes,
            self.allocations,
            self.frees
        )
    }
}

/// What a trim gave back to the driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrimReport {
    /// Bytes of the pool's blocks and of what the backend itself cached.
    pub bytes: u64,
    /// The pool's blocks.
    pub blocks: u64,
}

/// What one [`Manager::poll`](crate::Manager::poll) did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PollReport {
    /// Executions that retired.
    pub retired: u64,
    /// Cleanup jobs that ran.
    pub jobs: u64,
}

/// One holder of memory, for out-of-memory errors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The tensor's label.
    pub label: Arc<str>,
    /// Its bytes.
    pub bytes: u64,
}

/// What a manager still held when it closed, and who kept it (L28).
#[derive(Clone, Debug)]
pub struct Leak {
    /// The tensor's label.
    pub tensor: Arc<str>,
    /// Its bytes.
    pub bytes: u64,
    /// Where it was made.
    pub site: Site,
    /// Handles that the user still has.
    pub handles: usize,
    /// Sequences whose recording names it: (sequence, scope).
    pub kept_by: Vec<(Arc<str>, Arc<str>)>,
}

impl fmt::Display for Leak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tensor `{}` ({}, made at {}) kept by ", self.tensor, Bytes(self.bytes), self.site)?;
        let mut first = true;
        for (sequence, scope) in &self.kept_by {
            if !first {
                f.write_str(", ")?;
            }
            first = false;
            write!(f, "sequence `{sequence}` of scope `{scope}`")?;
        }
        if self.handles > 0 {
            if !first {
                f.write_str(" and ")?;
            }
            write!(f, "{} handle{}", self.handles, if self.handles == 1 { "" } else { "s" })?;
        } else if first {
            f.write_str("nobody")?;
        }
        Ok(())
    }
}

/// What closing a manager found and did (L28).
#[derive(Clone, Debug)]
pub struct CloseReport {
    /// The manager's label.
    pub manager: Arc<str>,
    /// Tensors that were still held.
    pub leaks: Vec<Leak>,
    /// Scopes that nobody had finished; closing did.
    pub unfinished_scopes: Vec<UnfinishedScope>,
    /// Hooks that outlived their deadline and had not come back.
    pub detached_hooks: Vec<DetachedHook>,
    /// The memory figures after everything was given back.
    pub memory: MemoryReport,
    /// Errors of teardown and of hooks that closing ran.
    pub errors: Vec<Error>,
}

impl CloseReport {
    /// True if nothing was held, left open or went wrong.
    pub fn is_clean(&self) -> bool {
        self.leaks.is_empty()
            && self.unfinished_scopes.is_empty()
            && self.detached_hooks.is_empty()
            && self.errors.is_empty()
    }
}

impl fmt::Display for CloseReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "manager `{}` closed: {}", self.manager, self.memory)?;
        for leak in &self.leaks {
            writeln!(f, "  still held: {leak}")?;
        }
        for scope in &self.unfinished_scopes {
            writeln!(f, "  scope `{}` (made at {}) was never finished", scope.scope, scope.site)?;
        }
        for hook in &self.detached_hooks {
            writeln!(f, "  hook `{}` of scope `{}` has not come back", hook.hook, hook.scope)?;
        }
        for error in &self.errors {
            writeln!(f, "  error: {error}")?;
        }
        Ok(())
    }
}

/// A scope that nobody had finished when its manager closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnfinishedScope {
    /// The scope's label.
    pub scope: Arc<str>,
    /// Where it was made.
    pub site: Site,
    /// Hooks that were registered and had not run before closing ran them.
    pub hooks: Vec<Arc<str>>,
}

/// A hook that outlived its deadline and still runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DetachedHook {
    /// The hook's label.
    pub hook: Arc<str>,
    /// Its scope's label.
    pub scope: Arc<str>,
}

/// One sequence of a scope, for listings (L8).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SequenceInfo {
    /// Its name; anonymous ones have a number.
    pub name: Arc<str>,
    /// Its state.
    pub state: SequenceState,
    /// Where it was made.
    pub site: Site,
}

/// Bytes in the largest unit that divides them well.
struct Bytes(u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(&str, u64); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
        for (name, unit) in UNITS {
            if self.0 >= unit && self.0.is_multiple_of(unit) {
                return write!(f, "{} {name}", self.0 / unit);
            }
        }
        write!(f, "{} bytes", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_show_the_largest_whole_unit() {
        assert_eq!(Bytes(64 << 20).to_string(), "64 MiB");
        assert_eq!(Bytes(1536).to_string(), "1536 bytes");
        assert_eq!(Bytes(0).to_string(), "0 bytes");
    }

    #[test]
    fn a_leak_names_its_keepers() {
        let site = std::panic::Location::caller();
        let mut leak = Leak { tensor: "w".into(), bytes: 1024, site, handles: 0, kept_by: Vec::new() };
        assert!(leak.to_string().ends_with("kept by nobody"), "{leak}");
        leak.kept_by.push(("blur".into(), "chain".into()));
        leak.handles = 2;
        assert!(
            leak.to_string().ends_with("kept by sequence `blur` of scope `chain` and 2 handles"),
            "{leak}"
        );
    }
}
