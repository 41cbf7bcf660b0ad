//! Scopes as the manager owns them: phase, stack, sequences, local tensors, and who waits.
//!
//! Not here: running the stack and the hooks (`engine/finish.rs`). The handles are in `scope.rs`.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crate::backend::QueueId;
use crate::cleanup::{Hook, HookId, Period, Rejected};
use crate::engine::arena::Arena;
use crate::engine::deadlines::RunningHook;
use crate::engine::execution::ExecutionCell;
use crate::engine::finish::{FinishState, Mode};
use crate::engine::hook_run::HookRun;
use crate::engine::quarantine::Quarantine;
use crate::engine::registrations::Registrations;
use crate::engine::sequences::SequenceCell;
use crate::engine::stack::{Entry, Stack};
use crate::engine::tensors::TensorCell;
use crate::engine::timeline::AfterPass;
use crate::engine::wakers::{Wakers, Woken};
use crate::engine::{Engine, frames};
use crate::error::{Error, Site};
use crate::event::EventKind;
use crate::report::{CleanupError, CleanupErrorKind, MAX_REPORTED_ERRORS, Outcome, ScopeReport};
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Mutex, MutexGuard};
use crate::tensor::TensorHandle;

pub(crate) struct ScopeCell {
    pub engine: Arc<Engine>,
    pub id: u64,
    pub label: Arc<str>,
    pub site: Site,
    pub queue: QueueId,
    pub hook_deadline: Option<Duration>,
    pub finish_deadline: Option<Duration>,
    pub opened: Instant,
    pub parent: Mutex<Option<Arc<ScopeCell>>>,
    pub(super) arena: Mutex<Option<Arc<Arena>>>,
    /// Whether there is one. Changed under its lock.
    pub(super) has_arena: AtomicBool,
    /// Hooks have deadlines: only the cleanup thread runs them, so that finish can return (L16).
    pub needs_cleanup_thread: AtomicBool,
    /// It has finished, for looks without the lock. Written under it, with the result.
    pub(super) finished: AtomicBool,
    /// By mode: whether the cleanup queue has a job for this scope.
    pub queued: [AtomicBool; 2],
    /// Executions submitted so far. Written under the engine's `submitting`.
    pub submitted: AtomicU64,
    pub inner: Mutex<ScopeInner>,
}

/// How far a scope's life is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Open,
    Finishing,
    Finished(Outcome),
}

/// The execution hooks that one retired execution still has to run, last registered first.
pub(crate) struct Batch {
    pub execution: Arc<ExecutionCell>,
    pub left: usize,
}

/// A tensor that is local to a scope.
pub(crate) struct Local {
    /// How many came before it.
    number: u64,
    tensor: Weak<TensorHandle>,
}

pub(crate) struct ScopeInner {
    pub phase: Phase,
    pub cancelled: bool,
    pub stack: Stack,
    pub(super) names: BTreeMap<Arc<str>, Arc<SequenceCell>>,
    pub registrations: Registrations,
    pub tensors: HashMap<u64, Local>,
    /// How many tensors were ever local.
    locals: u64,
    live_bytes: u64,
    pub peak_bytes: u64,
    /// Submitted and not retired.
    pub running: u64,
    pub batches: VecDeque<Batch>,
    /// Executions that failed, with the number of errors before, until finish asks whether anybody saw it; bounded.
    pub failures: Vec<(usize, Arc<ExecutionCell>)>,
    /// Failures that found no place there: counted, whether or not anybody sees them.
    pub failures_beyond: u64,
    pub failed_executions: u64,
    pub loss_recorded: bool,
    pub errors: Vec<CleanupError>,
    pub error_count: u64,
    pub finish: FinishState,
    /// Who is running hooks of this scope just now.
    pub runner: Option<u64>,
    /// Somebody found the role taken.
    pub contended: bool,
    pub next_ticket: u64,
    /// A hook that was polled and is pending.
    pub parked: Option<Box<HookRun>>,
    pub running_hook: Option<Box<RunningHook>>,
    pub quarantine: Option<Arc<Quarantine>>,
    pub result: Option<Result<ScopeReport, Error>>,
    pub wakers: Wakers,
}

impl ScopeInner {
    /// Made in its place: it is large, and each copy on the way there costs as much as all else here.
    #[inline(always)]
    pub(crate) fn new() -> Self {
        ScopeInner {
            phase: Phase::Open,
            cancelled: false,
            stack: Stack::default(),
            names: BTreeMap::new(),
            registrations: Registrations::default(),
            tensors: HashMap::new(),
            locals: 0,
            live_bytes: 0,
            peak_bytes: 0,
            running: 0,
            batches: VecDeque::new(),
            failures: Vec::new(),
            failures_beyond: 0,
            failed_executions: 0,
            loss_recorded: false,
            errors: Vec::new(),
            error_count: 0,
            finish: FinishState::default(),
            runner: None,
            contended: false,
            next_ticket: 0,
            parked: None,
            running_hook: None,
            quarantine: None,
            result: None,
            wakers: Wakers::default(),
        }
    }

