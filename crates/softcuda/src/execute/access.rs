//! Loads and stores.
//!
//! Lanes next to each other in device memory are one access, lanes at the same address one load. Not here: atomic
//! operations (`atomic.rs`).

use super::block::Environment;
use super::fault::FaultKind;
use super::lanes::{LANES, Lanes, each};
use super::memory::{Memory, MemoryFault, MemoryFaultKind};
use super::warp::{Stop, Warp};
use crate::ptx::program::{Address, Load, SINK, Store};
use crate::ptx::types::Space;

/// The most bytes of one lane.
const WIDEST: usize = 16;

/// The bytes of all lanes, each at its own place.
type Buffer = [u8; WIDEST * LANES];

impl Warp {
    pub fn load(&mut self, load: &Load, active: u32, environment: &Environment<'_>) -> Result<(), Stop> {
        let width = usize::from(load.bytes) * usize::from(load.count);
        let addresses = self.addresses(load.address);
        check_alignment(&addresses, active, width, load.address.space)?;
        let mut buffer = [0; WIDEST * LANES];
        for (space, mask, within) in by_space(load.address.space, &addresses, active) {
            match space {
                Space::Global | Space::Generic => {
                    load_global(environment.memory, mask, &within, width, &mut buffer)?;
                }
                Space::Shared => gather(&environment.shared, mask, &within, width, &mut buffer, space)?,
                Space::Parameter => gather(environment.parameters, mask, &within, width, &mut buffer, space)?,
                Space::Local => {
                    let own = self.own(mask, &within, width)?;
                    gather(&self.local, mask, &own, width, &mut buffer, space)?;
                }
            }
        }
        for (element, slot) in
            load.d.iter().take(load.count.into()).enumerate().filter(|(_, slot)| **slot != SINK)
        {
            let start = element * usize::from(load.bytes);
            let out = match (load.bytes, load.signed_to) {
                (1, 0) => take::<1>(&buffer, start, width, |bytes| u64::from(u8::from_le_bytes(bytes))),
                (2, 0) => take::<2>(&buffer, start, width, |bytes| u64::from(u16::from_le_bytes(bytes))),
                (4, 0 | 32) => take::<4>(&buffer, start, width, |bytes| u64::from(u32::from_le_bytes(bytes))),
                (8, _) => take::<8>(&buffer, start, width, u64::from_le_bytes),
                (1, to) => {
                    take::<1>(&buffer, start, width, |bytes| signed(i8::from_le_bytes(bytes).into(), to))
                }
                (2, to) => {
                    take::<2>(&buffer, start, width, |bytes| signed(i16::from_le_bytes(bytes).into(), to))
                }
                (_, to) => {
                    take::<4>(&buffer, start, width, |bytes| signed(i32::from_le_bytes(bytes).into(), to))
                }
            };
            self.put(*slot, &out, active);
        }
        Ok(())
    }

    pub fn store(
        &mut self,
        store: &Store,
        active: u32,
        environment: &mut Environment<'_>,
    ) -> Result<(), Stop> {
        let width = usize::from(store.bytes) * usize::from(store.count);
        let addresses = self.addresses(store.address);
        check_alignment(&addresses, active, width, store.address.space)?;
        let mut buffer = [0; WIDEST * LANES];
        for (element, slot) in store.a.iter().take(store.count.into()).enumerate() {
            let start = element * usize::from(store.bytes);
            let values = self.get(*slot);
            match store.bytes {
                1 => give::<1>(&mut buffer, start, width, values),
                2 => give::<2>(&mut buffer, start, width, values),
                4 => give::<4>(&mut buffer, start, width, values),
                _ => give::<8>(&mut buffer, start, width, values),
            }
        }
        for (space, mask, within) in by_space(store.address.space, &addresses, active) {
            match space {
                Space::Global | Space::Generic => {
                    store_global(environment.memory, mask, &within, width, &buffer)?;
                }
                Space::Shared => scatter(&mut environment.shared, mask, &within, width, &buffer, space)?,
                Space::Local => {
                    let own = self.own(mask, &within, width)?;
                    scatter(&mut self.local, mask, &own, width, &buffer, space)?;
                }
                // Parameters are not written.
                Space::Parameter => {
                    return Err(refused(
                        first(mask),
                        space,
                        within[first(mask)],
                        width,
                        MemoryFaultKind::OutOfRange,
                    ));
                }
            }
        }
        Ok(())
    }

