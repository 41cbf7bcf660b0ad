//! What decorator, native objects and probe share: one state behind one lock, entered by every call.
//!
//! No call to the inner backend is made under the lock. Two condition variables: `changed` for those who
//! observe, `gates` for those who wait for held completions. Not here: the SPI itself (`ffi.rs`).

use std::sync::Weak;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};
use tenure_core::backend::{BlockRequest, Submission, TimelinePoint};
use tenure_core::{BackendError, BackendErrorKind, Capabilities, QueueId};

use super::calls::{CallKind, Counts};
use super::checker::{Checker, Return};
use super::device::Device;
use super::faults::FaultPlan;
use super::forbid;
use super::lifetimes::ObjectKind;
use super::log::CallLog;
use super::native::SequenceFacts;
use super::submission::RangeUse;

pub(super) struct Shared {
    /// Tells decorators apart where threads carry guards.
    pub id: u64,
    pub capabilities: Capabilities,
    pub state: Mutex<State>,
    /// Anything has changed that an observer may wait for.
    pub changed: Condvar,
    /// A held completion may have been released, or a wait interrupted.
    pub gates: Condvar,
    /// Read before the lock is taken for a line that nobody wants. Relaxed: a line more or less does not matter.
    logging: AtomicBool,
    device: Weak<dyn Device>,
}

pub(super) struct State {
    pub counts: Counts,
    pub faults: FaultPlan,
    pub checker: Checker,
    pub log: CallLog,
    pub interrupts: Interrupts,
    pub life: Life,
    loss: Loss,
    /// Threads of the decorator's own inside the inner backend.
    guests: u32,
}

/// The decorated backend's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    Running,
    /// `shutdown` was called and has not returned.
    Ending,
    ShutDown,
}

/// Whether the device is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loss {
    Alive,
    /// A loss was injected, and what is submitted is being waited for: until then nobody is told.
    Draining,
    Lost,
}

/// Interrupts of those who wait for held completions.
#[derive(Debug, Default)]
pub(super) struct Interrupts {
    /// How many there were.
    pub count: u64,
    /// One came while nobody waited here.
    pub pending: bool,
    /// Threads that wait here.
    pub waiting: u32,
}

/// How a call goes on.
#[must_use]
pub(super) enum Entry {
    /// To the inner backend.
    Proceed,
    /// It fails. Calls that give an object back reach the inner backend all the same.
    Fail(BackendError),
    /// The inner backend is shut down and must not be touched.
    Closed(BackendError),
}

impl Entry {
    /// For calls that do not reach the inner backend when they fail.
    pub(super) fn proceed(self) -> Result<(), BackendError> {
        match self {
            Entry::Proceed => Ok(()),
            Entry::Fail(error) | Entry::Closed(error) => Err(error),
        }
    }
}

