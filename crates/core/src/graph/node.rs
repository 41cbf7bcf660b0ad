//! Handles of nodes, and nodes under construction.
//!
//! Not here: taking many nodes in order (`backward.rs`).

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Weak};

use crate::error::Error;
use crate::graph::cell::{NodeCell, Parents};
use crate::graph::release::let_go;
use crate::graph::{Graph, Payload};

/// Handle of a node: one hold on it. Cheap to clone; the last hold, of handles and children, removes the node at once,
/// and the payload is dropped on the thread that lets go (L24).
pub struct Node<N: Payload> {
    /// There until it is dropped.
    cell: Option<Arc<NodeCell<N>>>,
}

impl<N: Payload> Node<N> {
    pub(super) fn new(cell: Arc<NodeCell<N>>) -> Self {
        Node { cell: Some(cell) }
    }

    pub(super) fn cell(&self) -> &Arc<NodeCell<N>> {
        self.cell.as_ref().expect("a handle has its node until it is dropped")
    }

    /// Number of the node in its graph, from 1, in the order of making. Never used twice.
    pub fn id(&self) -> u64 {
        self.cell().id
    }

    /// The graph that it was made in.
    pub fn graph(&self) -> Graph<N> {
        Graph { cell: self.cell().graph.clone() }
    }

    /// Bytes of its payload, as they were when it was made.
    pub fn bytes(&self) -> u64 {
        self.cell().bytes
    }

    /// True if it has no parents: made as a leaf, detached, or consumed.
    pub fn is_leaf(&self) -> bool {
        self.cell().parent_count() == 0
    }

    /// True once its payload was taken (L26).
    pub fn is_consumed(&self) -> bool {
        self.cell().is_consumed()
    }

    /// True if both are handles of one node.
    pub fn is(&self, other: &Node<N>) -> bool {
        Arc::ptr_eq(self.cell(), other.cell())
    }

    /// How many handles and children hold it just now.
    pub fn holders(&self) -> usize {
        Arc::strong_count(self.cell())
    }

    /// Looks at the payload. Others may look at the same time; nobody can take it meanwhile.
    ///
    /// # Errors
    /// [`Error::NodeConsumed`] if the payload was taken, [`Error::NodeBusy`] while somebody is taking it.
    pub fn with<R>(&self, read: impl FnOnce(&N) -> R) -> Result<R, Error> {
        let shared = Shared::new(self)?;
        Ok(shared.0.cell().read(read))
    }

    /// Takes the payload out, once, and lets go of the parents: the node is consumed.
    ///
    /// # Errors
    /// [`Error::NodeConsumed`] if it was taken before (L26), [`Error::NodeBusy`] while somebody looks at it.
    pub fn consume(&self) -> Result<N, Error> {
        self.cell().claim()?;
        let (payload, parents) = self.cell().consume();
        release(parents);
        Ok(payload)
    }

    /// Lets go of the parents and keeps the payload: the node becomes a leaf. What only it kept alive goes at once.
    /// Returns the number of parents that it had.
    ///
    /// # Errors
    /// As [`Node::consume`].
    pub fn detach(&self) -> Result<usize, Error> {
        self.cell().claim()?;
        let parents = self.cell().take_parents();
        self.cell().unclaim();
        let count = parents.len();
        release(parents);
        Ok(count)
    }

    /// Handles of the parents, in the order in which they were named.
    pub fn parents(&self) -> Vec<Node<N>> {
        self.cell().parents().into_iter().map(Node::new).collect()
    }

    /// The node and everything that it keeps alive, each once, in reverse topological order: children before their
    /// parents. Crosses into other graphs.
    pub fn ancestors(&self) -> Vec<Node<N>> {
        walk([self.clone()]).into_iter().map(|reached| reached.node).collect()
    }

    /// True if `other` is this node or keeps it alive, directly or through others.
    pub fn is_ancestor_of(&self, other: &Node<N>) -> bool {
        other.ancestors().iter().any(|node| node.is(self))
    }

