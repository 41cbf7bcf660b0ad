//! The engine: the whole lifecycle, once, for every backend. Private; users hold `Manager`, `Tensor`,
//! `ManagedScope`, `ManagedSequence` and `Execution`.
//!
//! Lock order, outermost first: a queue's `retiring`, a sequence's `inner`, `submitting`, a scope's `inner`, a tensor's
//! `state`, a queue's `state`, the pool, shards in their order; everything else is a leaf. No lock is held while user
//! code runs (L15). The engine is generic only in `driver.rs`.

pub(crate) mod adoption;
pub(crate) mod arena;
pub(crate) mod close;
pub(crate) mod deadlines;
pub(crate) mod driver;
pub(crate) mod ending;
pub(crate) mod evaluate;
pub(crate) mod execution;
pub(crate) mod finish;
pub(crate) mod finish_wait;
pub(crate) mod fork;
pub(crate) mod frames;
pub(crate) mod gate;
pub(crate) mod hook_run;
mod host_access;
pub(crate) mod jobs;
pub(crate) mod kernels;
pub(crate) mod making;
pub(crate) mod memory;
pub(crate) mod open;
pub(crate) mod pool;
pub(crate) mod quarantine;
pub(crate) mod quiet;
pub(crate) mod recording;
pub(crate) mod registrations;
mod room;
pub(crate) mod scopes;
pub(crate) mod sequences;
mod shards;
pub(crate) mod stack;
pub(crate) mod tensors;
pub(crate) mod threads;
pub(crate) mod timeline;
mod timeline_thread;
pub(crate) mod wait;
pub(crate) mod wakers;

use std::collections::BTreeMap;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::time::Duration;

use slotmap::SlotMap;

use crate::backend::{Backend, BackendInfo, Capabilities, QueueId, TimelinePoint};
use crate::engine::arena::Arena;
use crate::engine::close::Closing;
use crate::engine::driver::{Driver, Typed};
use crate::engine::execution::ExecutionCell;
use crate::engine::gate::{Gate, Pass};
use crate::engine::jobs::CleanupQueue;
use crate::engine::kernels::{KernelKey, KernelSlot};
use crate::engine::pool::{Pool, Sizes};
use crate::engine::scopes::ScopeCell;
use crate::engine::shards::Shards;
use crate::engine::threads::Threads;
use crate::engine::timeline::Queue;
use crate::engine::wakers::Waiter;
use crate::error::{BackendError, BackendErrorKind, EndOfLife, Error, Site};
use crate::event::{Event, EventHub, EventKind};
use crate::manager::{ManagerOptions, OutOfMemoryCallback, TrimPolicy};
use crate::report::MAX_REPORTED_ERRORS;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Condvar, Mutex};

/// What was asked for when the manager was opened.
pub(crate) struct Options {
    pub budget: Option<u64>,
    pub trim: TrimPolicy,
    pub threads: bool,
    pub hook_deadline: Option<Duration>,
    pub finish_deadline: Option<Duration>,
}

pub(crate) struct Engine {
    pub label: Arc<str>,
    pub driver: ManuallyDrop<Box<dyn Driver>>,
    pub info: BackendInfo,
    pub capabilities: Capabilities,
    pub options: Options,
    pub on_out_of_memory: Option<OutOfMemoryCallback>,
    pub queues: Box<[Queue]>,
    /// The last point that was submitted to each queue. Held from looking at what tensors are used by until the new
    /// submission is among it: points rise, and of two submissions that conflict one waits for the other.
    pub submitting: Mutex<Box<[u64]>>,
    /// How the pool rounds requests.
    pub sizes: Sizes,
    pub pool: Mutex<Pool>,
    /// Blocks have arrived at the driver.
    pub pool_changed: Condvar,
    /// The manager's tensors.
    pub shards: Shards,
    pub kernels: Mutex<SlotMap<KernelKey, KernelSlot>>,
    /// Open root scopes by id.
    pub roots: Mutex<BTreeMap<u64, Arc<ScopeCell>>>,
    pub idle_arenas: Mutex<Vec<Arc<Arena>>>,
    pub cleanup: CleanupQueue,
    pub threads: Threads,
    pub events: Arc<EventHub>,
    pub gate: Gate,
    pub closing: Closing,
    /// The name of every anonymous sequence.
    pub anonymous_name: Arc<str>,
    next_scope: AtomicU64,
    forks: u32,
    lost: AtomicBool,
    loss: Mutex<Option<BackendError>>,
    /// Errors that nobody waits for; the first ones are kept.
    errors: Mutex<Vec<Error>>,
}

