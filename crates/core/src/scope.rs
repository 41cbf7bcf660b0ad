//! [`ManagedScope`], the handle that ends its scope, and [`Finish`], a finish under way.
//!
//! Not here: what a scope can do (`scope_ref.rs`), what the manager keeps of it (`engine/scopes.rs`) and how it
//! finishes (`engine/finish.rs`).

use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::engine::finish::Mode;
use crate::engine::finish_wait::FinishWait;
use crate::engine::scopes::ScopeCell;
use crate::error::{Error, RunError};
use crate::report::{Outcome, ScopeReport};
use crate::scope_ref::ScopeRef;
use crate::sync::atomic::{AtomicBool, Ordering};

/// A scope: owns sequences, local tensors, child scopes and hooks, and finishes exactly once.
///
/// Dropped without `finish` it neither blocks nor panics: the cleanup thread finishes it as
/// [`Outcome::Abandoned`], or [`Outcome::Panicked`] while unwinding (L17). All methods of [`ScopeRef`] are its own.
#[must_use = "a scope that is dropped at once is abandoned at once"]
pub struct ManagedScope {
    scope: ScopeRef,
    /// Its entries went to another handle.
    moved: AtomicBool,
}

impl fmt::Debug for ManagedScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.scope.fmt(f)
    }
}

impl ManagedScope {
    pub(crate) fn new(cell: Arc<ScopeCell>) -> Self {
        ManagedScope { scope: ScopeRef::new(cell), moved: AtomicBool::new(false) }
    }

    fn cell(&self) -> &Arc<ScopeCell> {
        &self.scope.cell
    }

    /// Finishes the scope, in the order of L16. A second finish at the same time awaits the same result.
    ///
    /// Hooks run while this future is polled, except those with a deadline, which the cleanup thread runs.
    /// Dropping the future moves what is left to the cleanup thread (L18).
    ///
    /// # Errors
    /// [`Error::Cleanup`] with the earliest error and the report; [`Error::ScopeFinished`] if it has finished
    /// before; [`Error::WouldDeadlock`] from inside a hook of its own or of a scope below.
    pub fn finish(&self) -> Finish {
        self.finish_as(Outcome::Completed)
    }

    fn finish_as(&self, outcome: Outcome) -> Finish {
        if self.moved.load(Ordering::Acquire) {
            return Finish::refused(Error::ScopeMoved { scope: self.cell().label.clone() });
        }
        Finish { wait: Ok(FinishWait::new(self.cell().clone(), outcome)) }
    }

    /// As [`ManagedScope::finish`], blocking.
    ///
    /// # Errors
    /// As [`ManagedScope::finish`].
    pub fn finish_blocking(&self) -> Result<ScopeReport, Error> {
        self.block(self.finish())
    }

    fn block(&self, finish: Finish) -> Result<ScopeReport, Error> {
        self.cell().engine.block_on(finish, None).expect("a wait without a time has a result")
    }

    /// Finishes with the result of the scope's body: `Err` makes the outcome `Failed`, and stays the first
    /// error whatever the cleanup says (L13).
    ///
    /// ```
    /// # use tenure_backend_host::HostBackend;
    /// # use tenure_core::{Manager, ManagerOptions};
    /// let manager = Manager::open_with(HostBackend::new(), ManagerOptions::default())?;
    /// let scope = manager.scope("job")?;
    /// let result: Result<(), String> = Err("bad input".into());
    /// let error = scope.finish_with(result).unwrap_err();
    /// assert_eq!(error.report().unwrap().outcome, tenure_core::Outcome::Failed);
    /// assert_eq!(error.body(), Some("bad input".into()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`RunError::Body`] with the body's error as it is, [`RunError::Scope`] as [`ManagedScope::finish`].
    pub fn finish_with<T, E>(&self, result: Result<T, E>) -> Result<(T, ScopeReport), RunError<E>> {
        let finished = self.block(self.finish_as(outcome_of(&result)));
        join(result, finished)
    }

