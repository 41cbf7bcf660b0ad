//! [`Fault`]: why a launch stopped, and where.
//!
//! Not here: which of the driver's codes that is.

use std::error::Error;
use std::fmt::{self, Display};

use super::memory::MemoryFault;

/// Why a launch stopped before its end. What it wrote until then has been written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The kernel.
    pub kernel: String,
    /// The line of the instruction in the text; 0 if none was reached.
    pub line: u32,
    /// The block of the thread.
    pub block: [u32; 3],
    /// The thread in its block: the first of those at fault.
    pub thread: [u32; 3],
    /// What happened.
    pub kind: FaultKind,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// An access to memory was refused.
    Memory(MemoryFault),
    /// The kernel ran `trap`.
    Trap,
    /// An `assert` of the kernel failed.
    Assert {
        /// What was asserted.
        message: String,
        /// The source file.
        file: String,
        /// The line in it.
        line: u32,
        /// The function.
        function: String,
    },
    /// Threads wait at a barrier of the block that can never complete, because others wait elsewhere.
    BarrierDivergence,
    /// Lanes wait for others of their warp that never come, or leave themselves out.
    WarpDivergence,
    /// A barrier has a number above 15, or a count of threads that is no multiple of 32 or differs among them.
    BadBarrier,
    /// `brx.idx` with an index that has no target.
    BranchIndex(u32),
    /// The launch took more steps than it may. A step is one instruction of one warp.
    StepLimit(u64),
    /// The kernel cannot be launched like this.
    Launch(String),
}

impl Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Fault { kernel, line, block: [bx, by, bz], thread: [tx, ty, tz], kind } = self;
        if let FaultKind::Launch(problem) = kind {
            return write!(f, "kernel `{kernel}`: {problem}");
        }
        write!(
            f,
            "kernel `{kernel}`, PTX line {line}, block ({bx}, {by}, {bz}), thread ({tx}, {ty}, {tz}): "
        )?;
        match kind {
            FaultKind::Memory(fault) => write!(f, "{fault}"),
            FaultKind::Trap => f.write_str("trap"),
            FaultKind::Assert { message, file, line, function } => {
                write!(f, "{file}:{line}: {function}: assertion `{message}` failed")
            }
            FaultKind::BarrierDivergence => {
                f.write_str("waits at a barrier that can never complete: other threads wait elsewhere")
            }
            FaultKind::WarpDivergence => {
                f.write_str("waits for lanes of its warp that never come, or leaves itself out")
            }
            FaultKind::BadBarrier => f.write_str("a barrier with a wrong number or count of threads"),
            FaultKind::BranchIndex(index) => write!(f, "no target {index} of a branch by index"),
            FaultKind::StepLimit(limit) => write!(f, "not at its end after {limit} steps"),
            FaultKind::Launch(_) => Ok(()),
        }
    }
}

impl Error for Fault {}