    /// A reference that keeps nothing alive.
    pub fn downgrade(&self) -> WeakNode<N> {
        WeakNode { cell: Arc::downgrade(self.cell()) }
    }
}

/// A node that a walk has come to.
pub(super) struct Reached<N: Payload> {
    pub node: Node<N>,
    /// How many parents it had when the walk went on from it.
    pub parents: usize,
}

/// Everything that `roots` reach, each once, children before parents.
pub(super) fn walk<N: Payload>(roots: impl IntoIterator<Item = Node<N>>) -> Vec<Reached<N>> {
    let mut seen = HashSet::new();
    let mut found = Vec::new();
    let mut next: Vec<Node<N>> = roots.into_iter().collect();
    while let Some(node) = next.pop() {
        if seen.insert(Arc::as_ptr(node.cell()).addr()) {
            // The first parent is found first: the order is that of the operations.
            let parents = node.parents();
            found.push(Reached { parents: parents.len(), node });
            next.extend(parents.into_iter().rev());
        }
    }
    found.sort_by_key(|reached| std::cmp::Reverse(reached.node.cell().level));
    found
}

/// Lets go of holds that a node had on its parents.
pub(super) fn release<N: Payload>(parents: Parents<N>) {
    for parent in parents {
        let_go(parent);
    }
}

/// A share of a node's payload.
pub(super) struct Shared<'a, N: Payload>(&'a Node<N>);

impl<'a, N: Payload> Shared<'a, N> {
    fn new(node: &'a Node<N>) -> Result<Self, Error> {
        node.cell().share()?;
        Ok(Shared(node))
    }
}

impl<N: Payload> Drop for Shared<'_, N> {
    fn drop(&mut self) {
        self.0.cell().unshare();
    }
}

impl<N: Payload> Clone for Node<N> {
    fn clone(&self) -> Self {
        Node::new(self.cell().clone())
    }
}

impl<N: Payload> Drop for Node<N> {
    fn drop(&mut self) {
        if let Some(cell) = self.cell.take() {
            let_go(cell);
        }
    }
}

impl<N: Payload> fmt::Debug for Node<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node")
            .field("graph", &self.cell().graph.label)
            .field("id", &self.id())
            .field("bytes", &self.bytes())
            .finish_non_exhaustive()
    }
}

/// A reference to a node that keeps nothing alive.
pub struct WeakNode<N: Payload> {
    cell: Weak<NodeCell<N>>,
}

impl<N: Payload> WeakNode<N> {
    /// A handle, if the node is still held.
    pub fn upgrade(&self) -> Option<Node<N>> {
        self.cell.upgrade().map(Node::new)
    }
}

impl<N: Payload> Clone for WeakNode<N> {
    fn clone(&self) -> Self {
        WeakNode { cell: self.cell.clone() }
    }
}

impl<N: Payload> fmt::Debug for WeakNode<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WeakNode").finish_non_exhaustive()
    }
}

/// A node under construction: its inputs are held from the moment they are named, so that none goes between being read
/// and having its child (L25). Dropped without [`NodeBuilder::build`] it lets go of them.
#[must_use = "a builder makes nothing until it is built"]
pub struct NodeBuilder<N: Payload> {
    graph: Graph<N>,
    parents: Vec<Node<N>>,
}

impl<N: Payload> NodeBuilder<N> {
    pub(super) fn new(graph: Graph<N>) -> Self {
        NodeBuilder { graph, parents: Vec::new() }
    }

    /// Names an input.
    pub fn parent(mut self, parent: &Node<N>) -> Self {
        self.parents.push(parent.clone());
        self
    }

    /// The inputs so far.
    pub fn parents(&self) -> &[Node<N>] {
        &self.parents
    }

    /// Makes the node.
    #[track_caller]
    pub fn build(self, payload: N) -> Node<N> {
        self.graph.node(payload, &self.parents)
    }
}

impl<N: Payload> fmt::Debug for NodeBuilder<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeBuilder").field("graph", &self.graph).field("parents", &self.parents).finish()
    }
}
