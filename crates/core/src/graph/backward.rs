//! Taking nodes in reverse topological order, each once (L26).
//!
//! Not here: looking at a graph without taking anything ([`Node::ancestors`]).

use std::collections::VecDeque;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::error::Error;
use crate::graph::node::{Reached, walk};
use crate::graph::{Node, Payload};

/// Whether a traversal leaves the payloads where they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Retain {
    /// Payloads are taken, except those of leaves.
    #[default]
    No,
    /// Payloads stay: the graph can be traversed again.
    Yes,
}

/// One node of a traversal.
#[derive(Debug)]
pub struct Step<'a, N: Payload> {
    /// The node.
    pub node: &'a Node<N>,
    /// The parents that it had, in the order in which they were named.
    pub parents: &'a [Node<N>],
    /// Its payload.
    pub payload: Visited<'a, N>,
}

/// The payload of a visited node.
#[derive(Debug)]
pub enum Visited<'a, N> {
    /// Taken: the node is consumed.
    Taken(N),
    /// Of a leaf, or of a retained graph.
    Kept(&'a N),
}

impl<N> Deref for Visited<'_, N> {
    type Target = N;

    fn deref(&self) -> &N {
        match self {
            Visited::Taken(payload) => payload,
            Visited::Kept(payload) => payload,
        }
    }
}

/// What a traversal did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackwardReport {
    /// Nodes visited.
    pub visited: u64,
    /// Nodes among them whose payload was taken.
    pub taken: u64,
    /// Bytes of those payloads.
    pub taken_bytes: u64,
}

/// Why a traversal ended early.
#[derive(Debug)]
pub enum BackwardError<E> {
    /// A node had been consumed, or is in use. Nothing was visited and nothing taken.
    Graph(Error),
    /// The visitor's error. What was visited before stays taken; the rest is as it was.
    Visit {
        /// The error.
        error: E,
        /// What was done before.
        report: BackwardReport,
    },
}

impl<E: fmt::Display> fmt::Display for BackwardError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BackwardError::Graph(error) => error.fmt(f),
            BackwardError::Visit { error, report } => {
                write!(f, "{error} (after {} nodes of the traversal)", report.visited)
            }
        }
    }
}

impl<E: std::error::Error + 'static> std::error::Error for BackwardError<E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            BackwardError::Graph(error) => error.source(),
            BackwardError::Visit { error, .. } => error.source(),
        }
    }
}

impl<N: Payload> Node<N> {
    /// Visits this node and what it keeps alive, children before parents, as [`backward`] does.
    ///
    /// # Errors
    /// As [`backward`].
    pub fn backward<E>(
        &self,
        retain: Retain,
        visit: impl FnMut(Step<'_, N>) -> Result<(), E>,
    ) -> Result<BackwardReport, BackwardError<E>> {
        backward([self], retain, visit)
    }
}

/// Visits everything that `roots` reach, each node once, children before parents, across graphs. Payloads are handed to
/// the visitor and gone, and their nodes consumed; leaves keep theirs, so that parameters can be shared. Each node lets
/// go of its parents when it was visited: memory goes as the traversal comes along.
///
/// All nodes are claimed before the first is visited. A node that was consumed before makes that fail, with nothing
/// changed (L26); of two traversals at the same time that meet in a node, one succeeds. The visitor is called with no
/// lock held and may do anything, also make nodes and traverse other graphs.
///
/// # Errors
/// [`BackwardError::Graph`] with [`Error::NodeConsumed`], or with [`Error::NodeBusy`] if another thread is taking a node
/// or looking at one that is to be taken; [`BackwardError::Visit`] with the visitor's error.
pub fn backward<'a, N: Payload, E>(
    roots: impl IntoIterator<Item = &'a Node<N>>,
    retain: Retain,
    mut visit: impl FnMut(Step<'_, N>) -> Result<(), E>,
) -> Result<BackwardReport, BackwardError<E>> {
    let roots: Vec<Node<N>> = roots.into_iter().cloned().collect();
    let mut claims = claim_all(&roots, retain).map_err(BackwardError::Graph)?;
    let mut report = BackwardReport::default();
    while let Some(claim) = claims.0.pop_front() {
        let bytes = claim.node.bytes();
        let take = claim.takes;
        let answer = claim.visit(&mut visit);
        report.visited += 1;
        if take {
            report.taken += 1;
            report.taken_bytes += bytes;
        }
        if let Err(error) = answer {
            return Err(BackwardError::Visit { error, report });
        }
    }
    Ok(report)
}

/// Nodes that a traversal has to itself, in the order of visiting. What is left when it ends early is given back.
struct Claims<N: Payload>(VecDeque<Claim<N>>);

/// One claimed node; given back when dropped.
struct Claim<N: Payload> {
    node: Node<N>,
    takes: bool,
    parents: usize,
    held: bool,
}

impl<N: Payload> Claim<N> {
    fn visit<E>(mut self, visit: &mut impl FnMut(Step<'_, N>) -> Result<(), E>) -> Result<(), E> {
        let node = &self.node;
        if self.takes {
            let (payload, parents) = node.cell().consume();
            self.held = false;
            let parents: Vec<Node<N>> = parents.into_iter().map(Node::new).collect();
            return visit(Step { node, parents: &parents, payload: Visited::Taken(payload) });
        }
        let parents = node.parents();
        node.cell().read(|payload| visit(Step { node, parents: &parents, payload: Visited::Kept(payload) }))
    }
}

impl<N: Payload> Drop for Claim<N> {
    fn drop(&mut self) {
        match (self.held, self.takes) {
            (false, _) => {}
            (true, true) => self.node.cell().unclaim(),
            (true, false) => self.node.cell().unshare(),
        }
    }
}

/// Claims all nodes that are reached, or none.
fn claim_all<N: Payload>(roots: &[Node<N>], retain: Retain) -> Result<Claims<N>, Error> {
    loop {
        let mut claims: VecDeque<Claim<N>> = walk(roots.iter().cloned())
            .into_iter()
            .map(|Reached { node, parents }| Claim {
                takes: retain == Retain::No && parents > 0,
                parents,
                node,
                held: false,
            })
            .collect();
        // In one order for all threads: of those that meet, the one that has the last common node gets them all.
        let mut order: Vec<usize> = (0..claims.len()).collect();
        order.sort_by_key(|at| Arc::as_ptr(claims[*at].node.cell()).addr());
        for at in order {
            let claim = &mut claims[at];
            let cell = claim.node.cell();
            if claim.takes {
                cell.claim()?
            } else {
                cell.share()?
            }
            claim.held = true;
        }
        // What was detached since the walk is not part of it any more.
        if claims.iter().all(|claim| claim.node.cell().parent_count() == claim.parents) {
            return Ok(Claims(claims));
        }
    }
}
