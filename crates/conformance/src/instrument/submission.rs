//! Recordings and submissions as the checker sees them: what a recording names, whether it may be submitted,
//! and whether it waits for everything that it has to come after.
//!
//! Not here: the books that it looks into (`checker.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use tenure_core::backend::{Submission, TimelinePoint};
use tenure_core::operation::{BlockRange, Operation};
use tenure_core::{Backend, BackendError, Capabilities};

use super::Instrumented;
use super::calls::CallKind;
use super::checker::{Access, Checker, Submitting, show};
use super::clocks::Clock;
use super::native::SequenceFacts;

/// A range of bytes of a block, and whether it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RangeUse {
    pub block: u64,
    pub offset: u64,
    pub bytes: u64,
    pub writes: bool,
}

impl RangeUse {
    fn of<B: Backend>(range: &BlockRange<'_, Instrumented<B>>, writes: bool) -> Option<RangeUse> {
        let block = range.block?;
        Some(RangeUse { block: block.id, offset: range.offset, bytes: range.bytes, writes })
    }

    pub(super) fn is_inside(&self, bytes: u64) -> bool {
        self.offset.checked_add(self.bytes).is_some_and(|end| end <= bytes)
    }

    fn overlaps(&self, other: &RangeUse) -> bool {
        self.block == other.block
            && self.offset < other.offset.saturating_add(other.bytes)
            && other.offset < self.offset.saturating_add(self.bytes)
    }

    /// Whether the two may not run at the same time.
    pub(super) fn conflicts(&self, other: &RangeUse) -> bool {
        (self.writes || other.writes) && self.overlaps(other)
    }
}

impl fmt::Display for RangeUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bytes {}..{}", self.offset, self.offset.saturating_add(self.bytes))
    }
}

/// What a native sequence has recorded.
#[derive(Debug, Default)]
pub(super) struct Recorded {
    /// Whether each range is written, by block, offset and size.
    ranges: BTreeMap<(u64, u64, u64), bool>,
    kernels: BTreeSet<u64>,
    /// A call to `record` failed.
    pub incomplete: bool,
    /// How often it was submitted.
    pub submissions: u64,
}

impl Recorded {
    pub(super) fn add(&mut self, named: &Named) {
        for range in &named.ranges {
            *self.ranges.entry((range.block, range.offset, range.bytes)).or_default() |= range.writes;
        }
        self.kernels.extend(named.kernel);
    }

    fn ranges(&self) -> impl Iterator<Item = RangeUse> {
        self.ranges.iter().map(|(&(block, offset, bytes), &writes)| RangeUse { block, offset, bytes, writes })
    }
}

/// Whether a native sequence is with the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flight {
    /// Never submitted, or collected since.
    Idle,
    /// Submitted with this point, and not collected.
    Submitted(u64),
}

impl SequenceFacts {
    pub(super) fn point(&self, value: u64) -> TimelinePoint {
        TimelinePoint { queue: self.queue, value }
    }
}

/// What one operation names, and what is wrong with it in itself.
pub(super) struct Named {
    pub ranges: Vec<RangeUse>,
    pub kernel: Option<u64>,
    problems: Vec<String>,
}

impl Named {
    pub(super) fn of<B: Backend>(
        operation: &Operation<'_, Instrumented<B>>,
        capabilities: &Capabilities,
    ) -> Named {
        let mut problems = Vec::new();
        let mut kernel = None;
        let uses: Vec<(BlockRange<'_, Instrumented<B>>, bool)> = match operation {
            Operation::Write { target, bytes } => {
                if bytes.len() as u64 != target.bytes {
                    problems.push(format!("{} bytes are written to {}", bytes.len(), target.bytes));
                }
                vec![(*target, true)]
            }
            Operation::Read { source, .. } => vec![(*source, false)],
            Operation::Copy { source, target } => {
                if source.bytes != target.bytes {
                    problems.push(format!("{} bytes are copied to {}", source.bytes, target.bytes));
                }
                vec![(*source, false), (*target, true)]
            }
            Operation::Fill { target, pattern } => {
                if !(1..=64).contains(&pattern.len()) || !target.bytes.is_multiple_of(pattern.len() as u64) {
                    problems.push(format!("{} bytes are filled by {}", target.bytes, pattern.len()));
                }
                vec![(*target, true)]
            }
            Operation::Dispatch { kernel: used, bindings, groups, .. } => {
                kernel = Some(used.id);
                let Capabilities { max_binding_bytes, max_groups, .. } = *capabilities;
                if let Some(large) = bindings.iter().find(|binding| binding.range.bytes > max_binding_bytes) {
                    problems.push(format!(
                        "L22: a binding of {} bytes, the largest has {max_binding_bytes}",
                        large.range.bytes
                    ));
                }
                if groups.iter().zip(&max_groups).any(|(groups, most)| groups > most) {
                    problems.push(format!("L22: {groups:?} workgroups, the most are {max_groups:?}"));
                }
                bindings.iter().map(|binding| (binding.range, binding.access.writes())).collect()
            }
        };
        if uses.iter().any(|(range, _)| range.block.is_none() && range.bytes > 0) {
            problems.push("a range of some bytes in no block".to_owned());
        }
        let ranges = uses.iter().filter_map(|(range, writes)| RangeUse::of(range, *writes)).collect();
        Named { ranges, kernel, problems }
    }
}

