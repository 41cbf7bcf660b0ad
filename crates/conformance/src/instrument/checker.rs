//! The checker's books: which native objects are out, what the device may still be doing with them, and what
//! of that breaks the SPI's contract.
//!
//! "Reported complete" is what counts, not what the device has really done: core may only act on what
//! `completed` has told it. Not here: recording and submitting (`submission.rs`), and what happens to a call
//! that breaks the contract (`ffi.rs`).

use std::collections::{BTreeMap, VecDeque};

use tenure_core::backend::{BlockRequest, TimelinePoint};
use tenure_core::{BackendError, BackendErrorKind, Capabilities, QueueId};

use super::calls::CallKind;
use super::clocks::Clock;
use super::gate::Gate;
use super::lifetimes::{Ledger, ObjectKind};
use super::native::SequenceFacts;
use super::submission::{Flight, RangeUse};
use super::violations::Violations;

/// Objects that a violation names at most.
const MAX_NAMES: usize = 4;

pub(super) struct Checker {
    pub capabilities: Capabilities,
    /// Bytes that all blocks may have together.
    pub capacity_bytes: Option<u64>,
    pub ledger: Ledger,
    pub violations: Violations,
    pub queues: Vec<QueueRecord>,
    pub(super) blocks: BTreeMap<u64, BlockRecord>,
    pub(super) kernels: BTreeMap<u64, KernelRecord>,
    arenas: BTreeMap<u64, ArenaRecord>,
    sequences: BTreeMap<u64, String>,
    /// Blocks and bytes that the inner backend is being asked for.
    allocating: (u64, u64),
    /// The device is lost, and every point has ended with it (L23).
    ended: bool,
    last_id: u64,
}

/// One queue, as core has used it and as it was told about it.
#[derive(Default)]
pub(super) struct QueueRecord {
    pub gate: Gate,
    /// The last point that was submitted.
    pub submitted: u64,
    /// The last point that was reported complete.
    pub reported: u64,
    /// The last point that is complete because something after it was reported complete.
    pub implied: u64,
    /// The submission that is being made, with what to go back to should it fail.
    pub submitting: Option<Submitting>,
    /// What is submitted and not reported complete, in order.
    pub flights: VecDeque<(u64, Clock)>,
    /// The clock of the last submission.
    pub clock: Clock,
}

/// The state of a queue before a submission.
pub(super) struct Submitting {
    pub submitted: u64,
    pub clock: Clock,
}

pub(super) struct BlockRecord {
    /// Allocated or adopted.
    kind: ObjectKind,
    pub label: String,
    pub bytes: u64,
    /// Uses by submissions that are not reported complete, and some that are.
    pub accesses: Vec<Access>,
}

/// The use of a range by one submission.
pub(super) struct Access {
    pub point: TimelinePoint,
    pub range: RangeUse,
}

pub(super) struct KernelRecord {
    pub label: String,
    /// Submissions that run it and are not reported complete, and some that are.
    pub until: Vec<TimelinePoint>,
}

struct ArenaRecord {
    label: String,
    out: u64,
}

impl Checker {
    pub(super) fn new(capabilities: Capabilities, capacity_bytes: Option<u64>) -> Self {
        Checker {
            queues: (0..capabilities.queues).map(|_| QueueRecord::default()).collect(),
            capabilities,
            capacity_bytes,
            ledger: Ledger::default(),
            violations: Violations::default(),
            blocks: BTreeMap::new(),
            kernels: BTreeMap::new(),
            arenas: BTreeMap::new(),
            sequences: BTreeMap::new(),
            allocating: (0, 0),
            ended: false,
            last_id: 0,
        }
    }

    /// A number for an object that is about to be made.
    pub(super) fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// Whether core has been told that the point is complete.
    pub(super) fn is_done(&self, point: TimelinePoint) -> bool {
        is_done(self.ended, &self.queues, point)
    }