impl Engine {
    pub(crate) fn open<B: Backend>(backend: B, options: ManagerOptions) -> Result<Arc<Engine>, Error> {
        if let Err(error) = options.check() {
            // SAFETY: nothing was made from it, and it is dropped here.
            if let Err(ending) = unsafe { backend.shutdown() } {
                tracing::error!(target: "tenure", "manager `{}`: {ending}", options.label);
            }
            return Err(error);
        }
        fork::watch();
        let driver: Box<dyn Driver> = Box::new(Typed(backend));
        let info = driver.info();
        let mut capabilities = driver.capabilities();
        assert!(
            capabilities.queues > 0
                && capabilities.alignment.is_power_of_two()
                && capabilities.alignment >= 16,
            "backend `{}` breaks the SPI's rules for capabilities: {capabilities:?}",
            info.name
        );
        // Blocks are whole units of alignment: what is above the last of them serves nobody.
        capabilities.max_block_bytes -= capabilities.max_block_bytes % capabilities.alignment;
        Ok(Arc::new(Engine {
            label: options.label,
            sizes: Sizes::new(&capabilities),
            pool: Mutex::new(Pool::new(&capabilities, options.budget)),
            pool_changed: Condvar::new(),
            queues: (0..capabilities.queues).map(|queue| Queue::new(QueueId(queue))).collect(),
            submitting: Mutex::new(vec![0; capabilities.queues as usize].into()),
            driver: ManuallyDrop::new(driver),
            info,
            capabilities,
            options: Options {
                budget: options.budget,
                trim: options.trim,
                threads: options.threads,
                hook_deadline: options.hook_deadline,
                finish_deadline: options.finish_deadline,
            },
            on_out_of_memory: options.on_out_of_memory,
            shards: Shards::new(),
            kernels: Mutex::new(SlotMap::with_key()),
            roots: Mutex::new(BTreeMap::new()),
            idle_arenas: Mutex::new(Vec::new()),
            cleanup: CleanupQueue::default(),
            threads: Threads::default(),
            events: Arc::new(EventHub::default()),
            gate: Gate::default(),
            closing: Closing::default(),
            anonymous_name: "anonymous".into(),
            next_scope: AtomicU64::new(0),
            forks: fork::generation(),
            lost: AtomicBool::new(false),
            loss: Mutex::new(None),
            errors: Mutex::new(Vec::new()),
        }))
    }

    // Who may call.

    /// True in a fork of the process that opened the manager: nothing may be touched there.
    pub(crate) fn is_foreign_process(&self) -> bool {
        fork::generation() != self.forks
    }

    pub(crate) fn check_process(&self) -> Result<(), Error> {
        if self.is_foreign_process() {
            return Err(Error::ForkedProcess { manager: self.label.clone() });
        }
        Ok(())
    }

    /// Refuses calls once the manager closes, except from inside the hooks that closing runs.
    pub(crate) fn check_open(&self) -> Result<(), Error> {
        self.check_process()?;
        if self.is_open() || (!self.closing.is_shut() && frames::inside(self)) {
            return Ok(());
        }
        Err(Error::Closed { manager: self.label.clone() })
    }

    pub(crate) fn is_open(&self) -> bool {
        self.closing.is_open()
    }

