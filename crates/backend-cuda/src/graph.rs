//! Graphs: a recording that is evaluated again is submitted as one (L9).
//!
//! The nodes are made one by one from the recording's commands, each after those before it that use the same bytes: what does not
//! depend on each other is in branches that the device may run side by side. Capturing a stream would make one line of
//! nodes; and a capture fails by what other threads do meanwhile, and leaves a stream that is of no use until it is ended.

pub(crate) mod ffi;
mod order;

use smallvec::{SmallVec, smallvec};
use tenure_core::BackendError;

use crate::commands::{Command, Launch, Use, Word};
use crate::ffi::Current;
use crate::graph::ffi::{Executable, Template};

/// Bytes of one node that copies. Its bytes are a row, and the driver's limit of a row is below 2 GiB.
const MOST_COPIED: usize = 1 << 30;

/// The graph of these commands.
///
/// # Errors
/// What the driver said. What was made by then is destroyed.
pub(crate) fn graph_of(current: &Current<'_>, commands: &[Command]) -> Result<Executable, BackendError> {
    let work: Vec<Work<'_>> = commands.iter().flat_map(Work::of).collect();
    let mut template = Template::new(current)?;
    for node in order::nodes(work.iter().map(Work::uses)) {
        template.add(current, node.work.map(|at| &work[at]), &node.after)?;
    }
    template.instantiate(current)
}

/// What one node does.
pub(crate) enum Work<'a> {
    Copy(Copy),
    Set(Set),
    Launch(&'a Launch),
}

/// A copy of bytes, at most as many as one node can.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Copy {
    pub from: Side,
    pub to: Side,
    pub bytes: usize,
}

/// An address, and whose memory it is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// Pinned memory, of which each piece has one command that uses it.
    Host(usize),
    Device(u64),
}

/// Words that are set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Set {
    pub to: u64,
    pub word: Word,
    pub count: usize,
}

impl<'a> Work<'a> {
    /// The command as work for nodes. More than one copies a part each.
    fn of(command: &'a Command) -> SmallVec<[Work<'a>; 1]> {
        let (from, to, bytes) = match *command {
            Command::ToDevice { from, to, bytes } => (Side::Host(from), Side::Device(to), bytes),
            Command::ToHost { from, to, bytes } => (Side::Device(from), Side::Host(to), bytes),
            Command::Copy { from, to, bytes } => (Side::Device(from), Side::Device(to), bytes),
            Command::Set { to, word, count } => return smallvec![Work::Set(Set { to, word, count })],
            Command::Launch(ref launch) => return smallvec![Work::Launch(launch)],
        };
        let copy = Copy { from, to, bytes };
        (0..bytes).step_by(MOST_COPIED).map(|start| Work::Copy(copy.part(start))).collect()
    }

    /// What it uses of the device's memory.
    fn uses(&self) -> SmallVec<[Use; 4]> {
        match self {
            Work::Copy(copy) => copy.uses(),
            Work::Set(Set { to, word, count }) => {
                let end = to + (word.bytes() * count) as u64;
                smallvec![Use { start: *to, end, writes: true }]
            }
            Work::Launch(launch) => launch.uses.clone(),
        }
    }
}

impl Copy {
    /// The bytes from `start` on that one node copies.
    fn part(self, start: usize) -> Self {
        let bytes = (self.bytes - start).min(MOST_COPIED);
        Copy { from: self.from.at(start), to: self.to.at(start), bytes }
    }

    fn uses(&self) -> SmallVec<[Use; 4]> {
        let of = |side: Side, writes: bool| match side {
            Side::Device(start) => Some(Use { start, end: start + self.bytes as u64, writes }),
            Side::Host(_) => None,
        };
        of(self.from, false).into_iter().chain(of(self.to, true)).collect()
    }
}

impl Side {
    fn at(self, start: usize) -> Self {
        match self {
            Side::Host(address) => Side::Host(address + start),
            Side::Device(address) => Side::Device(address + start as u64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_copy_is_of_several_nodes_that_do_not_wait_for_each_other() {
        let bytes = 2 * MOST_COPIED + 5;
        let command = Command::Copy { from: 1 << 40, to: 1 << 41, bytes };
        let work = Work::of(&command);
        let parts: Vec<Copy> = work
            .iter()
            .map(|work| match work {
                Work::Copy(copy) => *copy,
                _ => panic!("a copy is made of copies"),
            })
            .collect();
        let ends = |side: fn(&Copy) -> Side, base: u64| {
            parts.iter().fold(base, |at, part| {
                assert_eq!(side(part), Side::Device(at));
                at + part.bytes as u64
            })
        };
        assert_eq!(ends(|part| part.from, 1 << 40), (1 << 40) + bytes as u64);
        assert_eq!(ends(|part| part.to, 1 << 41), (1 << 41) + bytes as u64);
        assert!(order::nodes(work.iter().map(Work::uses)).iter().all(|node| node.after.is_empty()));
    }

    #[test]
    fn work_uses_what_it_reads_and_writes_on_the_device() {
        let uses = |command: &Command| -> Vec<(u64, u64, bool)> {
            let work = Work::of(command);
            work.iter().flat_map(Work::uses).map(|one| (one.start, one.end, one.writes)).collect()
        };
        let (from, to, bytes) = (256, 512, 10);
        assert_eq!(uses(&Command::Copy { from, to, bytes }), [(256, 266, false), (512, 522, true)]);
        assert_eq!(uses(&Command::ToDevice { from: 7, to, bytes }), [(512, 522, true)]);
        assert_eq!(uses(&Command::ToHost { from, to: 7, bytes }), [(256, 266, false)]);
        assert_eq!(uses(&Command::Set { to, word: Word::Two(1), count: 3 }), [(512, 518, true)]);
    }
}
