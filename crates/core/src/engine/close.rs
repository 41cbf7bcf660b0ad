//! Closing a manager: finish what is open, wait for the device, give everything back, report what was held
//! (L6, L19, L28).
//!
//! One thread closes; others wait for it. A close whose time is over hands the rest to the cleanup thread.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crate::engine::finish_wait::FinishWait;
use crate::engine::jobs::Job;
use crate::engine::scopes::{Phase, ScopeCell};
use crate::engine::wait::deadline_after;
use crate::engine::{Engine, frames};
use crate::error::Error;
use crate::event::EventKind;
use crate::manager::ManagerHandle;
use crate::operation::OpKind;
use crate::report::{CloseReport, Leak, Outcome, UnfinishedScope};
use crate::sync::atomic::{AtomicU8, Ordering};
use crate::sync::{Condvar, Mutex, thread};

const OPEN: u8 = 0;
const CLOSING: u8 = 1;
const SHUT: u8 = 2;
const CLOSED: u8 = 3;

/// How far closing is.
#[derive(Default)]
pub(crate) struct Closing {
    /// A copy of the stage for fast checks.
    phase: AtomicU8,
    stage: Mutex<Stage>,
    changed: Condvar,
    /// What the user's manager handles share.
    user: Mutex<Option<Weak<ManagerHandle>>>,
}

#[derive(Default)]
enum Stage {
    #[default]
    Open,
    /// Begun, and given up for now: with what was found so far.
    Waiting(Option<Found>),
    /// That thread is at it.
    Owned(thread::ThreadId),
    Closed(Box<CloseReport>),
}

/// What was held when closing began.
#[derive(Default)]
struct Found {
    leaks: Vec<Leak>,
    unfinished: Vec<UnfinishedScope>,
    errors: Vec<Error>,
}

/// What recordings hold of one tensor.
#[derive(Default)]
struct Keepers {
    /// Handles inside recordings.
    holds: usize,
    /// Sequences and their scopes.
    names: Vec<(Arc<str>, Arc<str>)>,
}

impl Closing {
    pub(crate) fn set_user(&self, user: Weak<ManagerHandle>) {
        *self.user.lock() = Some(user);
    }

    pub(crate) fn user(&self) -> Option<Weak<ManagerHandle>> {
        self.user.lock().clone()
    }

    pub(crate) fn is_open(&self) -> bool {
        self.phase.load(Ordering::SeqCst) == OPEN
    }

    /// True once the driver may not be called any more.
    pub(crate) fn is_shut(&self) -> bool {
        self.phase.load(Ordering::SeqCst) >= SHUT
    }
}

impl Engine {
    /// Closes and waits for it; after `after` the rest goes to the cleanup thread.
    pub(crate) fn close(self: &Arc<Self>, after: Option<Duration>) -> Result<CloseReport, Error> {
        let report = self.close_or_leave(after, false)?;
        Ok(report.expect("a close that waits has a report"))
    }

    /// With `leave`, a close that another thread is at is left to it: that thread may be about to join this one.
    fn close_or_leave(
        self: &Arc<Self>,
        after: Option<Duration>,
        leave: bool,
    ) -> Result<Option<CloseReport>, Error> {
        self.check_process()?;
        // A waker on the timeline thread: closing would wait for that thread, which is this one.
        if frames::inside(self) || self.gate.is_thread_inside() || self.on_timeline_thread() {
            return Err(self.would_deadlock());
        }
        let deadline = after.and_then(deadline_after);
        let found = {
            let mut stage = self.closing.stage.lock();
            loop {
                match &mut *stage {
                    Stage::Open => {
                        *stage = Stage::Owned(thread::current().id());
                        self.closing.phase.store(CLOSING, Ordering::SeqCst);
                        break None;
                    }
                    Stage::Waiting(found) => {
                        let found = found.take();
                        *stage = Stage::Owned(thread::current().id());
                        break found;
                    }
                    Stage::Closed(report) => return Ok(Some((**report).clone())),
                    Stage::Owned(_) if leave => return Ok(None),
                    // A destructor that closing itself runs, or a job that it waits for.
                    Stage::Owned(owner) if *owner == thread::current().id() || self.on_own_thread() => {
                        return Err(self.would_deadlock());
                    }
                    Stage::Owned(_) => match deadline {
                        None => self.closing.changed.wait(&mut stage),
                        Some(at) => {
                            if self.closing.changed.wait_until(&mut stage, at).timed_out() {
                                return Err(self.close_timed_out(after));
                            }
                        }
                    },
                }
            }
        };
        let mut found = found.unwrap_or_else(|| self.take_stock());
        if !self.drain(deadline, &mut found) {
            *self.closing.stage.lock() = Stage::Waiting(Some(found));
            self.closing.changed.notify_all();
            self.push_job(Job::Close);
            return Err(self.close_timed_out(after));
        }
        Ok(Some(self.shut_down(found)))
    }