impl Shared {
    pub(super) fn new(
        capabilities: Capabilities,
        capacity_bytes: Option<u64>,
        device: Weak<dyn Device>,
    ) -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Shared {
            // Relaxed: only that they differ matters.
            id: LAST.fetch_add(1, Ordering::Relaxed) + 1,
            state: Mutex::new(State {
                counts: Counts::default(),
                faults: FaultPlan::default(),
                checker: Checker::new(capabilities.clone(), capacity_bytes),
                log: CallLog::default(),
                interrupts: Interrupts::default(),
                life: Life::Running,
                loss: Loss::Alive,
                guests: 0,
            }),
            capabilities,
            changed: Condvar::new(),
            gates: Condvar::new(),
            logging: AtomicBool::new(false),
            device,
        }
    }

    /// Begins a call: counts it, judges that it is made at all, and says how it goes on.
    pub(super) fn enter(&self, kind: CallKind) -> Entry {
        let mut state = self.state.lock();
        state.counts.add(kind);
        self.changed.notify_all();
        if forbid::is_forbidden(self.id, kind) {
            let thread = std::thread::current();
            let name = thread.name().unwrap_or("without a name").to_owned();
            state.checker.violations.add(format!("{kind} on thread `{name}`, where it is forbidden"));
        }
        if state.life != Life::Running {
            let text = match kind {
                CallKind::Shutdown => "shutdown is called twice".to_owned(),
                _ => format!("{kind} after shutdown"),
            };
            return Entry::Closed(state.checker.refuse(kind, text));
        }
        if let Err(lost) = self.check_lost(kind, &mut state)
            && !kind.gives_back()
        {
            return Entry::Fail(lost);
        }
        match state.faults.strike(kind) {
            None => Entry::Proceed,
            Some(BackendErrorKind::DeviceLost) => {
                drop(state);
                Entry::Fail(self.lose(kind))
            }
            Some(error) => {
                drop(state);
                self.log(|| format!("{kind}: told to fail, {error}"));
                Entry::Fail(BackendError::new(error, kind.name(), "injected"))
            }
        }
    }

    /// Ends a call that the inner backend has answered: notices loss, and logs failures.
    pub(super) fn answer<T>(
        &self,
        kind: CallKind,
        result: Result<T, BackendError>,
    ) -> Result<T, BackendError> {
        if let Err(error) = &result {
            if error.kind == BackendErrorKind::DeviceLost {
                self.notice_loss();
            }
            self.log(|| format!("{kind} failed: {error}"));
        }
        result
    }

    /// Ends a call that gives an object back: an injected error replaces the inner backend's answer.
    pub(super) fn answer_given_back(
        &self,
        kind: CallKind,
        entry: Entry,
        result: Result<(), BackendError>,
    ) -> Result<(), BackendError> {
        let result = self.answer(kind, result);
        entry.proceed().and(result)
    }

    // The log.

    pub(super) fn set_logging(&self, on: bool) {
        self.logging.store(on, Ordering::Relaxed);
    }

    pub(super) fn log(&self, line: impl FnOnce() -> String) {
        if self.logging.load(Ordering::Relaxed) {
            let line = line();
            self.state.lock().log.push(line);
        }
    }

    // Loss.

    pub(super) fn is_lost(&self) -> bool {
        self.state.lock().loss == Loss::Lost
    }

    /// Loses the device. Before anybody is told, what was submitted is finished: memory may be freed as soon
    /// as core knows of the loss, and the inner device is not lost.
    pub(super) fn lose(&self, kind: CallKind) -> BackendError {
        {
            let mut state = self.state.lock();
            if let Err(lost) = self.check_lost(kind, &mut state) {
                return lost;
            }
            state.loss = Loss::Draining;
            // A submission that is being made counts as submitted.
            while state.checker.queues.iter().any(|queue| queue.submitting.is_some()) {
                self.changed.wait(&mut state);
            }
        }
        self.settle();
        self.notice_loss();
        self.log(|| format!("{kind}: the device is lost"));
        BackendError::new(BackendErrorKind::DeviceLost, kind.name(), "injected loss")
    }

    fn notice_loss(&self) {
        {
            let mut state = self.state.lock();
            state.loss = Loss::Lost;
            state.checker.end_all_points();
        }
        self.changed.notify_all();
        self.gates.notify_all();
        // Who waits in the inner backend looks again, and is told.
        self.with_device(|device| device.nudge());
    }

    /// Waits while a loss is being made; then the error of `kind`, if the device is lost.
    pub(super) fn check_lost(
        &self,
        kind: CallKind,
        state: &mut MutexGuard<'_, State>,
    ) -> Result<(), BackendError> {
        while state.loss == Loss::Draining {
            self.changed.wait(state);
        }
        if state.loss == Loss::Lost { Err(lost(kind)) } else { Ok(()) }
    }

    // The inner backend, asked by the decorator itself.

    /// Blocks until the inner backend has really finished what was submitted, held back or not.
    pub(super) fn settle(&self) {
        let points = self.state.lock().checker.submitted_points();
        self.with_device(|device| device.settle(&points));
    }

    /// Runs `ask` unless the inner backend is gone or shut down; `shutdown` waits for it to return.
    pub(super) fn with_device(&self, ask: impl FnOnce(&dyn Device)) {
        let Some(device) = self.device.upgrade() else { return };
        {
            let mut state = self.state.lock();
            if state.life != Life::Running {
                return;
            }
            state.guests += 1;
        }
        ask(&*device);
        self.state.lock().guests -= 1;
        self.changed.notify_all();
    }

    /// Begins the end: judges what is out, and waits for what would make it unsafe.
    pub(super) fn begin_shutdown(&self) {
        let running = self.state.lock().checker.shut_down();
        if running {
            self.settle();
        }
        let mut state = self.state.lock();
        state.life = Life::Ending;
        while state.guests > 0 {
            self.changed.wait(&mut state);
        }
    }

    pub(super) fn end_shutdown(&self) {
        self.state.lock().life = Life::ShutDown;
        self.changed.notify_all();
        self.gates.notify_all();
    }

    // Books.

    pub(super) fn next_id(&self) -> u64 {
        self.state.lock().checker.next_id()
    }

    pub(super) fn request_block(&self, request: &BlockRequest<'_>) -> Result<(), BackendError> {
        self.state.lock().checker.request_block(request)
    }

    /// Judges a copy between host and block, and waits for the device if it may be using the range.
    pub(super) fn host_access(&self, kind: CallKind, range: &RangeUse) -> Result<(), BackendError> {
        let in_use = self.state.lock().checker.host_access(kind, range)?;
        if in_use {
            self.settle();
        }
        let verb = if range.writes { "to" } else { "from" };
        self.log(|| format!("{kind} {verb} {range} of block {}", range.block));
        Ok(())
    }

    /// Takes a block or kernel out of the books, and waits for the device if it may be using it.
    pub(super) fn give_back(&self, kind: ObjectKind, id: u64) {
        let in_use = {
            let mut state = self.state.lock();
            match kind {
                ObjectKind::Block | ObjectKind::Adopted => state.checker.block_given_back(kind, id),
                ObjectKind::Kernel => state.checker.kernel_given_back(id),
                ObjectKind::Scope | ObjectKind::Sequence => false,
            }
        };
        if in_use {
            self.settle();
        }
    }

    /// Takes a native sequence out of the books, and waits for the device if it may be running it.
    pub(super) fn give_sequence_back(&self, facts: &SequenceFacts, arena: u64) -> Return {
        let how = self.state.lock().checker.sequence_given_back(facts, arena);
        if how == Return::InUse {
            self.settle();
        }
        how
    }

    /// Refuses to reset an arena while sequences made from it are out.
    pub(super) fn check_arena(&self, kind: CallKind, id: u64) -> Result<(), BackendError> {
        if self.state.lock().checker.arena_is_whole(kind, id) {
            return Ok(());
        }
        Err(BackendError::new(
            BackendErrorKind::Driver,
            kind.name(),
            "refused by the checker: sequences are out",
        ))
    }

    pub(super) fn begin_submit(
        &self,
        facts: &SequenceFacts,
        submission: &Submission<'_>,
    ) -> Result<(), BackendError> {
        let mut state = self.state.lock();
        self.check_lost(CallKind::Submit, &mut state)?;
        state.checker.begin_submit(facts, submission)
    }

    pub(super) fn end_submit(&self, facts: &SequenceFacts, point: TimelinePoint, taken: bool) {
        self.state.lock().checker.end_submit(facts, point, taken);
        self.changed.notify_all();
    }

    /// What had been reported of a queue; `None` for a queue that there is not.
    pub(super) fn reported(&self, queue: QueueId) -> Option<u64> {
        self.state.lock().checker.queues.get(queue.0 as usize).map(|queue| queue.reported)
    }

    /// Blocks until `holds` does, `timeout` at most. Returns whether it holds.
    pub(super) fn wait_until(&self, timeout: Duration, holds: impl Fn(&State) -> bool) -> bool {
        let deadline = Instant::now().checked_add(timeout);
        let mut state = self.state.lock();
        while !holds(&state) {
            match deadline {
                None => self.changed.wait(&mut state),
                Some(at) => {
                    if self.changed.wait_until(&mut state, at).timed_out() {
                        return holds(&state);
                    }
                }
            }
        }
        true
    }
}

/// The error of every call after the loss. It differs from the first one, so that a test can tell whether core
/// keeps the first cause (L23).
fn lost(kind: CallKind) -> BackendError {
    BackendError::new(BackendErrorKind::DeviceLost, kind.name(), "the device was lost before")
}