    pub fn addresses(&self, address: Address) -> Lanes {
        let mut out = *self.get(address.base);
        if address.offset != 0 {
            for lane in &mut out {
                *lane = lane.wrapping_add_signed(address.offset);
            }
            if address.narrow {
                for lane in &mut out {
                    *lane &= u64::from(u32::MAX);
                }
            }
        }
        out
    }

    /// Addresses of local memory as places in that of all lanes.
    fn own(&self, mask: u32, within: &Lanes, width: usize) -> Result<Lanes, Stop> {
        let size = self.local.len() / LANES;
        let mut out = [0; LANES];
        for lane in each(mask) {
            if within[lane] > size as u64 || size as u64 - within[lane] < width as u64 {
                return Err(refused(lane, Space::Local, within[lane], width, MemoryFaultKind::OutOfRange));
            }
            out[lane] = (lane * size) as u64 + within[lane];
        }
        Ok(out)
    }
}

/// The lanes of each space, and their addresses in it.
pub(super) fn by_space(
    space: Space,
    addresses: &Lanes,
    active: u32,
) -> impl Iterator<Item = (Space, u32, Lanes)> {
    let mut left = active;
    std::iter::from_fn(move || {
        if left == 0 {
            return None;
        }
        if space != Space::Generic {
            left = 0;
            return Some((space, active, *addresses));
        }
        let (space, _) = Space::of(addresses[first(left)]);
        let mut mask = 0;
        let mut within = *addresses;
        for lane in each(left) {
            let (other, address) = Space::of(addresses[lane]);
            if other == space {
                mask |= 1 << lane;
                within[lane] = address;
            }
        }
        left &= !mask;
        Some((space, mask, within))
    })
}

pub(super) fn check_alignment(
    addresses: &Lanes,
    active: u32,
    width: usize,
    space: Space,
) -> Result<(), Stop> {
    let low = width as u64 - 1;
    let mut all = 0;
    for lane in each(active) {
        all |= addresses[lane];
    }
    if all & low == 0 {
        return Ok(());
    }
    let lane = each(active).find(|lane| addresses[*lane] & low != 0).unwrap_or_default();
    let address = addresses[lane];
    let (space, address) = if space == Space::Generic { Space::of(address) } else { (space, address) };
    Err(refused(lane, space, address, width, MemoryFaultKind::Misaligned))
}

/// The stop of a lane whose access was refused.
pub(super) fn refused(lane: usize, space: Space, within: u64, bytes: usize, kind: MemoryFaultKind) -> Stop {
    let address = space.window().wrapping_add(within);
    Stop { lane, kind: FaultKind::Memory(MemoryFault { address, bytes, kind }) }
}

fn first(mask: u32) -> usize {
    mask.trailing_zeros() as usize
}

fn signed(value: i64, to: u8) -> u64 {
    if to >= 64 { value as u64 } else { value as u64 & ((1 << to) - 1) }
}

#[inline(always)]
fn take<const N: usize>(
    buffer: &Buffer,
    start: usize,
    width: usize,
    value: impl Fn([u8; N]) -> u64,
) -> Lanes {
    let mut out = [0; LANES];
    for (out, bytes) in out.iter_mut().zip(buffer.chunks_exact(width)) {
        let mut own = [0; N];
        own.copy_from_slice(&bytes[start..start + N]);
        *out = value(own);
    }
    out
}

#[inline(always)]
fn give<const N: usize>(buffer: &mut Buffer, start: usize, width: usize, values: &Lanes) {
    for (value, bytes) in values.iter().zip(buffer.chunks_exact_mut(width)) {
        bytes[start..start + N].copy_from_slice(&value.to_le_bytes()[..N]);
    }
}

/// Lanes that are next to each other in memory, from the first of `left`.
fn run_of(left: u32, addresses: &Lanes, width: usize) -> usize {
    let start = first(left);
    let mut end = start + 1;
    while end < LANES
        && left >> end & 1 == 1
        && addresses[end] == addresses[end - 1].wrapping_add(width as u64)
    {
        end += 1;
    }
    end
}

