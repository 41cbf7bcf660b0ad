//! Cases about graphs over device memory: nodes whose payloads hold tensors (L24, L25, L26).
//!
//! Not here: graphs that hold no tensors; those are tests of core.

use std::sync::{Arc, Barrier};

use parking_lot::Mutex;
use tenure_core::graph::{
    BackwardError, Graph, GraphCleanup, GraphReport, Node, Payload, Retain, SweepReport, Visited,
};
use tenure_core::{Error, EventKind, ManagedScope, Manager, SweepOnFinish, Tensor, hook, op};

use crate::bed::{Bed, Rig};
use crate::case::Case;
use crate::cases::ownership::support::{MIB, assert_given_back, case, mebibytes, settled, untrimmed};
use crate::instrument::CallKind;

/// The cases of this topic.
pub const CASES: &[Case] = &[
    case("graphs/a_dead_node_gives_its_memory_back", &["L24", "L2"], a_dead_node_gives_its_memory_back),
    case("graphs/memory_in_flight_outlives_its_node", &["L24", "L4"], memory_in_flight_outlives_its_node),
    case("graphs/a_live_child_keeps_what_it_needs", &["L24"], a_live_child_keeps_what_it_needs),
    case("graphs/a_traversal_gives_back_as_it_goes", &["L24", "L26"], a_traversal_gives_back_as_it_goes),
    case("graphs/a_consumed_node_is_an_error", &["L26"], a_consumed_node_is_an_error),
    case("graphs/a_finish_sweeps_its_graphs", &["L24", "L16", "L27"], a_finish_sweeps_its_graphs),
    case("graphs/an_engines_own_graph_is_swept", &["L24", "L16"], an_engines_own_graph_is_swept),
    case(
        "graphs/a_finish_ends_tensors_that_nodes_hold",
        &["L2", "L24"],
        a_finish_ends_tensors_that_nodes_hold,
    ),
    case("graphs/nodes_outlive_their_manager", &["L6", "L24"], nodes_outlive_their_manager),
    case("graphs/an_owning_cycle_is_reported", &["L24", "L28"], an_owning_cycle_is_reported),
    case("graphs/two_graphs_that_need_each_other", &["L24"], two_graphs_that_need_each_other),
    case("graphs/payloads_go_on_any_thread", &["L25"], payloads_go_on_any_thread),
    case("graphs/a_hot_loop_holds_nothing", &["L24", "L19"], a_hot_loop_holds_nothing),
];

type Saved = Tensor<u8>;

fn saved(manager: &Manager) -> Saved {
    manager.tensor::<u8>(MIB).unwrap()
}

/// Work on a tensor, submitted and not waited for.
fn work(scope: &ManagedScope, tensor: &Saved) {
    scope.evaluate([op::fill(tensor.view(0..64).unwrap(), 1)]).unwrap();
}

/// The last handle of a node takes its tensor with it, and those of the nodes that only it kept.
fn a_dead_node_gives_its_memory_back(bed: &Bed) {
    let manager = bed.open_with(untrimmed()).manager;
    let graph = Graph::new("training");
    let leaf = graph.leaf(saved(&manager));
    let product = graph.node(saved(&manager), [&leaf]);
    let loss = graph.node(saved(&manager), [&product]);
    drop(product);
    assert_eq!((mebibytes(&manager), graph.report().bytes), ([3, 0, 0], 3 * MIB));
    drop(loss);
    assert_eq!((mebibytes(&manager), graph.report().bytes), ([1, 0, 2], MIB));
    drop(leaf);
    assert_eq!(mebibytes(&manager), [0, 0, 3]);
    assert_given_back(&manager);
}

/// A node goes while the device uses its tensor: the node is gone at once, the memory when the device has finished.
fn memory_in_flight_outlives_its_node(bed: &Bed) {
    let Rig { manager, probe } = bed.open_with(untrimmed());
    let scope = manager.scope("s").unwrap();
    let graph = Graph::new("training");
    let node = graph.leaf(saved(&manager));
    probe.hold();
    node.with(|tensor| work(&scope, tensor)).unwrap();
    let frees = probe.calls(CallKind::Free);
    drop(node);
    assert_eq!((graph.len(), mebibytes(&manager)[2]), (0, 0));
    assert_eq!(probe.calls(CallKind::Free), frees);
    probe.release_all();
    manager.wait_idle().unwrap();
    assert_eq!(mebibytes(&manager), [0, 0, 1]);
    scope.finish_blocking().unwrap();
    assert_given_back(&manager);
}

