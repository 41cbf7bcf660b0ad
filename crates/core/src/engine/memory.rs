//! Getting memory when there is room, and when there is none: reclaim, wait, trim, ask the user, retry once
//! (L20). Also trimming by policy (L21).

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use smallvec::SmallVec;

use crate::backend::BlockRequest;
use crate::engine::pool::{Fit, Grant, NoRoom};
use crate::engine::room::{Outlook, Shortage};
use crate::engine::{Engine, frames};
use crate::error::{BackendError, BackendErrorKind, Error, OutOfMemory, SharedError};
use crate::event::EventKind;
use crate::manager::{OutOfMemoryRequest, TrimPolicy};
use crate::report::{Holder, MemoryReport, TrimReport};
use crate::tensor::{Label, TensorHandle};

/// How many holders an out-of-memory error names.
const LARGEST_HOLDERS: usize = 5;

/// Why an attempt gave no grant.
enum Refusal {
    NoRoom(NoRoom),
    Driver(BackendError),
    Failed(Error),
}

impl Refusal {
    /// What was short; none for an error that room would not change.
    fn shortage(&self) -> Option<Shortage> {
        match self {
            Refusal::NoRoom(NoRoom::Budget) => Some(Shortage::Budget),
            Refusal::NoRoom(NoRoom::Blocks) => Some(Shortage::Blocks),
            Refusal::Driver(_) => Some(Shortage::Driver),
            Refusal::Failed(_) => None,
        }
    }
}

impl Engine {
    /// Memory for a tensor of `bytes`; none for an empty one (L22).
    pub(crate) fn acquire(self: &Arc<Self>, label: &Label, bytes: u64) -> Result<Option<Grant>, Error> {
        if bytes == 0 {
            return Ok(None);
        }
        let refusal = match self.attempt(label, bytes, Fit::Roomy) {
            Ok(grant) => return Ok(Some(grant)),
            Err(refusal) => refusal,
        };
        if refusal.shortage().is_some() {
            self.pool.lock().counters.retries += 1;
        }
        let mut refusal = match self.retry(label, bytes, refusal) {
            Ok(grant) => return Ok(Some(grant)),
            Err(refusal) => refusal,
        };
        let mut callback = None;
        if refusal.shortage().is_some()
            && let Some(asked) = self.ask_for_memory(label, bytes)
        {
            callback = asked.err();
            // What it gave up is like anything else that was: in flight, or cached in its own sizes.
            refusal = match self.retry(label, bytes, refusal) {
                Ok(grant) => return Ok(Some(grant)),
                Err(refusal) => refusal,
            };
        }
        Err(self.count_failure(match refusal {
            Refusal::Failed(error) => error,
            Refusal::NoRoom(NoRoom::Blocks) => {
                Error::TooManyBlocks { label: label.to_shared(), limit: self.capabilities.max_blocks }
            }
            Refusal::NoRoom(NoRoom::Budget) => self.out_of_memory(label, bytes, None, callback),
            Refusal::Driver(error) => self.out_of_memory(label, bytes, Some(error), callback),
        }))
    }

    /// Makes room and tries again; once for each kind of shortage, since room in the budget may leave the driver short.
    fn retry(self: &Arc<Self>, label: &Label, bytes: u64, refusal: Refusal) -> Result<Grant, Refusal> {
        let mut refusal = refusal;
        let mut met = SmallVec::<[Shortage; 3]>::new();
        while let Some(shortage) = refusal.shortage()
            && !met.contains(&shortage)
        {
            met.push(shortage);
            if let Some(grant) = self.make_room(shortage, bytes) {
                return Ok(grant);
            }
            let fit = if shortage == Shortage::Driver { Fit::Exact } else { Fit::Roomy };
            match self.attempt(label, bytes, fit) {
                Ok(grant) => return Ok(grant),
                Err(next) => refusal = next,
            }
        }
        Err(refusal)
    }

