//! Graphs under a scope: an engine's own graph, or one of tenure's, is swept when the scope finishes.

use std::sync::Arc;

use async_trait::async_trait;

use crate::cleanup::{CleanupContext, CleanupHook, Hook, HookClass, Period, hook};
use crate::error::BoxError;
use crate::event::EventKind;
use crate::graph::{Graph, GraphReport, Payload, SweepReport};

/// A graph whose dead nodes can be swept. An engine with a graph of its own implements it to put that under a scope.
///
/// # Duties
/// `sweep` removes what nothing holds, drops payloads with no lock held that others wait for, and says what it removed.
/// It may be called from any thread, and when there is nothing to do.
pub trait GraphCleanup: Send + Sync + 'static {
    /// The graph's label.
    fn label(&self) -> Arc<str>;

    /// Removes dead nodes.
    fn sweep(&self) -> SweepReport;

    /// What the graph holds.
    fn report(&self) -> GraphReport;
}

impl<N: Payload> GraphCleanup for Graph<N> {
    fn label(&self) -> Arc<str> {
        self.cell.label.clone()
    }

    fn sweep(&self) -> SweepReport {
        Graph::sweep(self)
    }

    fn report(&self) -> GraphReport {
        Graph::report(self)
    }
}

/// A hook that sweeps a graph when its scope finishes, before the scope's tensors are given up (L16). The sweep is an
/// event of the scope (L27).
///
/// ```
/// # use tenure_backend_host::HostBackend;
/// # use tenure_core::graph::{Graph, SweepOnFinish};
/// # use tenure_core::{Manager, ManagerOptions, Tensor};
/// # let manager = Manager::open_with(HostBackend::new(), ManagerOptions::default())?;
/// let scope = manager.scope("epoch")?;
/// let graph: Graph<Tensor<f32>> = Graph::new("training");
/// scope.register(SweepOnFinish::new(graph.clone()))?;
/// let pin = graph.pin();
/// drop(graph.leaf(scope.tensor::<f32>(16)?));
/// drop(pin);
/// assert_eq!(graph.report().retired, 1);
/// scope.finish_blocking()?;
/// assert_eq!(graph.report().retired, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct SweepOnFinish<G> {
    label: String,
    graph: G,
}

impl<G: GraphCleanup> SweepOnFinish<G> {
    /// A hook for `graph`.
    pub fn new(graph: G) -> Self {
        SweepOnFinish { label: format!("sweep {}", graph.label()), graph }
    }
}

#[async_trait]
impl<G: GraphCleanup> CleanupHook for SweepOnFinish<G> {
    fn label(&self) -> &str {
        &self.label
    }

    fn period(&self) -> Period {
        Period::Scope
    }

    fn class(&self) -> HookClass {
        HookClass::Host
    }

    async fn run(&mut self, context: &CleanupContext) -> Result<(), BoxError> {
        let SweepReport { nodes, bytes, .. } = self.graph.sweep();
        let graph = self.graph.label();
        context.scope.engine.emit(Some(&context.scope), None, || EventKind::Sweep { graph, nodes, bytes });
        Ok(())
    }
}

impl<G: GraphCleanup> From<SweepOnFinish<G>> for Hook {
    fn from(sweep: SweepOnFinish<G>) -> Hook {
        hook::custom(sweep)
    }
}
