//! Lifetimes: how many objects of each kind were made, given back and abandoned, in counts and bytes.
//!
//! Not here: which objects those are (`checker.rs`).

use std::fmt;

/// The kinds of native objects that are made and given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ObjectKind {
    /// `allocate` and `free`.
    Block,
    /// `compile` and `destroy_kernel`.
    Kernel,
    /// `open_scope` and `close_scope`.
    Scope,
    /// `open_sequence` and `recycle`.
    Sequence,
    /// `adopt` and `release`.
    Adopted,
}

impl ObjectKind {
    /// All kinds.
    pub const ALL: [ObjectKind; 5] =
        [ObjectKind::Block, ObjectKind::Kernel, ObjectKind::Scope, ObjectKind::Sequence, ObjectKind::Adopted];
}

impl fmt::Display for ObjectKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ObjectKind::Block => "block",
            ObjectKind::Kernel => "kernel",
            ObjectKind::Scope => "arena",
            ObjectKind::Sequence => "native sequence",
            ObjectKind::Adopted => "adopted block",
        })
    }
}

/// The balance of one kind. Bytes are 0 for kinds other than blocks, adopted ones included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lifetimes {
    /// Objects that the inner backend made.
    pub made: u64,
    /// Objects that were given back to it.
    pub given_back: u64,
    /// Objects that were out when a lost device was shut down (L23).
    pub abandoned: u64,
    /// Bytes of `made`.
    pub made_bytes: u64,
    /// Bytes of `given_back`.
    pub given_back_bytes: u64,
    /// Bytes of `abandoned`.
    pub abandoned_bytes: u64,
    /// Most objects that were out at a time.
    pub peak: u64,
    /// Most bytes that were out at a time.
    pub peak_bytes: u64,
}

impl Lifetimes {
    /// Objects that are out now.
    pub fn live(&self) -> u64 {
        self.made - self.given_back - self.abandoned
    }

    /// Bytes that are out now.
    pub fn live_bytes(&self) -> u64 {
        self.made_bytes - self.given_back_bytes - self.abandoned_bytes
    }

    /// Whether everything that was made is accounted for (L19).
    pub fn is_balanced(&self) -> bool {
        self.live() == 0 && self.live_bytes() == 0
    }

    fn made(&mut self, bytes: u64) {
        self.made += 1;
        self.made_bytes += bytes;
        self.peak = self.peak.max(self.live());
        self.peak_bytes = self.peak_bytes.max(self.live_bytes());
    }
}

/// The balances of all kinds.
#[derive(Clone, Debug, Default)]
pub(super) struct Ledger([Lifetimes; ObjectKind::ALL.len()]);

impl Ledger {
    pub(super) fn of(&self, kind: ObjectKind) -> &Lifetimes {
        &self.0[kind as usize]
    }

    pub(super) fn made(&mut self, kind: ObjectKind, bytes: u64) {
        self.0[kind as usize].made(bytes);
    }

    pub(super) fn given_back(&mut self, kind: ObjectKind, bytes: u64) {
        let balance = &mut self.0[kind as usize];
        balance.given_back += 1;
        balance.given_back_bytes += bytes;
    }

    /// What is out now stays out for ever.
    pub(super) fn abandon_all(&mut self) {
        for balance in &mut self.0 {
            balance.abandoned += balance.live();
            balance.abandoned_bytes += balance.live_bytes();
        }
    }
}
