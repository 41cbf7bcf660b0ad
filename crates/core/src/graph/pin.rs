//! Pins: while one is held, dead nodes of a graph are retired and not removed.

use std::fmt;
use std::sync::Arc;

use crate::graph::cell::GraphCell;
use crate::graph::report::SweepReport;
use crate::graph::{Graph, Payload, release};
use crate::sync::atomic::Ordering;

/// Keeps the payloads of dead nodes from being dropped while it is held: for a section that must not run destructors.
///
/// What has retired meanwhile goes by [`Graph::sweep`], or with the next node of the graph that goes by itself.
pub struct GraphPin<N: Payload> {
    graph: Arc<GraphCell<N>>,
}

impl<N: Payload> Graph<N> {
    /// Pins the graph, on all threads, until the pin is dropped.
    pub fn pin(&self) -> GraphPin<N> {
        self.cell.pins.fetch_add(1, Ordering::SeqCst);
        GraphPin { graph: self.cell.clone() }
    }

    /// Removes the nodes that have retired under a pin, and what only they kept alive. Other threads are not held up,
    /// and nodes that anything holds are not looked at. Under a pin it removes nothing and says how many wait.
    pub fn sweep(&self) -> SweepReport {
        release::sweep(&self.cell)
    }
}

impl<N: Payload> Drop for GraphPin<N> {
    fn drop(&mut self) {
        self.graph.pins.fetch_sub(1, Ordering::SeqCst);
    }
}

impl<N: Payload> fmt::Debug for GraphPin<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GraphPin").field("graph", &self.graph.label).finish()
    }
}
