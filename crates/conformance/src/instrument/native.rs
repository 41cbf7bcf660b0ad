//! The decorator's native objects: an inner object and the number under which the checker knows it.
//!
//! Not here: their methods (`ffi.rs`).

use std::fmt;
use std::sync::Arc;

use tenure_core::{Backend, QueueId};

use super::shared::Shared;
use super::submission::{Flight, Recorded};

/// A block of the inner backend, numbered.
pub struct TrackedBlock<B: Backend> {
    pub(super) id: u64,
    pub(super) inner: B::Block,
}

impl<B: Backend> TrackedBlock<B> {
    /// The inner backend's block.
    pub fn inner(&self) -> &B::Block {
        &self.inner
    }
}

/// A kernel of the inner backend, numbered.
pub struct TrackedKernel<B: Backend> {
    pub(super) id: u64,
    pub(super) inner: B::Kernel,
}

/// An arena of the inner backend, numbered.
pub struct TrackedScope<B: Backend> {
    pub(super) id: u64,
    pub(super) queue: QueueId,
    pub(super) inner: B::Scope,
    pub(super) shared: Arc<Shared>,
}

/// A native sequence of the inner backend, numbered, with what it recorded.
pub struct TrackedSequence<B: Backend> {
    pub(super) inner: B::Sequence,
    pub(super) shared: Arc<Shared>,
    pub(super) facts: SequenceFacts,
}

/// What the checker has to know of a native sequence.
pub(super) struct SequenceFacts {
    pub id: u64,
    pub label: String,
    /// The arena that it was made from.
    pub arena: u64,
    pub queue: QueueId,
    pub recorded: Recorded,
    pub flight: Flight,
}

impl fmt::Display for SequenceFacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "native sequence {} `{}`", self.id, self.label)
    }
}

impl<B: Backend> fmt::Debug for TrackedBlock<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TrackedBlock({})", self.id)
    }
}

impl<B: Backend> fmt::Debug for TrackedKernel<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TrackedKernel({})", self.id)
    }
}

impl<B: Backend> fmt::Debug for TrackedScope<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TrackedScope({})", self.id)
    }
}

impl<B: Backend> fmt::Debug for TrackedSequence<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TrackedSequence({})", self.facts.id)
    }
}