/// A parent with a live child stays with its memory; its other children go (tracel-ai/burn#3957).
fn a_live_child_keeps_what_it_needs(bed: &Bed) {
    let manager = bed.open_with(untrimmed()).manager;
    let graph = Graph::new("training");
    let parent = graph.leaf(saved(&manager));
    let live = graph.node(saved(&manager), [&parent]);
    for _ in 0..50 {
        drop(graph.node(saved(&manager), [&parent]));
    }
    drop(parent);
    assert_eq!((graph.len(), mebibytes(&manager)[0], manager.memory().peak_live_bytes), (2, 2, 3 * MIB));
    drop(live);
    assert_given_back(&manager);
}

/// While a traversal goes on, what it has passed is given back: only what is still to come holds memory.
fn a_traversal_gives_back_as_it_goes(bed: &Bed) {
    const NODES: u64 = 8;
    let manager = bed.open_with(untrimmed()).manager;
    let graph = Graph::new("training");
    let mut last = graph.leaf(saved(&manager));
    for _ in 1..NODES {
        last = graph.node(saved(&manager), [&last]);
    }
    let mut held = Vec::new();
    let report = last.backward(Retain::No, |step| {
        held.push(settled(&manager).live.bytes / MIB);
        match step.payload {
            Visited::Taken(tensor) => tensor.destroy(),
            Visited::Kept(_) => Ok(()),
        }
    });
    let report = report.unwrap();
    assert_eq!(held, (1..=NODES).rev().collect::<Vec<_>>());
    assert_eq!((report.taken, report.taken_bytes), (NODES - 1, (NODES - 1) * MIB));
    drop(last);
    assert_eq!((graph.len(), mebibytes(&manager)), (0, [0, 0, NODES]));
    assert_given_back(&manager);
}

/// A second traversal over what was taken is an error that names the node, and changes nothing.
fn a_consumed_node_is_an_error(bed: &Bed) {
    let manager = bed.open_with(untrimmed()).manager;
    let graph = Graph::new("training");
    let shared = graph.node(saved(&manager), [&graph.leaf(saved(&manager))]);
    let [first, second] = [(); 2].map(|()| graph.node(saved(&manager), [&shared]));
    first.backward(Retain::No, |_| Ok::<(), Error>(())).unwrap();
    let before = mebibytes(&manager);
    let again = second.backward(Retain::No, |_| Ok::<(), Error>(()));
    let Err(BackwardError::Graph(Error::NodeConsumed { graph: label, node })) = again else {
        panic!("{again:?}")
    };
    assert_eq!((&*label, node), ("training", shared.id()));
    assert_eq!((mebibytes(&manager), second.is_consumed()), (before, false));
    drop((first, second, shared));
    assert_given_back(&manager);
}

/// Nodes that retired under a pin go when the scope finishes, before it trims; the sweep is an event of the scope.
fn a_finish_sweeps_its_graphs(bed: &Bed) {
    let manager = bed.open().manager;
    let log = manager.record_events();
    let graphs = ["first", "second"].map(Graph::new);
    let scope = manager.scope("epoch").unwrap();
    for graph in &graphs {
        scope.register(SweepOnFinish::new(graph.clone())).unwrap();
        let pin = graph.pin();
        drop(graph.node(saved(&manager), [&graph.leaf(saved(&manager))]));
        drop(pin);
        assert_eq!((graph.report().retired, graph.report().retired_bytes), (1, MIB));
    }
    assert_eq!(settled(&manager).live.bytes, 4 * MIB);
    let report = scope.finish_blocking().unwrap();
    assert_eq!((graphs[0].len(), graphs[1].len(), graphs[0].report().retired), (0, 0, 0));
    assert_eq!((report.hooks.len(), report.trimmed_bytes), (2, 4 * MIB));
    let sweeps: Vec<_> = log
        .take()
        .into_iter()
        .filter(|event| matches!(event.kind, EventKind::Sweep { .. }))
        .map(|event| event.to_string())
        .collect();
    let expected =
        ["second", "first"].map(|label| format!("[epoch] sweep `{label}` 2 nodes {} bytes", 2 * MIB));
    assert_eq!(sweeps, expected);
    assert_given_back(&manager);
}