    /// Keeps the first errors and counts them all (L16). What is not kept comes back, to be dropped without the lock:
    /// its destructor is the user's (L15).
    #[must_use = "dropped where no lock is held"]
    pub(crate) fn add_error(&mut self, error: CleanupError) -> Option<CleanupError> {
        self.error_count += 1;
        if self.errors.len() < MAX_REPORTED_ERRORS {
            self.errors.push(error);
            return None;
        }
        Some(error)
    }

    /// Keeps a failed execution until finish asks whether anybody saw it; the first ones, and counts the rest (L16).
    /// Those that give way go to `free`: their hooks' captures are the user's, to be dropped without a lock (L15).
    fn note_failure(&mut self, execution: &Arc<ExecutionCell>, free: &mut Vec<Arc<ExecutionCell>>) {
        if self.failures.len() >= MAX_REPORTED_ERRORS {
            // Those that somebody has seen need no place.
            let seen = self.failures.extract_if(.., |(_, failed)| failed.unseen_failure().is_none());
            free.extend(seen.map(|(_, failed)| failed));
        }
        if self.failures.len() < MAX_REPORTED_ERRORS {
            let position = self.errors.len();
            self.failures.push((position, execution.clone()));
        } else {
            self.failures_beyond += 1;
        }
    }

    fn forget_tensor(&mut self, cell: &TensorCell) {
        if self.tensors.remove(&cell.id()).is_some() {
            self.live_bytes -= cell.bytes;
        }
    }

    /// Execution hooks have to run or to go, and nobody is at it.
    pub(crate) fn has_due_hooks(&self) -> bool {
        (!self.batches.is_empty() || self.is_over()) && self.runner.is_none()
    }

    /// Finished, with the last late execution retired: execution hooks have had their last run.
    pub(crate) fn is_over(&self) -> bool {
        self.has_finished() && self.running == 0 && self.registrations.execution_hooks() > 0
    }

    pub(crate) fn has_finished(&self) -> bool {
        matches!(self.phase, Phase::Finished(_))
    }
}

impl ScopeCell {
    pub(crate) fn parent(&self) -> Option<Arc<ScopeCell>> {
        self.parent.lock().clone()
    }

    /// True if this is `ancestor` or below it.
    pub(crate) fn is_under(self: &Arc<Self>, ancestor: &Arc<ScopeCell>) -> bool {
        let mut next = Some(self.clone());
        while let Some(scope) = next {
            if Arc::ptr_eq(&scope, ancestor) {
                return true;
            }
            next = scope.parent();
        }
        false
    }