    fn would_deadlock(&self) -> Error {
        Error::WouldDeadlock { what: format!("manager `{}`", self.label).into() }
    }

    fn close_timed_out(&self, after: Option<Duration>) -> Error {
        Error::CloseTimedOut {
            manager: self.label.clone(),
            after: after.unwrap_or_default(),
            detached_hooks: self.detached_hooks(),
        }
    }

    /// The last manager handle is gone: closes now if that takes no waiting, else in the background (L4).
    pub(crate) fn abandon(self: &Arc<Self>) {
        if self.is_foreign_process() {
            return;
        }
        {
            let mut stage = self.closing.stage.lock();
            match *stage {
                Stage::Open => {
                    *stage = Stage::Waiting(None);
                    self.closing.phase.store(CLOSING, Ordering::SeqCst);
                }
                // Given up for now: with threads it is in the queue, without them nobody else would go on.
                Stage::Waiting(_) if !self.options.threads => {}
                Stage::Waiting(_) | Stage::Owned(_) | Stage::Closed(_) => return,
            }
        }
        let inside = frames::inside(self) || self.gate.is_thread_inside() || self.on_own_thread();
        let nothing_to_wait_for = self.roots.lock().is_empty()
            && self.is_idle()
            && self.cleanup.is_empty()
            && !self.has_cleanup_thread();
        // Without threads there is nobody else to do it: this is the one drop that waits for the device.
        if !inside && (nothing_to_wait_for || !self.options.threads) {
            self.close_abandoned(None);
        } else {
            self.push_job(Job::Close);
        }
    }

    /// Without threads: the last manager handle went inside a hook, whose call has now ended. Nobody else would close.
    pub(crate) fn close_if_orphaned(self: &Arc<Self>) {
        if self.options.threads || frames::inside(self) || self.gate.is_thread_inside() {
            return;
        }
        let orphaned = self.closing.user().is_some_and(|user| user.strong_count() == 0);
        if orphaned && matches!(*self.closing.stage.lock(), Stage::Waiting(_)) {
            self.close_abandoned(None);
        }
    }

    /// Closes for nobody: errors go to the log.
    pub(crate) fn close_abandoned(self: &Arc<Self>, after: Option<Duration>) {
        match self.close_or_leave(after, true) {
            Ok(report) => {
                for error in report.iter().flat_map(|report| &report.errors) {
                    tracing::warn!(target: "tenure", "closing manager `{}`: {error}", self.label);
                }
            }
            // It is in the queue again.
            Err(Error::CloseTimedOut { .. }) => {}
            Err(error) => tracing::warn!(target: "tenure", "closing manager `{}`: {error}", self.label),
        }
    }

    /// What is held, by whom (L28).
    fn take_stock(self: &Arc<Self>) -> Found {
        let mut scopes: Vec<Arc<ScopeCell>> = self.roots.lock().values().cloned().collect();
        let mut unfinished = Vec::new();
        let mut keepers: HashMap<u64, Keepers> = HashMap::new();
        let mut at = 0;
        while at < scopes.len() {
            let scope = scopes[at].clone();
            at += 1;
            let hooks = {
                let inner = scope.inner.lock();
                scopes.extend(inner.stack.children().cloned());
                let hooks = inner.registrations.labels();
                (inner.phase == Phase::Open).then_some(hooks)
            };
            if let Some(hooks) = hooks {
                unfinished.push(UnfinishedScope { scope: scope.label.clone(), site: scope.site, hooks });
            }
            for sequence in scope.sequences(|_| true) {
                let inner = sequence.inner.lock();
                for tensor in &inner.recording.tensors {
                    let keepers = keepers.entry(tensor.handle.cell.id()).or_default();
                    keepers.holds += 1;
                    keepers.names.push((sequence.name.clone(), scope.label.clone()));
                }
                for (used, _) in inner.recording.operations.iter().flat_map(OpKind::uses) {
                    keepers.entry(used.handle.cell.id()).or_default().holds += 1;
                }
            }
        }
        let mut leaks: Vec<(u64, Leak)> = self
            .shards
            .live()
            .iter()
            .map(|handle| {
                let cell = &handle.cell;
                let keepers = keepers.remove(&cell.id()).unwrap_or_default();
                let leak = Leak {
                    tensor: cell.label.to_shared(),
                    bytes: cell.bytes,
                    site: cell.site,
                    // One is the list's.
                    handles: Arc::strong_count(handle).saturating_sub(keepers.holds + 1),
                    kept_by: keepers.names,
                };
                (cell.id(), leak)
            })
            .collect();
        leaks.sort_by_key(|(id, _)| *id);
        Found { leaks: leaks.into_iter().map(|(_, leak)| leak).collect(), unfinished, errors: Vec::new() }
    }

