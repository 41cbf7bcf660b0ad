//! Waiting for a scope to finish: the future behind every `finish`, blocking or not.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::engine::finish::Mode;
use crate::engine::frames;
use crate::engine::scopes::ScopeCell;
use crate::engine::threads::Job;
use crate::error::Error;
use crate::report::{Outcome, ScopeReport};

/// Waits for a scope to finish, and does the work itself where it may.
pub(crate) struct FinishWait {
    scope: Arc<ScopeCell>,
    requested: Outcome,
    stage: Stage,
    /// The scope's parent asks: a scope that has finished already is no error.
    implied: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Begin,
    Waiting,
    Done,
}

impl FinishWait {
    pub(crate) fn new(scope: Arc<ScopeCell>, requested: Outcome) -> Self {
        FinishWait { scope, requested, stage: Stage::Begin, implied: false }
    }

    pub(crate) fn implied(scope: Arc<ScopeCell>, requested: Outcome) -> Self {
        FinishWait { scope, requested, stage: Stage::Begin, implied: true }
    }

    /// Waits for a finish that has begun.
    pub(crate) fn begun(scope: Arc<ScopeCell>) -> Self {
        FinishWait { scope, requested: Outcome::Completed, stage: Stage::Waiting, implied: false }
    }

    /// True if this thread may run the hooks itself.
    fn may_run(&self) -> bool {
        let needs_cleanup_thread = self.scope.inner.lock().finish.needs_cleanup_thread;
        !needs_cleanup_thread || self.scope.engine.on_cleanup_thread()
    }

    fn begin(&mut self) -> Result<(), Error> {
        let engine = &self.scope.engine;
        engine.check_process()?;
        if frames::inside_hook_under(&self.scope) {
            let what = format!("scope `{}`", self.scope.label);
            return Err(Error::WouldDeadlock { what: what.into() });
        }
        match self.scope.begin_finish(self.requested) {
            Ok(_) => {}
            Err(Error::ScopeFinished { .. }) if self.implied => {}
            Err(error) => return Err(error),
        }
        if !self.may_run() {
            engine.push_job(Job::Finish(self.scope.clone()));
        }
        Ok(())
    }
}

impl Future for FinishWait {
    type Output = Result<ScopeReport, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.stage == Stage::Begin {
            if let Err(error) = self.begin() {
                self.stage = Stage::Done;
                return Poll::Ready(Err(error));
            }
            self.stage = Stage::Waiting;
        }
        if !self.scope.engine.options.threads {
            self.scope.engine.retire_and_queue_hooks();
        }
        if self.may_run() && self.scope.poll_run(Mode::Finish, context).is_pending() {
            return Poll::Pending;
        }
        let mut inner = self.scope.inner.lock();
        match inner.result.clone() {
            Some(result) => {
                drop(inner);
                self.stage = Stage::Done;
                Poll::Ready(result)
            }
            None => {
                inner.register_waker(context.waker());
                Poll::Pending
            }
        }
    }
}

impl Drop for FinishWait {
    fn drop(&mut self) {
        if self.stage == Stage::Waiting && !self.scope.engine.is_foreign_process() {
            // L18: the rest goes to the cleanup thread.
            self.scope.engine.push_job(Job::Finish(self.scope.clone()));
        }
    }
}
