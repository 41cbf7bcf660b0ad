//! Executions: one evaluation of one sequence, from its submission to its retirement.
//!
//! Not here: submitting (`engine/evaluate.rs`) and the handle that users wait with (`sequence.rs`).

use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use crate::backend::TimelinePoint;
use crate::engine::driver::NativeSequence;
use crate::engine::finish::Mode;
use crate::engine::registration::Registration;
use crate::engine::scopes::ScopeCell;
use crate::engine::sequences::SequenceCell;
use crate::engine::wakers::{Waiter, WaiterId, Wakers, Woken};
use crate::engine::{Engine, frames};
use crate::error::{BackendErrorKind, Error};
use crate::event::EventKind;
use crate::sync::Mutex;

pub(crate) struct ExecutionCell {
    pub point: TimelinePoint,
    /// Its number in its scope, from 1.
    pub number: u64,
    pub sequence: Arc<SequenceCell>,
    /// The execution hooks that were registered when it was submitted.
    pub hooks: Option<Arc<[Arc<Registration>]>>,
    /// The native recording, here while the device may use it.
    pub native: Mutex<Option<NativeSequence>>,
    state: Mutex<ExecutionState>,
}

struct ExecutionState {
    result: Option<Result<(), Error>>,
    /// Somebody has seen the result: a failure need not be reported again at finish (L13).
    observed: bool,
    wakers: Wakers,
}

impl ExecutionCell {
    pub(crate) fn new(
        point: TimelinePoint,
        number: u64,
        sequence: Arc<SequenceCell>,
        hooks: Option<Arc<[Arc<Registration>]>>,
    ) -> Self {
        ExecutionCell {
            point,
            number,
            sequence,
            hooks,
            native: Mutex::new(None),
            state: Mutex::new(ExecutionState { result: None, observed: false, wakers: Wakers::default() }),
        }
    }

    pub(crate) fn scope(&self) -> &Arc<ScopeCell> {
        &self.sequence.scope
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.sequence.scope.engine
    }

    /// The result, once it is there; looking at it counts as having seen a failure.
    pub(crate) fn result(&self) -> Option<Result<(), Error>> {
        let mut state = self.state.lock();
        let result = state.result.clone();
        state.observed |= result.is_some();
        result
    }

    /// The result, without counting as having seen it.
    pub(crate) fn peek(&self) -> Option<Result<(), Error>> {
        self.state.lock().result.clone()
    }

    /// The failure that nobody has seen.
    pub(crate) fn unseen_failure(&self) -> Option<Error> {
        let state = self.state.lock();
        if state.observed {
            return None;
        }
        state.result.clone()?.err()
    }

    /// The result, or the promise to wake.
    pub(crate) fn poll(&self, waiter: &Waiter) -> Option<Result<(), Error>> {
        let mut state = self.state.lock();
        let result = state.result.clone();
        state.observed |= result.is_some();
        let replaced = if result.is_none() { state.wakers.register(waiter) } else { None };
        drop(state);
        drop(replaced);
        result
    }

    /// True once retired, else the promise to wake; without counting as having seen the result.
    pub(crate) fn poll_unseen(&self, waiter: &Waiter) -> bool {
        let mut state = self.state.lock();
        let retired = state.result.is_some();
        let replaced = if retired { None } else { state.wakers.register(waiter) };
        drop(state);
        drop(replaced);
        retired
    }

    /// The waiter waits no more.
    pub(crate) fn forget_waiter(&self, waiter: WaiterId) {
        let removed = self.state.lock().wakers.remove(waiter);
        drop(removed);
    }

    fn complete(&self, result: Result<(), Error>, wake: &mut Vec<Woken>) {
        let mut state = self.state.lock();
        state.result = Some(result);
        state.wakers.take_into(wake);
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

    /// Blocks until the execution has retired, or until `deadline`: `None` then, and nothing has changed (L7).
    ///
    /// # Errors
    /// `WouldDeadlock` from inside a hook that runs for this very execution (L15).
    pub(crate) fn wait(
        self: &Arc<Self>,
        deadline: Option<Instant>,
    ) -> Result<Option<Result<(), Error>>, Error> {
        self.check_wait()?;
        let engine = self.engine();
        if engine.on_cleanup_thread() || !engine.options.threads {
            let id = WaiterId::new();
            let wait = std::future::poll_fn(|context| self.poll_wait(&Waiter::new(id, context.waker())));
            let result = engine.block_on(wait, deadline);
            if result.is_none() {
                self.forget_waiter(id);
            }
            return Ok(result);
        }
        loop {
            if let Some(result) = self.result() {
                if deadline.is_some() {
                    // A wait with a time does not spend it on hooks.
                    engine.push_hooks(self.scope());
                } else {
                    engine.run_hooks_inline(self.scope());
                }
                return Ok(Some(result));
            }
            let left = match deadline {
                None => None,
                Some(at) => match at.checked_duration_since(Instant::now()) {
                    Some(left) => Some(left),
                    None => return Ok(None),
                },
            };
            engine.wait_device(&[self.point], left);
            if engine.retire_but_leave(self.scope()) && self.peek().is_none() {
                engine.push_scope(self.scope(), Mode::Executions);
            }
        }
    }
}

impl Engine {
    /// Takes back what an execution had: its native recording, its result. None for one that was withdrawn.
    pub(crate) fn collect_execution(
        self: &Arc<Self>,
        execution: &ExecutionCell,
    ) -> Option<Result<(), Error>> {
        // A submission that failed while the device was lost has none: it was withdrawn and is no execution.
        let mut native = execution.native.lock().take()?;
        let sequence = &execution.sequence;
        let result = match self.lost_error() {
            Some(lost) => Err(lost),
            None => self.driver.collect(&mut native).map_err(|error| {
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
        sequence.retired(native, result.is_ok());
        self.emit(Some(execution.scope()), None, || EventKind::Complete {
            sequence: sequence.name.clone(),
            execution: execution.number,
            ok: result.is_ok(),
        });
        Some(result)
    }

    /// Publishes the end of an execution: result first, hooks later (L7). Adds whom to wake, whose hooks are due, and what
    /// to drop, all of it once no lock is held (L15).
    pub(crate) fn publish_execution(
        self: &Arc<Self>,
        execution: &Arc<ExecutionCell>,
        result: Result<(), Error>,
        wake: &mut Vec<Woken>,
        due: &mut Vec<Arc<ScopeCell>>,
        free: &mut Vec<Arc<ExecutionCell>>,
    ) {
        execution.complete(result, wake);
        if execution.scope().execution_retired(execution, wake, free) {
            due.push(execution.scope().clone());
        }
    }
}
