//! Running a scope's hooks: execution hooks as executions retire, and the whole order of finishing (L10,
//! L11, L13, L16). The one place where user code is called.
//!
//! Whoever polls takes the runner's role for that poll, if it is free; a pending hook is parked in the scope,
//! so that any other waiter, or the cleanup thread, goes on with it (L18). The order of finishing is the order
//! of the questions in [`ScopeCell::next`].

use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Instant;

use crate::cleanup::{CleanupContext, ExecutionInfo, HookClass, Period};
use crate::engine::deadlines::RunningHook;
use crate::engine::execution::ExecutionCell;
use crate::engine::hook_run::{HookRun, RunEnd};
use crate::engine::scopes::{Phase, ScopeCell, ScopeInner};
use crate::engine::stack::Entry;
use crate::engine::wakers::{NOBODY, Waiter, wake_each};
use crate::error::{EndOfLife, Error, SharedError};
use crate::event::{EventKind, HookEnd};
use crate::report::{CleanupError, CleanupErrorKind, Outcome, ScopeReport};
use crate::sync::MutexGuard;
use crate::sync::atomic::Ordering;

/// How far finishing is.
#[derive(Default)]
pub(crate) struct FinishState {
    /// The scope's place on its parent's stack.
    pub entry: Option<u64>,
    /// The scope below that has to finish first.
    pub child: Option<Arc<ScopeCell>>,
    pub requested: Option<Outcome>,
    /// When waiting for executions ends.
    pub deadline: Option<Instant>,
    pub timed_out: bool,
    /// Who waits for the result.
    pub waiters: usize,
    /// Nobody waits for the result.
    pub unattended: bool,
    /// It had a parent when it finished, which may ask for the result.
    pub below_parent: bool,
    pub released_tensors: u64,
    pub released_bytes: u64,
    /// Bytes that the policy's trim gave back; none before the trim.
    pub trimmed: Option<u64>,
}

/// How a call to finish found the scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beginning {
    /// It was open, and finishes from now on.
    Begun,
    /// Somebody else has begun.
    UnderWay,
    /// It has finished.
    Over(Outcome),
}

/// How much of the cleanup is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// The hooks of executions that have retired.
    Executions,
    /// Everything.
    Finish,
}

/// What comes next.
enum Next {
    Run(HookRun),
    /// Something was done without user code: ask again.
    Again,
    /// Executions are running.
    Wait,
    /// A scope below has to finish first.
    Child(Arc<ScopeCell>),
    /// Nothing is left in this mode.
    Idle,
    /// The scope has finished.
    Ended,
}

/// How a turn of the runner ended.
enum Turn {
    /// Nothing is left in this mode.
    Done,
    /// Look again.
    Again,
    Pending,
    Child(Arc<ScopeCell>),
    /// The supervisor took the role away; another goes on.
    Revoked,
}

/// Wakes everybody who waits for a scope: any of them can go on with a pending hook.
struct ScopeWaker(Weak<ScopeCell>);

impl Wake for ScopeWaker {
    fn wake(self: Arc<Self>) {
        if let Some(scope) = self.0.upgrade() {
            scope.wake_all();
        }
    }
}

impl ScopeCell {
    pub(crate) fn has_result(&self) -> bool {
        self.finished.load(Ordering::Acquire)
    }

    pub(crate) fn wake_all(&self) {
        let wakers = self.inner.lock().wakers.take();
        wake_each(wakers);
    }

    /// Begins to finish. With `waits` the caller waits for the result, unless it has finished before.
    pub(crate) fn begin_finish(self: &Arc<Self>, requested: Outcome, waits: bool) -> Beginning {
        let supervised = {
            let mut inner = self.inner.lock();
            let before = inner.phase;
            if let Phase::Finished(outcome) = before {
                return Beginning::Over(outcome);
            }
            inner.finish.waiters += usize::from(waits);
            if before == Phase::Finishing {
                return Beginning::UnderWay;
            }
            // L10: from here on registering is refused.
            inner.phase = Phase::Finishing;
            inner.finish.requested = Some(requested);
            inner.finish.deadline = self.finish_deadline.and_then(|after| Instant::now().checked_add(after));
            inner.finish.deadline
        };
        self.engine.emit(Some(self), None, || EventKind::ScopeFinishing);
        if let Some(at) = supervised {
            self.engine.supervise(self, at);
        }
        Beginning::Begun
    }