impl Checker {
    /// Judges one operation that is to be recorded.
    pub(super) fn check_record(&mut self, facts: &SequenceFacts, named: &Named) -> Result<(), BackendError> {
        let mut problems = named.problems.clone();
        problems.extend(self.busy_with(facts, "records"));
        for (at, range) in named.ranges.iter().enumerate() {
            match self.blocks.get(&range.block) {
                None => problems.push(format!("names block {}, which was freed", range.block)),
                Some(block) if !range.is_inside(block.bytes) => problems
                    .push(format!("{range} is outside block {} of {} bytes", range.block, block.bytes)),
                Some(_) => {}
            }
            if let Some(other) = named.ranges[at + 1..].iter().find(|other| range.conflicts(other)) {
                problems.push(format!("{range} and {other} of block {} overlap", range.block));
            }
        }
        if let Some(kernel) = named.kernel.filter(|kernel| !self.kernels.contains_key(kernel)) {
            problems.push(format!("names kernel {kernel}, which was destroyed"));
        }
        self.verdict(CallKind::Record, facts, problems)
    }

    /// A native sequence may be reset only when it is not with the device.
    pub(super) fn check_reset(&mut self, facts: &SequenceFacts) -> Result<(), BackendError> {
        let problems = self.busy_with(facts, "is reset").into_iter().collect();
        self.verdict(CallKind::ResetSequence, facts, problems)
    }

    /// Judges a call to `collect`. True if the submission is not reported complete.
    pub(super) fn check_collect(&mut self, facts: &SequenceFacts) -> bool {
        match facts.flight {
            Flight::Idle => {
                self.violations
                    .add(format!("{facts} is collected, and nothing was submitted since the last time"));
                false
            }
            Flight::Submitted(value) if self.is_done(facts.point(value)) => false,
            Flight::Submitted(value) => {
                let point = show(facts.point(value));
                self.violations.add(format!("{facts} is collected, and {point} is not reported complete"));
                true
            }
        }
    }

    fn busy_with(&self, facts: &SequenceFacts, what: &str) -> Option<String> {
        match facts.flight {
            Flight::Idle => None,
            Flight::Submitted(value) if self.is_done(facts.point(value)) => {
                Some(format!("{what} before its last execution was collected"))
            }
            Flight::Submitted(value) => {
                Some(format!("L4, L7: {what} while {} runs it", show(facts.point(value))))
            }
        }
    }

    /// Judges a submission. If it may go on, its point and what it uses are taken into the books.
    pub(super) fn begin_submit(
        &mut self,
        facts: &SequenceFacts,
        submission: &Submission<'_>,
    ) -> Result<(), BackendError> {
        for range in facts.recorded.ranges() {
            self.prune_block(range.block);
        }
        for kernel in &facts.recorded.kernels {
            self.prune_kernel(*kernel);
        }
        let mut problems: Vec<String> = self.busy_with(facts, "is submitted").into_iter().collect();
        self.check_recording(facts, &mut problems);
        self.check_points(facts, submission, &mut problems);
        if problems.is_empty() {
            let clock = self.clock_of(submission);
            self.check_hazards(facts, &clock, &mut problems);
            if problems.is_empty() {
                self.note_submission(facts, submission.point, clock);
                return Ok(());
            }
        }
        self.verdict(CallKind::Submit, facts, problems)
    }

    fn check_recording(&self, facts: &SequenceFacts, problems: &mut Vec<String>) {
        if facts.recorded.incomplete {
            problems.push("is submitted with an incomplete recording".to_owned());
        }
        if facts.recorded.submissions > 0 && !self.capabilities.reusable_recordings {
            problems.push("L9: is submitted again, and recordings cannot be reused".to_owned());
        }
        let mut gone: Vec<u64> = facts.recorded.ranges().map(|range| range.block).collect();
        gone.retain(|block| !self.blocks.contains_key(block));
        gone.dedup();
        for block in gone {
            problems.push(format!("L4: is submitted and names block {block}, which was freed"));
        }
        for kernel in facts.recorded.kernels.iter().filter(|kernel| !self.kernels.contains_key(kernel)) {
            problems.push(format!("L4: is submitted and names kernel {kernel}, which was destroyed"));
        }
    }

