//! All allocations by address. Addresses are given out once and never again.
//!
//! Device addresses are such that no host address is ever equal to one, and such that a host that follows one faults.
//! Not here: how much memory a device has (`budget.rs`).

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::allocation::{Allocation, Handle, Kind};
use super::ffi::{ALIGNMENT, Backing};

/// Where the addresses of the first device start. Processors with 48 address bits have nothing there, and those with 57
/// only what a program asks for by address. Kernels see their other memories from 2^56 on.
const FIRST: u64 = 1 << 52;

/// How many addresses a device has.
const DEVICE: u64 = 1 << 46;

/// Bytes between allocations, so that running over the end of one does not reach the next.
const GUARD: u64 = 4096;

/// How many freed allocations are remembered for messages.
const REMEMBERED: usize = 65_536;

/// All allocations by address.
#[derive(Debug, Default)]
pub struct Map {
    allocations: BTreeMap<u64, Arc<Allocation>>,
    /// The next address of each device, from the device's first on.
    used: Vec<u64>,
    /// Allocations whose memory is gone, by address: how many bytes they had.
    gone: BTreeMap<u64, u64>,
    gone_order: VecDeque<u64>,
    /// What `snapshot` gave last, until something changes.
    snapshot: Option<Snapshot>,
}

/// All allocations at one moment, in the order of their addresses.
pub type Snapshot = Arc<Vec<Arc<Allocation>>>;

/// Why an address leads nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Miss {
    /// Nothing was ever there, or the range goes over an end.
    OutOfRange,
    /// Memory was there.
    Freed,
}

impl Map {
    /// Makes room for bytes of a device, or takes the address that host memory has.
    pub fn insert(
        &mut self,
        kind: Kind,
        device: usize,
        context: Handle,
        backing: Backing,
        watch: bool,
    ) -> Arc<Allocation> {
        let address = if kind.is_host() {
            backing.host_pointer().address()
        } else {
            self.next_address(device, backing.bytes() as u64)
        };
        let allocation = Arc::new(Allocation::new(address, kind, device, context, backing, watch));
        self.allocations.insert(address, allocation.clone());
        self.snapshot = None;
        allocation
    }

    fn next_address(&mut self, device: usize, bytes: u64) -> u64 {
        if self.used.len() <= device {
            self.used.resize(device + 1, 0);
        }
        let used = &mut self.used[device];
        let address = FIRST + device as u64 * DEVICE + *used;
        *used += (bytes + GUARD).next_multiple_of(ALIGNMENT as u64);
        address
    }

    /// The allocation that starts at an address.
    pub fn at(&self, address: u64) -> Option<&Arc<Allocation>> {
        self.allocations.get(&address)
    }

    /// The allocation that holds a range, and the range's offset.
    ///
    /// # Errors
    /// Why there is none.
    pub fn find(&self, address: u64, bytes: u64) -> Result<(&Arc<Allocation>, u64), Miss> {
        let below = self.allocations.range(..=address).next_back().map(|entry| entry.1);
        if let Some(allocation) = below
            && let Some(offset) = allocation.offset_of(address, bytes)
            && (bytes > 0 || offset < allocation.bytes)
        {
            return Ok((allocation, offset));
        }
        Err(self.miss(address))
    }

    /// Why an address leads nowhere.
    pub fn miss(&self, address: u64) -> Miss {
        let gone = self.gone.range(..=address).next_back();
        match gone {
            Some((start, bytes)) if address - start < *bytes => Miss::Freed,
            _ => Miss::OutOfRange,
        }
    }

    /// The memory of an allocation is gone.
    pub fn remove(&mut self, address: u64) -> Option<Arc<Allocation>> {
        let allocation = self.allocations.remove(&address)?;
        self.snapshot = None;
        // The host gives its addresses out again, for whatever it likes.
        if allocation.kind.is_host() {
            return Some(allocation);
        }
        self.gone.insert(address, allocation.bytes);
        self.gone_order.push_back(address);
        if self.gone_order.len() > REMEMBERED
            && let Some(oldest) = self.gone_order.pop_front()
        {
            self.gone.remove(&oldest);
        }
        Some(allocation)
    }

    /// All allocations.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Allocation>> {
        self.allocations.values()
    }

    /// All allocations as they are now, to be looked at without a lock.
    pub fn snapshot(&mut self) -> Snapshot {
        let allocations = &self.allocations;
        self.snapshot.get_or_insert_with(|| Arc::new(allocations.values().cloned().collect())).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn insert(map: &mut Map, bytes: u64) -> u64 {
        map.insert(Kind::Device, 0, 0, Backing::new(bytes).unwrap(), false).address
    }

    #[test]
    fn ranges_are_found_within() {
        let mut map = Map::default();
        let (one, two) = (insert(&mut map, 100), insert(&mut map, 100));
        assert!(two >= one + 100 + GUARD);
        assert_eq!(map.find(one + 50, 50).unwrap().1, 50);
        assert_eq!(map.find(one + 50, 51).unwrap_err(), Miss::OutOfRange);
        assert_eq!(map.find(one + 100, 0).unwrap_err(), Miss::OutOfRange);
        assert_eq!(map.find(one - 1, 1).unwrap_err(), Miss::OutOfRange);
        assert_eq!(map.find(two, 100).unwrap().0.address, two);
    }

    #[test]
    fn freed_addresses_are_known_and_never_given_again() {
        let mut map = Map::default();
        let one = insert(&mut map, 100);
        map.remove(one);
        assert_eq!(map.find(one + 99, 1).unwrap_err(), Miss::Freed);
        assert_eq!(map.find(one + 100, 1).unwrap_err(), Miss::OutOfRange);
        assert_ne!(insert(&mut map, 100), one);
    }

    #[test]
    fn snapshots_are_shared_until_something_changes() {
        let mut map = Map::default();
        let one = insert(&mut map, 8);
        let (first, second) = (map.snapshot(), map.snapshot());
        assert!(Arc::ptr_eq(&first, &second));
        map.remove(one);
        assert!(map.snapshot().is_empty());
        assert_eq!(first.len(), 1);
    }
}