    /// Begins to finish a scope that was dropped. False if somebody has begun, or it has finished.
    pub(crate) fn begin_abandon(self: &Arc<Self>, outcome: Outcome) -> bool {
        let begun = !self.has_result() && self.begin_finish(outcome, false) == Beginning::Begun;
        if begun {
            self.set_unattended();
        }
        begun
    }

    /// The outcome as it stands now.
    pub(crate) fn outcome(&self, inner: &ScopeInner) -> Option<Outcome> {
        let requested = inner.finish.requested?;
        Some(if inner.loss_recorded {
            Outcome::DeviceLost
        } else if requested == Outcome::Panicked {
            Outcome::Panicked
        } else if inner.cancelled {
            Outcome::Cancelled
        } else if inner.finish.timed_out {
            Outcome::TimedOut
        } else if requested == Outcome::Completed && inner.failed_executions > 0 {
            Outcome::Failed
        } else {
            requested
        })
    }

    /// True if this thread may run the hooks: those with deadlines are the cleanup thread's.
    pub(crate) fn may_run(&self) -> bool {
        !self.needs_cleanup_thread.load(Ordering::SeqCst) || self.engine.on_cleanup_thread()
    }

    /// Goes on with the cleanup as far as possible; ready when nothing of `mode` is left.
    ///
    /// Scopes below are walked down to and up from in a loop: depth costs no stack.
    pub(crate) fn poll_run(self: &Arc<Self>, mode: Mode, waiter: &Waiter) -> Poll<()> {
        let mut below: Vec<Arc<ScopeCell>> = Vec::new();
        loop {
            let turn = match below.last() {
                None => self.turn(mode, waiter),
                Some(child) if child.may_run() => child.turn(Mode::Finish, waiter),
                Some(child) => child.wait_for_cleanup_thread(waiter),
            };
            match turn {
                Turn::Done if below.pop().is_none() => return Poll::Ready(()),
                Turn::Done | Turn::Again => {}
                Turn::Child(child) => below.push(child),
                Turn::Pending => return Poll::Pending,
                Turn::Revoked => return Poll::Ready(()),
            }
        }
    }

    /// The cleanup thread finishes this scope.
    fn wait_for_cleanup_thread(self: &Arc<Self>, waiter: &Waiter) -> Turn {
        if self.poll_finished(waiter).is_ready() {
            return Turn::Done;
        }
        // Asked each time: it may have become the cleanup thread's meanwhile, by a hook with a deadline.
        self.engine.push_scope(self, Mode::Finish);
        Turn::Pending
    }

    /// The result for one of those who wait for it, or the promise to wake.
    pub(crate) fn poll_result(&self, waiter: &Waiter) -> Poll<Result<ScopeReport, Error>> {
        let Poll::Ready((mut inner, outcome)) = self.poll_finished(waiter) else { return Poll::Pending };
        inner.finish.waiters -= 1;
        // Nobody asks after the last of them but a parent, or who keeps the errors that nobody waits for.
        let last = inner.finish.waiters == 0 && !inner.finish.below_parent && !inner.finish.unattended;
        let result = if last { inner.result.take() } else { inner.result.clone() };
        let over = || Error::ScopeFinished { scope: self.label.clone(), outcome };
        Poll::Ready(result.unwrap_or_else(|| Err(over())))
    }

    /// The scope once it has finished, or the promise to wake.
    fn poll_finished(&self, waiter: &Waiter) -> Poll<(MutexGuard<'_, ScopeInner>, Outcome)> {
        let mut inner = self.inner.lock();
        if let Phase::Finished(outcome) = inner.phase {
            return Poll::Ready((inner, outcome));
        }
        let replaced = inner.wakers.register(waiter);
        let running = inner.running > 0;
        drop(inner);
        drop(replaced);
        if running {
            self.engine.rely_on_timeline();
        }
        Poll::Pending
    }