    /// Reclaims, waits as far as that would help, and trims (L20). A grant if one that fits came back.
    fn make_room(self: &Arc<Self>, shortage: Shortage, bytes: u64) -> Option<Grant> {
        loop {
            self.retire_and_queue_hooks();
            self.wait_for_leaving();
            if let Some(grant) = self.cached_grant(bytes) {
                return Some(grant);
            }
            if let Some(grant) = self.grant_in_flight(bytes) {
                return Some(grant);
            }
            if self.is_lost() || self.outlook(shortage, bytes) == Outlook::Ask {
                break;
            }
            let targets = self.next_targets();
            if !targets.is_empty() {
                self.wait_device(&targets, None);
            }
        }
        self.trim_to(0);
        // What another thread's trim took before this one's is on its way to the driver.
        self.wait_for_leaving();
        None
    }

    /// Does what takes memory of the driver's beside tensors: recordings, their arenas, staging, kernels. Where the driver has
    /// none left, what has retired is reclaimed, the cache goes back, and it is tried once more (L20). How much is short the
    /// driver does not say: nothing is waited for.
    pub(crate) fn with_room<R>(
        self: &Arc<Self>,
        mut attempt: impl FnMut() -> Result<R, Error>,
    ) -> Result<R, Error> {
        match attempt() {
            Err(Error::Backend(error)) if error.kind == BackendErrorKind::OutOfMemory => {}
            answer => return answer,
        }
        self.retire_and_queue_hooks();
        {
            let _pass = self.enter()?;
            self.pool.lock().counters.retries += 1;
            self.trim_to(0);
            self.wait_for_leaving();
        }
        attempt()
    }

    fn count_failure(&self, error: Error) -> Error {
        self.pool.lock().counters.failed_allocations += 1;
        error
    }

