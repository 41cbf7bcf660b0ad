//! Making and freeing memory: the budget of a device, and the place of a free in the order of work.
//!
//! Not here: addresses and bytes (`memory/`), the exported functions (`driver/memory.rs`).

use std::sync::Arc;

use super::driver;
use super::perform::complete;
use super::state::State;
use crate::caller::HostPointer;
use crate::code::{Answer, Code};
use crate::memory::pool::GRAIN;
use crate::memory::{Allocation, Backing, Handle, Kind, Pool, fresh};
use crate::order::Label;

impl State {
    /// Memory that all streams may use at once: `cuMemAlloc`, `cuMemAllocManaged`, pinned host memory.
    ///
    /// # Errors
    /// `INVALID_VALUE` for no bytes, `OUT_OF_MEMORY`.
    pub fn allocate(&mut self, kind: Kind, bytes: u64) -> Answer<Arc<Allocation>> {
        let (context, device) = self.current_device()?;
        if bytes == 0 {
            return Err(Code::INVALID_VALUE);
        }
        let taken = bytes.checked_next_multiple_of(GRAIN).ok_or(Code::OUT_OF_MEMORY)?;
        let is_counted = matches!(kind, Kind::Device | Kind::Managed);
        if is_counted && taken > self.free_bytes(device) {
            return Err(Code::OUT_OF_MEMORY);
        }
        let backing = fresh(kind, bytes).ok_or(Code::OUT_OF_MEMORY)?;
        if is_counted {
            self.devices[device].taken += taken;
        }
        let watch = driver().settings.uninitialised;
        let allocation = self.map.insert(kind, device, context, backing, watch);
        self.order.allocated(allocation.address, None);
        Ok(allocation)
    }

    /// Memory of the caller's becomes pinned memory.
    ///
    /// # Errors
    /// `INVALID_VALUE` for nothing, `HOST_MEMORY_ALREADY_REGISTERED` if part of it is pinned.
    pub fn register(&mut self, pointer: HostPointer, bytes: u64) -> Answer {
        let (context, device) = self.current_device()?;
        let backing = Backing::of_caller(pointer, bytes).filter(|_| bytes > 0).ok_or(Code::INVALID_VALUE)?;
        let (start, end) = (pointer.address(), pointer.address() + bytes);
        let overlaps = |other: &Allocation| other.address < end && start < other.address + other.bytes;
        if self.map.iter().any(|other| overlaps(other)) {
            return Err(Code::HOST_MEMORY_ALREADY_REGISTERED);
        }
        let allocation = self.map.insert(Kind::Registered, device, context, backing, false);
        self.order.allocated(allocation.address, None);
        Ok(())
    }

    /// Memory of a pool, in the order of a stream.
    ///
    /// # Errors
    /// `INVALID_VALUE` for no bytes or no such pool, `OUT_OF_MEMORY`.
    pub fn allocate_pooled(
        &mut self,
        pool: Handle,
        bytes: u64,
        stream: Handle,
        function: &'static str,
    ) -> Answer<u64> {
        if let Some(capture) = self.capture_of(stream)? {
            return Err(self.invalidate(capture, Code::STREAM_CAPTURE_UNSUPPORTED).unwrap_err());
        }
        self.forbid_implied_capture(stream)?;
        let found = self.pools.get(&pool).filter(|pool| !pool.destroyed).ok_or(Code::INVALID_VALUE)?;
        if bytes == 0 {
            return Err(Code::INVALID_VALUE);
        }
        let device = found.device;
        let room = match found.room(bytes, self.free_bytes(device)) {
            Some(room) => room,
            None => {
                // What other pools hold for later is given up before a program is told that there is none.
                self.trim_others(pool, device);
                let free = self.free_bytes(device);
                self.pools.get(&pool).and_then(|pool| pool.room(bytes, free)).ok_or(Code::OUT_OF_MEMORY)?
            }
        };
        let backing = fresh(Kind::Pooled(pool), bytes).ok_or(Code::OUT_OF_MEMORY)?;
        let context = self.stream_mut(stream)?.context;
        for (ticket, _) in &room.after {
            self.stream_mut(stream)?.clock.join(&ticket.clock);
        }
        let after = room.after.iter().map(|(_, done)| done.clone()).collect();
        let last = self.submit_mark(stream, after, function)?;
        if let Some(pool) = self.pools.get_mut(&pool) {
            pool.take(bytes, &room);
        }
        let watch = driver().settings.uninitialised;
        let allocation = self.map.insert(Kind::Pooled(pool), device, context, backing, watch);
        self.order.allocated(allocation.address, Some(last.ticket));
        Ok(allocation.address)
    }