    /// Finishes every scope and waits until nothing is in flight. False if the time was over first.
    fn drain(self: &Arc<Self>, deadline: Option<Instant>, found: &mut Found) -> bool {
        loop {
            while let Some(root) = self.last_root() {
                // An open scope has nobody else to tell; one that finishes tells who finishes it.
                let wait = match root.phase() {
                    Phase::Open => {
                        root.set_unattended();
                        FinishWait::new(root.clone(), Outcome::Abandoned)
                    }
                    _ => FinishWait::begun(root.clone()),
                };
                if self.block_on(wait, deadline).is_none() {
                    return false;
                }
                found.errors.extend(root.take_unattended_error());
            }
            let quiet = self.wait_idle_until(deadline)
                && self.wait_for_detached(deadline)
                && self.gate.wait_empty(0, deadline);
            if !quiet {
                return false;
            }
            // A call that was inside when closing began may have opened a scope or submitted.
            if self.last_root().is_none() && self.is_idle() {
                return true;
            }
        }
    }

    fn last_root(&self) -> Option<Arc<ScopeCell>> {
        self.roots.lock().last_key_value().map(|(_, root)| root.clone())
    }

    /// Waits until everything submitted has retired. False if the time was over first.
    pub(crate) fn wait_idle_until(self: &Arc<Self>, deadline: Option<Instant>) -> bool {
        loop {
            self.retire_and_queue_hooks();
            let targets = self.next_targets();
            if targets.is_empty() {
                self.settle_retirement();
                return true;
            }
            let left = match deadline {
                None => None,
                Some(at) => match at.checked_duration_since(Instant::now()) {
                    Some(left) => Some(left),
                    None => return false,
                },
            };
            self.wait_device(&targets, left);
        }
    }

    /// Gives everything back. Nothing is in flight and nobody is inside.
    fn shut_down(self: &Arc<Self>, mut found: Found) -> CloseReport {
        self.stop_threads();
        self.run_left_over_jobs();
        self.end_all_tensors();
        // A handle that another thread dropped just now may be on its way to the pool.
        self.gate.wait_empty(0, None);
        self.retire_and_queue_hooks();
        self.trim_to(0);
        self.destroy_all_kernels();
        // Waiters that come now are turned away; those that are inside leave first.
        self.closing.phase.store(SHUT, Ordering::SeqCst);
        self.gate.wait_empty(0, None);
        // What those that were inside have left.
        self.run_left_over_jobs();
        // SAFETY: blocks, kernels and arenas were given back or abandoned, the threads have ended, and
        // `driver_pass` lets nobody call any more: no call follows.
        if let Err(error) = unsafe { self.driver.shutdown() } {
            self.record_teardown_error(Error::Backend(error));
        }
        found.errors.extend(self.take_errors());
        let report = CloseReport {
            manager: self.label.clone(),
            leaks: found.leaks,
            unfinished_scopes: found.unfinished,
            detached_hooks: self.detached_hooks(),
            memory: self.memory_report(),
            errors: found.errors,
        };
        self.emit(None, None, || EventKind::Closed);
        self.closing.phase.store(CLOSED, Ordering::SeqCst);
        *self.closing.stage.lock() = Stage::Closed(Box::new(report.clone()));
        self.closing.changed.notify_all();
        report
    }

    /// The cleanup thread has ended: this one does what is left.
    fn run_left_over_jobs(self: &Arc<Self>) {
        while let Some(job) = self.cleanup.try_pop() {
            if !matches!(job, Job::Close) {
                self.run_job(job);
            }
        }
    }

    /// Destroys kernels, and those that the captures of kernels held.
    fn destroy_all_kernels(self: &Arc<Self>) {
        loop {
            let kernels: Vec<_> = self.kernels.lock().drain().map(|(_, slot)| slot).collect();
            if kernels.is_empty() && self.cleanup.is_empty() {
                return;
            }
            for slot in kernels {
                let native = slot.lock().take();
                if let Some(native) = native {
                    self.destroy_kernel(native);
                }
            }
            self.run_left_over_jobs();
        }
    }

    /// Keeps the errors of a scope that was dropped: nobody waits for them.
    pub(crate) fn keep_errors_of_abandoned(&self, scope: &Arc<ScopeCell>) {
        if let Some(error) = scope.take_unattended_error() {
            tracing::warn!(target: "tenure", "scope `{}`: {error}", scope.label);
            self.keep_error(error);
        }
    }
}