    fn check_points(&self, facts: &SequenceFacts, submission: &Submission<'_>, problems: &mut Vec<String>) {
        let point = submission.point;
        if point.queue != facts.queue {
            problems.push(format!("is submitted to {}, its arena is of {}", point.queue, facts.queue));
            return;
        }
        let queue = &self.queues[point.queue.0 as usize];
        if point.value <= queue.submitted {
            problems.push(format!("{} does not rise, {} was submitted last", show(point), queue.submitted));
        }
        if queue.submitting.is_some() {
            problems.push(format!("two submissions to {} at a time", point.queue));
        }
        for wait in submission.waits {
            let known = self.queues.get(wait.queue.0 as usize).map_or(0, |queue| queue.submitted);
            if wait.value > known {
                problems.push(format!("waits for {}, which was never submitted", show(*wait)));
            }
        }
    }

    /// What comes before the submission.
    fn clock_of(&self, submission: &Submission<'_>) -> Clock {
        let mut clock = self.queues[submission.point.queue.0 as usize].clock.clone();
        for wait in submission.waits {
            clock.raise(*wait);
            let flights = &self.queues[wait.queue.0 as usize].flights;
            // Waiting for a point is waiting for the last submission up to it.
            let known = flights.partition_point(|(value, _)| *value <= wait.value);
            if let Some((_, before)) = known.checked_sub(1).and_then(|at| flights.get(at)) {
                clock.join(before);
            }
        }
        clock
    }

    fn check_hazards(&self, facts: &SequenceFacts, clock: &Clock, problems: &mut Vec<String>) {
        for range in facts.recorded.ranges() {
            let Some(block) = self.blocks.get(&range.block) else { continue };
            let unordered = block.accesses.iter().find(|access| {
                let point = access.point;
                let before = clock.at(point.queue.0).max(self.queues[point.queue.0 as usize].implied);
                access.range.conflicts(&range) && point.value > before
            });
            if let Some(access) = unordered {
                problems.push(format!(
                    "is submitted without waiting for {}, which {} {} of block {} `{}`; this {} {range}",
                    show(access.point),
                    verb(access.range.writes),
                    access.range,
                    range.block,
                    block.label,
                    verb(range.writes),
                ));
            }
        }
    }

    fn note_submission(&mut self, facts: &SequenceFacts, point: TimelinePoint, clock: Clock) {
        for range in facts.recorded.ranges() {
            if let Some(block) = self.blocks.get_mut(&range.block) {
                block.accesses.push(Access { point, range });
            }
        }
        for kernel in &facts.recorded.kernels {
            if let Some(kernel) = self.kernels.get_mut(kernel) {
                kernel.until.push(point);
            }
        }
        let queue = &mut self.queues[point.queue.0 as usize];
        let before = std::mem::replace(&mut queue.clock, clock.clone());
        queue.submitting = Some(Submitting { submitted: queue.submitted, clock: before });
        queue.flights.push_back((point.value, clock));
        queue.submitted = point.value;
    }

    /// The inner backend has taken the submission, or has refused it: then nothing was submitted.
    pub(super) fn end_submit(&mut self, facts: &SequenceFacts, point: TimelinePoint, taken: bool) {
        let queue = &mut self.queues[point.queue.0 as usize];
        let Some(before) = queue.submitting.take() else { return };
        if taken {
            return;
        }
        queue.submitted = before.submitted;
        queue.clock = before.clock;
        queue.flights.retain(|(value, _)| *value != point.value);
        for range in facts.recorded.ranges() {
            if let Some(block) = self.blocks.get_mut(&range.block) {
                block.accesses.retain(|access| access.point != point);
            }
        }
        for kernel in &facts.recorded.kernels {
            if let Some(kernel) = self.kernels.get_mut(kernel) {
                kernel.until.retain(|known| *known != point);
            }
        }
    }

    fn verdict(
        &mut self,
        kind: CallKind,
        facts: &SequenceFacts,
        problems: Vec<String>,
    ) -> Result<(), BackendError> {
        let mut answer = Ok(());
        for problem in problems {
            let refusal = self.refuse(kind, format!("{facts}: {problem}"));
            if answer.is_ok() {
                answer = Err(refusal);
            }
        }
        answer
    }
}

fn verb(writes: bool) -> &'static str {
    if writes { "writes" } else { "reads" }
}
