//! Clocks: for each submission, how far every queue is before it runs.
//!
//! A submission comes after a point if it waits for it, if something that it waits for came after it, or if an
//! earlier submission of its queue did: a barrier holds for all that follows on the queue. The order of a queue
//! alone makes no memory visible, so an earlier submission of the same queue counts only through a wait.
//! Not here: which submissions use the same memory (`submission.rs`).

use tenure_core::backend::TimelinePoint;

/// The last point of each queue that comes before a submission; 0 for none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Clock(Vec<u64>);

impl Clock {
    pub(super) fn at(&self, queue: u32) -> u64 {
        self.0.get(queue as usize).copied().unwrap_or(0)
    }

    pub(super) fn raise(&mut self, point: TimelinePoint) {
        let queue = point.queue.0 as usize;
        if self.0.len() <= queue {
            self.0.resize(queue + 1, 0);
        }
        self.0[queue] = self.0[queue].max(point.value);
    }

    pub(super) fn join(&mut self, other: &Clock) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine = (*mine).max(*theirs);
        }
    }
}

#[cfg(test)]
mod tests {
    use tenure_core::QueueId;

    use super::*;

    #[test]
    fn joining_takes_the_later_point_of_each_queue() {
        let mut a = Clock::default();
        a.raise(TimelinePoint { queue: QueueId(0), value: 3 });
        let mut b = Clock::default();
        b.raise(TimelinePoint { queue: QueueId(0), value: 2 });
        b.raise(TimelinePoint { queue: QueueId(2), value: 7 });
        a.join(&b);
        assert_eq!((a.at(0), a.at(1), a.at(2), a.at(9)), (3, 0, 7, 0));
    }
}