    /// Takes the runner's role, if it is free, and goes on.
    fn turn(self: &Arc<Self>, mode: Mode, waiter: &Waiter) -> Turn {
        let mut inner = self.inner.lock();
        let done = match mode {
            Mode::Finish => inner.has_finished(),
            Mode::Executions => inner.batches.is_empty() && inner.parked.is_none() && !inner.is_over(),
        };
        if done {
            return Turn::Done;
        }
        let replaced = inner.wakers.register(waiter);
        let running = inner.running > 0;
        let role = if inner.runner.is_some() {
            inner.contended = true;
            None
        } else {
            inner.next_ticket += 1;
            inner.runner = Some(inner.next_ticket);
            Some((inner.next_ticket, inner.parked.take()))
        };
        if let Some((ticket, None)) = role
            && replaced.is_none()
            && !running
        {
            // Nothing to be done without the lock first.
            let next = self.next(inner, mode, ticket);
            return self.run(mode, ticket, next);
        }
        drop(inner);
        drop(replaced);
        if running {
            self.engine.rely_on_timeline();
        }
        let Some((ticket, parked)) = role else { return Turn::Pending };
        let next = match parked {
            Some(run) => Next::Run(*run),
            None => self.next(self.inner.lock(), mode, ticket),
        };
        self.run(mode, ticket, next)
    }

    /// One turn of the runner: user code is called here, with no lock held (L15).
    fn run(self: &Arc<Self>, mode: Mode, ticket: u64, mut next: Next) -> Turn {
        // Made for the first hook that may wait.
        let mut waker = None;
        loop {
            let mut run = match next {
                Next::Run(run) => run,
                Next::Again => {
                    next = self.next(self.inner.lock(), mode, ticket);
                    continue;
                }
                Next::Wait => return Turn::Pending,
                Next::Child(child) => return Turn::Child(child),
                Next::Idle => return Turn::Again,
                Next::Ended => return Turn::Done,
            };
            let waker = if run.may_wait() {
                waker.get_or_insert_with(|| Waker::from(Arc::new(ScopeWaker(Arc::downgrade(self)))))
            } else {
                NOBODY
            };
            match run.poll(&mut Context::from_waker(waker)) {
                Poll::Pending => {
                    let parked = Box::new(run);
                    let mut inner = self.inner.lock();
                    if inner.runner == Some(ticket) {
                        inner.parked = Some(parked);
                        self.step_down(inner);
                        return Turn::Pending;
                    }
                    drop(inner);
                    self.outlive(*parked);
                    return Turn::Revoked;
                }
                Poll::Ready(end) => match self.hook_ended(ticket, run, end) {
                    Some(inner) => next = self.next(inner, mode, ticket),
                    None => return Turn::Revoked,
                },
            }
        }
    }

    /// Gives the runner's role back. Who found it taken meanwhile looks again: whoever had it may not come back.
    fn step_down(&self, mut inner: MutexGuard<'_, ScopeInner>) {
        inner.runner = None;
        let contended = std::mem::take(&mut inner.contended);
        let wakers = if contended { inner.wakers.take() } else { Vec::new() };
        drop(inner);
        wake_each(wakers);
    }

