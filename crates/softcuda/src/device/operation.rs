//! The kinds of work that streams and graphs do: what a caller asks for, and what it comes to on submission.
//!
//! Not here: when it runs (`submit.rs`, `launch.rs`), doing it (`perform.rs`).

use std::sync::Arc;

use super::state::State;
use crate::caller::{HostFunction, HostPointer};
use crate::code::{Answer, Code};
use crate::memory::{Allocation, Handle, Miss};
use crate::order::{Access, Label, Ranges, Ticket};
use crate::ptx::Kernel;

/// Work as a caller asks for it, with addresses. A graph keeps it in this form and resolves it at every launch.
#[derive(Clone, Debug)]
pub enum Operation {
    /// Nothing: a place in the order.
    Nothing,
    /// A kernel.
    Kernel(Arc<KernelLaunch>),
    /// A copy of bytes.
    Copy {
        /// To where.
        to: Place,
        /// From where.
        from: Place,
        /// How many.
        bytes: u64,
    },
    /// Rows of equal elements.
    Fill(Fill),
    /// A function of the caller's.
    Host {
        /// The function.
        function: HostFunction,
        /// Its argument.
        data: HostPointer,
    },
    /// A word is written.
    Write {
        /// To where.
        address: u64,
        /// The low bytes of it.
        value: u64,
        /// 4 or 8.
        bytes: usize,
    },
    /// A word is waited for.
    Await {
        /// Where it is.
        address: u64,
        /// What it is compared with.
        value: u64,
        /// 4 or 8.
        bytes: usize,
        /// How it is compared.
        until: Until,
    },
}

/// A kernel with its arguments.
#[derive(Clone, Debug)]
pub struct KernelLaunch {
    /// The kernel.
    pub kernel: Kernel,
    /// The handle by which the caller named it.
    pub function: Handle,
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Bytes of shared memory beyond what the kernel declares.
    pub dynamic_shared_bytes: u32,
    /// The parameter block.
    pub parameters: Vec<u8>,
}

/// One end of a copy.
#[derive(Clone, Debug)]
pub enum Place {
    /// An address that the device reaches.
    Device(u64),
    /// Host memory that the driver knows nothing of.
    Pageable(HostPointer),
    /// Bytes that were taken from the caller at once.
    Staged(Arc<[u8]>),
}

/// Rows of equal elements.
#[derive(Clone, Copy, Debug)]
pub struct Fill {
    /// Where the first row starts.
    pub address: u64,
    /// The low bytes of it.
    pub value: u32,
    /// 1, 2 or 4.
    pub element: usize,
    /// Elements of a row.
    pub width: u64,
    /// Rows.
    pub height: u64,
    /// Bytes from one row to the next.
    pub pitch: u64,
}

/// How a word is compared with a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// The word minus the value is not negative.
    AtLeast,
    /// They are equal.
    Equal,
    /// They have a bit in common.
    And,
    /// Not every bit is in one of them.
    Nor,
}

/// Work with the memory that it needs, which stays until the work is done.
#[derive(Debug)]
pub enum Prepared {
    /// Nothing.
    Nothing,
    /// A kernel; it finds its memory while it runs.
    Kernel(Arc<KernelLaunch>),
    /// A copy.
    Copy {
        /// To where.
        to: End,
        /// From where.
        from: End,
        /// How many bytes.
        bytes: usize,
    },
    /// Rows of equal elements, from an offset on.
    Fill(Arc<Allocation>, u64, Fill),
    /// A function of the caller's.
    Host(HostFunction, HostPointer),
    /// A word that is written.
    Write(Arc<Allocation>, u64, u64, usize),
    /// A word that is waited for.
    Await(Arc<Allocation>, u64, u64, usize, Until),
}

/// One end of a copy, found.
#[derive(Debug)]
pub enum End {
    /// Bytes of an allocation from an offset on.
    Memory(Arc<Allocation>, u64),
    /// Host memory that the driver knows nothing of.
    Pageable(HostPointer),
    /// Bytes that were taken from the caller at once.
    Staged(Arc<[u8]>),
}

/// Work, and the memory that it is known to touch.
#[derive(Debug)]
pub struct Resolved {
    /// The work.
    pub work: Prepared,
    touches: Vec<Touch>,
}

#[derive(Debug)]
struct Touch {
    address: u64,
    offset: u64,
    bytes: u64,
    access: Access,
}

impl Fill {
    /// Bytes from the first to the last.
    fn extent(&self) -> Option<u64> {
        let row = self.width.checked_mul(self.element as u64)?;
        match self.height {
            0 => Some(0),
            rows => self.pitch.checked_mul(rows - 1)?.checked_add(row),
        }
    }
}

