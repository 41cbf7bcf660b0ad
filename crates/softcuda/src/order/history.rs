//! What is remembered of one allocation: who made it, who used which bytes, who freed it.
//!
//! A piece of work is compared with what is remembered when its accesses become known: at submission for copies and
//! fills, while it runs for kernels. The verdict is the same either way, for it asks only how the two are ordered by
//! what was submitted. Not here: the words of a report.

use std::collections::VecDeque;
use std::sync::Arc;

use super::ranges::Ranges;
use super::ticket::{Ticket, unordered};

/// What is wrong between two pieces of work.
#[derive(Clone, Debug)]
pub struct Conflict {
    /// What it is.
    pub kind: ConflictKind,
    /// What was submitted first.
    pub first: Arc<Ticket>,
    /// What was submitted second.
    pub second: Arc<Ticket>,
    /// The bytes that both touch, from the start of the allocation.
    pub bytes: (u64, u64),
}

/// The kinds of disorder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConflictKind {
    /// Both write, in no order.
    WriteWrite,
    /// One writes what the other reads, in no order.
    ReadWrite,
    /// A use that is not ordered after the allocation.
    BeforeAllocation,
    /// A free that is not ordered after a use.
    FreedInUse,
    /// A use that was submitted after the free.
    UseAfterFree,
}

/// How work uses bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It reads them.
    Read,
    /// It writes them.
    Write,
    /// It changes them atomically, which needs no order among others that do so too.
    Atomic,
}

impl Access {
    /// Whether two uses of the same bytes need an order.
    fn clashes(self, other: Access) -> bool {
        !matches!((self, other), (Access::Read, Access::Read) | (Access::Atomic, Access::Atomic))
    }

    fn changes(self) -> bool {
        self != Access::Read
    }
}

/// What is remembered of one allocation.
#[derive(Debug, Default)]
pub struct History {
    allocated: Option<Arc<Ticket>>,
    freed: Option<Arc<Ticket>>,
    uses: Vec<Use>,
    /// Uses that matter only to what was submitted before that serial and is still to run. The serials rise.
    settled: VecDeque<(u64, Use)>,
}

#[derive(Debug)]
struct Use {
    ticket: Arc<Ticket>,
    ranges: Ranges,
    access: Access,
}

impl History {
    /// Starts with an allocation that is part of a stream's order; `None` for one that all streams may use.
    pub fn new(allocated: Option<Arc<Ticket>>) -> History {
        History { allocated, ..History::default() }
    }

    /// Whether a free was submitted.
    pub fn freed(&self) -> Option<&Arc<Ticket>> {
        self.freed.as_ref()
    }

    /// Whether nothing is left to compare with.
    pub fn is_quiet(&self) -> bool {
        self.uses.is_empty() && self.settled.is_empty()
    }

    /// Remembers a use, and says what it conflicts with.
    pub fn touch(
        &mut self,
        ticket: &Arc<Ticket>,
        ranges: Ranges,
        access: Access,
        now: u64,
    ) -> Option<Conflict> {
        if ranges.is_empty() {
            return None;
        }
        let conflict = self.conflict(ticket, &ranges, access);
        // A later write stands for anything; a later use of the same kind stands for its kind.
        let stands = |old: &mut Use| {
            let of_kind = access == Access::Write || access == old.access;
            of_kind && old.ticket.comes_before(ticket) && ranges.contain(&old.ranges)
        };
        self.settled.extend(self.uses.extract_if(.., stands).map(|old| (now, old)));
        self.uses.push(Use { ticket: ticket.clone(), ranges, access });
        conflict
    }

    fn conflict(&self, ticket: &Arc<Ticket>, ranges: &Ranges, access: Access) -> Option<Conflict> {
        let found = |kind, first: &Arc<Ticket>, second: &Arc<Ticket>, bytes| {
            Some(Conflict { kind, first: first.clone(), second: second.clone(), bytes })
        };
        if let Some(freed) = &self.freed {
            if ticket.serial > freed.serial {
                return found(ConflictKind::UseAfterFree, freed, ticket, ranges.hull());
            }
            if !ticket.comes_before(freed) {
                return found(ConflictKind::FreedInUse, ticket, freed, ranges.hull());
            }
        }
        if let Some(allocated) = &self.allocated
            && !allocated.comes_before(ticket)
            && allocated.serial != ticket.serial
        {
            return found(ConflictKind::BeforeAllocation, allocated, ticket, ranges.hull());
        }
        // What is settled was in order with everything that came after.
        let late = self.settled.iter().rev().take_while(|(settled, _)| *settled >= ticket.serial);
        let clash = self.uses.iter().chain(late.map(|(_, old)| old)).find_map(|old| {
            let matters = old.access.clashes(access) && unordered(&old.ticket, ticket);
            let bytes = matters.then(|| old.ranges.meet(ranges)).flatten()?;
            Some((old, bytes))
        });
        let (old, bytes) = clash?;
        let both_change = old.access.changes() && access.changes();
        let kind = if both_change { ConflictKind::WriteWrite } else { ConflictKind::ReadWrite };
        if old.ticket.serial < ticket.serial {
            found(kind, &old.ticket, ticket, bytes)
        } else {
            found(kind, ticket, &old.ticket, bytes)
        }
    }

    /// Remembers the free, and says which use it is not ordered after.
    pub fn free(&mut self, ticket: &Arc<Ticket>) -> Option<Conflict> {
        let in_use = self.uses.iter().find(|old| !old.ticket.comes_before(ticket));
        let conflict = in_use.map(|old| Conflict {
            kind: ConflictKind::FreedInUse,
            first: old.ticket.clone(),
            second: ticket.clone(),
            bytes: old.ranges.hull(),
        });
        let early = self.allocated.as_ref().filter(|allocated| !allocated.comes_before(ticket));
        let conflict = conflict.or_else(|| {
            early.map(|allocated| Conflict {
                kind: ConflictKind::BeforeAllocation,
                first: allocated.clone(),
                second: ticket.clone(),
                bytes: (0, 0),
            })
        });
        self.freed = Some(ticket.clone());
        conflict
    }

    /// Forgets uses that nothing can be in disorder with any more: the host saw them complete, or a later use stands
    /// for them, and what was submitted before that has run. `oldest` is the oldest work that has not run.
    pub fn forget(&mut self, seen: impl Fn(&Ticket) -> bool, oldest: u64, now: u64) {
        self.settled.extend(self.uses.extract_if(.., |old| seen(&old.ticket)).map(|old| (now, old)));
        while self.settled.front().is_some_and(|(settled, _)| oldest > *settled) {
            self.settled.pop_front();
        }
    }
}
