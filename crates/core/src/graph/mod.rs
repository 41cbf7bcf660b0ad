//! Graphs of nodes that hold device resources: dead nodes go at once, at any scale, from any thread (L24 to L26).
//!
//! A node is held by its handles ([`Node`]) and by its children. When the last of both goes it is removed, and with it
//! every ancestor that only it kept alive: leaves first, in a loop, without a look at what is live. There is no lock
//! and no list of nodes: holds are counts, so that threads meet only where they share nodes.
//!
//! ```
//! use tenure_core::graph::{Graph, Payload};
//!
//! struct Saved(Vec<f32>);
//!
//! impl Payload for Saved {
//!     fn bytes(&self) -> u64 {
//!         size_of_val(&self.0[..]) as u64
//!     }
//! }
//!
//! let graph = Graph::new("training");
//! let weights = graph.leaf(Saved(vec![1.0; 4]));
//! let product = graph.node(Saved(vec![2.0; 8]), [&weights]);
//! let loss = graph.node(Saved(Vec::new()), [&product]);
//! drop(product);
//! assert_eq!((graph.report().nodes, graph.report().bytes), (3, 48));
//! drop(loss);
//! assert_eq!((graph.report().nodes, graph.report().bytes), (1, 16));
//! # drop(weights);
//! ```
//!
//! Not here: what a node's payload does. An engine puts its own operations there, see `examples/autodiff`.

mod backward;
mod cell;
mod cleanup;
mod merge;
mod node;
mod pin;
mod release;
mod report;

use std::fmt;
use std::panic::Location;
use std::sync::{Arc, Weak};

pub use backward::{BackwardError, BackwardReport, Retain, Step, Visited, backward};
pub use cleanup::{GraphCleanup, SweepOnFinish};
pub use node::{Node, NodeBuilder, WeakNode};
pub use pin::GraphPin;
pub use report::{GraphReport, HeldNode, SweepReport};

use crate::graph::cell::{GraphCell, NodeCell, Parents};
use crate::tensor::{AnyTensor, Element, Tensor};

/// What a node holds: saved tensors, a backward step, anything.
///
/// It is dropped on the thread that removes its node, with no lock of tenure's held (L25). A payload that refers to its
/// own graph does so by [`WeakGraph`] or [`WeakNode`]: nodes whose payloads own each other in a cycle are never freed,
/// and stay in [`Graph::report`].
pub trait Payload: Send + Sync + 'static {
    /// Bytes of device memory that it keeps, for reports. Asked once, when the node is made.
    fn bytes(&self) -> u64 {
        0
    }
}

impl Payload for () {}

impl<T: Element> Payload for Tensor<T> {
    fn bytes(&self) -> u64 {
        Tensor::bytes(self)
    }
}

impl Payload for AnyTensor {
    fn bytes(&self) -> u64 {
        AnyTensor::bytes(self)
    }
}

impl<P: Payload> Payload for Vec<P> {
    fn bytes(&self) -> u64 {
        self.iter().map(Payload::bytes).sum()
    }
}

impl<P: Payload> Payload for Option<P> {
    fn bytes(&self) -> u64 {
        self.as_ref().map_or(0, Payload::bytes)
    }
}

impl<P: Payload + ?Sized> Payload for Box<P> {
    fn bytes(&self) -> u64 {
        (**self).bytes()
    }
}

/// A graph of nodes with payloads `N`. Cheap to clone; it owns no node: handles and children do.
///
/// Threads may use one graph or many at the same time. A node with parents in another graph merges the two: they are
/// reported together by [`Graph::merged_report`], and each still goes its own way.
pub struct Graph<N: Payload> {
    pub(crate) cell: Arc<GraphCell<N>>,
}

impl<N: Payload> Graph<N> {
    /// An empty graph.
    pub fn new(label: impl Into<Arc<str>>) -> Self {
        Graph { cell: Arc::new(GraphCell::new(label.into(), false)) }
    }

    /// An empty graph that knows its nodes: [`GraphReport::held`] then names those that are left, with the place where
    /// each was made. It costs a lock and an entry a node: for finding what keeps memory alive.
    pub fn traced(label: impl Into<Arc<str>>) -> Self {
        Graph { cell: Arc::new(GraphCell::new(label.into(), true)) }
    }

    /// The label.
    pub fn label(&self) -> &str {
        &self.cell.label
    }

    /// A node without parents: an input or a parameter.
    #[track_caller]
    pub fn leaf(&self, payload: N) -> Node<N> {
        self.make(payload, Parents::new(), Location::caller())
    }

    /// A node that keeps its parents alive, of this graph or of others.
    #[track_caller]
    pub fn node<'a>(&self, payload: N, parents: impl IntoIterator<Item = &'a Node<N>>) -> Node<N> {
        let parents = parents.into_iter().map(|parent| parent.cell().clone()).collect();
        self.make(payload, parents, Location::caller())
    }

    /// A node under construction, which keeps its inputs alive from the moment they are named (L25).
    pub fn builder(&self) -> NodeBuilder<N> {
        NodeBuilder::new(self.clone())
    }

    fn make(&self, payload: N, parents: Parents<N>, site: crate::error::Site) -> Node<N> {
        for parent in &parents {
            if !Arc::ptr_eq(&parent.graph, &self.cell) {
                merge::merge(&self.cell, &parent.graph);
            }
        }
        let node = Node::new(Arc::new(NodeCell::new(self.cell.clone(), payload, parents)));
        if let Some(trace) = &self.cell.trace {
            trace.lock().insert(node.cell().id, (Arc::downgrade(node.cell()), site));
        }
        node
    }

    /// Number of nodes that are held.
    pub fn len(&self) -> u64 {
        self.cell.nodes()
    }

    /// True if no node is held.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A reference for payloads of this graph: it keeps nothing alive.
    pub fn downgrade(&self) -> WeakGraph<N> {
        WeakGraph { cell: Arc::downgrade(&self.cell) }
    }
}

impl<N: Payload> Clone for Graph<N> {
    fn clone(&self) -> Self {
        Graph { cell: self.cell.clone() }
    }
}

impl<N: Payload> fmt::Debug for Graph<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Graph").field("label", &self.cell.label).field("nodes", &self.len()).finish()
    }
}

/// A reference to a graph that keeps nothing alive.
pub struct WeakGraph<N: Payload> {
    cell: Weak<GraphCell<N>>,
}

impl<N: Payload> WeakGraph<N> {
    /// The graph, while a handle of it or one of its nodes is there.
    pub fn upgrade(&self) -> Option<Graph<N>> {
        self.cell.upgrade().map(|cell| Graph { cell })
    }
}

impl<N: Payload> Clone for WeakGraph<N> {
    fn clone(&self) -> Self {
        WeakGraph { cell: self.cell.clone() }
    }
}

impl<N: Payload> fmt::Debug for WeakGraph<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WeakGraph").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
