//! What handles point to: a node's payload, parents and use, and a graph's counts.
//!
//! Not here: letting go of a node (`release.rs`).

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use smallvec::SmallVec;

use crate::error::{Error, Site};
use crate::graph::Payload;
use crate::graph::merge::Membership;
use crate::graph::release::{Dead, let_go};
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::sync::{BorrowLock, Mutex};

/// A node's parents. Most operations have one or two.
pub(super) type Parents<N> = SmallVec<[Arc<NodeCell<N>>; 2]>;

/// Nobody uses the payload.
const FREE: u32 = 0;
/// Somebody has the node to himself. Everything between counts those who read.
const CLAIMED: u32 = u32::MAX;
/// The payload was taken (L26).
const CONSUMED: u32 = u32::MAX - 1;

pub(crate) struct NodeCell<N: Payload> {
    pub graph: Arc<GraphCell<N>>,
    /// Number in its graph, from 1.
    pub id: u64,
    /// Above that of every parent, so that falling levels are a reverse topological order.
    pub level: u64,
    pub bytes: u64,
    state: AtomicU32,
    /// Whoever locks it has the right to by `state`: nobody ever waits here.
    payload: BorrowLock<Option<N>>,
    parents: Mutex<Parents<N>>,
}

impl<N: Payload> NodeCell<N> {
    pub(super) fn new(graph: Arc<GraphCell<N>>, payload: N, parents: Parents<N>) -> Self {
        let bytes = payload.bytes();
        let level = parents.iter().map(|parent| parent.level + 1).max().unwrap_or(0);
        let id = graph.count_in(bytes);
        NodeCell {
            graph,
            id,
            level,
            bytes,
            state: AtomicU32::new(FREE),
            payload: BorrowLock::new(Some(payload)),
            parents: Mutex::new(parents),
        }
    }

    pub(super) fn parents(&self) -> Parents<N> {
        self.parents.lock().clone()
    }

    pub(super) fn parent_count(&self) -> usize {
        self.parents.lock().len()
    }

    pub(super) fn take_parents(&self) -> Parents<N> {
        std::mem::take(&mut *self.parents.lock())
    }

    pub(super) fn is_consumed(&self) -> bool {
        self.state.load(Ordering::Acquire) == CONSUMED
    }

    fn refused(&self, state: u32) -> Error {
        let (graph, node) = (self.graph.label.clone(), self.id);
        if state == CONSUMED { Error::NodeConsumed { graph, node } } else { Error::NodeBusy { graph, node } }
    }

    /// Takes a share of the payload: nobody takes it meanwhile.
    pub(super) fn share(&self) -> Result<(), Error> {
        let share = |state| (state < CONSUMED - 1).then(|| state + 1);
        match self.state.fetch_update(Ordering::Acquire, Ordering::Acquire, share) {
            Ok(_) => Ok(()),
            Err(state) => Err(self.refused(state)),
        }
    }

    pub(super) fn unshare(&self) {
        self.state.fetch_sub(1, Ordering::Release);
    }

    /// Takes the node for oneself, if nobody uses it.
    pub(super) fn claim(&self) -> Result<(), Error> {
        match self.state.compare_exchange(FREE, CLAIMED, Ordering::Acquire, Ordering::Acquire) {
            Ok(_) => Ok(()),
            Err(state) => Err(self.refused(state)),
        }
    }

    pub(super) fn unclaim(&self) {
        self.state.store(FREE, Ordering::Release);
    }

    /// Reads the payload. The caller has a share.
    pub(super) fn read<R>(&self, read: impl FnOnce(&N) -> R) -> R {
        let payload = self.payload.try_read().expect("whoever writes has claimed the node");
        read(payload.as_ref().expect("a node that can be shared has its payload"))
    }

    /// Takes payload and parents for good (L26). The caller has claimed the node.
    pub(super) fn consume(&self) -> (N, Parents<N>) {
        let payload = self.payload.try_write().expect("the caller has claimed the node").take();
        let parents = self.take_parents();
        self.graph.count_consumed(self.bytes);
        self.state.store(CONSUMED, Ordering::Release);
        (payload.expect("a node that can be claimed has its payload"), parents)
    }

    /// The node is gone: what is left of it.
    pub(super) fn into_dead(self) -> (Arc<GraphCell<N>>, Dead<N>) {
        let payload = self.payload.into_inner();
        if let Some(trace) = &self.graph.trace {
            trace.lock().remove(&self.id);
        }
        let bytes = if payload.is_some() { self.bytes } else { 0 };
        (self.graph, Dead { payload, parents: self.parents.into_inner(), bytes })
    }
}

/// Where the nodes of a traced graph are, and were made.
pub(super) type Trace<N> = BTreeMap<u64, (Weak<NodeCell<N>>, Site)>;

pub(crate) struct GraphCell<N: Payload> {
    pub label: Arc<str>,
    made: AtomicU64,
    removed: AtomicU64,
    consumed: AtomicU64,
    /// Of payloads that are there.
    bytes: AtomicU64,
    pub(super) panics: AtomicU64,
    pub(super) pins: AtomicU64,
    /// Nodes that died under a pin, and how many of them there are.
    pub(super) retired: Mutex<Vec<Dead<N>>>,
    pub(super) retired_nodes: AtomicU64,
    pub(super) membership: Membership,
    pub(super) trace: Option<Mutex<Trace<N>>>,
}

impl<N: Payload> GraphCell<N> {
    pub(super) fn new(label: Arc<str>, traced: bool) -> Self {
        GraphCell {
            label,
            made: AtomicU64::new(0),
            removed: AtomicU64::new(0),
            consumed: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            panics: AtomicU64::new(0),
            pins: AtomicU64::new(0),
            retired: Mutex::new(Vec::new()),
            retired_nodes: AtomicU64::new(0),
            membership: Membership::default(),
            trace: traced.then(Mutex::default),
        }
    }

    /// Counts a node in: its number.
    fn count_in(&self, bytes: u64) -> u64 {
        if bytes > 0 {
            self.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
        self.made.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn count_consumed(&self, bytes: u64) {
        self.consumed.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// A consumed node is gone too.
    pub(super) fn count_consumed_out(&self) {
        self.consumed.fetch_sub(1, Ordering::Relaxed);
    }

    /// Counts a node out, with the bytes of the payload that it still had.
    pub(super) fn count_out(&self, bytes: u64) {
        if bytes > 0 {
            self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
        self.removed.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn made(&self) -> u64 {
        self.made.load(Ordering::Relaxed)
    }

    pub(super) fn removed(&self) -> u64 {
        self.removed.load(Ordering::Relaxed)
    }

    pub(super) fn consumed(&self) -> u64 {
        self.consumed.load(Ordering::Relaxed)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Nodes that are held: all but the removed and the retired ones.
    pub(super) fn nodes(&self) -> u64 {
        // In this order: what is made and removed in between is not counted as less than nothing.
        let gone = self.removed() + self.retired_nodes.load(Ordering::Relaxed);
        self.made().saturating_sub(gone)
    }
}

impl<N: Payload> Drop for GraphCell<N> {
    fn drop(&mut self) {
        // Retired nodes whose pin was forgotten: their parents go by the work list like any others.
        for dead in std::mem::take(&mut *self.retired.lock()) {
            for parent in dead.parents {
                let_go(parent);
            }
        }
    }
}
