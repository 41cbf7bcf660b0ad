//! Device and host memory: allocations by address, their bytes, pools.
//!
//! Not here: in which order memory is used (`order/`), copies and fills as work (`device/operation.rs`).

pub mod allocation;
mod ffi;
pub mod map;
pub mod pool;

pub use self::allocation::{Allocation, Handle, Kind};
pub use self::ffi::Backing;
pub use self::map::{Map, Miss, Snapshot};
pub use self::pool::Pool;

/// What fresh device memory holds: not zeros, so that a program that counts on zeros is found out.
const FRESH: u8 = 0xa5;

/// How much of a fresh allocation is filled. Filling all of a large one would cost more than most tests.
const FILLED: usize = 1 << 20;

/// New bytes for an allocation of a kind; `None` if the host has none.
pub fn fresh(kind: Kind, bytes: u64) -> Option<Backing> {
    let backing = if kind.is_host() { Backing::shared(bytes)? } else { Backing::new(bytes)? };
    backing.fill(0, backing.bytes().min(FILLED), FRESH);
    Some(backing)
}
