//! A payload that says when it goes.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::graph::{Graph, Node, Payload};

/// Names of dropped payloads, in order.
#[derive(Clone, Default)]
pub(super) struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    pub(super) fn note(&self, name: impl Into<String>) {
        self.0.lock().push(name.into());
    }

    /// What was noted since the last look.
    pub(super) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock())
    }

    pub(super) fn payload(&self, name: &str, bytes: u64) -> Saved {
        Saved { name: name.to_owned(), bytes, log: self.clone(), keeps: Vec::new() }
    }
}

/// A saved state of so many bytes.
pub(super) struct Saved {
    pub name: String,
    pub bytes: u64,
    pub log: Log,
    /// Nodes that it owns.
    pub keeps: Vec<Node<Saved>>,
}

impl Payload for Saved {
    fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Saved {
    fn drop(&mut self) {
        self.log.note(std::mem::take(&mut self.name));
    }
}

/// Asserts nodes and bytes of a graph.
#[track_caller]
pub(super) fn assert_holds<N: Payload>(graph: &Graph<N>, nodes: u64, bytes: u64) {
    let report = graph.report();
    assert_eq!((report.nodes, report.bytes), (nodes, bytes), "{report}");
    assert_eq!(report.made - report.removed, report.nodes + report.retired, "{report}");
}

/// The names of nodes, in order.
pub(super) fn names(nodes: &[Node<Saved>]) -> Vec<String> {
    nodes.iter().map(|node| node.with(|saved| saved.name.clone()).unwrap()).collect()
}
