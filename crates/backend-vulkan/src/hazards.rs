//! [`Hazards`]: which operations of one recording need a barrier between them.
//!
//! Ranges that were used since the last barrier are remembered per buffer, reads and writes apart. An operation that
//! writes what was used, or reads what was written, needs a barrier first; a barrier orders everything before it, so
//! all is forgotten. Waiting until the last moment gives the least number of barriers. Reads of what was only read
//! need none. Not here: hazards between recordings, which core computes (`Submission::waits`).

use std::collections::{BTreeMap, HashMap};

use ash::vk;

/// How an operation uses a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UseKind {
    CopyRead,
    CopyWrite,
    KernelRead,
    /// Also for kernels that only write: they need not write everything.
    KernelWrite,
}

impl UseKind {
    fn writes(self) -> bool {
        matches!(self, UseKind::CopyWrite | UseKind::KernelWrite)
    }

    fn stage(self) -> vk::PipelineStageFlags {
        match self {
            UseKind::CopyRead | UseKind::CopyWrite => vk::PipelineStageFlags::TRANSFER,
            UseKind::KernelRead | UseKind::KernelWrite => vk::PipelineStageFlags::COMPUTE_SHADER,
        }
    }

    fn access(self) -> vk::AccessFlags {
        match self {
            UseKind::CopyRead => vk::AccessFlags::TRANSFER_READ,
            UseKind::CopyWrite => vk::AccessFlags::TRANSFER_WRITE,
            UseKind::KernelRead => vk::AccessFlags::SHADER_READ,
            UseKind::KernelWrite => vk::AccessFlags::from_raw(
                vk::AccessFlags::SHADER_READ.as_raw() | vk::AccessFlags::SHADER_WRITE.as_raw(),
            ),
        }
    }
}

/// One use of a range.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Use {
    pub buffer: vk::Buffer,
    pub start: u64,
    pub end: u64,
    pub kind: UseKind,
}

/// A memory barrier: what was done before, and what must not begin earlier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Barrier {
    pub from: vk::PipelineStageFlags,
    pub done: vk::AccessFlags,
    pub to: vk::PipelineStageFlags,
    pub next: vk::AccessFlags,
}

/// What one recording has used since its last barrier.
#[derive(Debug, Default)]
pub(crate) struct Hazards {
    buffers: HashMap<vk::Buffer, Used>,
    stages: vk::PipelineStageFlags,
    writes: vk::AccessFlags,
    /// Stages in which the recording writes, barriers or not.
    written_in: vk::PipelineStageFlags,
}

#[derive(Debug, Default)]
struct Used {
    reads: Ranges,
    writes: Ranges,
}

impl Hazards {
    /// Notes what the next operation uses. The barrier that has to stand before it, if one is needed.
    pub(crate) fn order(&mut self, uses: &[Use]) -> Option<Barrier> {
        let conflict = uses.iter().any(|one| self.conflicts(one));
        let barrier = conflict.then(|| {
            let barrier = Barrier {
                from: self.stages,
                // Only writes have to be made available; what was read is ordered by the stages.
                done: self.writes,
                // Everything that follows, so that the next operation of another kind needs none of its own.
                to: vk::PipelineStageFlags::TRANSFER | vk::PipelineStageFlags::COMPUTE_SHADER,
                next: vk::AccessFlags::TRANSFER_READ
                    | vk::AccessFlags::TRANSFER_WRITE
                    | vk::AccessFlags::SHADER_READ
                    | vk::AccessFlags::SHADER_WRITE,
            };
            self.forget();
            barrier
        });
        for one in uses.iter().filter(|one| one.start < one.end) {
            let used = self.buffers.entry(one.buffer).or_default();
            if one.kind.writes() {
                used.writes.insert(one.start, one.end);
                self.writes |= one.kind.access() & WRITES;
                self.written_in |= one.kind.stage();
            } else {
                used.reads.insert(one.start, one.end);
            }
            self.stages |= one.kind.stage();
        }
        barrier
    }

    /// The stages in which this recording writes at all.
    pub(crate) fn written_in(&self) -> vk::PipelineStageFlags {
        self.written_in
    }

    fn forget(&mut self) {
        self.buffers.clear();
        self.stages = vk::PipelineStageFlags::empty();
        self.writes = vk::AccessFlags::empty();
    }

    fn conflicts(&self, one: &Use) -> bool {
        let Some(used) = self.buffers.get(&one.buffer) else { return false };
        used.writes.touches(one.start, one.end)
            || (one.kind.writes() && used.reads.touches(one.start, one.end))
    }
}

