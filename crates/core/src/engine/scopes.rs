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
use crate::engine::quarantine::Quarantine;
use crate::engine::registration::{HookRun, Registration};
use crate::engine::sequences::SequenceCell;
use crate::engine::tensors::TensorCell;
use crate::engine::wakers::{Wakers, Woken};
use crate::engine::{Engine, frames};
use crate::error::{Error, Site};
use crate::event::EventKind;
use crate::report::{CleanupError, CleanupErrorKind, MAX_REPORTED_ERRORS, Outcome, ScopeReport};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
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
    pub arena: Mutex<Option<Arc<Arena>>>,
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

/// One entry of a scope's stack (L10).
pub(crate) enum Entry {
    Child(Arc<ScopeCell>),
    Sequence(Arc<SequenceCell>),
    Hook(Arc<Registration>),
}

/// The execution hooks that one retired execution still has to run, last registered first.
pub(crate) struct Batch {
    pub execution: Arc<ExecutionCell>,
    pub left: usize,
}

pub(crate) struct ScopeInner {
    pub phase: Phase,
    pub cancelled: bool,
    pub stack: BTreeMap<u64, Entry>,
    pub(super) next_entry: u64,
    pub(super) names: HashMap<Arc<str>, Arc<SequenceCell>>,
    keys: HashMap<(Period, Arc<str>), HookId>,
    pub execution_hooks: ExecutionHooks,
    pub after_release: Vec<Arc<Registration>>,
    pub registrations: Vec<Arc<Registration>>,
    pub tensors: HashMap<u64, Weak<TensorHandle>>,
    live_bytes: u64,
    pub peak_bytes: u64,
    /// Submitted and not retired.
    pub running: u64,
    pub executions: u64,
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
    pub parked: Option<HookRun>,
    pub running_hook: Option<RunningHook>,
    pub quarantine: Option<Arc<Quarantine>>,
    pub result: Option<Result<ScopeReport, Error>>,
    pub wakers: Wakers,
}

/// The execution hooks of a scope, shared with executions as they were when those were submitted.
#[derive(Default)]
pub(crate) struct ExecutionHooks {
    all: Vec<Arc<Registration>>,
    /// Made when an execution asks; many registrations in a row make it once.
    shared: Option<Arc<[Arc<Registration>]>>,
}

impl ExecutionHooks {
    fn push(&mut self, registration: Arc<Registration>) {
        self.all.push(registration);
        self.shared = None;
    }

    fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    fn shared(&mut self) -> Option<Arc<[Arc<Registration>]>> {
        if self.all.is_empty() {
            return None;
        }
        Some(self.shared.get_or_insert_with(|| self.all.as_slice().into()).clone())
    }

    pub(crate) fn take(&mut self) -> Vec<Arc<Registration>> {
        self.shared = None;
        std::mem::take(&mut self.all)
    }
}

/// What an admitted execution gets.
pub(crate) struct Admission {
    pub hooks: Option<Arc<[Arc<Registration>]>>,
}

