//! Room for a request: what is short, and whether work that the device has yet to finish would make it fit (L20).
//!
//! Not here: the order in which room is made, and giving up (`engine/memory.rs`).

use std::collections::HashMap;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::engine::Engine;
use crate::engine::pool::Pool;
use crate::engine::recording::Recording;
use crate::engine::sequences::Life;
use crate::sync::MutexGuard;

/// What a request lacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shortage {
    /// Bytes of the budget.
    Budget,
    /// Blocks of the device.
    Blocks,
    /// The driver refused; what it has nobody knows.
    Driver,
}

/// What waiting for the device would change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outlook {
    /// It fits, or nobody can know: it is time to ask.
    Ask,
    /// It may fit once the device has finished more of its work.
    Wait,
}

impl Engine {
    /// Whether a request of `bytes` should wait for the device.
    ///
    /// Retirement is held up meanwhile: memory that a pass has taken and not yet given to the pool would be missed.
    pub(super) fn outlook(&self, shortage: Shortage, bytes: u64) -> Outlook {
        let _no_pass: SmallVec<[MutexGuard<'_, ()>; 4]> =
            self.queues.iter().map(|queue| queue.hold_retirement()).collect();
        let coming =
            self.queues.iter().map(|queue| queue.pending_bytes()).sum::<u64>() + self.held_by_running_work();
        let pool = self.pool.lock();
        if coming == 0 || pool.makes_room(shortage, bytes, 0) || !pool.makes_room(shortage, bytes, coming) {
            return Outlook::Ask;
        }
        Outlook::Wait
    }

    /// Bytes of tensors that only recordings of running work hold, whose sequences go when that has retired (L5, L8).
    fn held_by_running_work(&self) -> u64 {
        let mut held: HashMap<u64, (usize, u64)> = HashMap::new();
        for execution in self.queues.iter().flat_map(|queue| queue.in_flight()) {
            let inner = execution.sequence.inner.lock();
            if inner.forgotten || matches!(inner.life, Life::Ended(_)) {
                count_holds(&inner.recording, &mut held);
            }
        }
        held.into_values().filter(|(others, _)| *others == 0).map(|(_, bytes)| bytes).sum()
    }
}

/// Subtracts the holds of `recording` from those that each of its tensors has.
fn count_holds(recording: &Recording, held: &mut HashMap<u64, (usize, u64)>) {
    let uses = recording.operations.iter().flat_map(|operation| operation.uses());
    let handles =
        uses.map(|(tensor, _)| &tensor.handle).chain(recording.tensors.iter().map(|known| &known.handle));
    for handle in handles {
        let cell = &handle.cell;
        let (others, _) =
            held.entry(cell.id()).or_insert_with(|| (Arc::strong_count(handle), cell.granted_bytes()));
        *others = others.saturating_sub(1);
    }
}

impl Pool {
    /// Whether a request of `bytes` may fit after a trim, and after `coming` more bytes have come back.
    fn makes_room(&self, shortage: Shortage, bytes: u64, coming: u64) -> bool {
        let unused = self.unused();
        let held = self.reserved();
        match shortage {
            Shortage::Budget => {
                let held = held.bytes - unused.bytes;
                self.budget().is_none_or(|budget| held.saturating_sub(coming).saturating_add(bytes) <= budget)
            }
            Shortage::Blocks => coming > 0 || held.blocks - unused.blocks < self.max_blocks(),
            // Only the driver knows: it is asked when nothing more is to come.
            Shortage::Driver => coming > 0,
        }
    }
}