    /// The last point of each queue that something was submitted to.
    pub(super) fn submitted_points(&self) -> Vec<TimelinePoint> {
        let points = self.queues.iter().enumerate().map(|(at, queue)| TimelinePoint {
            queue: QueueId(u32::try_from(at).expect("queues are counted in 32 bits")),
            value: queue.submitted,
        });
        points.filter(|point| point.value > 0).collect()
    }

    /// Every point has ended: the device is lost (L23).
    pub(super) fn end_all_points(&mut self) {
        self.ended = true;
    }

    /// The device has completed `value`; `before` is what had been reported when it was asked. Returns what to
    /// report.
    pub(super) fn completed(&mut self, queue: QueueId, value: u64, before: u64) -> u64 {
        let record = &mut self.queues[queue.0 as usize];
        if value > record.submitted {
            self.violations.add(format!(
                "the backend says that {queue} has completed {value}, and {} was submitted last",
                record.submitted
            ));
        }
        let visible = record.gate.visible(value);
        if visible < before {
            self.violations.add(format!("the backend says that {queue} went back from {before} to {value}"));
        }
        // Another thread may have been told more in the meantime.
        let reported = visible.max(record.reported);
        record.reported = reported;
        let mut known = Clock::default();
        while record.flights.front().is_some_and(|(point, _)| *point <= reported) {
            if let Some((_, clock)) = record.flights.pop_front() {
                known.join(&clock);
            }
        }
        for (at, other) in (0..).zip(&mut self.queues) {
            other.implied = other.implied.max(known.at(at));
        }
        reported
    }

    // Blocks.

    /// Judges a request and sets its room aside.
    pub(super) fn request_block(&mut self, request: &BlockRequest<'_>) -> Result<(), BackendError> {
        let BlockRequest { bytes, label } = *request;
        let Capabilities { max_block_bytes, max_blocks, alignment, .. } = self.capabilities;
        let blocks = self.ledger.of(ObjectKind::Block).live() + self.allocating.0;
        let problem = if bytes == 0 {
            Some("L22: a block of 0 bytes".to_owned())
        } else if bytes > max_block_bytes {
            Some(format!("L22: a block of {bytes} bytes, the largest has {max_block_bytes}"))
        } else if !bytes.is_multiple_of(alignment) {
            Some(format!("a block of {bytes} bytes, which is no multiple of {alignment}"))
        } else if blocks >= max_blocks {
            Some(format!("L22: {} blocks at a time, {max_blocks} are allowed", blocks + 1))
        } else {
            None
        };
        if let Some(problem) = problem {
            return Err(self.refuse(CallKind::Allocate, format!("{problem}, was asked for `{label}`")));
        }
        let used = self.ledger.of(ObjectKind::Block).live_bytes() + self.allocating.1;
        if let Some(capacity) = self.capacity_bytes
            && used.saturating_add(bytes) > capacity
        {
            let message = format!("{used} of {capacity} bytes are used, {bytes} more do not fit");
            return Err(BackendError::new(BackendErrorKind::OutOfMemory, CallKind::Allocate.name(), message));
        }
        self.allocating.0 += 1;
        self.allocating.1 += bytes;
        Ok(())
    }

    /// The inner backend has answered a request.
    pub(super) fn block_made(&mut self, request: &BlockRequest<'_>, made: Option<u64>) {
        self.allocating.0 -= 1;
        self.allocating.1 -= request.bytes;
        if let Some(id) = made {
            self.block_is_out(ObjectKind::Block, request, id);
        }
    }

    /// A block was allocated or adopted.
    pub(super) fn block_is_out(&mut self, kind: ObjectKind, request: &BlockRequest<'_>, id: u64) {
        self.ledger.made(kind, request.bytes);
        let label = request.label.to_owned();
        self.blocks.insert(id, BlockRecord { kind, label, bytes: request.bytes, accesses: Vec::new() });
    }

