//! The memory that a running kernel sees, and the notes that are taken of what it touches.
//!
//! Not here: running it (`execute/`), judging what it touched (`order/`).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::driver;
use crate::code::{Answer, Code};
use crate::execute::{Fault, FaultKind, Memory, MemoryFault, MemoryFaultKind};
use crate::memory::{Allocation, Miss, Snapshot};
use crate::order::{Access, Marks, Ticket};

/// Memory for one launch.
pub struct Bus {
    allocations: Snapshot,
    ticket: Arc<Ticket>,
    /// Where the last access was: the next one is likely to be there too.
    recent: AtomicUsize,
    /// By the place of the allocation among all; `None` if uses are not checked.
    notes: Option<Mutex<Vec<Option<Notes>>>>,
}

#[derive(Default)]
struct Notes {
    reads: Option<Marks>,
    writes: Option<Marks>,
    atomics: Option<Marks>,
}

impl Bus {
    /// Memory for the launch with this ticket.
    pub fn new(allocations: Snapshot, ticket: Arc<Ticket>) -> Bus {
        let mut notes = Vec::new();
        notes.resize_with(allocations.len(), || None);
        let notes = driver().settings.check.then(|| Mutex::new(notes));
        Bus { allocations, ticket, recent: AtomicUsize::new(0), notes }
    }

    /// Hands over what was noted, and turns the end of the kernel into an answer.
    ///
    /// # Errors
    /// The code of a fault, which stays.
    pub fn finish(self, result: Result<(), Fault>) -> Answer {
        let mut state = driver().lock();
        for (index, notes) in self.notes.map(Mutex::into_inner).into_iter().flatten().enumerate() {
            let Some(notes) = notes else { continue };
            let address = self.allocations[index].address;
            let Notes { reads, writes, atomics } = notes;
            for (marks, access) in [(reads, Access::Read), (writes, Access::Write), (atomics, Access::Atomic)]
            {
                let Some(marks) = marks else { continue };
                let conflict = state.order.touch(address, &self.ticket, marks.ranges(), access);
                state.report(address, conflict);
            }
        }
        let Err(fault) = result else { return Ok(()) };
        let code = code_of(&fault.kind);
        let where_to = match &fault.kind {
            FaultKind::Memory(fault) => {
                let near = self.allocations.iter().rfind(|allocation| allocation.address <= fault.address);
                let near = near.map_or_else(|| "no allocation".to_owned(), |near| near.in_words());
                format!("\n  where: {} bytes at {:#x}, at or after {near}", fault.bytes, fault.address)
            }
            _ => String::new(),
        };
        let answer = match code {
            Some(code) => code.in_words(),
            None => "the kernel was stopped, the device goes on".to_owned(),
        };
        let Fault { kernel, line, block, thread, kind } = &fault;
        state.order.report.add(format!(
            "{}\n  kernel: `{kernel}`, line {line} of its PTX, block {block:?}, thread {thread:?}{where_to}\n  \
             launched by: {}\n  answer: {answer}",
            in_words(kind),
            self.ticket
        ));
        code.map_or(Ok(()), Err)
    }

    /// The allocation that holds a range, and the range's offset.
    fn find(&self, address: u64, bytes: usize, access: Access) -> Result<(&Allocation, u64), MemoryFault> {
        let fault = |kind| MemoryFault { address, bytes, kind };
        // Other accesses may be those of neighbouring threads together.
        if access == Access::Atomic && !address.is_multiple_of(bytes as u64) {
            return Err(fault(MemoryFaultKind::Misaligned));
        }
        let recent = self.recent.load(Ordering::Relaxed);
        let within = |index: usize| self.allocations.get(index)?.offset_of(address, bytes as u64);
        let (index, offset) = match within(recent) {
            Some(offset) => (recent, offset),
            None => {
                let above = self.allocations.partition_point(|allocation| allocation.address <= address);
                let found = above.checked_sub(1).and_then(|index| Some((index, within(index)?)));
                let Some(found) = found else {
                    let miss = driver().lock().map.miss(address);
                    return Err(fault(match miss {
                        Miss::Freed => MemoryFaultKind::UseAfterFree,
                        Miss::OutOfRange => MemoryFaultKind::OutOfRange,
                    }));
                };
                self.recent.store(found.0, Ordering::Relaxed);
                found
            }
        };
        let allocation = &self.allocations[index];
        if allocation.is_freed_before(self.ticket.serial) {
            return Err(fault(MemoryFaultKind::UseAfterFree));
        }
        if access != Access::Write && !allocation.is_written(offset, bytes) {
            return Err(fault(MemoryFaultKind::Uninitialised));
        }
        if access != Access::Read {
            allocation.mark_written(offset, bytes);
        }
        if let Some(notes) = &self.notes {
            let mut notes = notes.lock();
            let notes = notes[index].get_or_insert_default();
            let marks = match access {
                Access::Read => &mut notes.reads,
                Access::Write => &mut notes.writes,
                Access::Atomic => &mut notes.atomics,
            };
            marks.get_or_insert_with(|| Marks::new(allocation.bytes)).mark(offset, bytes);
        }
        Ok((allocation, offset))
    }
}

impl Memory for Bus {
    fn load(&self, address: u64, into: &mut [u8]) -> Result<(), MemoryFault> {
        let (allocation, offset) = self.find(address, into.len(), Access::Read)?;
        allocation.backing.load(offset, into);
        Ok(())
    }

    fn store(&self, address: u64, bytes: &[u8]) -> Result<(), MemoryFault> {
        let (allocation, offset) = self.find(address, bytes.len(), Access::Write)?;
        allocation.backing.store(offset, bytes);
        Ok(())
    }

    fn atomic(
        &self,
        address: u64,
        bytes: usize,
        change: &mut dyn FnMut(u64) -> u64,
    ) -> Result<u64, MemoryFault> {
        let (allocation, offset) = self.find(address, bytes, Access::Atomic)?;
        Ok(allocation.backing.update(offset, bytes, change))
    }
}

/// What a fault does to the device; `None` if it only ends the kernel.
fn code_of(kind: &FaultKind) -> Option<Code> {
    match kind {
        FaultKind::Memory(fault) => match fault.kind {
            MemoryFaultKind::OutOfRange | MemoryFaultKind::UseAfterFree => Some(Code::ILLEGAL_ADDRESS),
            MemoryFaultKind::Misaligned => Some(Code::MISALIGNED_ADDRESS),
            MemoryFaultKind::Uninitialised => None,
        },
        FaultKind::Assert { .. } => Some(Code::ASSERT),
        FaultKind::StepLimit(_) => Some(Code::LAUNCH_TIMEOUT),
        _ => Some(Code::LAUNCH_FAILED),
    }
}

fn in_words(kind: &FaultKind) -> String {
    match kind {
        FaultKind::Memory(fault) => match fault.kind {
            MemoryFaultKind::OutOfRange => "out of range".to_owned(),
            MemoryFaultKind::UseAfterFree => "use after free".to_owned(),
            MemoryFaultKind::Misaligned => "misaligned access".to_owned(),
            MemoryFaultKind::Uninitialised => "read of memory that nobody wrote".to_owned(),
        },
        FaultKind::Trap => "a kernel ran `trap`".to_owned(),
        FaultKind::Assert { message, file, line, .. } => {
            format!("{file}:{line}: assertion `{message}` failed")
        }
        other => format!("a kernel went wrong: {other:?}"),
    }
}