/// An engine's own graph: a list of tensors that it lets go of when it is told.
#[derive(Clone, Default)]
struct Foreign(Arc<Mutex<Vec<Saved>>>);

impl GraphCleanup for Foreign {
    fn label(&self) -> Arc<str> {
        "foreign".into()
    }

    fn sweep(&self) -> SweepReport {
        let dead = std::mem::take(&mut *self.0.lock());
        let bytes = dead.iter().map(Payload::bytes).sum();
        SweepReport { nodes: dead.len() as u64, bytes, pinned: 0 }
    }

    fn report(&self) -> GraphReport {
        GraphReport { nodes: self.0.lock().len() as u64, ..GraphReport::default() }
    }
}

/// A graph that is not tenure's is swept by the same hook, on every way out.
fn an_engines_own_graph_is_swept(bed: &Bed) {
    let manager = bed.open().manager;
    for (way, outcome) in [("finished", Some(true)), ("failed", Some(false)), ("panicked", None)] {
        let foreign = Foreign::default();
        let body = |scope: &ManagedScope| -> Result<(), Error> {
            scope.register(SweepOnFinish::new(foreign.clone()))?;
            foreign.0.lock().push(saved(&manager));
            match way {
                "finished" => Ok(()),
                "failed" => Err(Error::UnknownName { name: "way".into(), scope: "out".into() }),
                _ => panic!("the body's own panic"),
            }
        };
        let ran =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| manager.run("epoch", body).is_ok()));
        assert_eq!((ran.ok(), foreign.report().nodes), (outcome, 0));
    }
    assert_given_back(&manager);
}

/// Tensors local to a scope end with it, though nodes hold them: the nodes are there, and say so when they are used.
fn a_finish_ends_tensors_that_nodes_hold(bed: &Bed) {
    let manager = bed.open_with(untrimmed()).manager;
    let scope = manager.scope("s").unwrap();
    let graph = Graph::new("training");
    let node = graph.leaf(scope.tensor::<u8>(MIB).unwrap());
    scope.finish_blocking().unwrap();
    assert_eq!((graph.len(), mebibytes(&manager)), (1, [0, 0, 1]));
    let read = node.with(|tensor| tensor.read().map(drop)).unwrap();
    assert!(matches!(read, Err(Error::Stale { .. })), "{read:?}");
    drop(node);
    assert_given_back(&manager);
}

/// The manager goes first: its tensors are stale, the graph is whole, and dropping it afterwards is nothing.
fn nodes_outlive_their_manager(bed: &Bed) {
    let graph = Graph::new("training");
    let node = {
        let manager = bed.open().manager;
        let node = graph.node(saved(&manager), [&graph.leaf(saved(&manager))]);
        assert!(manager.close().is_ok());
        node
    };
    assert_eq!(graph.len(), 2);
    node.with(|tensor| assert!(!tensor.is_live())).unwrap();
    drop(node);
    assert!(graph.is_empty());
}

/// A payload that may own a node.
struct Cyclic {
    saved: Saved,
    own: Mutex<Option<Node<Cyclic>>>,
}

impl Payload for Cyclic {
    fn bytes(&self) -> u64 {
        self.saved.bytes()
    }
}