    /// A block goes back. True if the device may still be using it.
    pub(super) fn block_given_back(&mut self, kind: ObjectKind, id: u64) -> bool {
        let Some(block) = self.blocks.remove(&id) else {
            self.violations.add(format!("block {id} is freed and is not of this backend"));
            return false;
        };
        if block.kind != kind {
            self.violations.add(format!("block {id} goes back as {kind}, it is {}", block.kind));
        }
        self.ledger.given_back(block.kind, block.bytes);
        let in_use =
            block.accesses.iter().find(|access| !self.is_done(access.point)).map(|access| access.point);
        if let Some(point) = in_use {
            self.violations.add(format!(
                "L4: block {id} `{}` is freed while {} uses it",
                block.label,
                show(point)
            ));
        }
        in_use.is_some()
    }

    /// The host copies to or from a block. True if the device may be using that range.
    pub(super) fn host_access(&mut self, kind: CallKind, range: &RangeUse) -> Result<bool, BackendError> {
        self.prune_block(range.block);
        let Some(block) = self.blocks.get(&range.block) else {
            return Err(self.refuse(kind, format!("block {} is gone", range.block)));
        };
        if !range.is_inside(block.bytes) {
            let problem = format!("{range} is outside block {} of {} bytes", range.block, block.bytes);
            return Err(self.refuse(kind, problem));
        }
        let in_use = block.accesses.iter().find(|access| access.range.conflicts(range));
        let Some(access) = in_use else { return Ok(false) };
        let text = format!(
            "L4: {kind} of {range} in block {} `{}` while {} uses it",
            range.block,
            block.label,
            show(access.point)
        );
        self.violations.add(text);
        Ok(true)
    }

    /// Forgets uses of a block by submissions that are reported complete.
    pub(super) fn prune_block(&mut self, id: u64) {
        let Checker { blocks, queues, ended, .. } = self;
        if let Some(block) = blocks.get_mut(&id) {
            block.accesses.retain(|access| !is_done(*ended, queues, access.point));
        }
    }

    /// Forgets runs of a kernel by submissions that are reported complete.
    pub(super) fn prune_kernel(&mut self, id: u64) {
        let Checker { kernels, queues, ended, .. } = self;
        if let Some(kernel) = kernels.get_mut(&id) {
            kernel.until.retain(|point| !is_done(*ended, queues, *point));
        }
    }

    // Kernels.

    pub(super) fn kernel_made(&mut self, id: u64, label: &str) {
        self.ledger.made(ObjectKind::Kernel, 0);
        self.kernels.insert(id, KernelRecord { label: label.to_owned(), until: Vec::new() });
    }

    /// A kernel goes back. True if the device may still be running it.
    pub(super) fn kernel_given_back(&mut self, id: u64) -> bool {
        let Some(kernel) = self.kernels.remove(&id) else {
            self.violations.add(format!("kernel {id} is destroyed and is not of this backend"));
            return false;
        };
        self.ledger.given_back(ObjectKind::Kernel, 0);
        let in_use = kernel.until.iter().copied().find(|point| !self.is_done(*point));
        if let Some(point) = in_use {
            self.violations.add(format!(
                "L4: kernel {id} `{}` is destroyed while {} uses it",
                kernel.label,
                show(point)
            ));
        }
        in_use.is_some()
    }

    // Arenas and sequences.

    pub(super) fn arena_made(&mut self, id: u64, label: &str) {
        self.ledger.made(ObjectKind::Scope, 0);
        self.arenas.insert(id, ArenaRecord { label: label.to_owned(), out: 0 });
    }

    /// An arena is to be reset or closed. False if sequences made from it are out.
    pub(super) fn arena_is_whole(&mut self, kind: CallKind, id: u64) -> bool {
        let Some(arena) = self.arenas.get(&id) else { return true };
        if arena.out == 0 {
            return true;
        }
        let text = format!("{kind} of arena {id} `{}` while {} sequences are out", arena.label, arena.out);
        self.violations.add(text);
        false
    }

    pub(super) fn arena_given_back(&mut self, id: u64) {
        self.arenas.remove(&id);
        self.ledger.given_back(ObjectKind::Scope, 0);
    }

