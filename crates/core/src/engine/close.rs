//! Closing a manager: finish what is open, wait for the device, give everything back, report what was held
//! (L6, L19, L28).
//!
//! One thread closes; others wait for it. A close whose time is over hands the rest to the cleanup thread.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crate::engine::finish_wait::FinishWait;
use crate::engine::scopes::{Entry, Phase, ScopeCell};
use crate::engine::threads::Job;
use crate::engine::wait::deadline_after;
use crate::engine::{Engine, frames, gate};
use crate::error::Error;
use crate::event::EventKind;
use crate::manager::ManagerHandle;
use crate::report::{CloseReport, Leak, Outcome, UnfinishedScope};
use crate::sync::atomic::{AtomicU8, Ordering};
use crate::sync::{Condvar, Mutex};

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
    /// A thread is at it.
    Owned,
    Closed(Box<CloseReport>),
}

/// What was held when closing began.
#[derive(Default)]
struct Found {
    leaks: Vec<Leak>,
    unfinished: Vec<UnfinishedScope>,
    errors: Vec<Error>,
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
        if frames::inside(self) || gate::thread_is_inside() {
            return Err(Error::WouldDeadlock { what: format!("manager `{}`", self.label).into() });
        }
        let deadline = after.and_then(deadline_after);
        let found = {
            let mut stage = self.closing.stage.lock();
            loop {
                match &mut *stage {
                    Stage::Open => {
                        *stage = Stage::Owned;
                        self.closing.phase.store(CLOSING, Ordering::SeqCst);
                        break None;
                    }
                    Stage::Waiting(found) => {
                        let found = found.take();
                        *stage = Stage::Owned;
                        break found;
                    }
                    Stage::Closed(report) => return Ok(Some((**report).clone())),
                    Stage::Owned if leave => return Ok(None),
                    Stage::Owned => match deadline {
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
            if !matches!(*stage, Stage::Open) {
                return;
            }
            *stage = Stage::Waiting(None);
            self.closing.phase.store(CLOSING, Ordering::SeqCst);
        }
        let inside = frames::inside(self) || gate::thread_is_inside() || self.on_own_thread();
        let nothing_to_wait_for = self.roots.lock().is_empty()
            && self.is_idle()
            && self.cleanup.is_empty()
            && !self.has_cleanup_thread();
        // Without threads there is nobody else to do it: this is the one drop that waits for the device.
        if !inside && (nothing_to_wait_for || !self.options.threads) {
            self.close_abandoned();
        } else {
            self.push_job(Job::Close);
        }
    }

    /// Closes for nobody: errors go to the log.
    pub(crate) fn close_abandoned(self: &Arc<Self>) {
        match self.close_or_leave(None, true) {
            Ok(report) => {
                for error in report.iter().flat_map(|report| &report.errors) {
                    tracing::warn!(target: "tenure", "closing manager `{}`: {error}", self.label);
                }
            }
            Err(error) => tracing::warn!(target: "tenure", "closing manager `{}`: {error}", self.label),
        }
    }

    /// What is held, by whom (L28).
    fn take_stock(self: &Arc<Self>) -> Found {
        let mut scopes: Vec<Arc<ScopeCell>> = self.roots.lock().clone();
        let mut unfinished = Vec::new();
        let mut keepers = Vec::new();
        let mut at = 0;
        while at < scopes.len() {
            let scope = scopes[at].clone();
            at += 1;
            let hooks = {
                let inner = scope.inner.lock();
                scopes.extend(inner.stack.values().filter_map(|entry| match entry {
                    Entry::Child(child) => Some(child.clone()),
                    _ => None,
                }));
                let hooks = inner.registrations.iter().map(|hook| hook.label.clone()).collect();
                (inner.phase == Phase::Open).then_some(hooks)
            };
            if let Some(hooks) = hooks {
                unfinished.push(UnfinishedScope { scope: scope.label.clone(), site: scope.site, hooks });
            }
            for sequence in scope.sequences(|_| true) {
                let inner = sequence.inner.lock();
                for tensor in &inner.recording.tensors {
                    keepers.push((
                        tensor.handle.cell.id,
                        inner.recording.holds(tensor.handle.cell.id),
                        (sequence.name.clone(), scope.label.clone()),
                    ));
                }
            }
        }
        let mut leaks: Vec<(u64, Leak)> = self
            .tensors
            .lock()
            .values()
            .map(|cell| {
                let mine = || keepers.iter().filter(|(id, ..)| *id == cell.id);
                let recorded: usize = mine().map(|(_, holds, _)| holds).sum();
                let leak = Leak {
                    tensor: cell.label.clone(),
                    bytes: cell.bytes,
                    site: cell.site,
                    handles: cell.holders().saturating_sub(recorded),
                    kept_by: mine().map(|(.., names)| names.clone()).collect(),
                };
                (cell.id, leak)
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
        self.roots.lock().last().cloned()
    }

    /// Waits until everything submitted has retired. False if the time was over first.
    pub(crate) fn wait_idle_until(self: &Arc<Self>, deadline: Option<Instant>) -> bool {
        loop {
            self.retire_and_queue_hooks();
            let targets = self.next_targets();
            if targets.is_empty() {
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
        while let Some(job) = self.cleanup.try_pop() {
            if !matches!(job, Job::Close) {
                self.run_job(job);
            }
        }
        let tensors: Vec<_> = self.tensors.lock().values().cloned().collect();
        for tensor in tensors {
            self.end_tensor(&tensor, self.closed_reason());
        }
        // A handle that another thread dropped just now may be on its way to the pool.
        self.gate.wait_empty(0, None);
        self.retire_and_queue_hooks();
        self.trim_to(0);
        let kernels: Vec<_> = self.kernels.lock().drain().map(|(_, slot)| slot).collect();
        for slot in kernels {
            let native = slot.lock().take();
            if let Some(native) = native {
                self.destroy_kernel(native);
            }
        }
        // Waiters that come now are turned away; those that are inside leave first.
        self.closing.phase.store(SHUT, Ordering::SeqCst);
        self.gate.wait_empty(0, None);
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

    /// Keeps the errors of a scope that was dropped: nobody waits for them.
    pub(crate) fn keep_errors_of_abandoned(&self, scope: &Arc<ScopeCell>) {
        if let Some(error) = scope.take_unattended_error() {
            tracing::warn!(target: "tenure", "scope `{}`: {error}", scope.label);
            self.keep_error(error);
        }
    }
}
