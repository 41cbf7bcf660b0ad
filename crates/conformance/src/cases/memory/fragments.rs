//! Cases about the figure that shows fragmentation: the largest piece that can be had without the driver (L19).
//!
//! Not here: getting memory when the pieces are too small (`out_of_memory.rs`).

use tenure_core::Tensor;

use crate::bed::{Bed, Rig};
use crate::cases::ownership::support::{MIB, assert_given_back, settled, untrimmed};
use crate::instrument::{CallKind, Limits};

/// Of whole blocks it is the largest that is cached: exactly what can be had without a driver call, while a larger
/// request needs one though there is more in all.
pub(super) fn the_largest_cached_block(bed: &Bed) {
    let limits = Limits { sub_allocation: Some(false), ..Limits::default() };
    let Rig { manager, probe } = bed.open_limited(limits, untrimmed());
    let largest = || settled(&manager).largest_free_bytes / MIB;
    assert_eq!(largest(), 0);
    let tensors = [1, 2, 4, 2].map(|size| manager.tensor::<u8>(size * MIB).unwrap());
    assert_eq!(largest(), 0, "what is live is not free");
    drop(tensors);
    assert_eq!((largest(), settled(&manager).cached.bytes), (4, 9 * MIB));
    let asked = probe.calls(CallKind::Allocate);
    let four = manager.tensor::<u8>(4 * MIB).unwrap();
    assert_eq!((largest(), probe.calls(CallKind::Allocate)), (2, asked));
    let more = manager.tensor::<u8>(4 * MIB).unwrap();
    assert_eq!((largest(), probe.calls(CallKind::Allocate)), (2, asked + 1), "5 MiB in pieces are no 4 MiB");
    drop(more);
    assert_eq!(largest(), 4);
    drop(four);
    assert_given_back(&manager);
    assert_eq!(largest(), 0);
}

/// Inside a block that tensors share it is the largest piece: with every second tensor gone it is one tensor's, and
/// pieces beside each other become one again.
pub(super) fn pieces_merge_with_their_neighbours(bed: &Bed) {
    const PIECES: u64 = 16;
    let Rig { manager, probe } = bed.open_with(untrimmed());
    let first = manager.tensor::<u8>(1).unwrap();
    let page = settled(&manager).reserved.bytes;
    drop(first);
    let piece = page / PIECES;
    let largest = || settled(&manager).largest_free_bytes / piece;
    assert_eq!(largest(), PIECES);
    let mut tensors: Vec<Option<Tensor<u8>>> =
        (0..PIECES).map(|_| Some(manager.tensor(piece).unwrap())).collect();
    assert_eq!((largest(), settled(&manager).reserved.blocks), (0, 1), "the block is full");
    for at in (0..tensors.len()).step_by(2) {
        tensors[at] = None;
    }
    assert_eq!((largest(), settled(&manager).cached.bytes), (1, page / 2));
    // Half of the block is free, and two pieces are nowhere beside each other.
    let asked = probe.calls(CallKind::Allocate);
    drop(manager.tensor::<u8>(2 * piece).unwrap());
    assert_eq!(probe.calls(CallKind::Allocate), asked + 1);
    manager.trim().unwrap();
    tensors[1] = None;
    assert_eq!(largest(), 3);
    drop(manager.tensor::<u8>(2 * piece).unwrap());
    assert_eq!(probe.calls(CallKind::Allocate), asked + 1, "the neighbours are one piece");
    tensors.clear();
    assert_eq!(largest(), PIECES);
    assert_given_back(&manager);
}