    pub(super) fn sequence_made(&mut self, facts: &SequenceFacts) {
        self.ledger.made(ObjectKind::Sequence, 0);
        self.sequences.insert(facts.id, facts.label.clone());
        if let Some(arena) = self.arenas.get_mut(&facts.arena) {
            arena.out += 1;
        }
    }

    /// A native sequence goes back to `arena`.
    pub(super) fn sequence_given_back(&mut self, facts: &SequenceFacts, arena: u64) -> Return {
        self.sequences.remove(&facts.id);
        self.ledger.given_back(ObjectKind::Sequence, 0);
        if let Some(arena) = self.arenas.get_mut(&facts.arena) {
            arena.out -= 1;
        }
        if facts.arena != arena {
            let text = format!("{facts} of arena {} is recycled into arena {arena}", facts.arena);
            self.violations.add(text);
            return Return::Foreign;
        }
        match facts.flight {
            Flight::Idle => Return::Clean,
            Flight::Submitted(value) if self.is_done(facts.point(value)) => {
                if !self.ended {
                    self.violations.add(format!("{facts} is recycled before its execution was collected"));
                }
                Return::Clean
            }
            Flight::Submitted(value) => {
                let text = format!("L4: {facts} is recycled while {} runs it", show(facts.point(value)));
                self.violations.add(text);
                Return::InUse
            }
        }
    }

    // The end.

    /// The backend is to be shut down. True if something may still be running.
    pub(super) fn shut_down(&mut self) -> bool {
        let running: Vec<_> =
            self.submitted_points().into_iter().filter(|point| !self.is_done(*point)).collect();
        for point in &running {
            let reported = self.queues[point.queue.0 as usize].reported;
            self.violations
                .add(format!("L4: shutdown while {} is running, {reported} was reported last", show(*point)));
        }
        if self.ended && self.capabilities.abandons_on_loss {
            self.ledger.abandon_all();
            return false;
        }
        for kind in ObjectKind::ALL {
            let out = self.ledger.of(kind).live();
            if out > 0 {
                let names = self.names(kind);
                self.violations.add(format!("L19: shutdown with {out} of kind {kind} out: {names}"));
            }
        }
        !running.is_empty()
    }

    fn names(&self, kind: ObjectKind) -> String {
        let labels: Vec<(u64, &str)> = match kind {
            ObjectKind::Block | ObjectKind::Adopted => {
                let known = self.blocks.iter().filter(|(_, known)| known.kind == kind);
                known.map(|(id, known)| (*id, &*known.label)).collect()
            }
            ObjectKind::Kernel => self.kernels.iter().map(|(id, known)| (*id, &*known.label)).collect(),
            ObjectKind::Scope => self.arenas.iter().map(|(id, known)| (*id, &*known.label)).collect(),
            ObjectKind::Sequence => self.sequences.iter().map(|(id, label)| (*id, &**label)).collect(),
        };
        let mut names: Vec<String> =
            labels.iter().take(MAX_NAMES).map(|(id, label)| format!("{id} `{label}`")).collect();
        if labels.len() > MAX_NAMES {
            names.push("and others".to_owned());
        }
        names.join(", ")
    }

    /// Records a violation and makes the error for a call that does not go through.
    pub(super) fn refuse(&mut self, kind: CallKind, problem: impl Into<String>) -> BackendError {
        let problem = problem.into();
        let message = format!("refused by the checker: {problem}");
        self.violations.add(format!("{problem} ({kind})"));
        BackendError::new(BackendErrorKind::Driver, kind.name(), message)
    }
}

/// How a native sequence comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Return {
    /// As it should.
    Clean,
    /// Its last submission is not reported complete.
    InUse,
    /// To an arena that it was not made from.
    Foreign,
}

fn is_done(ended: bool, queues: &[QueueRecord], point: TimelinePoint) -> bool {
    // What a reported point of another queue waited for is done too.
    let done = |queue: &QueueRecord| point.value <= queue.reported.max(queue.implied);
    ended || queues.get(point.queue.0 as usize).is_none_or(done)
}

/// A point for messages.
pub(super) fn show(point: TimelinePoint) -> String {
    format!("point {} of {}", point.value, point.queue)
}
