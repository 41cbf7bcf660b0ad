//! When a barrier of the block is complete, and what its threads learn then.
//!
//! A thread that has ended counts as arrived. Not here: coming to a barrier (`warp.rs`).

use super::block::Environment;
use super::fault::{Fault, FaultKind};
use super::lanes::LANES;
use super::warp::{At, Stop, Waiting, Warp};
use crate::ptx::program::BarrierAction;

/// Lets threads go on whose barrier is complete. True if there were any.
///
/// # Errors
/// Threads gave different counts for the same barrier.
pub(super) fn release(warps: &mut [Warp], environment: &mut Environment<'_>) -> Result<bool, Fault> {
    let mut seen = 0_u32;
    for waiting in warps.iter().flat_map(|warp| &warp.waiting) {
        if let At::Barrier { id, .. } = waiting.at {
            seen |= 1 << id;
        }
    }
    let mut released = false;
    for id in super::lanes::each(seen) {
        if is_complete(warps, id as u32, environment)? {
            environment.arrived[id] = 0;
            go_on(warps, id as u32);
            released = true;
        }
    }
    Ok(released)
}

/// The lanes of a warp that wait at a barrier, by where they wait.
fn at(warp: &Warp, id: u32) -> impl Iterator<Item = (&Waiting, Option<u32>, BarrierAction)> {
    warp.waiting.iter().filter_map(move |waiting| match waiting.at {
        At::Barrier { id: other, count, action } if other == id => Some((waiting, count, action)),
        _ => None,
    })
}

fn is_complete(warps: &[Warp], id: u32, environment: &Environment<'_>) -> Result<bool, Fault> {
    let mut wanted: Option<Option<u32>> = None;
    let mut arrived = environment.arrived[id as usize];
    let mut all = true;
    for warp in warps {
        let mut here = 0;
        for (waiting, count, _) in at(warp, id) {
            if wanted.is_some_and(|wanted| wanted != count) {
                let stop = Stop { lane: waiting.mask.trailing_zeros() as usize, kind: FaultKind::BadBarrier };
                return Err(environment.fault(waiting.place, warp.index, stop));
            }
            wanted = Some(count);
            here |= waiting.mask;
        }
        let missing = (warp.live & !here).count_ones();
        all &= missing == 0;
        if here != 0 {
            // Lanes that have ended, or never were, count with their warp.
            arrived += LANES as u32 - missing;
        }
    }
    Ok(match wanted {
        Some(Some(count)) => arrived >= count,
        Some(None) => all,
        None => false,
    })
}

fn go_on(warps: &mut [Warp], id: u32) {
    let (mut ones, mut threads) = (0, 0);
    for warp in &*warps {
        for (waiting, _, action) in at(warp, id) {
            threads += waiting.mask.count_ones();
            if let BarrierAction::Ones { a, .. }
            | BarrierAction::All { a, .. }
            | BarrierAction::Any { a, .. } = action
            {
                ones += (warp.holds(a) & waiting.mask).count_ones();
            }
        }
    }
    for warp in warps {
        let gone: Vec<(Waiting, BarrierAction)> =
            at(warp, id).map(|(waiting, _, action)| (*waiting, action)).collect();
        warp.waiting.retain(|waiting| !matches!(waiting.at, At::Barrier { id: other, .. } if other == id));
        for (waiting, action) in gone {
            match action {
                BarrierAction::Ones { d, .. } => warp.put(d, &[u64::from(ones); LANES], waiting.mask),
                BarrierAction::All { d, .. } => warp.put_flag(d, all_if(ones == threads), waiting.mask),
                BarrierAction::Any { d, .. } => warp.put_flag(d, all_if(ones > 0), waiting.mask),
                BarrierAction::Wait | BarrierAction::Arrive => {}
            }
            warp.resume(waiting.place + 1, waiting.mask);
        }
    }
}

fn all_if(condition: bool) -> u32 {
    if condition { u32::MAX } else { 0 }
}
