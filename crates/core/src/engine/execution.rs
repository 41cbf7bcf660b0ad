//! Executions: one evaluation of one sequence, from its submission to its retirement.
//!
//! Not here: submitting (`engine/evaluate.rs`) and the handle that users wait with (`sequence.rs`).

use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use crate::backend::TimelinePoint;
use crate::engine::driver::NativeSequence;
use crate::engine::finish::Mode;
use crate::engine::gate::Pass;
use crate::engine::scopes::ScopeCell;
use crate::engine::sequences::SequenceCell;
use crate::engine::timeline::AfterPass;
use crate::engine::wakers::{Waiter, WaiterId, Wakers, Woken};
use crate::engine::{Engine, frames};
use crate::error::{BackendErrorKind, Error};
use crate::event::EventKind;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU8, Ordering};

pub(crate) struct ExecutionCell {
    pub point: TimelinePoint,
    /// Its number in its scope, from 1.
    pub number: u64,
    pub sequence: Arc<SequenceCell>,
    /// How many execution hooks the scope had when it was submitted: those it runs.
    pub hooks: usize,
    /// How far it is, for looks that take no lock.
    progress: AtomicU8,
    state: Mutex<ExecutionState>,
}

/// How far an execution is, as a number that an atomic can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Progress {
    /// Submitted, not retired.
    Running,
    /// The same, and somebody has left a waker in the state.
    Awaited,
    Succeeded,
    /// The failure is in the state.
    Failed,
}

impl Progress {
    fn of_number(number: u8) -> Self {
        match number {
            0 => Progress::Running,
            1 => Progress::Awaited,
            2 => Progress::Succeeded,
            _ => Progress::Failed,
        }
    }

    fn has_retired(self) -> bool {
        matches!(self, Progress::Succeeded | Progress::Failed)
    }
}

#[derive(Default)]
struct ExecutionState {
    /// Here before the progress says so.
    failure: Option<Box<Error>>,
    /// Somebody has seen the failure: it need not be reported again at finish (L13).
    observed: bool,
    wakers: Wakers,
}

/// How a wait ended that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waited {
    /// The execution has retired, without a failure.
    Completed,
    /// The time was over first.
    TimedOut,
}

impl ExecutionCell {
    pub(crate) fn new(point: TimelinePoint, number: u64, sequence: Arc<SequenceCell>, hooks: usize) -> Self {
        ExecutionCell {
            point,
            number,
            sequence,
            hooks,
            progress: AtomicU8::new(Progress::Running as u8),
            state: Mutex::new(ExecutionState::default()),
        }
    }

    pub(crate) fn scope(&self) -> &Arc<ScopeCell> {
        &self.sequence.scope
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.sequence.scope.engine
    }

    fn progress(&self) -> Progress {
        Progress::of_number(self.progress.load(Ordering::Acquire))
    }

    /// The result, once it is there; looking at it counts as having seen a failure.
    pub(crate) fn result(&self) -> Option<Result<(), Error>> {
        match self.progress() {
            Progress::Running | Progress::Awaited => None,
            Progress::Succeeded => Some(Ok(())),
            Progress::Failed => {
                let mut state = self.state.lock();
                state.observed = true;
                state.failure.as_deref().cloned().map(Err)
            }
        }
    }

    /// The result, without counting as having seen it.
    pub(crate) fn peek(&self) -> Option<Result<(), Error>> {
        match self.progress() {
            Progress::Running | Progress::Awaited => None,
            Progress::Succeeded => Some(Ok(())),
            Progress::Failed => self.state.lock().failure.as_deref().cloned().map(Err),
        }
    }

    /// The failure that nobody has seen.
    pub(crate) fn unseen_failure(&self) -> Option<Error> {
        if self.progress() != Progress::Failed {
            return None;
        }
        let state = self.state.lock();
        if state.observed { None } else { state.failure.as_deref().cloned() }
    }

    /// The result, or the promise to wake.
    pub(crate) fn poll(&self, waiter: &Waiter) -> Option<Result<(), Error>> {
        if self.poll_unseen(waiter) { self.result() } else { None }
    }

