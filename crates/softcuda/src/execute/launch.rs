//! [`Launch`]: what is run, and how large.
//!
//! Not here: running it (`block.rs`).

use super::fault::{Fault, FaultKind};
use crate::ptx::Kernel;

/// Grid, block and arguments of one launch.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    /// Blocks in x, y, z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y, z.
    pub block: [u32; 3],
    /// Shared memory besides what the kernel has in its text.
    pub dynamic_shared_bytes: u32,
    /// The block of parameters, laid out as [`Kernel::parameters`] tells.
    pub parameters: &'a [u8],
}

/// What a launch may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Instructions of warps, all blocks together.
    pub steps: u64,
}

/// The steps of [`Limits::default`]: some seconds of an optimised build.
pub const DEFAULT_STEPS: u64 = 1 << 28;

/// The most threads of a block, as on devices.
const MAX_THREADS: u64 = 1024;

/// The most shared memory of a block. Above that of any device, below what would exhaust the machine.
const MAX_SHARED: u64 = 1 << 24;

impl Default for Limits {
    fn default() -> Limits {
        Limits { steps: DEFAULT_STEPS }
    }
}

/// Checks that the kernel can have this launch.
pub(super) fn check(kernel: &Kernel, launch: &Launch<'_>) -> Result<(), Fault> {
    let threads = product(launch.block);
    let most = kernel.max_threads().map_or(MAX_THREADS, |most| u64::from(most).min(MAX_THREADS));
    let shared = u64::from(kernel.program().dynamic_shared) + u64::from(launch.dynamic_shared_bytes);
    let problem = if threads == 0 || product(launch.grid) == 0 {
        "a grid or block of no threads".to_owned()
    } else if let Some(required) = kernel.program().required.filter(|required| *required != launch.block) {
        format!("blocks of {:?} threads, where it takes {required:?}", launch.block)
    } else if threads > most {
        format!("blocks of {threads} threads, where {most} is the most")
    } else if shared > MAX_SHARED {
        format!("{shared} bytes of shared memory, where {MAX_SHARED} is the most")
    } else if launch.parameters.len() < kernel.parameter_bytes() {
        format!("{} bytes of parameters of {}", launch.parameters.len(), kernel.parameter_bytes())
    } else {
        return Ok(());
    };
    let kind = FaultKind::Launch(problem);
    Err(Fault { kernel: kernel.name().to_owned(), line: 0, block: [0; 3], thread: [0; 3], kind })
}

fn product(extents: [u32; 3]) -> u64 {
    extents.iter().fold(1, |product: u64, extent| product.saturating_mul(u64::from(*extent)))
}
