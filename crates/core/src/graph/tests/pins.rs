//! Pins and sweeps (L24, L25).

use super::support::{Log, assert_holds};
use crate::graph::{Graph, SweepReport};

#[test]
fn under_a_pin_nodes_retire_and_a_sweep_removes_them() {
    let (graph, log) = (Graph::new("g"), Log::default());
    let a = graph.leaf(log.payload("a", 1));
    let b = graph.node(log.payload("b", 10), [&a]);
    let live = graph.leaf(log.payload("live", 100));
    drop(a);
    let pin = graph.pin();
    drop(b);
    assert_eq!(log.take(), [""; 0], "no destructor runs under a pin");
    let report = graph.report();
    assert_eq!((report.nodes, report.bytes, report.retired, report.retired_bytes), (2, 101, 1, 10));
    assert_eq!(graph.sweep(), SweepReport { nodes: 0, bytes: 0, pinned: 1 });
    drop(pin);
    assert_eq!(log.take(), [""; 0], "nor when it is dropped");
    assert_eq!(graph.sweep(), SweepReport { nodes: 2, bytes: 11, pinned: 0 });
    assert_eq!(log.take(), ["b", "a"]);
    assert_eq!(graph.sweep(), SweepReport::default());
    assert_holds(&graph, 1, 100);
    drop(live);
}

#[test]
fn what_a_pin_left_goes_with_the_next_node() {
    let (graph, log) = (Graph::new("g"), Log::default());
    let pin = graph.pin();
    let again = graph.pin();
    drop(graph.leaf(log.payload("under", 1)));
    drop(pin);
    drop(graph.leaf(log.payload("under too", 1)));
    drop(again);
    assert_eq!(graph.report().retired, 2);
    drop(graph.leaf(log.payload("after", 1)));
    assert_eq!(log.take().len(), 3);
    assert_holds(&graph, 0, 0);
}

#[test]
fn graphs_are_pinned_by_themselves() {
    let log = Log::default();
    let [pinned, free] = ["pinned", "free"].map(Graph::new);
    let parent = pinned.leaf(log.payload("parent", 1));
    let child = free.node(log.payload("child", 1), [&parent]);
    drop(parent);
    let pin = pinned.pin();
    drop(child);
    assert_eq!(log.take(), ["child"], "of the graph that is not pinned");
    assert_eq!(free.sweep(), SweepReport::default());
    drop(pin);
    assert_eq!(pinned.sweep().nodes, 1);
    assert_eq!(log.take(), ["parent"]);
}
