//! Limits: capabilities narrowed for a test, so that a small test meets what only a large one would.
//!
//! Not here: refusing what passes them; that is core's work, and `checker.rs` judges it.

use tenure_core::Capabilities;

/// What to narrow. The default narrows nothing. A limit never widens what the inner backend says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Number of queues at most.
    pub queues: Option<u32>,
    /// Blocks at a time at most.
    pub max_blocks: Option<u64>,
    /// Bytes of a block at most.
    pub max_block_bytes: Option<u64>,
    /// Bytes of a binding at most.
    pub max_binding_bytes: Option<u64>,
    /// Workgroups of a dispatch at most, in each direction.
    pub max_groups: Option<[u32; 3]>,
    /// Alignment at least; a power of two.
    pub alignment: Option<u64>,
    /// `Some(false)`: whole blocks only.
    pub sub_allocation: Option<bool>,
    /// `Some(false)`: each submission needs a recording of its own.
    pub reusable_recordings: Option<bool>,
    /// `Some(true)`: native objects of a lost device are abandoned.
    pub abandons_on_loss: Option<bool>,
    /// Bytes that all blocks may have together; `allocate` answers `OutOfMemory` beyond. Not a capability: core
    /// learns of it by the answer.
    pub capacity_bytes: Option<u64>,
}

impl Limits {
    pub(super) fn narrow(&self, inner: Capabilities) -> Capabilities {
        let at_most = |inner: u64, limit: Option<u64>| limit.map_or(inner, |limit| limit.min(inner));
        if let Some(alignment) = self.alignment {
            assert!(alignment.is_power_of_two(), "an alignment is a power of two, {alignment} is none");
        }
        Capabilities {
            queues: self.queues.map_or(inner.queues, |limit| limit.clamp(1, inner.queues)),
            max_blocks: at_most(inner.max_blocks, self.max_blocks),
            max_block_bytes: at_most(inner.max_block_bytes, self.max_block_bytes),
            max_binding_bytes: at_most(inner.max_binding_bytes, self.max_binding_bytes),
            max_groups: self.max_groups.map_or(inner.max_groups, |limit| {
                std::array::from_fn(|at| limit[at].min(inner.max_groups[at]))
            }),
            alignment: inner.alignment.max(self.alignment.unwrap_or(0)),
            sub_allocation: inner.sub_allocation && self.sub_allocation.unwrap_or(true),
            reusable_recordings: inner.reusable_recordings && self.reusable_recordings.unwrap_or(true),
            abandons_on_loss: inner.abandons_on_loss || self.abandons_on_loss.unwrap_or(false),
            ..inner
        }
    }
}