impl ScopeInner {
    pub(crate) fn new() -> Self {
        ScopeInner {
            phase: Phase::Open,
            cancelled: false,
            stack: BTreeMap::new(),
            next_entry: 0,
            names: HashMap::new(),
            keys: HashMap::new(),
            execution_hooks: ExecutionHooks::default(),
            after_release: Vec::new(),
            registrations: Vec::new(),
            tensors: HashMap::new(),
            live_bytes: 0,
            peak_bytes: 0,
            running: 0,
            executions: 0,
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

    pub(crate) fn push(&mut self, entry: Entry) -> u64 {
        self.next_entry += 1;
        self.stack.insert(self.next_entry, entry);
        self.next_entry
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

    /// Execution hooks have to run or to go, and nobody is at it.
    pub(crate) fn has_due_hooks(&self) -> bool {
        (!self.batches.is_empty() || self.is_over()) && self.runner.is_none()
    }

    /// Finished, with the last late execution retired: execution hooks have had their last run.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Finished(_)) && self.running == 0 && !self.execution_hooks.is_empty()
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
        let inside = frames::inside_hook_under(self);
        self.admits(&self.inner.lock(), inside)
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
        Ok(open)
    }

    pub(crate) fn release_arena(&self) {
        let arena = self.arena.lock().take();
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
        if let Err(error) = self.engine.check_process() {
            return Err(Rejected { value: hook, error });
        }
        let inside = frames::inside_hook_under(self);
        let mut inner = self.inner.lock();
        if let Err(error) = self.admits(&inner, inside) {
            return Err(Rejected { value: hook, error });
        }
        if let Some(key) = &hook.key
            && let Some(known) = inner.keys.get(&(hook.period, key.clone()))
        {
            let known = *known;
            drop(inner);
            // What the second hook captured is dropped without a lock (L15).
            drop(hook);
            return Ok(known);
        }
        inner.finish.needs_cleanup_thread |= hook.deadline.is_some();
        inner.next_entry += 1;
        let id = HookId(inner.next_entry);
        if let Some(key) = &hook.key {
            inner.keys.insert((hook.period, key.clone()), id);
        }
        let registration = Arc::new(Registration::new(id.0, hook));
        inner.registrations.push(registration.clone());
        match registration.period {
            Period::Scope => {
                inner.stack.insert(id.0, Entry::Hook(registration));
            }
            Period::Execution => {
                inner.execution_hooks.push(registration);
            }
            Period::AfterRelease => inner.after_release.push(registration),
        }
        Ok(id)
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

    /// Counts an execution in, with the hooks that it will run.
    pub(crate) fn admit_execution(self: &Arc<Self>) -> Result<Admission, Error> {
        let inside = frames::inside_hook_under(self);
        let mut inner = self.inner.lock();
        self.admits(&inner, inside)?;
        if inner.cancelled && !inside {
            return Err(Error::Cancelled { scope: self.label.clone() });
        }
        inner.running += 1;
        inner.executions += 1;
        Ok(Admission { hooks: inner.execution_hooks.shared() })
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
        inner.executions -= 1;
        inner.wakers.take_into(wake);
    }

    /// An execution has retired: its hooks are due. True if nobody is at it yet.
    pub(crate) fn execution_retired(
        self: &Arc<Self>,
        execution: &Arc<ExecutionCell>,
        wake: &mut Vec<Woken>,
        free: &mut Vec<Arc<ExecutionCell>>,
    ) -> bool {
        let mut inner = self.inner.lock();
        inner.running -= 1;
        let finished = matches!(inner.phase, Phase::Finished(_));
        if let Some(Err(error)) = execution.peek() {
            inner.failed_executions += 1;
            if finished {
                // The report is out: the manager has the error (L13).
                self.engine.keep_error(error.clone());
            }
            if error.is_device_lost() {
                self.record_loss(&mut inner);
            } else if !finished {
                inner.note_failure(execution, free);
            }
        }
        if let Some(hooks) = &execution.hooks {
            inner.batches.push_back(Batch { execution: execution.clone(), left: hooks.len() });
        }
        inner.wakers.take_into(wake);
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
                if inner.cancelled || matches!(inner.phase, Phase::Finished(_)) {
                    continue;
                }
                inner.cancelled = true;
                next.extend(inner.stack.values().filter_map(|entry| match entry {
                    Entry::Child(child) => Some(child.clone()),
                    _ => None,
                }));
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
        let inside = frames::inside_hook_under(self);
        let mut inner = self.inner.lock();
        self.admits(&inner, inside)?;
        if inner.tensors.insert(cell.id(), Arc::downgrade(handle)).is_none() {
            inner.live_bytes += cell.bytes;
            inner.peak_bytes = inner.peak_bytes.max(inner.live_bytes);
        }
        Ok(())
    }

    /// The tensor has ended or moved away.
    pub(crate) fn forget_tensor(&self, cell: &TensorCell) {
        let mut inner = self.inner.lock();
        if inner.tensors.remove(&cell.id()).is_some() {
            inner.live_bytes -= cell.bytes;
        }
    }

    /// As [`ScopeCell::forget_tensor`], unless a hook that has not come back may still use it (L16). False if so.
    pub(crate) fn forget_unless_quarantined(&self, cell: &TensorCell) -> bool {
        let mut inner = self.inner.lock();
        if inner.quarantine.is_some() {
            return false;
        }
        if inner.tensors.remove(&cell.id()).is_some() {
            inner.live_bytes -= cell.bytes;
        }
        true
    }

    pub(crate) fn holds_tensor(&self, cell: &TensorCell) -> bool {
        self.inner.lock().tensors.contains_key(&cell.id())
    }

    /// Takes all local tensors out, to be ended. One whose last handle is going just now ends by that.
    #[must_use = "dropped where no lock is held"]
    pub(crate) fn take_tensors(inner: &mut ScopeInner) -> Vec<Arc<TensorHandle>> {
        inner.live_bytes = 0;
        let tensors = std::mem::take(&mut inner.tensors);
        let mut tensors: Vec<_> = tensors.into_values().filter_map(|tensor| tensor.upgrade()).collect();
        // Newest first, so that events have one order on every backend (L27).
        tensors.sort_by_key(|handle| std::cmp::Reverse(handle.cell.id()));
        tensors
    }

    /// Where memory goes while a hook of this scope has not come back (L16).
    pub(crate) fn quarantine(&self) -> Option<Arc<Quarantine>> {
        self.inner.lock().quarantine.clone().filter(|quarantine| quarantine.is_closed())
    }
}
