//! A memory pool: how much of a device it holds, and when it gives it back.
//!
//! Frees count from their submission on, for the driver reuses memory in stream order. What was freed can be given back
//! to the device only when the host has seen the free complete. Not here: the bytes themselves.

use std::sync::Arc;

use crate::device::completion::Completion;
use crate::order::Ticket;

/// What a pool takes from its device at a time.
pub const CHUNK: u64 = 2 << 20;

/// What an allocation is rounded up to.
pub const GRAIN: u64 = 512;

/// A memory pool.
#[derive(Debug)]
pub struct Pool {
    /// The ordinal of its device.
    pub device: usize,
    /// Whether it belongs to the device and cannot be destroyed.
    pub is_default: bool,
    /// Whether it was destroyed, and only waits for its allocations to be freed.
    pub destroyed: bool,
    /// Bytes that synchronising leaves in it.
    pub threshold: u64,
    /// The most that it may hold; 0 for as much as the device has.
    pub limit: u64,
    /// The three switches of reuse, as they were set. They change nothing here: addresses are never reused.
    pub reuse: [i32; 3],
    reserved: u64,
    reserved_high: u64,
    used: u64,
    used_high: u64,
    /// How many allocations live in it.
    pub allocations: u64,
    freed: Vec<Freed>,
    /// Bytes of all of `freed`.
    waiting: u64,
}

/// Memory that was freed and that the host has not seen come free.
#[derive(Debug)]
struct Freed {
    bytes: u64,
    ticket: Arc<Ticket>,
    done: Arc<Completion>,
}

/// What a pool has to do before it can hand out bytes.
#[derive(Debug)]
pub struct Room {
    /// Bytes more from the device.
    pub grow: u64,
    /// What the new allocation has to wait for: frees whose memory it gets.
    pub after: Vec<(Arc<Ticket>, Arc<Completion>)>,
}

impl Pool {
    /// An empty pool.
    pub fn new(device: usize, is_default: bool, limit: u64) -> Pool {
        Pool {
            device,
            is_default,
            destroyed: false,
            threshold: 0,
            limit,
            reuse: [1; 3],
            reserved: 0,
            reserved_high: 0,
            used: 0,
            used_high: 0,
            allocations: 0,
            freed: Vec::new(),
            waiting: 0,
        }
    }

    /// Bytes held, now and at most.
    pub fn reserved(&self) -> (u64, u64) {
        (self.reserved, self.reserved_high)
    }

    /// Bytes handed out, now and at most.
    pub fn used(&self) -> (u64, u64) {
        (self.used, self.used_high)
    }

    /// Sets the marks of the most to what is now.
    pub fn reset_high(&mut self, reserved: bool) {
        if reserved {
            self.reserved_high = self.reserved;
        } else {
            self.used_high = self.used;
        }
    }

    /// How bytes can be had when the device has `free` left; `None` if they cannot.
    pub fn room(&self, bytes: u64, free: u64) -> Option<Room> {
        let bytes = bytes.checked_next_multiple_of(GRAIN)?;
        let fits = |total: u64| {
            let grow = total.checked_next_multiple_of(CHUNK)?.saturating_sub(self.reserved);
            let limited = self.limit != 0 && self.reserved + grow > self.limit;
            (grow <= free && !limited).then_some(grow)
        };
        // Memory that nobody uses first; then memory whose last use is still to come, in its order.
        if let Some(grow) = fits(self.used.checked_add(self.waiting)?.checked_add(bytes)?) {
            return Some(Room { grow, after: Vec::new() });
        }
        let grow = fits(self.used.checked_add(bytes)?)?;
        let after = self.freed.iter().map(|freed| (freed.ticket.clone(), freed.done.clone())).collect();
        Some(Room { grow, after })
    }

    /// Hands bytes out.
    pub fn take(&mut self, bytes: u64, room: &Room) {
        self.reserved += room.grow;
        self.used += bytes.next_multiple_of(GRAIN);
        self.allocations += 1;
        self.reserved_high = self.reserved_high.max(self.reserved);
        self.used_high = self.used_high.max(self.used);
        if !room.after.is_empty() {
            self.freed.clear();
            self.waiting = 0;
        }
    }

