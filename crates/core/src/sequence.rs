//! Handles of sequences and executions: [`ManagedSequence`] and [`Execution`].
//!
//! Not here: what the scope keeps of a sequence (`engine/sequences.rs`) and submitting (`engine/evaluate.rs`).

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::backend::TimelinePoint;
use crate::engine::execution::{ExecutionCell, Waited};
use crate::engine::sequences::{Native, SequenceCell};
use crate::engine::wait::deadline_after;
use crate::engine::wakers::{Waiter, WaiterId};
use crate::error::{EndOfLife, Error};
use crate::operation::Op;

/// The states of a sequence (L7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SequenceState {
    /// Nothing was recorded since it was made or reset.
    Recording,
    /// It can be evaluated and has not been since it was last recorded to.
    Ready,
    /// Its last evaluation was submitted and has not retired.
    Running,
    /// Its last evaluation completed.
    Finished,
    /// Its last evaluation failed.
    Failed,
    /// Its scope was cancelled before it started.
    Cancelled,
}

/// Handle of a sequence. Cheap to clone; the scope owns the sequence. An anonymous one goes by itself when
/// its last handle is gone and its last execution has retired (L8).
pub struct ManagedSequence {
    cell: Arc<SequenceCell>,
}

impl Clone for ManagedSequence {
    fn clone(&self) -> Self {
        ManagedSequence::new(self.cell.clone())
    }
}

impl Drop for ManagedSequence {
    fn drop(&mut self) {
        if !self.cell.engine().is_foreign_process() {
            self.cell.drop_handle();
        }
    }
}

impl fmt::Debug for ManagedSequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cell = self.cell();
        f.debug_struct("ManagedSequence")
            .field("name", &cell.name)
            .field("scope", &cell.scope.label)
            .field("state", &cell.state())
            .finish()
    }
}

impl ManagedSequence {
    pub(crate) fn new(cell: Arc<SequenceCell>) -> Self {
        cell.add_handle();
        ManagedSequence { cell }
    }

    fn cell(&self) -> &Arc<SequenceCell> {
        &self.cell
    }

    /// The name; "anonymous" for an anonymous sequence.
    pub fn name(&self) -> &str {
        &self.cell().name
    }

    /// True if it was made with a name.
    pub fn is_named(&self) -> bool {
        self.cell().named
    }

    /// The state.
    pub fn state(&self) -> SequenceState {
        self.cell().state()
    }

    /// Number of recorded operations.
    #[allow(clippy::len_without_is_empty, reason = "`is_empty` is below")]
    pub fn len(&self) -> usize {
        self.cell().inner.lock().recording.operations.len()
    }

    /// True if nothing is recorded.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends an operation. What it names is kept alive until the sequence is reset or destroyed and its last
    /// execution has retired (L5).
    ///
    /// # Errors
    /// [`Error::Busy`] while running, [`Error::Stale`] for the sequence or a tensor, [`Error::ForeignManager`],
    /// [`Error::Length`], [`Error::Aliased`], [`Error::Binding`], [`Error::TooLarge`],
    /// [`Error::TooManyGroups`]. Nothing is recorded then.
    pub fn record(&self, operation: impl Into<Op>) -> Result<&Self, Error> {
        let cell = self.cell();
        let engine = cell.engine();
        let operation = operation.into().kind;
        cell.check(&cell.inner.lock())?;
        engine.check_open().map_err(|error| cell.stale_if_closed(error))?;
        engine.check_operation(&operation)?;
        let mut inner = cell.inner.lock();
        cell.check(&inner)?;
        inner.recording.push(operation);
        inner.native = match std::mem::replace(&mut inner.native, Native::None) {
            Native::Encoded(native, arena) => Native::Stale(native, arena),
            other => other,
        };
        inner.state = SequenceState::Ready;
        Ok(self)
    }

    /// Discards what was recorded and lets go of what it kept alive.
    ///
    /// # Errors
    /// [`Error::Busy`] while running, [`Error::Stale`].
    pub fn reset(&self) -> Result<(), Error> {
        let cell = self.cell();
        cell.engine().check_process()?;
        let (recording, native) = {
            let mut inner = cell.inner.lock();
            cell.check(&inner)?;
            inner.state = SequenceState::Recording;
            (std::mem::take(&mut inner.recording), std::mem::replace(&mut inner.native, Native::None))
        };
        native.recycle(cell.engine());
        drop(recording);
        Ok(())
    }