impl Operation {
    /// What messages call it.
    pub fn label(&self, stream: Handle, function: &'static str) -> Label {
        let kernel = match self {
            Operation::Kernel(launch) => Some(launch.kernel.name().to_owned()),
            _ => None,
        };
        Label { kernel, ..Label::on(stream, function) }
    }
}

impl State {
    /// Finds the memory of an operation.
    ///
    /// # Errors
    /// `INVALID_VALUE` for addresses that lead nowhere. The checker reports them.
    pub fn resolve(&mut self, operation: &Operation, label: &Label) -> Answer<Resolved> {
        let mut touches = Vec::new();
        let work = match operation {
            Operation::Nothing => Prepared::Nothing,
            Operation::Kernel(launch) => Prepared::Kernel(launch.clone()),
            Operation::Copy { to, from, bytes } => Prepared::Copy {
                to: self.end_of(to, *bytes, Access::Write, label, &mut touches)?,
                from: self.end_of(from, *bytes, Access::Read, label, &mut touches)?,
                bytes: *bytes as usize,
            },
            Operation::Fill(fill) => {
                let bytes = fill.extent().ok_or(Code::INVALID_VALUE)?;
                let (allocation, offset) = self.reach(fill.address, bytes, label)?;
                let row = fill.width * fill.element as u64;
                touches.extend((0..fill.height).map(|index| Touch {
                    address: allocation.address,
                    offset: offset + index * fill.pitch,
                    bytes: row,
                    access: Access::Write,
                }));
                Prepared::Fill(allocation, offset, *fill)
            }
            Operation::Host { function, data } => Prepared::Host(*function, *data),
            Operation::Write { address, value, bytes } => {
                let (allocation, offset) = self.word(*address, *bytes, label)?;
                Prepared::Write(allocation, offset, *value, *bytes)
            }
            Operation::Await { address, value, bytes, until } => {
                let (allocation, offset) = self.word(*address, *bytes, label)?;
                Prepared::Await(allocation, offset, *value, *bytes, *until)
            }
        };
        Ok(Resolved { work, touches })
    }

    /// Remembers what the work touches, and reports what that conflicts with.
    pub fn touch(&mut self, resolved: &Resolved, ticket: &Arc<Ticket>) {
        for touch in &resolved.touches {
            let ranges = Ranges::one(touch.offset, touch.offset + touch.bytes);
            let conflict = self.order.touch(touch.address, ticket, ranges, touch.access);
            self.report(touch.address, conflict);
        }
    }

    fn end_of(
        &mut self,
        place: &Place,
        bytes: u64,
        access: Access,
        label: &Label,
        touches: &mut Vec<Touch>,
    ) -> Answer<End> {
        match place {
            Place::Pageable(pointer) if pointer.is_null() && bytes > 0 => Err(Code::INVALID_VALUE),
            Place::Pageable(pointer) => Ok(End::Pageable(*pointer)),
            Place::Staged(staged) => Ok(End::Staged(staged.clone())),
            Place::Device(address) => {
                let (allocation, offset) = self.reach(*address, bytes, label)?;
                touches.push(Touch { address: allocation.address, offset, bytes, access });
                Ok(End::Memory(allocation, offset))
            }
        }
    }

    /// A word of the stream memory operations. They are how streams and the host talk without events, so they are no
    /// race.
    fn word(&mut self, address: u64, bytes: usize, label: &Label) -> Answer<(Arc<Allocation>, u64)> {
        if !address.is_multiple_of(bytes as u64) {
            return Err(Code::INVALID_VALUE);
        }
        self.reach(address, bytes as u64, label)
    }

    /// The allocation that holds a range that is about to be used.
    ///
    /// # Errors
    /// `INVALID_VALUE` if there is none, or if its free was submitted. The checker reports it.
    fn reach(&mut self, address: u64, bytes: u64, label: &Label) -> Answer<(Arc<Allocation>, u64)> {
        let end = address.wrapping_add(bytes);
        let (what, near) = match self.map.find(address, bytes) {
            Ok((allocation, offset)) if !allocation.is_freed() => return Ok((allocation.clone(), offset)),
            Ok((allocation, _)) => ("use after free", allocation.in_words()),
            Err(Miss::Freed) => ("use after free", "memory that is gone".to_owned()),
            Err(Miss::OutOfRange) => {
                let below = self.map.find(address, 0).ok().map(|(allocation, _)| allocation.in_words());
                ("out of range", below.unwrap_or_else(|| "no allocation".to_owned()))
            }
        };
        if self.order.is_enabled() {
            let Label { function, stream, .. } = label;
            self.order.report.add(format!(
                "{what}\n  where: {address:#x}..{end:#x}, {near}\n  used by: {function} on stream {stream:#x}\n  mend: \
                 keep the memory until its last use is submitted, and stay within it"
            ));
        }
        Err(Code::INVALID_VALUE)
    }
}
