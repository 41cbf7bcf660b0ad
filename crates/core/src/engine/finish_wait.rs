//! Waiting for a scope to finish: the future behind every `finish`, blocking or not.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::engine::finish::{Beginning, Mode};
use crate::engine::frames;
use crate::engine::scopes::ScopeCell;
use crate::engine::wakers::{Waiter, WaiterId};
use crate::error::Error;
use crate::report::{Outcome, ScopeReport};

/// Waits for a scope to finish, and does the work itself where it may.
pub(crate) struct FinishWait {
    scope: Arc<ScopeCell>,
    requested: Outcome,
    stage: Stage,
    /// Once it was polled by somebody who can be woken.
    waiter: Option<WaiterId>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Begin,
    Waiting,
    Done,
}

impl FinishWait {
    pub(crate) fn new(scope: Arc<ScopeCell>, requested: Outcome) -> Self {
        FinishWait { scope, requested, stage: Stage::Begin, waiter: None }
    }

    /// Waits for a finish that has begun.
    pub(crate) fn begun(scope: Arc<ScopeCell>) -> Self {
        scope.inner.lock().finish.waiters += 1;
        FinishWait { scope, requested: Outcome::Completed, stage: Stage::Waiting, waiter: None }
    }

    fn begin(&mut self) -> Result<(), Error> {
        if frames::inside_hook_under(&self.scope) {
            let what = format!("scope `{}`", self.scope.label);
            return Err(Error::WouldDeadlock { what: what.into() });
        }
        match self.scope.begin_finish(self.requested, true) {
            Beginning::Begun | Beginning::UnderWay => Ok(()),
            Beginning::Over(outcome) => {
                Err(Error::ScopeFinished { scope: self.scope.label.clone(), outcome })
            }
        }
    }
}

impl Future for FinishWait {
    type Output = Result<ScopeReport, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Err(error) = self.scope.engine.check_process() {
            self.stage = Stage::Done;
            return Poll::Ready(Err(error));
        }
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
        let waiter = Waiter::of(&mut self.waiter, context.waker());
        if self.scope.may_run() {
            if self.scope.poll_run(Mode::Finish, &waiter).is_pending() {
                return Poll::Pending;
            }
        } else {
            // Asked each time: it may have become the cleanup thread's since the last poll, by a hook with a deadline, or
            // since this thread is the cleanup thread no more (L16).
            self.scope.engine.push_scope(&self.scope, Mode::Finish);
        }
        let result = self.scope.poll_result(&waiter);
        if result.is_ready() {
            self.stage = Stage::Done;
            self.scope.engine.close_if_orphaned();
        }
        result
    }
}

impl Drop for FinishWait {
    fn drop(&mut self) {
        if self.stage == Stage::Waiting && !self.scope.engine.is_foreign_process() && !self.scope.has_result()
        {
            let removed = {
                let mut inner = self.scope.inner.lock();
                inner.finish.waiters -= 1;
                // The last one who waited: what the rest fails with is the manager's to keep.
                inner.finish.unattended |= inner.finish.waiters == 0;
                self.waiter.and_then(|waiter| inner.wakers.remove(waiter))
            };
            drop(removed);
            // L18: the rest goes to the cleanup thread.
            self.scope.engine.push_scope(&self.scope, Mode::Finish);
        }
    }
}
