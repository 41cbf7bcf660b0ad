//! The order checker: which work is ordered after which, and who uses memory outside of that order.
//!
//! Clocks move when work is submitted, so a verdict does not depend on how threads happened to run. Not here: who
//! submits what.

pub mod clock;
pub mod history;
pub mod ranges;
pub mod report;
pub mod ticket;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use self::clock::Host;
pub use self::clock::{Clock, Lane};
pub use self::history::Access;
use self::history::{Conflict, History};
pub use self::ranges::{Marks, Ranges};
use self::report::Report;
pub use self::ticket::{Label, Ticket};

/// The state of the checker.
#[derive(Debug)]
pub struct Order {
    /// What was found wrong.
    pub report: Report,
    enabled: bool,
    serial: u64,
    host: Arc<Host>,
    /// The last epoch of each lane that is in use.
    lanes: HashMap<Lane, u64>,
    /// Lanes that nobody adds to any more, and the serial at which all of them was seen complete.
    closing: Vec<(Lane, Option<u64>)>,
    /// Work that was submitted and has not run to its end.
    pending: BTreeSet<u64>,
    /// By the address of the allocation.
    histories: HashMap<u64, History>,
}

impl Order {
    /// A checker that knows of nothing. Without `enabled` it keeps clocks, but remembers no uses.
    pub fn new(enabled: bool, quiet: bool) -> Order {
        Order {
            report: Report::new(quiet),
            enabled,
            serial: 0,
            host: Arc::default(),
            lanes: HashMap::new(),
            closing: Vec::new(),
            pending: BTreeSet::new(),
            histories: HashMap::new(),
        }
    }

    /// Whether uses are checked.
    pub fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// A new row of work.
    pub fn open_lane(&mut self) -> Lane {
        let lane = Arc::make_mut(&mut self.host).open();
        self.lanes.insert(lane, 0);
        lane
    }

    /// Nothing will be added to the lane.
    pub fn close_lane(&mut self, lane: Lane) {
        self.closing.push((lane, None));
        self.sweep_lanes();
    }

    /// The next piece of work of a lane. `before` is what it starts after; it then knows of the new work too.
    pub fn ticket(&mut self, lane: Lane, before: &mut Clock, label: Label) -> Arc<Ticket> {
        self.serial += 1;
        let epoch = self.lanes.get(&lane).copied().unwrap_or(0) + 1;
        self.lanes.insert(lane, epoch);
        // What the host has seen is known to all later work and need not be carried along.
        self.forget_seen(before);
        before.raise(lane, epoch);
        self.pending.insert(self.serial);
        Arc::new(Ticket {
            serial: self.serial,
            lane,
            epoch,
            clock: before.clone(),
            host: self.host.clone(),
            label,
        })
    }

    /// The place of the host itself in the order: after all that it has seen, and complete at once.
    pub fn host_ticket(&mut self, label: Label) -> Arc<Ticket> {
        self.serial += 1;
        Arc::new(Ticket {
            serial: self.serial,
            // No lane has this number, so nothing is ever compared with the epoch.
            lane: Lane::MAX,
            epoch: 0,
            clock: Clock::default(),
            host: self.host.clone(),
            label,
        })
    }

    /// A piece of work has run to its end.
    pub fn complete(&mut self, ticket: &Ticket) {
        self.pending.remove(&ticket.serial);
    }

    /// The host has seen complete what the clock knows.
    pub fn observe(&mut self, clock: &Clock) {
        if clock.entries().any(|(lane, epoch)| !self.host.covers(lane, epoch)) {
            Arc::make_mut(&mut self.host).observe(clock);
        }
        self.sweep_lanes();
    }

    /// Takes from a clock what the host has seen complete.
    pub fn forget_seen(&self, clock: &mut Clock) {
        clock.retain(|lane, epoch| !self.host.covers(lane, epoch));
    }

    /// Whether the host has seen it complete.
    pub fn is_observed(&self, ticket: &Ticket) -> bool {
        self.host.covers(ticket.lane, ticket.epoch)
    }

    /// The serial of the oldest work that has not run; beyond all serials if there is none.
    pub fn oldest_pending(&self) -> u64 {
        self.pending.first().copied().unwrap_or(u64::MAX)
    }

    /// The latest serial.
    pub fn now(&self) -> u64 {
        self.serial
    }

    /// An allocation is there. `allocated` is its place in a stream's order, if it has one.
    pub fn allocated(&mut self, address: u64, allocated: Option<Arc<Ticket>>) {
        if self.enabled {
            self.histories.insert(address, History::new(allocated));
        }
    }

    /// Work touches bytes of an allocation, counted from its start.
    pub fn touch(
        &mut self,
        address: u64,
        ticket: &Arc<Ticket>,
        ranges: Ranges,
        access: Access,
    ) -> Option<Conflict> {
        let (oldest, now) = (self.oldest_pending(), self.serial);
        let history = self.histories.get_mut(&address)?;
        let host = &self.host;
        history.forget(|old| host.covers(old.lane, old.epoch), oldest, now);
        history.touch(ticket, ranges, access, now)
    }

    /// A free of an allocation was submitted.
    pub fn freed(&mut self, address: u64, ticket: &Arc<Ticket>) -> Option<Conflict> {
        self.histories.get_mut(&address)?.free(ticket)
    }

    /// Nothing that was submitted can reach the allocation any more.
    pub fn gone(&mut self, address: u64) {
        self.histories.remove(&address);
    }