const WRITES: vk::AccessFlags = vk::AccessFlags::from_raw(
    vk::AccessFlags::TRANSFER_WRITE.as_raw() | vk::AccessFlags::SHADER_WRITE.as_raw(),
);

/// A set of bytes, as ranges that neither overlap nor touch.
#[derive(Debug, Default)]
struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    fn touches(&self, start: u64, end: u64) -> bool {
        // The last range that begins before `end` is the only one that can reach beyond `start`: they are apart.
        self.0.range(..end).next_back().is_some_and(|(_, &other)| start < other)
    }

    fn insert(&mut self, mut start: u64, mut end: u64) {
        while let Some((&first, &last)) = self.0.range(..=end).next_back()
            && last >= start
        {
            self.0.remove(&first);
            start = start.min(first);
            end = end.max(last);
        }
        self.0.insert(start, end);
    }
}

#[cfg(test)]
mod tests {
    use ash::vk::Handle;

    use super::*;

    fn one(buffer: u64, start: u64, end: u64, kind: UseKind) -> Use {
        Use { buffer: vk::Buffer::from_raw(buffer), start, end, kind }
    }

    #[test]
    fn reads_of_what_was_read_need_nothing() {
        let mut hazards = Hazards::default();
        for _ in 0..3 {
            assert_eq!(hazards.order(&[one(1, 0, 8, UseKind::CopyRead)]), None);
            assert_eq!(hazards.order(&[one(1, 4, 16, UseKind::KernelRead)]), None);
        }
    }

    #[test]
    fn each_other_pair_needs_one_and_only_where_bytes_are_shared() {
        use UseKind::{CopyRead, CopyWrite, KernelRead, KernelWrite};
        for (first, second) in [
            (CopyWrite, CopyRead),
            (CopyWrite, KernelRead),
            (KernelWrite, CopyRead),
            (KernelWrite, KernelWrite),
            (KernelRead, KernelWrite),
            (CopyRead, CopyWrite),
            (CopyWrite, CopyWrite),
        ] {
            let mut hazards = Hazards::default();
            assert_eq!(hazards.order(&[one(1, 8, 16, first)]), None);
            assert_eq!(hazards.order(&[one(1, 16, 24, second)]), None, "beside it");
            assert_eq!(hazards.order(&[one(1, 0, 8, second)]), None, "before it");
            assert_eq!(hazards.order(&[one(2, 8, 16, second)]), None, "another buffer");
            let barrier = hazards.order(&[one(1, 15, 17, second)]).expect("they share a byte");
            assert!(barrier.from.contains(first.stage()));
            assert!(barrier.done.contains(first.access() & WRITES));
            assert!(barrier.to.contains(second.stage()) && barrier.next.contains(second.access()));
        }
    }

    #[test]
    fn one_barrier_orders_all_that_came_before() {
        let mut hazards = Hazards::default();
        for at in 0..10 {
            assert_eq!(hazards.order(&[one(1, at * 8, at * 8 + 8, UseKind::KernelWrite)]), None);
        }
        assert!(hazards.order(&[one(1, 0, 8, UseKind::KernelRead)]).is_some());
        for at in 1..10 {
            assert_eq!(hazards.order(&[one(1, at * 8, at * 8 + 8, UseKind::KernelRead)]), None);
        }
        assert_eq!(hazards.written_in(), vk::PipelineStageFlags::COMPUTE_SHADER);
    }

    #[test]
    fn an_operation_does_not_conflict_with_itself() {
        let mut hazards = Hazards::default();
        let uses = [one(1, 0, 8, UseKind::KernelRead), one(1, 8, 16, UseKind::KernelWrite)];
        assert_eq!(hazards.order(&uses), None);
        assert!(hazards.order(&uses).is_some());
    }

    #[test]
    fn ranges_join_where_they_meet() {
        let mut ranges = Ranges::default();
        for (start, end) in [(10, 20), (30, 40), (20, 25), (50, 60), (24, 31)] {
            ranges.insert(start, end);
        }
        assert_eq!(ranges.0.iter().collect::<Vec<_>>(), [(&10, &40), (&50, &60)]);
        assert!(ranges.touches(39, 41) && ranges.touches(0, 11) && ranges.touches(0, 100));
        assert!(!ranges.touches(40, 50) && !ranges.touches(0, 10) && !ranges.touches(60, 61));
    }
}