    /// Locks the scope for a new entry, or for an execution; refuses once it finishes, except from inside its hooks
    /// (L10).
    #[inline]
    pub(crate) fn lock_for_entry(self: &Arc<Self>) -> Result<MutexGuard<'_, ScopeInner>, Error> {
        let inner = self.inner.lock();
        if inner.phase == Phase::Open {
            return Ok(inner);
        }
        drop(inner);
        self.lock_while_finishing()
    }

    #[cold]
    fn lock_while_finishing(self: &Arc<Self>) -> Result<MutexGuard<'_, ScopeInner>, Error> {
        // Asked without the lock: it looks at other scopes.
        let inside = frames::inside_hook_under(self);
        let inner = self.inner.lock();
        self.admits(&inner, inside)?;
        Ok(inner)
    }

    /// Refuses new entries once the scope finishes, except from inside its hooks (L10).
    pub(crate) fn admits(&self, inner: &ScopeInner, inside: bool) -> Result<(), Error> {
        match inner.phase {
            Phase::Open => Ok(()),
            Phase::Finishing if inside => Ok(()),
            Phase::Finishing => Err(Error::ScopeFinishing { scope: self.label.clone() }),
            Phase::Finished(outcome) => Err(Error::ScopeFinished { scope: self.label.clone(), outcome }),
        }
    }

    pub(crate) fn check_admits(self: &Arc<Self>) -> Result<(), Error> {
        self.lock_for_entry().map(drop)
    }

    pub(crate) fn phase(&self) -> Phase {
        self.inner.lock().phase
    }

    pub(crate) fn live_bytes(&self) -> u64 {
        self.inner.lock().live_bytes
    }

    /// The native arena, opened at the first encoding.
    pub(crate) fn arena(&self) -> Result<Arc<Arena>, Error> {
        let mut arena = self.arena.lock();
        if let Some(open) = &*arena {
            return Ok(open.clone());
        }
        let open = self.engine.open_arena(self.queue, &self.label)?;
        *arena = Some(open.clone());
        self.has_arena.store(true, Ordering::SeqCst);
        Ok(open)
    }

    /// True if it has a native arena, as it had from the moment that an evaluation began to encode.
    pub(crate) fn has_arena(&self) -> bool {
        self.has_arena.load(Ordering::SeqCst)
    }

    pub(crate) fn release_arena(&self) {
        if !self.has_arena() {
            return;
        }
        let arena = {
            let mut arena = self.arena.lock();
            self.has_arena.store(false, Ordering::SeqCst);
            arena.take()
        };
        if let Some(arena) = arena {
            arena.release(&self.engine);
        }
    }

    // Hooks.

    /// Accepts a hook, or hands it back (L10, L12).
    pub(crate) fn register(self: &Arc<Self>, hook: Hook) -> Result<HookId, Rejected<Hook>> {
        if hook.deadline.is_some() && !self.engine.options.threads {
            let error = Error::InvalidOption {
                option: "deadline",
                problem: "a hook's deadline needs tenure's threads, which this manager forbids".into(),
            };
            return Err(Rejected { value: hook, error });
        }
        let entered = self.engine.check_process().and_then(|()| self.lock_for_entry());
        let mut inner = match entered {
            Ok(inner) => inner,
            Err(error) => return Err(Rejected { value: hook, error }),
        };
        if let Some(key) = &hook.key
            && let Some(known) = inner.registrations.of_key(hook.period, key)
        {
            drop(inner);
            // What the second hook captured is dropped without a lock (L15).
            drop(hook);
            return Ok(known);
        }
        if hook.deadline.is_some() {
            self.needs_cleanup_thread.store(true, Ordering::SeqCst);
        }
        let period = hook.period;
        let id = inner.stack.next_id();
        let place = inner.registrations.push(HookId(id), hook);
        if period == Period::Scope {
            inner.stack.push(id, Entry::Hook(place));
        }
        Ok(HookId(id))
    }

    /// Accepts a value with its release, or hands the value back (L10).
    pub(crate) fn adopt<V: Send + 'static>(
        self: &Arc<Self>,
        label: Arc<str>,
        value: V,
        release: impl FnOnce(V, &crate::cleanup::CleanupContext) -> Result<(), crate::error::BoxError>
        + Send
        + 'static,
    ) -> Result<(), Rejected<V>> {
        // Shared with the hook, so that a refusal finds the value again.
        let shared = Arc::new(Mutex::new(Some(value)));
        let taken = shared.clone();
        let hook = crate::cleanup::hook::once(label, move |context| {
            let value = taken.lock().take();
            value.map_or(Ok(()), |value| release(value, context))
        });
        match self.register(hook) {
            Ok(_) => Ok(()),
            Err(Rejected { error, value: _hook }) => {
                let value = shared.lock().take().expect("a refused hook has not run");
                Err(Rejected { value, error })
            }
        }
    }

    // Executions.

    /// Counts an execution in. Returns the number of execution hooks, the first so many of which it will run.
    pub(crate) fn admit_execution(self: &Arc<Self>) -> Result<usize, Error> {
        let mut inner = self.lock_for_entry()?;
        if inner.cancelled {
            drop(inner);
            // Cleanup was not cancelled.
            if !frames::inside_hook_under(self) {
                return Err(Error::Cancelled { scope: self.label.clone() });
            }
            inner = self.lock_for_entry()?;
        }
        inner.running += 1;
        Ok(inner.registrations.execution_hooks())
    }

    /// The number of the next execution. Taken once it was submitted; the caller holds `submitting`, which orders both.
    pub(crate) fn next_number(&self) -> u64 {
        self.submitted.load(Ordering::Relaxed) + 1
    }

    /// The execution of this number was submitted.
    pub(crate) fn take_number(&self, number: u64) {
        self.submitted.store(number, Ordering::Relaxed);
    }

    /// Takes an admission back: nothing was submitted.
    pub(crate) fn withdraw_execution(&self, wake: &mut Vec<Woken>) {
        let mut inner = self.inner.lock();
        inner.running -= 1;
        inner.wakers.take_into(wake);
    }

    /// An execution has retired: its hooks are due. True if nobody is at it yet.
    pub(crate) fn execution_retired(
        self: &Arc<Self>,
        execution: &Arc<ExecutionCell>,
        after: &mut AfterPass,
    ) -> bool {
        let mut inner = self.inner.lock();
        inner.running -= 1;
        if let Some(Err(error)) = execution.peek() {
            let finished = inner.has_finished();
            inner.failed_executions += 1;
            if finished {
                // The report is out: the manager has the error (L13).
                self.engine.keep_error(error.clone());
            }
            if error.is_device_lost() {
                self.record_loss(&mut inner);
            } else if !finished {
                inner.note_failure(execution, &mut after.free);
            }
        }
        if execution.hooks > 0 {
            inner.batches.push_back(Batch { execution: execution.clone(), left: execution.hooks });
        }
        inner.wakers.take_into(&mut after.wake);
        // While it finishes, whoever finishes it was woken just now.
        let due = !inner.batches.is_empty() || inner.is_over();
        due && inner.runner.is_none() && inner.phase != Phase::Finishing
    }

    /// Whether the cleanup queue has a job of this mode for this scope.
    pub(crate) fn queued(&self, mode: Mode) -> &AtomicBool {
        &self.queued[mode as usize]
    }

    /// Records the root cause of a loss once, before its cascade (L13).
    pub(crate) fn record_loss(&self, inner: &mut ScopeInner) {
        let Some(lost) = self.engine.lost_error() else { return };
        if std::mem::replace(&mut inner.loss_recorded, true) {
            return;
        }
        // Made here: no user's destructor is in it.
        let _surplus = inner.add_error(CleanupError {
            kind: CleanupErrorKind::DeviceLost,
            hook: None,
            scope: self.label.clone(),
            sequence: None,
            execution: None,
            source: Arc::new(lost),
        });
    }

    /// Cancels the scope and the scopes below: what has not started never does (L16).
    pub(crate) fn cancel(self: &Arc<Self>) {
        let mut next = vec![self.clone()];
        while let Some(scope) = next.pop() {
            {
                let mut inner = scope.inner.lock();
                if inner.cancelled || inner.has_finished() {
                    continue;
                }
                inner.cancelled = true;
                next.extend(inner.stack.children().cloned());
                // The one that is being finished has left the stack.
                next.extend(inner.finish.child.clone());
            }
            for sequence in scope.sequences(|_| true) {
                sequence.cancel();
            }
            scope.engine.emit(Some(&scope), None, || EventKind::ScopeCancelled);
        }
    }

    // Tensors.

    /// Makes a tensor local to this scope.
    pub(crate) fn adopt_tensor(self: &Arc<Self>, handle: &Arc<TensorHandle>) -> Result<(), Error> {
        let cell = &handle.cell;
        let mut inner = self.lock_for_entry()?;
        inner.locals += 1;
        let local = Local { number: inner.locals, tensor: Arc::downgrade(handle) };
        if inner.tensors.insert(cell.id(), local).is_none() {
            inner.live_bytes += cell.bytes;
            inner.peak_bytes = inner.peak_bytes.max(inner.live_bytes);
        }
        Ok(())
    }

    /// The tensor has ended or moved away.
    pub(crate) fn forget_tensor(&self, cell: &TensorCell) {
        self.inner.lock().forget_tensor(cell);
    }

    /// As [`ScopeCell::forget_tensor`], unless a hook that has not come back may still use it (L16). False if so.
    pub(crate) fn forget_unless_quarantined(&self, cell: &TensorCell) -> bool {
        let mut inner = self.inner.lock();
        let free = inner.quarantine.is_none();
        if free {
            inner.forget_tensor(cell);
        }
        free
    }

    pub(crate) fn holds_tensor(&self, cell: &TensorCell) -> bool {
        self.inner.lock().tensors.contains_key(&cell.id())
    }

    /// Takes all local tensors out, to be ended. One whose last handle is going just now ends by that.
    #[must_use = "dropped where no lock is held"]
    pub(crate) fn take_tensors(inner: &mut ScopeInner) -> Vec<Arc<TensorHandle>> {
        inner.live_bytes = 0;
        let tensors = std::mem::take(&mut inner.tensors);
        let mut locals: Vec<Local> = tensors.into_values().collect();
        // The one that came last first, so that events have one order on every backend (L27).
        locals.sort_by_key(|local| std::cmp::Reverse(local.number));
        locals.iter().filter_map(|local| local.tensor.upgrade()).collect()
    }

    /// Where memory goes while a hook of this scope has not come back (L16).
    pub(crate) fn quarantine(&self) -> Option<Arc<Quarantine>> {
        self.inner.lock().quarantine.clone().filter(|quarantine| quarantine.is_closed())
    }
}