    fn attempt(self: &Arc<Self>, label: &Label, bytes: u64, fit: Fit) -> Result<Grant, Refusal> {
        if let Some(lost) = self.lost_error() {
            return Err(Refusal::Failed(lost));
        }
        if let Some(grant) = self.cached_grant(bytes) {
            return Ok(grant);
        }
        let growth = self.pool.lock().plan_growth(bytes, fit).map_err(Refusal::NoRoom)?;
        // No lock while the driver works; the room is set aside already.
        match self.driver.allocate(&BlockRequest { bytes: growth.bytes, label: label.as_str() }) {
            Ok(native) => {
                let size = growth.bytes;
                let grant = {
                    let mut pool = self.pool.lock();
                    let grant = pool.commit(growth, native);
                    self.shards.note_peak(&mut pool);
                    grant
                };
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

    /// Memory that was taken from the driver before, in whatever form.
    fn cached_grant(&self, bytes: u64) -> Option<Grant> {
        // Dropped last, without the lock.
        let mut husks = SmallVec::<[Arc<TensorHandle>; 1]>::new();
        let mut pool = self.pool.lock();
        let mut grant = pool.take_cached(bytes);
        if grant.is_none() && self.shards.idle_bytes() > 0 {
            if let Some((memory, husk)) = self.shards.take_memory(self.sizes.rounded(bytes), &mut pool) {
                husks.push(husk);
                return Some(memory);
            }
            // Idle tensors of other sizes may have what is missing.
            husks.extend(self.shards.take_idle(&mut pool));
            grant = pool.take_cached(bytes);
        }
        if grant.is_some() {
            self.shards.note_peak(&mut pool);
        }
        grant
    }

    /// Memory that the device still uses for tensors that are gone: what is next done with it waits for that on the device,
    /// and no thread waits here.
    fn grant_in_flight(&self, bytes: u64) -> Option<Grant> {
        if self.is_lost() {
            return None;
        }
        let bytes = self.sizes.serving_in_flight(bytes);
        let grant = self.queues.iter().find_map(|queue| queue.take_pending(&bytes))?;
        let mut pool = self.pool.lock();
        pool.resume(&grant);
        self.shards.note_peak(&mut pool);
        Some(grant)
    }

    /// Blocks that another thread is freeing make room: wait for them.
    fn wait_for_leaving(&self) {
        let mut pool = self.pool.lock();
        while pool.is_leaving() {
            self.pool_changed.wait(&mut pool);
        }
    }

    /// Asks the user's callback, once and not from inside itself; none if there is nobody to ask.
    fn ask_for_memory(self: &Arc<Self>, label: &Label, bytes: u64) -> Option<Result<(), SharedError>> {
        let callback = self.on_out_of_memory.as_ref()?;
        let inside = frames::enter_out_of_memory(self)?;
        let request =
            OutOfMemoryRequest { label: label.to_shared(), requested: bytes, memory: self.memory_report() };
        // No lock is held (L15); a panic goes on after the frame is left.
        let answer = catch_unwind(AssertUnwindSafe(|| callback(&request)));
        drop(inside);
        match answer {
            Ok(Ok(())) => Some(Ok(())),
            Ok(Err(error)) => Some(Err(error.into())),
            Err(panic) => {
                self.pool.lock().counters.failed_allocations += 1;
                resume_unwind(panic)
            }
        }
    }

    fn out_of_memory(
        &self,
        label: &Label,
        requested: u64,
        driver: Option<BackendError>,
        callback: Option<SharedError>,
    ) -> Error {
        let memory = self.memory_report();
        // Adopted memory is not of the budget.
        let mut largest: Vec<Holder> = self
            .shards
            .live()
            .iter()
            .map(|handle| &handle.cell)
            .filter(|cell| cell.granted_bytes() > 0)
            .map(|cell| Holder { label: cell.label.to_shared(), bytes: cell.bytes })
            .collect();
        largest.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.label.cmp(&b.label)));
        largest.truncate(LARGEST_HOLDERS);
        Error::OutOfMemory(Arc::new(OutOfMemory {
            label: label.to_shared(),
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
        let (report, _husks) = {
            let mut pool = self.pool.lock();
            let husks = self.shards.take_idle(&mut pool);
            (pool.report(), husks)
        };
        MemoryReport { tensors: self.shards.live_count(), ..report }
    }

    /// Gives unused blocks back to the driver until at most `keep` bytes are cached.
    pub(crate) fn trim_to(&self, keep: u64) -> TrimReport {
        let (leaving, husks) = {
            let mut pool = self.pool.lock();
            pool.counters.trims += 1;
            let husks = self.shards.take_idle(&mut pool);
            (pool.take_unused(keep), husks)
        };
        drop(husks);
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
            TrimPolicy::Watermark { high, low } => {
                self.trim_to_watermark(high, low);
            }
            TrimPolicy::OnFinish | TrimPolicy::Never => {}
        }
    }

    /// Trims as the policy asks when a scope has finished; `last_root` if no root scope is open any more.
    pub(crate) fn after_finish(&self, last_root: bool) -> TrimReport {
        match self.options.trim {
            TrimPolicy::OnFinish if last_root => self.trim_to(0),
            TrimPolicy::EveryExecution => self.trim_to(0),
            // Nothing is about to use it: what is kept beyond `low` is for work that goes on.
            TrimPolicy::Watermark { low, .. } if last_root => self.trim_to_watermark(low, low),
            TrimPolicy::Watermark { high, low } => self.trim_to_watermark(high, low),
            TrimPolicy::OnFinish | TrimPolicy::Never => TrimReport::default(),
        }
    }

    /// Hysteresis: nothing happens between the two marks.
    fn trim_to_watermark(&self, high: u64, low: u64) -> TrimReport {
        if self.pool.lock().cached_bytes() + self.shards.idle_bytes() <= high {
            return TrimReport::default();
        }
        self.trim_to(low)
    }
}