    /// What comes next. The order of the questions is the order of L16.
    fn next(self: &Arc<Self>, mut inner: MutexGuard<'_, ScopeInner>, mode: Mode, ticket: u64) -> Next {
        // Execution hooks first, whatever else is due (L11).
        if let Some(batch) = inner.batches.front_mut() {
            if batch.left == 0 {
                let done = inner.batches.pop_front();
                drop(inner);
                drop(done);
                return Next::Again;
            }
            batch.left -= 1;
            let (number, execution) = (batch.left, batch.execution.clone());
            let place = inner.registrations.execution_hook(number);
            return self.start(inner, place, Some(execution));
        }
        if mode == Mode::Executions {
            inner.runner = None;
            let wakers = inner.wakers.take();
            // The last late execution of a finished scope: its hooks have had their last run.
            let spent = inner.is_over().then(|| inner.registrations.retire(true));
            drop(inner);
            drop(spent);
            wake_each(wakers);
            return Next::Idle;
        }
        if inner.running > 0 && !inner.finish.timed_out {
            if inner.finish.deadline.is_none_or(|at| Instant::now() < at) {
                self.step_down(inner);
                return Next::Wait;
            }
            inner.finish.timed_out = true;
        }
        if let Some(child) = inner.finish.child.clone() {
            drop(inner);
            let result = child.inner.lock().result.clone();
            let mut inner = self.inner.lock();
            let Some(result) = result else {
                self.step_down(inner);
                return Next::Child(child);
            };
            inner.finish.child = None;
            drop(inner);
            self.child_finished(result);
            return Next::Again;
        }
        inner.error_count += std::mem::take(&mut inner.failures_beyond);
        let failures = std::mem::take(&mut inner.failures);
        if !failures.is_empty() {
            self.report_failures(&mut inner, &failures);
            drop(inner);
            drop(failures);
            return Next::Again;
        }
        if let Some(entry) = inner.stack.pop() {
            return match entry {
                Entry::Hook(place) => self.start(inner, place, None),
                Entry::Sequence(sequence) => {
                    drop(inner);
                    let why = EndOfLife::ScopeFinished(self.label.clone());
                    self.destroy_sequence(&sequence, why);
                    Next::Again
                }
                Entry::Child(child) => {
                    let requested = self.outcome(&inner).unwrap_or(Outcome::Completed);
                    inner.finish.child = Some(child.clone());
                    drop(inner);
                    // Begun or even finished by somebody else: then there is only the result to wait for.
                    if child.begin_finish(requested, false) == Beginning::Begun && !child.may_run() {
                        self.engine.push_scope(&child, Mode::Finish);
                    }
                    Next::Again
                }
            };
        }
        if !inner.tensors.is_empty() {
            let tensors = ScopeCell::take_tensors(&mut inner);
            drop(inner);
            self.release_tensors(tensors);
            return Next::Again;
        }
        if let Some(place) = inner.registrations.pop_after_release() {
            return self.start(inner, place, None);
        }
        if inner.finish.trimmed.is_none() {
            inner.finish.trimmed = Some(0);
            let entry = inner.finish.entry.take();
            inner.finish.below_parent = entry.is_some();
            drop(inner);
            self.let_go(entry);
            return Next::Again;
        }
        if self.has_arena() {
            // A late hook has evaluated after the scope had let go.
            drop(inner);
            let _pass = self.engine.gate.enter();
            self.release_arena();
            return Next::Again;
        }
        debug_assert_eq!(inner.runner, Some(ticket), "only the runner ends a scope");
        self.end(inner);
        Next::Ended
    }

    /// Starts a hook, or records that it is skipped (L14).
    fn start(
        self: &Arc<Self>,
        mut inner: MutexGuard<'_, ScopeInner>,
        place: usize,
        execution: Option<Arc<ExecutionCell>>,
    ) -> Next {
        let registration = inner.registrations.at(place);
        let deadline = registration.deadline().or(self.hook_deadline);
        if deadline.is_some() && !self.engine.on_cleanup_thread() {
            return self.hand_to_cleanup_thread(inner, place);
        }
        let lost = registration.class == HookClass::Device && self.engine.is_lost();
        if lost {
            self.record_loss(&mut inner);
        }
        let outcome = self.outcome(&inner);
        let body = if lost { None } else { inner.registrations.at_mut(place).take_body() };
        let Some(body) = body else {
            inner.registrations.count_skip(place);
            drop(inner);
            self.emit_hook(place, execution.as_deref(), HookEnd::Skipped);
            return Next::Again;
        };
        let supervised = deadline.and_then(|after| Instant::now().checked_add(after));
        if let Some(at) = supervised {
            inner.running_hook = Some(Box::new(RunningHook {
                place,
                execution: execution.clone(),
                started: Instant::now(),
                deadline: at,
                after: deadline.unwrap_or_default(),
                generation: self.engine.cleanup.generation(),
            }));
        }
        drop(inner);
        if let Some(at) = supervised {
            self.engine.supervise(self, at);
        }
        let info = execution.as_ref().map(|execution| ExecutionInfo {
            number: execution.number,
            sequence: execution.sequence.name.clone(),
            result: execution.peek().unwrap_or(Ok(())),
        });
        let context = CleanupContext { scope: self.clone(), outcome, execution: info };
        Next::Run(HookRun::new(place, execution, body, context))
    }

