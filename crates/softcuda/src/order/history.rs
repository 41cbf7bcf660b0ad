//! What is remembered of one allocation: who made it, who used which bytes, who freed it.
//!
//! A piece of work is compared with what is remembered when its accesses become known: at submission for copies and
//! fills, while it runs for kernels. The verdict is the same either way, for it asks only how the two are ordered by
//! what was submitted. Not here: the words of a report.

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
}

#[derive(Debug)]
struct Use {
    ticket: Arc<Ticket>,
    ranges: Ranges,
    access: Access,
    /// It can be forgotten when everything that was submitted before this has run.
    settled: Option<u64>,
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
        self.uses.is_empty()
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
        for old in &mut self.uses {
            // A later write stands for anything; a later use of the same kind stands for its kind.
            let stands = access == Access::Write || access == old.access;
            let follows = stands && old.ticket.comes_before(ticket);
            if old.settled.is_none() && follows && ranges.contain(&old.ranges) {
                old.settled = Some(now);
            }
        }
        self.uses.push(Use { ticket: ticket.clone(), ranges, access, settled: None });
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
        let clash = self.uses.iter().find_map(|old| {
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
        self.uses.retain_mut(|old| {
            if old.settled.is_none() && seen(&old.ticket) {
                old.settled = Some(now);
            }
            old.settled.is_none_or(|settled| oldest <= settled)
        });
    }
}