    /// Submits one evaluation of what is recorded. Returns at once.
    ///
    /// # Errors
    /// [`Error::Busy`] while running, [`Error::Stale`] if the sequence or anything it names was destroyed (L3),
    /// [`Error::Cancelled`], [`Error::ScopeFinishing`], [`Error::DeviceLost`], [`Error::Backend`]. Nothing is
    /// submitted then.
    pub fn evaluate(&self) -> Result<Execution, Error> {
        let cell = self.cell();
        let (execution, _pass) = cell.engine().evaluate(cell)?;
        Ok(Execution::new(execution))
    }

    /// Evaluates and waits for the result.
    ///
    /// # Errors
    /// As [`ManagedSequence::evaluate`] and [`Execution::wait`].
    pub fn run(&self) -> Result<(), Error> {
        let cell = self.cell();
        let (execution, pass) = cell.engine().evaluate(cell)?;
        execution.wait_from(Some(pass), None).map(|_completed| ())
    }

    /// Destroys the sequence. A running execution completes; what it uses stays until then. Twice is Ok.
    ///
    /// # Errors
    /// [`Error::ForkedProcess`].
    #[track_caller]
    pub fn destroy(&self) -> Result<(), Error> {
        let site = std::panic::Location::caller();
        self.cell().engine().check_process()?;
        self.cell().scope.destroy_sequence(self.cell(), EndOfLife::Destroyed(site));
        Ok(())
    }
}

/// How far an execution is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ExecutionStatus {
    /// Submitted, not retired.
    Running,
    /// Retired, its result is there.
    Completed,
    /// Retired with a failure.
    Failed,
}

/// One evaluation of a sequence: a future of its result.
///
/// The result is there before the execution's hooks run; only `finish` waits for those (L7). Dropping it
/// cancels the wait, never the work (L18).
pub struct Execution {
    cell: Arc<ExecutionCell>,
    /// Once it was polled.
    waiter: Option<WaiterId>,
}

impl Clone for Execution {
    fn clone(&self) -> Self {
        Execution::new(self.cell.clone())
    }
}

impl Drop for Execution {
    fn drop(&mut self) {
        if let Some(waiter) = self.waiter
            && !self.cell.engine().is_foreign_process()
        {
            self.cell.forget_waiter(waiter);
        }
    }
}

impl fmt::Debug for Execution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Execution")
            .field("sequence", &self.cell.sequence.name)
            .field("number", &self.cell.number)
            .field("status", &self.status())
            .finish()
    }
}

impl Execution {
    fn new(cell: Arc<ExecutionCell>) -> Self {
        Execution { cell, waiter: None }
    }

    /// Its number in its scope, from 1.
    pub fn number(&self) -> u64 {
        self.cell.number
    }

    /// The point that its queue's timeline reaches with it.
    pub fn point(&self) -> TimelinePoint {
        self.cell.point
    }

    /// How far it is, without waiting. Does not count as having seen a failure.
    pub fn status(&self) -> ExecutionStatus {
        match self.cell.peek() {
            None => ExecutionStatus::Running,
            Some(Ok(())) => ExecutionStatus::Completed,
            Some(Err(_)) => ExecutionStatus::Failed,
        }
    }

    /// Blocks until it has retired.
    ///
    /// # Errors
    /// [`Error::Execution`] if the work failed, [`Error::DeviceLost`], and [`Error::WouldDeadlock`] from inside
    /// one of its own hooks (L15).
    pub fn wait(&self) -> Result<(), Error> {
        self.cell.wait(None).map(|_completed| ())
    }

    /// Blocks until it has retired, for `timeout` at most.
    ///
    /// # Errors
    /// [`Error::TimedOut`]: the sequence is still running and holds what it holds (L7). Else as [`Execution::wait`].
    pub fn wait_timeout(&self, timeout: Duration) -> Result<(), Error> {
        match self.cell.wait(deadline_after(timeout))? {
            Waited::Completed => Ok(()),
            Waited::TimedOut => {
                let sequence = &self.cell.sequence.name;
                let what = format!("execution {} of sequence `{sequence}`", self.cell.number);
                Err(Error::TimedOut { what: what.into(), after: timeout })
            }
        }
    }
}

impl Future for Execution {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let waiter = Waiter::of(&mut self.waiter, context.waker());
        self.cell.poll_wait(&waiter)
    }
}