    fn trim_others(&mut self, pool: Handle, device: usize) {
        let State { pools, order, .. } = self;
        for (handle, other) in pools.iter_mut() {
            if *handle != pool && other.device == device {
                other.trim(0, |ticket| order.is_observed(ticket));
            }
        }
    }

    /// A live allocation that starts at an address.
    ///
    /// # Errors
    /// `INVALID_VALUE` if there is none. Freeing twice is reported.
    pub fn live(&mut self, address: u64, function: &'static str) -> Answer<Arc<Allocation>> {
        match self.map.at(address) {
            Some(allocation) if !allocation.is_freed() => return Ok(allocation.clone()),
            Some(allocation) => {
                let text = format!("freed twice\n  where: {}\n  by: {function}", allocation.in_words());
                self.report_text(text);
            }
            None if self.map.miss(address) == crate::memory::Miss::Freed => {
                self.report_text(format!("freed twice\n  where: memory {address:#x}\n  by: {function}"));
            }
            None => {}
        }
        Err(Code::INVALID_VALUE)
    }

    fn report_text(&mut self, text: String) {
        if self.order.is_enabled() {
            self.order.report.add(text);
        }
    }

    /// Frees memory in the order of a stream.
    ///
    /// # Errors
    /// `INVALID_VALUE` if no live allocation of device memory starts there.
    pub fn free_on_stream(&mut self, address: u64, stream: Handle, function: &'static str) -> Answer {
        if let Some(capture) = self.capture_of(stream)? {
            return Err(self.invalidate(capture, Code::STREAM_CAPTURE_UNSUPPORTED).unwrap_err());
        }
        self.forbid_implied_capture(stream)?;
        let allocation = self.live(address, function)?;
        if !matches!(allocation.kind, Kind::Pooled(_) | Kind::Device) {
            return Err(Code::INVALID_VALUE);
        }
        let after = self.begin(stream)?;
        let ticket = self.ticket(stream, Label::on(stream, function))?;
        let conflict = self.order.freed(address, &ticket);
        self.report(address, conflict);
        let work = {
            let ticket = ticket.clone();
            Box::new(move || complete(&ticket))
        };
        let last = self.push(stream, ticket.clone(), after, work)?;
        match allocation.kind {
            Kind::Pooled(handle) => {
                if let Some(pool) = self.pools.get_mut(&handle) {
                    pool.give(allocation.bytes, ticket.clone(), last.done);
                }
                self.drop_pool_if_over(handle);
            }
            _ => self.give_back(&allocation),
        }
        self.condemn(address, ticket.serial);
        Ok(())
    }

    /// Frees memory as the host does it: after what the host has seen complete, and at once.
    pub fn free_by_host(&mut self, allocation: &Allocation, function: &'static str) {
        let ticket = self.order.host_ticket(Label::host(function));
        let conflict = self.order.freed(allocation.address, &ticket);
        self.report(allocation.address, conflict);
        match allocation.kind {
            Kind::Pooled(handle) => {
                if let Some(pool) = self.pools.get_mut(&handle) {
                    pool.give_seen(allocation.bytes);
                }
                self.drop_pool_if_over(handle);
            }
            _ => self.give_back(allocation),
        }
        self.condemn(allocation.address, ticket.serial);
    }

    /// Takes memory that is not a pool's off the account of its device.
    pub fn give_back(&mut self, allocation: &Allocation) {
        let taken = &mut self.devices[allocation.device].taken;
        match allocation.kind {
            Kind::Device | Kind::Managed => *taken -= allocation.bytes.next_multiple_of(GRAIN),
            Kind::Variable(_) => *taken -= allocation.bytes,
            Kind::Pooled(_) | Kind::Host | Kind::Registered => {}
        }
    }

    /// Takes a pool away that was destroyed, once nothing is in it.
    pub fn drop_pool_if_over(&mut self, handle: Handle) {
        if self.pools.get(&handle).is_some_and(Pool::is_over) {
            self.pools.remove(&handle);
        }
    }
}
