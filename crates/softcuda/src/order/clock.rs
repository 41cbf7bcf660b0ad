//! Vector clocks: which work is known to be complete when other work starts.
//!
//! One component a lane. A lane is a row of work in order: a stream, or a row of nodes in a graph. Not here: who ticks
//! and who joins.

/// A row of work in order.
pub type Lane = u64;

/// For each lane, up to which of its pieces of work is known. Absent lanes: none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clock(Vec<(Lane, u64)>);

impl Clock {
    /// How much of a lane is known.
    pub fn get(&self, lane: Lane) -> u64 {
        self.0.binary_search_by_key(&lane, |entry| entry.0).map_or(0, |index| self.0[index].1)
    }

    /// Raises one component.
    pub fn raise(&mut self, lane: Lane, to: u64) {
        match self.0.binary_search_by_key(&lane, |entry| entry.0) {
            Ok(index) => self.0[index].1 = self.0[index].1.max(to),
            Err(index) => self.0.insert(index, (lane, to)),
        }
    }

    /// Knows what the other knows too.
    pub fn join(&mut self, other: &Clock) {
        if other.0.iter().all(|(lane, epoch)| self.get(*lane) >= *epoch) {
            return;
        }
        // Both rise: one pass over the two.
        let mut joined = Vec::with_capacity(self.0.len() + other.0.len());
        let (mut mine, mut theirs) = (self.0.iter().copied().peekable(), other.0.iter().copied().peekable());
        loop {
            joined.push(match (mine.peek().copied(), theirs.peek().copied()) {
                (Some(one), Some(two)) if one.0 == two.0 => {
                    mine.next();
                    theirs.next();
                    (one.0, one.1.max(two.1))
                }
                (Some(one), two) if two.is_none_or(|two| one.0 < two.0) => {
                    mine.next();
                    one
                }
                (_, Some(two)) => {
                    theirs.next();
                    two
                }
                (_, None) => break,
            });
        }
        self.0 = joined;
    }

    /// Forgets what a test says is known anyway.
    pub fn retain(&mut self, mut keep: impl FnMut(Lane, u64) -> bool) {
        self.0.retain(|(lane, epoch)| keep(*lane, *epoch));
    }

    /// All components.
    pub fn entries(&self) -> impl Iterator<Item = (Lane, u64)> + '_ {
        self.0.iter().copied()
    }
}

/// What the host has seen complete. The host counts as one: what one thread waited for, all threads know.
#[derive(Clone, Debug, Default)]
pub struct Host {
    seen: Clock,
    /// Lanes from here on did not exist yet.
    next: Lane,
}

impl Host {
    /// Knows of a new lane, with nothing seen of it.
    pub fn open(&mut self) -> Lane {
        let lane = self.next;
        self.next += 1;
        self.seen.raise(lane, 0);
        lane
    }

    /// Forgets a lane of which everything was seen, and whose work nobody is compared with in an older state.
    pub fn close(&mut self, lane: Lane) {
        self.seen.retain(|other, _| other != lane);
    }

    /// Sees what the clock knows.
    pub fn observe(&mut self, clock: &Clock) {
        for (lane, epoch) in clock.entries() {
            // A closed lane stays closed: all of it was seen.
            if self.seen.0.binary_search_by_key(&lane, |entry| entry.0).is_ok() {
                self.seen.raise(lane, epoch);
            }
        }
    }

    /// Whether that piece of work was seen complete.
    pub fn covers(&self, lane: Lane, epoch: u64) -> bool {
        match self.seen.0.binary_search_by_key(&lane, |entry| entry.0) {
            Ok(index) => self.seen.0[index].1 >= epoch,
            Err(_) => lane < self.next,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joining_takes_the_later() {
        let mut one = Clock::default();
        one.raise(3, 5);
        one.raise(1, 2);
        let mut two = Clock::default();
        two.raise(3, 4);
        two.raise(7, 1);
        one.join(&two);
        assert_eq!([one.get(1), one.get(3), one.get(7), one.get(9)], [2, 5, 1, 0]);
        one.raise(3, 1);
        assert_eq!(one.get(3), 5);
    }

    #[test]
    fn the_host_knows_what_it_saw() {
        let mut host = Host::default();
        let (a, b) = (host.open(), host.open());
        let mut clock = Clock::default();
        clock.raise(a, 2);
        host.observe(&clock);
        assert!(host.covers(a, 2) && !host.covers(a, 3) && !host.covers(b, 1));
        assert!(!host.covers(b + 1, 1), "a lane that is not there yet");
        host.close(a);
        assert!(host.covers(a, 3), "all of a closed lane was seen");
        host.observe(&clock);
        assert!(host.covers(a, 3));
    }
}
