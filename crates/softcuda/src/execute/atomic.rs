//! Atomic operations, lane after lane.
//!
//! Not here: what they make of the old value (`arithmetic/change.rs`).

use super::access::{by_space, check_alignment, memory_stop, refused};
use super::arithmetic::change::apply;
use super::block::Environment;
use super::lanes::{LANES, each};
use super::memory::MemoryFaultKind;
use super::warp::{Stop, Warp};
use crate::ptx::program::{Atomic, Float, Int, Number, SINK};
use crate::ptx::types::Space;

impl Warp {
    pub fn atomic(
        &mut self,
        atomic: &Atomic,
        active: u32,
        environment: &mut Environment<'_>,
    ) -> Result<(), Stop> {
        let bytes = match atomic.number {
            Number::Int(Int::U8 | Int::S8 | Int::U16 | Int::S16)
            | Number::Float(Float::F16 | Float::Bf16) => 2,
            Number::Int(Int::U32 | Int::S32) | Number::Float(Float::F32) => 4,
            Number::Int(Int::U64 | Int::S64) | Number::Float(Float::F64) => 8,
        };
        let addresses = self.addresses(atomic.address);
        check_alignment(&addresses, active, bytes, atomic.address.space)?;
        let (b, c) = (*self.get(atomic.b), *self.get(atomic.c));
        let mut old = [0; LANES];
        for (space, mask, within) in by_space(atomic.address.space, &addresses, active) {
            // Devices flush sums of singles in global memory, and there alone.
            let flush = space == Space::Global;
            for lane in each(mask) {
                let change = |old: u64| apply(atomic.change, atomic.number, flush, old, b[lane], c[lane]);
                old[lane] = match space {
                    Space::Shared => {
                        change_shared(&mut environment.shared, lane, within[lane], bytes, change)?
                    }
                    Space::Global => change_global(environment, lane, within[lane], bytes, change)?,
                    _ => return Err(refused(lane, space, within[lane], bytes, MemoryFaultKind::OutOfRange)),
                };
            }
        }
        if atomic.d != SINK {
            self.put(atomic.d, &old, active);
        }
        Ok(())
    }
}

fn change_global(
    environment: &Environment<'_>,
    lane: usize,
    address: u64,
    bytes: usize,
    change: impl Fn(u64) -> u64,
) -> Result<u64, Stop> {
    if bytes > 2 {
        let changed = environment.memory.atomic(address, bytes, &mut |old| change(old));
        return changed.map_err(|fault| memory_stop(lane, fault));
    }
    // Half of a word.
    let shift = (address & 2) * 8;
    let half = 0xffff << shift;
    let mut changed = |old: u64| old & !half | (change(old >> shift & 0xffff) & 0xffff) << shift;
    let word = environment.memory.atomic(address & !3, 4, &mut changed);
    word.map(|old| old >> shift & 0xffff).map_err(|fault| memory_stop(lane, fault))
}

fn change_shared(
    shared: &mut [u8],
    lane: usize,
    place: u64,
    bytes: usize,
    change: impl Fn(u64) -> u64,
) -> Result<u64, Stop> {
    let start = usize::try_from(place).unwrap_or(usize::MAX);
    let Some(bytes) = shared.get_mut(start..).and_then(|rest| rest.get_mut(..bytes)) else {
        return Err(refused(lane, Space::Shared, place, bytes, MemoryFaultKind::OutOfRange));
    };
    let mut old = [0; 8];
    old[..bytes.len()].copy_from_slice(bytes);
    let old = u64::from_le_bytes(old);
    let new = change(old).to_le_bytes();
    bytes.copy_from_slice(&new[..bytes.len()]);
    Ok(old)
}
