//! Getting memory when there is room, and when there is none: reclaim, wait, trim, ask the user, retry once
//! (L20). Also trimming by policy (L21).

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use crate::backend::BlockRequest;
use crate::engine::pool::{Grant, NoRoom};
use crate::engine::{Engine, frames};
use crate::error::{BackendError, BackendErrorKind, Error, OutOfMemory, SharedError};
use crate::event::EventKind;
use crate::manager::{OutOfMemoryRequest, TrimPolicy};
use crate::report::{Holder, MemoryReport, TrimReport};

/// How many holders an out-of-memory error names.
const LARGEST_HOLDERS: usize = 5;

/// Why an attempt gave no grant.
enum Refusal {
    NoRoom(NoRoom),
    Driver(BackendError),
    Failed(Error),
}

impl Engine {
    /// Memory for a tensor of `bytes`; none for an empty one (L22).
    pub(crate) fn acquire(self: &Arc<Self>, label: &Arc<str>, bytes: u64) -> Result<Option<Grant>, Error> {
        if bytes == 0 {
            return Ok(None);
        }
        if bytes > self.capabilities.max_block_bytes {
            return Err(Error::TooLarge {
                label: label.clone(),
                requested: bytes,
                limit: self.capabilities.max_block_bytes,
                which: "largest block",
            });
        }
        match self.attempt(label, bytes) {
            Ok(grant) => return Ok(Some(grant)),
            Err(Refusal::Failed(error)) => return Err(self.count_failure(error)),
            Err(Refusal::NoRoom(_) | Refusal::Driver(_)) => {}
        }
        self.pool.lock().counters.retries += 1;
        self.retire_and_queue_hooks();
        self.wait_for_leaving();
        if let Some(grant) = self.pool.lock().take_cached(bytes) {
            return Ok(Some(grant));
        }
        self.wait_for_retired(bytes);
        self.trim_to(0);
        let mut callback = None;
        let mut answer = self.attempt(label, bytes);
        if let Err(Refusal::NoRoom(_) | Refusal::Driver(_)) = &answer
            && let Some(asked) = self.ask_for_memory(label, bytes)
        {
            callback = asked.err();
            answer = self.attempt(label, bytes);
        }
        let refusal = match answer {
            Ok(grant) => return Ok(Some(grant)),
            Err(refusal) => refusal,
        };
        Err(self.count_failure(match refusal {
            Refusal::Failed(error) => error,
            Refusal::NoRoom(NoRoom::Blocks) => {
                Error::TooManyBlocks { label: label.clone(), limit: self.capabilities.max_blocks }
            }
            Refusal::NoRoom(NoRoom::Budget) => self.out_of_memory(label, bytes, None, callback),
            Refusal::Driver(error) => self.out_of_memory(label, bytes, Some(error), callback),
        }))
    }

    fn count_failure(&self, error: Error) -> Error {
        self.pool.lock().counters.failed_allocations += 1;
        error
    }

    fn attempt(self: &Arc<Self>, label: &Arc<str>, bytes: u64) -> Result<Grant, Refusal> {
        if let Some(lost) = self.lost_error() {
            return Err(Refusal::Failed(lost));
        }
        let growth = {
            let mut pool = self.pool.lock();
            if let Some(grant) = pool.take_cached(bytes) {
                return Ok(grant);
            }
            pool.plan_growth(bytes).map_err(Refusal::NoRoom)?
        };
        // No lock while the driver works; the room is set aside already.
        match self.driver.allocate(&BlockRequest { bytes: growth.bytes, label }) {
            Ok(native) => {
                let size = growth.bytes;
                let grant = self.pool.lock().commit(growth, native);
                self.emit(None, None, || EventKind::Allocate { bytes: size });
                Ok(grant)
            }
            Err(error) => {
                self.pool.lock().rollback(&growth);
                self.note_backend_error(&error);
                match error.kind {
                    BackendErrorKind::OutOfMemory => Err(Refusal::Driver(error)),
                    _ => Err(Refusal::Failed(self.backend_error(error))),
                }
            }
        }
    }

    /// Blocks that another thread is freeing make room: wait for them.
    fn wait_for_leaving(&self) {
        let mut pool = self.pool.lock();
        while pool.is_leaving() {
            self.pool_changed.wait(&mut pool);
        }
    }

    /// Waits for pending frees if they would make the request fit.
    fn wait_for_retired(self: &Arc<Self>, bytes: u64) {
        loop {
            let (fits_now, fits_later) = {
                let pool = self.pool.lock();
                let Some(budget) = self.options.budget else {
                    // Only the driver knows what fits: give it all that is pending.
                    if pool.retired_bytes() == 0 {
                        return;
                    }
                    drop(pool);
                    if !self.wait_for_pending() {
                        return;
                    }
                    continue;
                };
                let cached = pool.cached_bytes();
                let held = pool.reserved().bytes - cached;
                let needed = held.saturating_add(bytes);
                (needed <= budget, needed.saturating_sub(pool.retired_bytes()) <= budget)
            };
            if fits_now || !fits_later || !self.wait_for_pending() {
                return;
            }
        }
    }

