//! [`Command`]s: what a recording does, in addresses.
//!
//! A recording is a list of them. The first submission puts them into the stream one by one; a graph is made of the
//! same list. Not here: how operations become commands (`encode.rs`), which of them come after which (`graph/order.rs`).

pub(crate) mod ffi;

use std::sync::Arc;

use smallvec::SmallVec;

use crate::kernel::ffi::Program;

/// One thing that the device does. Addresses of the device are 64 bits wide, those of pinned memory as wide as the host's.
pub(crate) enum Command {
    ToDevice {
        from: usize,
        to: u64,
        bytes: usize,
    },
    ToHost {
        from: u64,
        to: usize,
        bytes: usize,
    },
    Copy {
        from: u64,
        to: u64,
        bytes: usize,
    },
    /// Sets `count` words of one width.
    Set {
        to: u64,
        word: Word,
        count: usize,
    },
    Launch(Launch),
}

/// What a memory is set to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    One(u8),
    Two(u16),
    Four(u32),
}

impl Word {
    /// Width in bytes.
    pub(crate) fn bytes(self) -> usize {
        match self {
            Word::One(_) => 1,
            Word::Two(_) => 2,
            Word::Four(_) => 4,
        }
    }

    pub(crate) fn value(self) -> u32 {
        match self {
            Word::One(value) => value.into(),
            Word::Two(value) => value.into(),
            Word::Four(value) => value,
        }
    }
}

/// One launch of a kernel.
pub(crate) struct Launch {
    pub program: Arc<Program>,
    pub grid: [u32; 3],
    /// What the function takes: pointers.
    pub pointers: SmallVec<[u64; 8]>,
    /// What it uses of the device's memory, as the kernel declares it. Parameters, which only launches read, are not among it.
    pub uses: SmallVec<[Use; 4]>,
}

/// A range of device memory that a command uses. Addresses are of one space: whose memory it is does not matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Use {
    pub start: u64,
    pub end: u64,
    /// Whether it may change bytes there; else it only reads them.
    pub writes: bool,
}