    /// Enters a call that may reach the driver; closing waits until it has left.
    pub(crate) fn enter(&self) -> Result<Pass<'_>, Error> {
        let pass = self.gate.enter();
        self.check_open()?;
        Ok(pass)
    }

    /// Enters a wait or a look at the device, which closing does not refuse; none once the driver is shut down.
    pub(crate) fn driver_pass(&self) -> Option<Pass<'_>> {
        let pass = self.gate.enter();
        (!self.closing.is_shut()).then_some(pass)
    }

    pub(crate) fn closed_reason(&self) -> EndOfLife {
        EndOfLife::ManagerClosed(self.label.clone())
    }

    // Scopes.

    pub(crate) fn next_scope(&self) -> u64 {
        self.next_scope.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) fn add_root(&self, scope: &Arc<ScopeCell>) {
        self.roots.lock().insert(scope.id, scope.clone());
    }

    /// True if it was the last open root scope.
    pub(crate) fn remove_root(&self, scope: &Arc<ScopeCell>) -> bool {
        let mut roots = self.roots.lock();
        // Never the last owner: the caller has the scope.
        roots.remove(&scope.id);
        roots.is_empty()
    }

    // Loss.

    pub(crate) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }

    /// The error that everything answers once the device is lost.
    pub(crate) fn lost_error(&self) -> Option<Error> {
        if !self.is_lost() {
            return None;
        }
        let cause = self.loss.lock().clone()?;
        Some(Error::DeviceLost { cause, restart: self.capabilities.loss_is_sticky })
    }

    /// Takes a loss in, once: all points end with it (L23).
    fn mark_lost(&self, cause: &BackendError) {
        {
            let mut loss = self.loss.lock();
            if loss.is_some() {
                return;
            }
            *loss = Some(cause.clone());
        }
        self.lost.store(true, Ordering::Release);
        self.emit(None, None, || EventKind::DeviceLost);
        self.signal_timeline();
    }

    /// Looks at a backend's error for a loss.
    pub(crate) fn note_backend_error(&self, error: &BackendError) {
        if error.kind == BackendErrorKind::DeviceLost {
            self.mark_lost(error);
        }
    }

    /// A backend's error as the user gets it; a loss is answered with its first cause.
    pub(crate) fn backend_error(&self, error: BackendError) -> Error {
        self.note_backend_error(&error);
        match error.kind {
            BackendErrorKind::DeviceLost => {
                self.lost_error().unwrap_or(Error::DeviceLost { cause: error, restart: false })
            }
            _ => Error::Backend(error),
        }
    }

    /// Keeps an error that nobody waits for (L13): `take_errors` and the close report have it.
    pub(crate) fn record_teardown_error(&self, error: Error) {
        self.pool.lock().counters.teardown_errors += 1;
        self.keep_error(error);
    }

    pub(crate) fn keep_error(&self, error: Error) {
        let mut errors = self.errors.lock();
        if errors.len() < MAX_REPORTED_ERRORS {
            errors.push(error);
        }
    }

    pub(crate) fn take_errors(&self) -> Vec<Error> {
        std::mem::take(&mut *self.errors.lock())
    }

    // Events.

    #[inline]
    pub(crate) fn emit(
        &self,
        scope: Option<&Arc<ScopeCell>>,
        site: Option<Site>,
        kind: impl FnOnce() -> EventKind,
    ) {
        self.events.emit(|| Event {
            kind: kind(),
            scope: scope.map(|scope| (scope.id, scope.label.clone())),
            site,
        });
    }

    /// The execution that has to retire before `point` has, if it has not; the waiter is woken when it does.
    pub(crate) fn poll_point(&self, point: TimelinePoint, waiter: &Waiter) -> Option<Arc<ExecutionCell>> {
        let execution = self.queue(point.queue).inflight_at(point)?;
        (!execution.poll_unseen(waiter)).then_some(execution)
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        if self.is_foreign_process() {
            // The device and the threads of the driver are the parent process's.
            return;
        }
        // SAFETY: dropped here only, and not used afterwards: the engine itself is being dropped.
        unsafe { ManuallyDrop::drop(&mut self.driver) }
    }
}