    /// Forgets lanes that everybody has seen the end of.
    fn sweep_lanes(&mut self) {
        let (oldest, now) = (self.oldest_pending(), self.serial);
        let mut closed = Vec::new();
        for (lane, seen) in &mut self.closing {
            let last = self.lanes.get(lane).copied().unwrap_or(0);
            if seen.is_none() && self.host.covers(*lane, last) {
                *seen = Some(now);
            }
            if seen.is_some_and(|seen| oldest > seen) {
                closed.push(*lane);
            }
        }
        if closed.is_empty() {
            return;
        }
        self.closing.retain(|(lane, _)| !closed.contains(lane));
        let host = Arc::make_mut(&mut self.host);
        for lane in closed {
            host.close(lane);
            self.lanes.remove(&lane);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::history::ConflictKind;
    use super::*;

    struct Row {
        lane: Lane,
        clock: Clock,
    }

    impl Row {
        fn new(order: &mut Order) -> Row {
            Row { lane: order.open_lane(), clock: Clock::default() }
        }

        fn work(&mut self, order: &mut Order) -> Arc<Ticket> {
            order.ticket(self.lane, &mut self.clock, Label::on(1, "work"))
        }

        fn touch(&mut self, order: &mut Order, bytes: (u64, u64), write: bool) -> Option<ConflictKind> {
            self.access(order, bytes, if write { Access::Write } else { Access::Read })
        }

        fn access(&mut self, order: &mut Order, bytes: (u64, u64), access: Access) -> Option<ConflictKind> {
            let ticket = self.work(order);
            order.touch(0, &ticket, Ranges::one(bytes.0, bytes.1), access).map(|conflict| conflict.kind)
        }
    }

    fn setup() -> (Order, Row, Row) {
        let mut order = Order::new(true, true);
        let (one, two) = (Row::new(&mut order), Row::new(&mut order));
        order.allocated(0, None);
        (order, one, two)
    }

    #[test]
    fn uses_without_order_conflict_if_one_writes() {
        for (first, second, expected) in [
            (true, true, Some(ConflictKind::WriteWrite)),
            (true, false, Some(ConflictKind::ReadWrite)),
            (false, true, Some(ConflictKind::ReadWrite)),
            (false, false, None),
        ] {
            let (mut order, mut one, mut two) = setup();
            assert_eq!(one.touch(&mut order, (0, 8), first), None);
            assert_eq!(two.touch(&mut order, (4, 12), second), expected);
        }
        let (mut order, mut one, mut two) = setup();
        assert_eq!(one.touch(&mut order, (0, 8), true), None);
        assert_eq!(two.touch(&mut order, (8, 12), true), None, "other bytes");
    }

    #[test]
    fn atomics_need_no_order_among_themselves() {
        let (mut order, mut one, mut two) = setup();
        assert_eq!(one.access(&mut order, (0, 8), Access::Atomic), None);
        assert_eq!(two.access(&mut order, (0, 8), Access::Atomic), None);
        assert_eq!(two.access(&mut order, (0, 8), Access::Read), Some(ConflictKind::ReadWrite));
    }

    #[test]
    fn a_join_or_the_host_orders() {
        let (mut order, mut one, mut two) = setup();
        assert_eq!(one.touch(&mut order, (0, 8), true), None);
        two.clock.join(&one.clock);
        assert_eq!(two.touch(&mut order, (0, 8), true), None);
        order.observe(&two.clock.clone());
        assert_eq!(one.touch(&mut order, (0, 8), true), None, "the host saw the second");
    }

    #[test]
    fn what_runs_late_is_compared_by_when_it_was_submitted() {
        let (mut order, mut one, mut two) = setup();
        let late = one.work(&mut order);
        assert_eq!(two.touch(&mut order, (0, 8), true), None);
        order.observe(&two.clock.clone());
        let conflict = order.touch(0, &late, Ranges::one(0, 4), Access::Read);
        assert_eq!(conflict.map(|conflict| conflict.kind), Some(ConflictKind::ReadWrite));
    }

    #[test]
    fn allocations_in_order() {
        let mut order = Order::new(true, true);
        let (mut one, mut two) = (Row::new(&mut order), Row::new(&mut order));
        let allocated = one.work(&mut order);
        order.allocated(0, Some(allocated));
        assert_eq!(one.touch(&mut order, (0, 8), true), None);
        assert_eq!(two.touch(&mut order, (8, 9), true), Some(ConflictKind::BeforeAllocation));
        let free = one.work(&mut order);
        assert_eq!(order.freed(0, &free).map(|conflict| conflict.kind), Some(ConflictKind::FreedInUse));
        assert_eq!(one.touch(&mut order, (0, 8), false), Some(ConflictKind::UseAfterFree));
    }

    #[test]
    fn old_uses_and_lanes_are_forgotten() {
        let (mut order, mut one, mut two) = setup();
        for _ in 0..100 {
            let ticket = one.work(&mut order);
            assert!(order.touch(0, &ticket, Ranges::one(0, 8), Access::Write).is_none());
            order.complete(&ticket);
            order.observe(&one.clock.clone());
        }
        let ticket = two.work(&mut order);
        assert!(order.touch(0, &ticket, Ranges::one(0, 8), Access::Read).is_none());
        order.complete(&ticket);
        order.close_lane(one.lane);
        order.observe(&two.clock.clone());
        assert!(!order.lanes.contains_key(&one.lane));
        order.touch(0, &ticket, Ranges::default(), Access::Read);
        assert!(order.histories[&0].is_quiet());
    }
}
