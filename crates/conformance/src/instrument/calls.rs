//! Names of the SPI's calls, [`CallKind`], and sets of them, [`CallSet`].
//!
//! Not here: counting them (`shared.rs`).

use std::fmt;
use std::ops::BitOr;

/// One method of the SPI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CallKind {
    /// `Backend::info`.
    Info,
    /// `Backend::capabilities`.
    Capabilities,
    /// `Backend::allocate`.
    Allocate,
    /// `Backend::free`.
    Free,
    /// `Backend::adopt`.
    Adopt,
    /// `Backend::release`.
    Release,
    /// `Backend::write_block`.
    WriteBlock,
    /// `Backend::read_block`.
    ReadBlock,
    /// `Backend::compile`.
    Compile,
    /// `Backend::destroy_kernel`.
    DestroyKernel,
    /// `Backend::open_scope`.
    OpenScope,
    /// `Backend::close_scope`.
    CloseScope,
    /// `Backend::completed`.
    Completed,
    /// `Backend::wait_any`.
    WaitAny,
    /// `Backend::interrupt`.
    Interrupt,
    /// `Backend::memory`.
    Memory,
    /// `Backend::trim`.
    Trim,
    /// `Backend::shutdown`.
    Shutdown,
    /// `Scope::open_sequence`.
    OpenSequence,
    /// `Scope::recycle`.
    Recycle,
    /// `Scope::reset`.
    ResetScope,
    /// `Sequence::record`.
    Record,
    /// `Sequence::submit`.
    Submit,
    /// `Sequence::collect`.
    Collect,
    /// `Sequence::reset`.
    ResetSequence,
}

impl CallKind {
    /// All kinds, in the order of the SPI.
    pub const ALL: [CallKind; 25] = [
        CallKind::Info,
        CallKind::Capabilities,
        CallKind::Allocate,
        CallKind::Free,
        CallKind::Adopt,
        CallKind::Release,
        CallKind::WriteBlock,
        CallKind::ReadBlock,
        CallKind::Compile,
        CallKind::DestroyKernel,
        CallKind::OpenScope,
        CallKind::CloseScope,
        CallKind::Completed,
        CallKind::WaitAny,
        CallKind::Interrupt,
        CallKind::Memory,
        CallKind::Trim,
        CallKind::Shutdown,
        CallKind::OpenSequence,
        CallKind::Recycle,
        CallKind::ResetScope,
        CallKind::Record,
        CallKind::Submit,
        CallKind::Collect,
        CallKind::ResetSequence,
    ];

    /// The method's name, with its trait's where two have the same.
    pub fn name(self) -> &'static str {
        match self {
            CallKind::Info => "info",
            CallKind::Capabilities => "capabilities",
            CallKind::Allocate => "allocate",
            CallKind::Free => "free",
            CallKind::Adopt => "adopt",
            CallKind::Release => "release",
            CallKind::WriteBlock => "write_block",
            CallKind::ReadBlock => "read_block",
            CallKind::Compile => "compile",
            CallKind::DestroyKernel => "destroy_kernel",
            CallKind::OpenScope => "open_scope",
            CallKind::CloseScope => "close_scope",
            CallKind::Completed => "completed",
            CallKind::WaitAny => "wait_any",
            CallKind::Interrupt => "interrupt",
            CallKind::Memory => "memory",
            CallKind::Trim => "trim",
            CallKind::Shutdown => "shutdown",
            CallKind::OpenSequence => "open_sequence",
            CallKind::Recycle => "recycle",
            CallKind::ResetScope => "scope reset",
            CallKind::Record => "record",
            CallKind::Submit => "submit",
            CallKind::Collect => "collect",
            CallKind::ResetSequence => "sequence reset",
        }
    }

    /// Calls that give an object back. They reach the inner backend even when they are told to fail, and do
    /// not fail for loss: lost or not, what was made is destroyed once (L23).
    pub(super) fn gives_back(self) -> bool {
        matches!(
            self,
            CallKind::Free
                | CallKind::Release
                | CallKind::DestroyKernel
                | CallKind::CloseScope
                | CallKind::Recycle
                | CallKind::Shutdown
        )
    }
}

impl fmt::Display for CallKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A set of [`CallKind`]s. A kind converts into the set of itself, and `|` joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CallSet(u32);

impl CallSet {
    /// Every call.
    pub const ALL: CallSet = CallSet::of(&CallKind::ALL);

    /// Every call that can return an error.
    pub const FALLIBLE: CallSet = CallSet::ALL.without(CallSet::of(&[
        CallKind::Info,
        CallKind::Capabilities,
        CallKind::Interrupt,
        CallKind::Recycle,
    ]));

    /// The fallible calls whose number does not depend on timing: all but `completed` and `wait_any`. A sweep
    /// "the k-th call fails, for every k" counts these.
    pub const REPEATABLE: CallSet =
        CallSet::FALLIBLE.without(CallSet::of(&[CallKind::Completed, CallKind::WaitAny]));

    /// The set of these kinds.
    pub const fn of(kinds: &[CallKind]) -> CallSet {
        let mut bits = 0;
        let mut at = 0;
        while at < kinds.len() {
            bits |= 1 << kinds[at] as u32;
            at += 1;
        }
        CallSet(bits)
    }

    /// This set without the kinds of another.
    pub const fn without(self, other: CallSet) -> CallSet {
        CallSet(self.0 & !other.0)
    }

    /// The kinds that are in both sets.
    pub const fn and(self, other: CallSet) -> CallSet {
        CallSet(self.0 & other.0)
    }

    /// Whether the kind is in the set.
    pub const fn contains(self, kind: CallKind) -> bool {
        self.0 & (1 << kind as u32) != 0
    }

    /// Whether no kind is in the set.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl From<CallKind> for CallSet {
    fn from(kind: CallKind) -> CallSet {
        CallSet::of(&[kind])
    }
}

impl BitOr for CallSet {
    type Output = CallSet;

    fn bitor(self, other: CallSet) -> CallSet {
        CallSet(self.0 | other.0)
    }
}

impl BitOr for CallKind {
    type Output = CallSet;

    fn bitor(self, other: CallKind) -> CallSet {
        CallSet::of(&[self, other])
    }
}

impl BitOr<CallKind> for CallSet {
    type Output = CallSet;

    fn bitor(self, other: CallKind) -> CallSet {
        self | CallSet::from(other)
    }
}

/// How often each call was made.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts([u64; CallKind::ALL.len()]);

impl Counts {
    pub(super) fn add(&mut self, kind: CallKind) {
        self.0[kind as usize] += 1;
    }

    pub(super) fn sum(&self, calls: CallSet) -> u64 {
        CallKind::ALL.iter().filter(|kind| calls.contains(**kind)).map(|kind| self.0[*kind as usize]).sum()
    }
}
