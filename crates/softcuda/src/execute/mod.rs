//! Running a kernel; a stand-in that runs none.
//!
//! Not here: reading PTX.

use crate::ptx::Kernel;

/// One launch.
pub struct Launch<'a> {
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads.
    pub block: [u32; 3],
    /// Shared memory of the launch.
    pub dynamic_shared_bytes: u32,
    /// The parameter block.
    pub parameters: &'a [u8],
}

/// Global memory.
pub trait Memory: Sync {
    /// Reads.
    ///
    /// # Errors
    /// The address is wrong.
    fn load(&self, address: u64, into: &mut [u8]) -> Result<(), MemoryFault>;
    /// Writes.
    ///
    /// # Errors
    /// The address is wrong.
    fn store(&self, address: u64, bytes: &[u8]) -> Result<(), MemoryFault>;
    /// Changes in one step.
    ///
    /// # Errors
    /// The address is wrong.
    fn atomic(
        &self,
        address: u64,
        bytes: usize,
        change: &mut dyn FnMut(u64) -> u64,
    ) -> Result<u64, MemoryFault>;
}

/// A wrong access.
#[derive(Clone, Debug)]
pub struct MemoryFault {
    /// Where.
    pub address: u64,
    /// How many bytes.
    pub bytes: usize,
    /// Why.
    pub kind: MemoryFaultKind,
}

/// Why an access is wrong.
#[derive(Clone, Copy, Debug)]
pub enum MemoryFaultKind {
    /// Nothing is there.
    OutOfRange,
    /// It was freed.
    UseAfterFree,
    /// It is not aligned.
    Misaligned,
    /// Nobody wrote it.
    Uninitialised,
}

/// The end of a kernel that went wrong.
#[derive(Clone, Debug)]
pub struct Fault {
    /// The kernel.
    pub kernel: String,
    /// The line of its text.
    pub line: u32,
    /// The block.
    pub block: [u32; 3],
    /// The thread.
    pub thread: [u32; 3],
    /// What it is.
    pub kind: FaultKind,
}

/// What went wrong.
#[derive(Clone, Debug)]
pub enum FaultKind {
    /// An access.
    Memory(MemoryFault),
    /// A trap.
    Trap,
    /// An assertion.
    Assert(String),
    /// Too many steps.
    StepLimit,
}

/// Runs a launch.
///
/// # Errors
/// A fault.
pub fn run(_kernel: &Kernel, _launch: &Launch<'_>, _memory: &dyn Memory) -> Result<(), Fault> {
    Ok(())
}