    /// True once retired, else the promise to wake; without counting as having seen the result.
    pub(crate) fn poll_unseen(&self, waiter: &Waiter) -> bool {
        if self.progress().has_retired() {
            return true;
        }
        let mut state = self.state.lock();
        // Before the waker is there, under the lock: whoever publishes the end sees it and comes for the waker, or has
        // published the end before.
        let awaited = Progress::Awaited as u8;
        let found = self.progress.compare_exchange(
            Progress::Running as u8,
            awaited,
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        let retired = Progress::of_number(found.unwrap_or_else(|found| found)).has_retired();
        let replaced = if retired { None } else { state.wakers.register(waiter) };
        drop(state);
        drop(replaced);
        if !retired {
            self.engine().rely_on_timeline();
        }
        retired
    }

    /// The waiter waits no more.
    pub(crate) fn forget_waiter(&self, waiter: WaiterId) {
        let removed = self.state.lock().wakers.remove(waiter);
        drop(removed);
    }

    /// Publishes the end.
    fn complete(&self, end: Progress, wake: &mut Vec<Woken>) {
        let before = self.progress.swap(end as u8, Ordering::AcqRel);
        if Progress::of_number(before) == Progress::Awaited {
            self.state.lock().wakers.take_into(wake);
        }
    }

    /// As a future: the result, or the promise to wake.
    pub(crate) fn poll_wait(self: &Arc<Self>, waiter: &Waiter) -> Poll<Result<(), Error>> {
        if let Err(error) = self.check_wait() {
            return Poll::Ready(Err(error));
        }
        if !self.engine().options.threads {
            self.engine().retire_and_queue_hooks();
        }
        match self.poll(waiter) {
            Some(result) => Poll::Ready(result),
            None => Poll::Pending,
        }
    }

    fn check_wait(&self) -> Result<(), Error> {
        self.engine().check_process()?;
        if frames::inside_hook_for(self.scope(), self.number) {
            let what = format!("execution {} of scope `{}`", self.number, self.scope().label);
            return Err(Error::WouldDeadlock { what: what.into() });
        }
        Ok(())
    }

    /// Blocks until the execution has retired, or until `deadline`: nothing has changed then (L7).
    ///
    /// # Errors
    /// The execution's failure, and `WouldDeadlock` from inside a hook that runs for this very execution (L15).
    pub(crate) fn wait(self: &Arc<Self>, deadline: Option<Instant>) -> Result<Waited, Error> {
        self.wait_from(None, deadline)
    }

    /// The same for who has just submitted it, and is still inside by `pass`.
    pub(crate) fn wait_from(
        self: &Arc<Self>,
        pass: Option<Pass<'_>>,
        deadline: Option<Instant>,
    ) -> Result<Waited, Error> {
        self.check_wait()?;
        let mut pass = pass;
        let engine = self.engine();
        if engine.serves_cleanup_here() {
            // What runs while it waits is not inside.
            drop(pass);
            return self.wait_and_serve(deadline);
        }
        // Hooks of the scope that a pass of this thread found to be due are its to run.
        let mut due = self.hooks > 0;
        loop {
            if let Some(result) = self.result() {
                drop(pass);
                match deadline {
                    _ if !due => {}
                    // A wait with a time does not spend it on hooks.
                    Some(_) => engine.push_hooks(self.scope()),
                    None => engine.run_hooks_inline(self.scope()),
                }
                return result.map(|()| Waited::Completed);
            }
            let left = match deadline {
                None => None,
                Some(at) => match at.checked_duration_since(Instant::now()) {
                    Some(left) => Some(left),
                    None => return Ok(Waited::TimedOut),
                },
            };
            let entered = pass.take().or_else(|| engine.driver_pass());
            if let Some(pass) = entered
                && engine.wait_and_retire_but_leave(pass, self.point, left, self.scope())
            {
                due = true;
                if !self.progress().has_retired() {
                    engine.push_scope(self.scope(), Mode::Executions);
                }
            }
        }
    }

    /// The same where nobody else runs queued cleanup work.
    fn wait_and_serve(self: &Arc<Self>, deadline: Option<Instant>) -> Result<Waited, Error> {
        let mut id = None;
        let wait = std::future::poll_fn(|context| self.poll_wait(&Waiter::of(&mut id, context.waker())));
        let answer = match self.engine().block_on(wait, deadline) {
            Some(result) => result.map(|()| Waited::Completed),
            None => {
                if let Some(id) = id {
                    self.forget_waiter(id);
                }
                Ok(Waited::TimedOut)
            }
        };
        // A hook that this wait ran may have dropped the last manager.
        self.engine().close_if_orphaned();
        answer
    }
}

impl Engine {
    /// Takes back what an execution had: its native recording, and its failure if it has failed. Returns how it ended, which
    /// is published later.
    pub(crate) fn collect_execution(
        self: &Arc<Self>,
        execution: &ExecutionCell,
        native: NativeSequence,
    ) -> Progress {
        let mut native = native;
        let sequence = &execution.sequence;
        let failure = match self.lost_error() {
            Some(lost) => Some(lost),
            None => self.driver.collect(&mut native).err().map(|error| {
                self.note_backend_error(&error);
                match error.kind {
                    BackendErrorKind::DeviceLost => self.backend_error(error),
                    _ => Error::Execution {
                        sequence: sequence.name.clone(),
                        execution: execution.number,
                        cause: error,
                    },
                }
            }),
        };
        let ok = failure.is_none();
        sequence.retired(native, ok);
        self.emit(Some(execution.scope()), None, || EventKind::Complete {
            sequence: sequence.name.clone(),
            execution: execution.number,
            ok,
        });
        match failure {
            None => Progress::Succeeded,
            Some(error) => {
                execution.state.lock().failure = Some(Box::new(error));
                Progress::Failed
            }
        }
    }

    /// Publishes the end of an execution: result first, hooks later (L7). Adds what comes once no lock is held (L15).
    pub(crate) fn publish_execution(
        self: &Arc<Self>,
        execution: &Arc<ExecutionCell>,
        end: Progress,
        after: &mut AfterPass,
    ) {
        execution.complete(end, &mut after.wake);
        if execution.scope().execution_retired(execution, after) {
            after.due.push(execution.scope().clone());
        }
    }
}