    /// Waits until the next pending free happens; false if there is none.
    fn wait_for_pending(self: &Arc<Self>) -> bool {
        let targets = self.pending_memory_targets();
        if targets.is_empty() || self.is_lost() {
            return false;
        }
        self.wait_device(&targets, None);
        self.retire_and_queue_hooks();
        true
    }

    /// Asks the user's callback, once and not from inside itself; none if there is nobody to ask.
    fn ask_for_memory(self: &Arc<Self>, label: &Arc<str>, bytes: u64) -> Option<Result<(), SharedError>> {
        let callback = self.on_out_of_memory.as_ref()?;
        let inside = frames::enter_out_of_memory(self)?;
        let request =
            OutOfMemoryRequest { label: label.clone(), requested: bytes, memory: self.memory_report() };
        // No lock is held (L15); a panic goes on after the frame is left.
        let answer = catch_unwind(AssertUnwindSafe(|| callback(&request)));
        drop(inside);
        match answer {
            Ok(Ok(())) => {
                // What it gave up is cached in its own sizes: the request needs the bytes.
                self.retire_and_queue_hooks();
                self.trim_to(0);
                Some(Ok(()))
            }
            Ok(Err(error)) => Some(Err(error.into())),
            Err(panic) => {
                self.pool.lock().counters.failed_allocations += 1;
                resume_unwind(panic)
            }
        }
    }

    fn out_of_memory(
        &self,
        label: &Arc<str>,
        requested: u64,
        driver: Option<BackendError>,
        callback: Option<SharedError>,
    ) -> Error {
        let memory = self.memory_report();
        let mut largest: Vec<Holder> = self
            .tensors
            .lock()
            .values()
            .filter(|cell| cell.bytes > 0)
            .map(|cell| Holder { label: cell.label.clone(), bytes: cell.bytes })
            .collect();
        largest.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.label.cmp(&b.label)));
        largest.truncate(LARGEST_HOLDERS);
        Error::OutOfMemory(Arc::new(OutOfMemory {
            label: label.clone(),
            requested,
            budget: self.options.budget,
            live: memory.live.bytes,
            retired: memory.retired.bytes,
            cached: memory.cached.bytes,
            largest,
            driver,
            callback,
        }))
    }

    pub(crate) fn memory_report(&self) -> MemoryReport {
        let tensors = self.tensors.lock().len() as u64;
        MemoryReport { tensors, ..self.pool.lock().report() }
    }

    /// Gives unused blocks back to the driver until at most `keep` bytes are cached.
    pub(crate) fn trim_to(&self, keep: u64) -> TrimReport {
        let leaving = {
            let mut pool = self.pool.lock();
            pool.counters.trims += 1;
            pool.take_unused(keep)
        };
        let mut report = TrimReport::default();
        let abandon = self.is_lost() && self.capabilities.abandons_on_loss;
        for block in leaving {
            let native = Arc::into_inner(block.native).expect("an unused block has no other owner");
            if abandon {
                // L23: the device's own teardown took it.
                std::mem::forget(native);
            } else {
                // SAFETY: the pool hands out blocks only when no grant of them is live or retired, so the
                // device has finished with every submission that named them (L4), and recordings that name
                // them are stale and refused.
                if let Err(error) = unsafe { self.driver.free(native) } {
                    self.note_backend_error(&error);
                    self.record_teardown_error(Error::Backend(error));
                }
            }
            report.bytes += block.bytes;
            report.blocks += 1;
            self.pool.lock().freed(block.bytes, abandon);
            self.pool_changed.notify_all();
            self.emit(None, None, || EventKind::Free { bytes: block.bytes });
        }
        if keep == 0 {
            self.close_idle_arenas();
            if !self.is_lost() {
                match self.driver.trim() {
                    Ok(bytes) => report.bytes += bytes,
                    Err(error) => {
                        self.note_backend_error(&error);
                        self.record_teardown_error(Error::Backend(error));
                    }
                }
            }
        }
        self.emit(None, None, || EventKind::Trim { bytes: report.bytes });
        report
    }

    /// Trims as the policy asks after executions have retired (L21).
    pub(crate) fn after_retirement(&self) {
        match self.options.trim {
            TrimPolicy::EveryExecution => {
                self.trim_to(0);
            }
            TrimPolicy::Watermark { .. } => self.trim_to_watermark(),
            TrimPolicy::OnFinish | TrimPolicy::Never => {}
        }
    }

    /// Trims as the policy asks when a scope has finished; `last_root` if no root scope is open any more.
    pub(crate) fn after_finish(&self, last_root: bool) -> TrimReport {
        match self.options.trim {
            TrimPolicy::OnFinish if last_root => self.trim_to(0),
            TrimPolicy::EveryExecution => self.trim_to(0),
            TrimPolicy::Watermark { .. } => {
                self.trim_to_watermark();
                TrimReport::default()
            }
            TrimPolicy::OnFinish | TrimPolicy::Never => TrimReport::default(),
        }
    }

    fn trim_to_watermark(&self) {
        let TrimPolicy::Watermark { high, low } = self.options.trim else { return };
        // Hysteresis: nothing happens between low and high.
        if self.pool.lock().cached_bytes() > high {
            self.trim_to(low);
        }
    }
}