    /// Puts a hook back that only the cleanup thread may run: it was registered with a deadline by a hook that
    /// runs inline.
    fn hand_to_cleanup_thread(self: &Arc<Self>, mut inner: MutexGuard<'_, ScopeInner>, place: usize) -> Next {
        self.needs_cleanup_thread.store(true, Ordering::SeqCst);
        match inner.registrations.at(place).period() {
            Period::Scope => {
                let id = inner.stack.next_id();
                inner.stack.push(id, Entry::Hook(place));
            }
            Period::Execution => {
                inner.batches.front_mut().expect("its batch is first").left += 1;
            }
            Period::AfterRelease => inner.registrations.push_after_release(place),
        }
        inner.runner = None;
        let phase = inner.phase;
        drop(inner);
        self.push_to_cleanup_thread(phase);
        Next::Wait
    }

    /// Has the cleanup thread go on with this scope.
    pub(crate) fn push_to_cleanup_thread(self: &Arc<Self>, phase: Phase) {
        let mode = match phase {
            Phase::Finishing => Mode::Finish,
            Phase::Open | Phase::Finished(_) => Mode::Executions,
        };
        self.engine.push_scope(self, mode);
    }

    /// Records how a hook ended, and goes on with the lock. None if it outlived its deadline and another runner has gone
    /// on.
    fn hook_ended(
        self: &Arc<Self>,
        ticket: u64,
        run: HookRun,
        end: RunEnd,
    ) -> Option<MutexGuard<'_, ScopeInner>> {
        let took = run.started.elapsed();
        let (place, execution) = run.into_parts();
        let mut inner = self.inner.lock();
        if inner.runner != Some(ticket) {
            drop(inner);
            self.hook_came_back(place);
            return None;
        }
        inner.running_hook = None;
        let event = match &end {
            RunEnd::Ok => HookEnd::Ok,
            RunEnd::Failed(_) => HookEnd::Failed,
            RunEnd::Panicked(_) => HookEnd::Panicked,
        };
        let error = end.into_error();
        inner.registrations.count_run(place, took, error.is_some());
        if error.is_none() && execution.is_none() && !self.engine.events.is_heard() {
            return Some(inner);
        }
        let error = error.map(|(kind, source)| {
            let hook = &inner.registrations.at(place).label;
            self.cleanup_error(kind, hook, execution.as_deref(), source)
        });
        // What is not kept is dropped without the lock: it is the user's (L15).
        let (late, surplus) = match error {
            Some(error) if inner.has_finished() => (Some(error), None),
            Some(error) => (None, inner.add_error(error)),
            None => (None, None),
        };
        drop(inner);
        drop(surplus);
        if let Some(error) = late {
            // A late execution's hook: the report is out, the manager has the error (L13).
            self.engine.keep_error(Error::AfterFinish(Arc::new(error)));
        }
        self.emit_hook(place, execution.as_deref(), event);
        drop(execution);
        Some(self.inner.lock())
    }

    pub(crate) fn emit_hook(self: &Arc<Self>, place: usize, execution: Option<&ExecutionCell>, end: HookEnd) {
        self.engine.emit(Some(self), None, || EventKind::Hook {
            label: self.inner.lock().registrations.at(place).label.clone(),
            execution: execution.map(|execution| execution.number),
            end,
        });
    }

    pub(crate) fn cleanup_error(
        &self,
        kind: CleanupErrorKind,
        hook: &Arc<str>,
        execution: Option<&ExecutionCell>,
        source: SharedError,
    ) -> CleanupError {
        CleanupError {
            kind,
            hook: Some(hook.clone()),
            scope: self.label.clone(),
            sequence: execution.map(|execution| execution.sequence.name.clone()),
            execution: execution.map(|execution| execution.number),
            source,
        }
    }
}