/// A node's saved state holds its own output (jax-ml/jax#725): nothing can free that. The graph's report names it, the
/// close report its tensor, and closing gives the memory back all the same.
fn an_owning_cycle_is_reported(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let graph = Graph::traced("training");
    let node = graph.leaf(Cyclic { saved: saved(&manager), own: Default::default() });
    let again = node.clone();
    node.with(|payload| *payload.own.lock() = Some(again)).unwrap();
    let weak = node.downgrade();
    drop(node);
    assert_eq!(graph.sweep(), SweepReport::default());
    let report = graph.report();
    let [held] = &report.held[..] else { panic!("{report}") };
    assert_eq!((held.bytes, held.holders), (MIB, 1));
    let closed = manager.close().unwrap();
    assert_eq!(closed.leaks.len(), 1, "{closed}");
    assert_eq!(probe.calls(CallKind::Allocate), probe.calls(CallKind::Free));
    // Who knows of it can cut it.
    let node = weak.upgrade().unwrap();
    drop(node.consume().unwrap());
    drop(node);
    assert!(graph.is_empty() && weak.upgrade().is_none());
}

/// Nodes of two graphs are each other's parents: both go when the last handle does, in their order.
fn two_graphs_that_need_each_other(bed: &Bed) {
    let manager = bed.open_with(untrimmed()).manager;
    let [a, b] = ["a", "b"].map(Graph::new);
    let first = a.leaf(saved(&manager));
    let second = b.node(saved(&manager), [&first]);
    let third = a.node(saved(&manager), [&second]);
    let merged = b.merged_report();
    assert_eq!((merged.graphs, merged.nodes, merged.bytes), (2, 3, 3 * MIB));
    drop((first, second));
    assert_eq!(mebibytes(&manager), [3, 0, 0]);
    drop(third);
    assert_eq!((a.len(), b.len(), mebibytes(&manager)), (0, 0, [0, 0, 3]));
    assert_given_back(&manager);
}

/// Eight threads make and drop nodes of one graph that share a parent, with work in flight: each tensor goes once.
fn payloads_go_on_any_thread(bed: &Bed) {
    const THREADS: usize = 8;
    let manager = bed.open_with(untrimmed()).manager;
    let graph = Graph::new("shared");
    let parameter = graph.leaf(manager.tensor_from("parameter", &[1_u8; 64]).unwrap());
    let start = Barrier::new(THREADS);
    std::thread::scope(|threads| {
        for _ in 0..THREADS {
            let (manager, graph, parameter, start) = (&manager, &graph, &parameter, &start);
            threads.spawn(move || {
                let scope = manager.scope("own").unwrap();
                start.wait();
                for _ in 0..20 {
                    let product = graph.node(scope.tensor::<u8>(4096).unwrap(), [parameter]);
                    let loss = graph.node(scope.tensor::<u8>(4096).unwrap(), [&product, parameter]);
                    product.with(|tensor| scope.evaluate([op::fill(tensor, 2)]).map(drop)).unwrap().unwrap();
                    drop(product);
                    loss.backward(Retain::No, |_| Ok::<(), Error>(())).unwrap();
                }
                scope.finish_blocking().unwrap();
            });
        }
    });
    let memory = settled(&manager);
    assert_eq!((graph.len(), memory.tensors, parameter.holders()), (1, 1, 1));
    drop(parameter);
    assert_given_back(&manager);
}

/// Tracked values that never join a traversal, for ever (tracel-ai/burn#3976): the graph and the pool hold what one round
/// needs, and the driver is asked for no more.
fn a_hot_loop_holds_nothing(bed: &Bed) {
    let Rig { manager, probe } = bed.open_with(untrimmed());
    let graph = Graph::new("training");
    let scope = manager.scope("s").unwrap();
    scope.register(hook::once("last", |_| Ok(()))).unwrap();
    let round = || {
        let leaf = graph.leaf(scope.tensor::<u8>(4096).unwrap());
        drop(graph.node(scope.tensor::<u8>(4096).unwrap(), [&leaf]));
    };
    round();
    let asked = probe.calls(CallKind::Allocate);
    for _ in 0..2_000 {
        round();
    }
    let report = graph.report();
    assert_eq!((report.nodes, report.bytes, report.made, report.removed), (0, 0, 4_002, 4_002));
    assert_eq!((probe.calls(CallKind::Allocate), settled(&manager).tensors), (asked, 0));
    scope.finish_blocking().unwrap();
    assert_given_back(&manager);
}
