//! One launch of one kernel, run to its end on the calling thread.
//!
//! Here: the entry. A launch runs its blocks one after the other (`block.rs`); the warps of a block take turns, and
//! the lanes of a warp run each instruction together (`warp.rs`). Accesses are thereby in one order. Not here: the text
//! of kernels (`crate::ptx`), device memory, which whoever launches has behind [`Memory`].

mod access;
mod arithmetic;
mod atomic;
mod barrier;
mod block;
mod exchange;
mod fault;
mod lanes;
mod launch;
mod memory;
mod operate;
mod warp;

use self::block::Block;
pub use self::fault::{Fault, FaultKind};
pub use self::launch::{DEFAULT_STEPS, Launch, Limits};
pub use self::memory::{Memory, MemoryFault, MemoryFaultKind};
use crate::ptx::Kernel;

/// Runs all blocks of the launch to their end, with the usual limits.
///
/// Threads of a block make progress even if others of it wait for them in a loop. Blocks run one after the other in
/// the order of their indices, so a block may wait for an earlier one, never for a later one: that ends at the limit
/// of steps.
///
/// # Errors
/// What a device would stop at: an access outside of memory, a trap, a barrier that can never complete; and a launch
/// that the kernel cannot have.
pub fn run(kernel: &Kernel, launch: &Launch<'_>, memory: &dyn Memory) -> Result<(), Fault> {
    run_within(kernel, launch, memory, &Limits::default())
}

/// As [`run`], with limits of one's own.
///
/// # Errors
/// As [`run`].
pub fn run_within(
    kernel: &Kernel,
    launch: &Launch<'_>,
    memory: &dyn Memory,
    limits: &Limits,
) -> Result<(), Fault> {
    launch::check(kernel, launch)?;
    let [columns, rows, layers] = launch.grid;
    let mut block = Block::new(kernel, launch, memory, limits.steps);
    for z in 0..layers {
        for y in 0..rows {
            for x in 0..columns {
                block.run([x, y, z])?;
            }
        }
    }
    Ok(())
}