fn load_global(
    memory: &dyn Memory,
    mask: u32,
    addresses: &Lanes,
    width: usize,
    buffer: &mut Buffer,
) -> Result<(), Stop> {
    let mut left = mask;
    while left != 0 {
        let start = first(left);
        let address = addresses[start];
        let end = run_of(left, addresses, width);
        let many = &mut buffer[start * width..end * width];
        if end > start + 1 && memory.load(address, many).is_ok() {
            left &= !lanes_between(start, end);
            continue;
        }
        let one = start * width..(start + 1) * width;
        memory.load(address, &mut buffer[one.clone()]).map_err(|fault| memory_stop(start, fault))?;
        left &= left - 1;
        // Others at the same address, as they are when all read one value.
        let mut next = start + 1;
        while next < LANES && left >> next & 1 == 1 && addresses[next] == address {
            buffer.copy_within(one.clone(), next * width);
            left &= !(1 << next);
            next += 1;
        }
    }
    Ok(())
}

fn store_global(
    memory: &dyn Memory,
    mask: u32,
    addresses: &Lanes,
    width: usize,
    buffer: &Buffer,
) -> Result<(), Stop> {
    let mut left = mask;
    while left != 0 {
        let start = first(left);
        let end = run_of(left, addresses, width);
        if end > start + 1 && memory.store(addresses[start], &buffer[start * width..end * width]).is_ok() {
            left &= !lanes_between(start, end);
            continue;
        }
        let bytes = &buffer[start * width..(start + 1) * width];
        memory.store(addresses[start], bytes).map_err(|fault| memory_stop(start, fault))?;
        left &= left - 1;
    }
    Ok(())
}

pub(super) fn memory_stop(lane: usize, fault: MemoryFault) -> Stop {
    Stop { lane, kind: FaultKind::Memory(fault) }
}

fn lanes_between(start: usize, end: usize) -> u32 {
    ((1_u64 << end) - (1_u64 << start)) as u32
}

/// Reads each lane from memory that is at hand.
fn gather(
    from: &[u8],
    mask: u32,
    places: &Lanes,
    width: usize,
    buffer: &mut Buffer,
    space: Space,
) -> Result<(), Stop> {
    match width {
        1 => gather_as::<1>(from, mask, places, buffer),
        2 => gather_as::<2>(from, mask, places, buffer),
        4 => gather_as::<4>(from, mask, places, buffer),
        8 => gather_as::<8>(from, mask, places, buffer),
        _ => gather_as::<16>(from, mask, places, buffer),
    }
    .map_err(|lane| refused(lane, space, places[lane], width, MemoryFaultKind::OutOfRange))
}

#[inline(always)]
fn gather_as<const N: usize>(
    from: &[u8],
    mask: u32,
    places: &Lanes,
    buffer: &mut Buffer,
) -> Result<(), usize> {
    for (lane, (place, out)) in places.iter().zip(buffer.chunks_exact_mut(N)).enumerate() {
        if mask >> lane & 1 == 0 {
            continue;
        }
        let Some(bytes) = slice::<N>(from, *place) else {
            return Err(lane);
        };
        out.copy_from_slice(bytes);
    }
    Ok(())
}

#[inline(always)]
fn slice<const N: usize>(from: &[u8], place: u64) -> Option<&[u8; N]> {
    let start = usize::try_from(place).ok()?;
    from.get(start..)?.first_chunk()
}

/// Writes each lane to memory that is at hand.
fn scatter(
    into: &mut [u8],
    mask: u32,
    places: &Lanes,
    width: usize,
    buffer: &Buffer,
    space: Space,
) -> Result<(), Stop> {
    match width {
        1 => scatter_as::<1>(into, mask, places, buffer),
        2 => scatter_as::<2>(into, mask, places, buffer),
        4 => scatter_as::<4>(into, mask, places, buffer),
        8 => scatter_as::<8>(into, mask, places, buffer),
        _ => scatter_as::<16>(into, mask, places, buffer),
    }
    .map_err(|lane| refused(lane, space, places[lane], width, MemoryFaultKind::OutOfRange))
}

#[inline(always)]
fn scatter_as<const N: usize>(
    into: &mut [u8],
    mask: u32,
    places: &Lanes,
    buffer: &Buffer,
) -> Result<(), usize> {
    for (lane, (place, bytes)) in places.iter().zip(buffer.chunks_exact(N)).enumerate() {
        if mask >> lane & 1 == 0 {
            continue;
        }
        let start = usize::try_from(*place).map_err(|_| lane)?;
        let Some(out) = into.get_mut(start..).and_then(|rest| rest.first_chunk_mut::<N>()) else {
            return Err(lane);
        };
        out.copy_from_slice(bytes);
    }
    Ok(())
}