    /// A free was submitted.
    pub fn give(&mut self, bytes: u64, ticket: Arc<Ticket>, done: Arc<Completion>) {
        let bytes = bytes.next_multiple_of(GRAIN);
        self.used -= bytes;
        self.allocations -= 1;
        self.waiting += bytes;
        self.freed.push(Freed { bytes, ticket, done });
    }

    /// The host freed memory itself: nothing is to come.
    pub fn give_seen(&mut self, bytes: u64) {
        self.used -= bytes.next_multiple_of(GRAIN);
        self.allocations -= 1;
    }

    /// The host waited for something: frees that it has now seen are over, and what is beyond the threshold goes back
    /// to the device.
    pub fn synchronised(&mut self, seen: impl Fn(&Ticket) -> bool) {
        self.settle(seen);
        self.shrink(self.threshold);
    }

    /// Gives back what it can, but keeps `keep` bytes. Frees that the host has not seen complete hold memory.
    pub fn trim(&mut self, keep: u64, seen: impl Fn(&Ticket) -> bool) {
        self.settle(seen);
        self.shrink(keep);
    }

    /// Whether nothing is in it and nobody can put anything there.
    pub fn is_over(&self) -> bool {
        self.destroyed && self.allocations == 0
    }

    fn settle(&mut self, seen: impl Fn(&Ticket) -> bool) {
        self.freed.retain(|freed| !seen(&freed.ticket));
        self.waiting = self.freed.iter().map(|freed| freed.bytes).sum();
    }

    fn shrink(&mut self, keep: u64) {
        let needed = (self.used + self.waiting).next_multiple_of(CHUNK);
        let kept = keep.checked_next_multiple_of(CHUNK).unwrap_or(u64::MAX);
        self.reserved = self.reserved.min(needed.max(kept));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::{Clock, Label, Order};

    fn ticket(order: &mut Order) -> Arc<Ticket> {
        let lane = order.open_lane();
        order.ticket(lane, &mut Clock::default(), Label::on(1, "free"))
    }

    fn take(pool: &mut Pool, bytes: u64, free: u64) -> Option<usize> {
        let room = pool.room(bytes, free)?;
        pool.take(bytes, &room);
        Some(room.after.len())
    }

    #[test]
    fn grows_by_chunks_and_keeps_marks() {
        let mut pool = Pool::new(0, true, 0);
        assert_eq!(take(&mut pool, 1, 8 * CHUNK), Some(0));
        assert_eq!((pool.reserved(), pool.used()), ((CHUNK, CHUNK), (GRAIN, GRAIN)));
        assert_eq!(take(&mut pool, CHUNK, 8 * CHUNK), Some(0));
        assert_eq!(pool.reserved().0, 2 * CHUNK);
        assert!(pool.room(8 * CHUNK, 7 * CHUNK).is_none());
    }

    #[test]
    fn the_threshold_acts_when_the_host_waited() {
        let mut order = Order::new(true, true);
        let mut pool = Pool::new(0, true, 0);
        pool.threshold = CHUNK;
        take(&mut pool, 4 * CHUNK, 8 * CHUNK);
        pool.give(4 * CHUNK, ticket(&mut order), Completion::new());
        pool.synchronised(|_| false);
        assert_eq!((pool.reserved().0, pool.used().0), (4 * CHUNK, 0));
        pool.trim(0, |_| false);
        assert_eq!(pool.reserved().0, 4 * CHUNK, "a free that nobody saw complete holds its memory");
        pool.synchronised(|_| true);
        assert_eq!(pool.reserved(), (CHUNK, 4 * CHUNK));
        pool.trim(0, |_| true);
        assert_eq!(pool.reserved().0, 0);
    }

    #[test]
    fn memory_of_frees_to_come_is_reused_in_order() {
        let mut order = Order::new(true, true);
        let mut pool = Pool::new(0, true, 0);
        take(&mut pool, 4 * CHUNK, 4 * CHUNK);
        pool.give(4 * CHUNK, ticket(&mut order), Completion::new());
        assert_eq!(take(&mut pool, 4 * CHUNK, 0), Some(1));
        assert_eq!(pool.reserved().0, 4 * CHUNK);
        assert!(pool.room(1, 0).is_none());
    }

    #[test]
    fn a_limit_holds() {
        let pool = Pool::new(0, false, CHUNK);
        assert!(pool.room(CHUNK, 8 * CHUNK).is_some());
        assert!(pool.room(CHUNK + 1, 8 * CHUNK).is_none());
    }
}