    /// As [`ManagedScope::finish_with`], without blocking.
    ///
    /// # Errors
    /// As [`ManagedScope::finish_with`].
    pub async fn finish_with_async<T, E>(
        &self,
        result: Result<T, E>,
    ) -> Result<(T, ScopeReport), RunError<E>> {
        let finished = self.finish_as(outcome_of(&result)).await;
        join(result, finished)
    }

    /// Finishes after the body panicked; errors go to the manager's `take_errors`.
    pub(crate) fn finish_panicked(&self) {
        self.cell().set_unattended();
        // The result is read through the unattended errors.
        let _ = self.block(self.finish_as(Outcome::Panicked));
        self.cell().engine.keep_errors_of_abandoned(self.cell());
    }

    /// Hands entries and running work to a new root scope handle, without running a hook (L17). This handle
    /// then refuses to finish or move again with [`Error::ScopeMoved`], and dropping it is nothing.
    ///
    /// ```
    /// # use tenure_backend_host::HostBackend;
    /// # use tenure_core::{Manager, ManagerOptions};
    /// let manager = Manager::open_with(HostBackend::new(), ManagerOptions::default())?;
    /// let outer = manager.scope("request")?;
    /// let inner = outer.scope("background")?;
    /// let moved = inner.move_out()?;
    /// // The request ends; the background work does not.
    /// outer.finish_blocking()?;
    /// assert_eq!(moved.finish_blocking()?.scope.as_ref(), "background");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::ScopeFinishing`], [`Error::ScopeFinished`], [`Error::ScopeMoved`].
    pub fn move_out(&self) -> Result<ManagedScope, Error> {
        let error = || Error::ScopeMoved { scope: self.cell().label.clone() };
        if self.moved.load(Ordering::Acquire) {
            return Err(error());
        }
        self.cell().engine.detach_scope(self.cell())?;
        if self.moved.swap(true, Ordering::AcqRel) {
            return Err(error());
        }
        Ok(ManagedScope::new(self.cell().clone()))
    }
}

fn outcome_of<T, E>(result: &Result<T, E>) -> Outcome {
    if result.is_ok() { Outcome::Completed } else { Outcome::Failed }
}

fn join<T, E>(
    result: Result<T, E>,
    finished: Result<ScopeReport, Error>,
) -> Result<(T, ScopeReport), RunError<E>> {
    match (result, finished) {
        (Ok(value), Ok(report)) => Ok((value, report)),
        (Ok(_), Err(error)) => Err(RunError::Scope(error)),
        (Err(error), Ok(report)) => Err(RunError::Body { error, report: Some(Box::new(report)) }),
        (Err(error), Err(Error::Cleanup(failure))) => {
            Err(RunError::Body { error, report: Some(Box::new(failure.report.clone())) })
        }
        (Err(error), Err(_)) => Err(RunError::Body { error, report: None }),
    }
}

impl Deref for ManagedScope {
    type Target = ScopeRef;

    fn deref(&self) -> &ScopeRef {
        &self.scope
    }
}

impl Drop for ManagedScope {
    fn drop(&mut self) {
        let cell = self.cell();
        if self.moved.load(Ordering::Acquire) || cell.engine.is_foreign_process() {
            return;
        }
        let outcome = if std::thread::panicking() { Outcome::Panicked } else { Outcome::Abandoned };
        // Refused where somebody has begun: then there is nothing to do.
        if cell.begin_abandon(outcome) {
            cell.engine.push_scope(cell, Mode::Finish);
        }
    }
}

/// A finish under way: a future of the scope's report. Made by [`ManagedScope::finish`].
#[must_use = "a finish does nothing until it is polled"]
pub struct Finish {
    wait: Result<FinishWait, Option<Error>>,
}

impl Finish {
    fn refused(error: Error) -> Self {
        Finish { wait: Err(Some(error)) }
    }
}

impl fmt::Debug for Finish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Finish").finish_non_exhaustive()
    }
}

impl Future for Finish {
    type Output = Result<ScopeReport, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.wait {
            Ok(wait) => Pin::new(wait).poll(context),
            Err(error) => Poll::Ready(Err(error.take().expect("a finish is polled once after its end"))),
        }
    }
}
