//! What a graph holds, as figures and names.

use std::fmt;
use std::ops::Add;
use std::sync::{Arc, Weak};

use crate::error::Site;
use crate::graph::cell::GraphCell;
use crate::graph::merge::{Member, Membership};
use crate::graph::{Graph, Payload};
use crate::sync::atomic::Ordering;

/// Nodes that a traced graph's report names, at most.
const MAX_HELD: usize = 64;

/// What a graph holds. Exact when no other thread is at it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GraphReport {
    /// The graph's label.
    pub label: Arc<str>,
    /// Graphs that the figures are of: one, or all that were merged.
    pub graphs: u64,
    /// Nodes that handles or children hold.
    pub nodes: u64,
    /// Bytes of their payloads.
    pub bytes: u64,
    /// Nodes among them whose payload was taken.
    pub consumed: u64,
    /// Nodes that died under a pin and wait for a sweep.
    pub retired: u64,
    /// Bytes of their payloads.
    pub retired_bytes: u64,
    /// Nodes made since the graph was.
    pub made: u64,
    /// Nodes removed since then.
    pub removed: u64,
    /// Payloads whose destructor panicked.
    pub payload_panics: u64,
    /// Nodes that are held, the oldest first, at most 64: in a graph made by [`Graph::traced`].
    pub held: Vec<HeldNode>,
}

/// A node that something holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldNode {
    /// Its number in its graph.
    pub node: u64,
    /// Bytes of its payload.
    pub bytes: u64,
    /// Where it was made.
    pub site: Site,
    /// Handles and children that hold it.
    pub holders: usize,
}

impl fmt::Display for HeldNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let HeldNode { node, bytes, site, holders } = self;
        write!(f, "node {node} ({bytes} bytes, made at {site}) has {holders} holders")
    }
}

impl fmt::Display for GraphReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "graph `{}`: {} nodes, {} bytes", self.label, self.nodes, self.bytes)?;
        if self.retired > 0 {
            write!(f, "; {} retired under a pin, {} bytes", self.retired, self.retired_bytes)?;
        }
        for held in &self.held {
            write!(f, "\n  {held}")?;
        }
        Ok(())
    }
}

/// What a sweep removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SweepReport {
    /// Nodes removed, with the ancestors that went with them.
    pub nodes: u64,
    /// Bytes of their payloads.
    pub bytes: u64,
    /// Nodes that had to stay: the graph is pinned.
    pub pinned: u64,
}

/// The figures of one graph, to add up.
#[derive(Clone, Copy, Default)]
pub(super) struct Counts {
    nodes: u64,
    bytes: u64,
    consumed: u64,
    retired: u64,
    retired_bytes: u64,
    made: u64,
    removed: u64,
    panics: u64,
}

impl Add for Counts {
    type Output = Counts;

    fn add(self, other: Counts) -> Counts {
        Counts {
            nodes: self.nodes + other.nodes,
            bytes: self.bytes + other.bytes,
            consumed: self.consumed + other.consumed,
            retired: self.retired + other.retired,
            retired_bytes: self.retired_bytes + other.retired_bytes,
            made: self.made + other.made,
            removed: self.removed + other.removed,
            panics: self.panics + other.panics,
        }
    }
}

impl<N: Payload> Member for GraphCell<N> {
    fn membership(&self) -> &Membership {
        &self.membership
    }

    fn counts(&self) -> Counts {
        let (retired, retired_bytes) = {
            let retired = self.retired.lock();
            (retired.len() as u64, retired.iter().map(|dead| dead.bytes).sum::<u64>())
        };
        Counts {
            nodes: self.nodes(),
            bytes: self.bytes().saturating_sub(retired_bytes),
            consumed: self.consumed(),
            retired,
            retired_bytes,
            made: self.made(),
            removed: self.removed(),
            panics: self.panics.load(Ordering::Relaxed),
        }
    }
}

impl<N: Payload> Graph<N> {
    /// What the graph holds.
    pub fn report(&self) -> GraphReport {
        self.report_of(1, self.cell.counts())
    }

    /// What the graph and all graphs that it was merged with hold together.
    pub fn merged_report(&self) -> GraphReport {
        let others = self.cell.membership.others(&self.cell);
        let sum = others.iter().fold(self.cell.counts(), |sum, other| sum + other.counts());
        self.report_of(1 + others.len() as u64, sum)
    }

    fn report_of(&self, graphs: u64, counts: Counts) -> GraphReport {
        GraphReport {
            label: self.cell.label.clone(),
            graphs,
            nodes: counts.nodes,
            bytes: counts.bytes,
            consumed: counts.consumed,
            retired: counts.retired,
            retired_bytes: counts.retired_bytes,
            made: counts.made,
            removed: counts.removed,
            payload_panics: counts.panics,
            held: self.held(),
        }
    }

    fn held(&self) -> Vec<HeldNode> {
        let Some(trace) = &self.cell.trace else { return Vec::new() };
        let mut held = Vec::new();
        for (node, (weak, site)) in trace.lock().iter().take(MAX_HELD) {
            let holders = Weak::strong_count(weak);
            if holders > 0 {
                held.push((*node, weak.clone(), *site, holders));
            }
        }
        let known = held.into_iter().filter_map(|(node, weak, site, holders)| {
            // As a handle: it may be the last hold by now, and the trace is not locked any more.
            let handle = crate::graph::Node::new(weak.upgrade()?);
            Some(HeldNode { node, bytes: handle.bytes(), site, holders })
        });
        known.collect()
    }
}
