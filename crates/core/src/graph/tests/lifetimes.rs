//! Who holds a node, and when it goes (L24, L25).

use std::sync::Arc;

use parking_lot::Mutex;
use proptest::prelude::*;

use super::support::{Log, Saved, assert_holds};
use crate::graph::{Graph, Node, Payload};

#[test]
fn a_node_goes_with_its_last_handle() {
    let (graph, log) = (Graph::new("g"), Log::default());
    let node = graph.leaf(log.payload("a", 8));
    let clone = node.clone();
    assert_eq!((node.holders(), node.id(), node.bytes(), node.is(&clone)), (2, 1, 8, true));
    drop(node);
    assert_holds(&graph, 1, 8);
    assert_eq!(log.take(), [""; 0]);
    drop(clone);
    assert_holds(&graph, 0, 0);
    assert_eq!(log.take(), ["a"]);
}

#[test]
fn children_hold_their_parents_and_leaves_go_first() {
    let (graph, log) = (Graph::new("g"), Log::default());
    let a = graph.leaf(log.payload("a", 1));
    let b = graph.node(log.payload("b", 10), [&a]);
    let c = graph.node(log.payload("c", 100), [&b, &a]);
    drop((a, b));
    assert_holds(&graph, 3, 111);
    drop(c);
    assert_eq!(log.take(), ["c", "b", "a"]);
    assert_holds(&graph, 0, 0);
}

#[test]
fn what_another_child_holds_stays() {
    let (graph, log) = (Graph::new("g"), Log::default());
    let root = graph.leaf(log.payload("root", 1));
    let shared = graph.node(log.payload("shared", 1), [&root]);
    let kept = graph.node(log.payload("kept", 1), [&shared]);
    let dropped = graph.node(log.payload("dropped", 1), [&shared]);
    drop((root, shared));
    drop(dropped);
    assert_eq!(log.take(), ["dropped"]);
    assert_holds(&graph, 3, 3);
    drop(kept);
    assert_eq!(log.take(), ["kept", "shared", "root"]);
}

#[test]
fn a_parent_named_twice_is_held_twice() {
    let (graph, log) = (Graph::new("g"), Log::default());
    let a = graph.leaf(log.payload("a", 4));
    let square = graph.node(log.payload("square", 4), [&a, &a]);
    assert_eq!(a.holders(), 3);
    assert_eq!(square.parents().len(), 2);
    assert_eq!(square.ancestors().len(), 2, "each once");
    drop(square);
    assert_eq!((a.holders(), log.take()), (1, vec!["square".to_owned()]));
}

#[test]
fn a_builder_holds_its_inputs_and_lets_go_of_them() {
    let (graph, log) = (Graph::new("g"), Log::default());
    let a = graph.leaf(log.payload("a", 4));
    let building = graph.builder().parent(&a);
    drop(a);
    assert_holds(&graph, 1, 4);
    let child = building.build(log.payload("child", 0));
    assert_holds(&graph, 2, 4);
    let given_up = graph.builder().parent(&child);
    drop(child);
    assert_holds(&graph, 2, 4);
    drop(given_up);
    assert_holds(&graph, 0, 0);
    assert_eq!(log.take(), ["child", "a"]);
}

#[test]
fn weak_references_keep_nothing() {
    let (graph, log) = (Graph::new("g"), Log::default());
    let node = graph.leaf(log.payload("a", 4));
    let (weak_node, weak_graph) = (node.downgrade(), graph.downgrade());
    assert!(weak_node.upgrade().unwrap().is(&node));
    drop(node);
    assert!(weak_node.upgrade().is_none());
    assert_eq!(weak_graph.upgrade().unwrap().label(), "g");
    drop(graph);
    assert!(weak_graph.upgrade().is_none());
}

#[test]
fn nodes_outlive_their_graphs_handle() {
    let log = Log::default();
    let node = {
        let graph = Graph::new("g");
        graph.node(log.payload("b", 2), [&graph.leaf(log.payload("a", 1))])
    };
    assert_holds(&node.graph(), 2, 3);
    drop(node);
    assert_eq!(log.take(), ["b", "a"]);
}

#[test]
fn a_long_chain_goes_without_recursion() {
    const NODES: u64 = 1_000_000;
    let graph = Graph::new("g");
    let mut last = graph.leaf(());
    for _ in 1..NODES {
        last = graph.node((), [&last]);
    }
    assert_eq!(graph.len(), NODES);
    drop(last);
    assert_eq!(graph.len(), 0);
}

#[test]
fn a_chain_through_payloads_goes_without_recursion() {
    const NODES: u64 = 200_000;
    let (graph, log) = (Graph::new("g"), Log::default());
    let mut last = graph.leaf(log.payload("first", 1));
    for _ in 1..NODES {
        let mut payload = log.payload("", 1);
        payload.keeps.push(last);
        last = graph.leaf(payload);
    }
    assert_holds(&graph, NODES, NODES);
    drop(last);
    assert_holds(&graph, 0, 0);
    let dropped = log.take();
    assert_eq!((dropped.len() as u64, &*dropped[dropped.len() - 1]), (NODES, "first"));
}

/// Each node keeps two of the level before, so that there are more paths than could ever be walked.
#[test]
fn a_lattice_goes_node_by_node() {
    const LEVELS: usize = 50_000;
    let graph = Graph::new("g");
    let mut level = [graph.leaf(()), graph.leaf(())];
    for _ in 1..LEVELS {
        level = [graph.node((), &level), graph.node((), &level)];
    }
    assert_eq!(graph.len() as usize, 2 * LEVELS);
    let [a, b] = level;
    drop(a);
    assert_eq!(graph.len() as usize, 2 * LEVELS - 1);
    drop(b);
    assert_eq!(graph.len(), 0);
}

/// A payload whose destructor makes nodes, drops others and looks at its own graph.
struct Meddler {
    graph: Graph<Box<dyn Payload>>,
    keeps: Option<Node<Box<dyn Payload>>>,
}

impl Payload for Meddler {}

impl Drop for Meddler {
    fn drop(&mut self) {
        let new = self.graph.node(Box::new(()) as Box<dyn Payload>, &self.keeps);
        assert!(self.graph.report().nodes > 0);
        self.graph.sweep();
        drop(new);
        self.keeps.take();
    }
}

#[test]
fn a_payloads_destructor_may_do_anything() {
    let graph: Graph<Box<dyn Payload>> = Graph::new("g");
    let other: Graph<Box<dyn Payload>> = Graph::new("other");
    let kept = other.leaf(Box::new(()));
    let node = graph.leaf(Box::new(Meddler { graph: other.clone(), keeps: Some(kept) }));
    let own = graph.leaf(Box::new(Meddler { graph: graph.clone(), keeps: Some(node) }));
    drop(own);
    assert_eq!((graph.len(), other.len()), (0, 0));
}

/// Panics when dropped.
struct Bomb;

impl Payload for Bomb {}

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("a destructor's own panic");
    }
}

#[test]
fn a_panicking_payload_keeps_no_other_from_going() {
    let graph = Graph::new("g");
    let mut last = graph.leaf(Bomb);
    for _ in 0..9 {
        last = graph.node(Bomb, [&last]);
    }
    drop(last);
    let report = graph.report();
    assert_eq!((report.nodes, report.removed, report.payload_panics), (0, 10, 10));
}

/// Nodes that own each other through their payloads stay, and a traced graph names them.
#[test]
fn an_owning_cycle_is_reported() {
    let log = Log::default();
    let graph = Graph::traced("g");
    let cell = Arc::new(Mutex::new(None::<Node<Cyclic>>));
    let node = graph.leaf(Cyclic { _own: cell.clone(), saved: log.payload("cyclic", 64) });
    *cell.lock() = Some(node.clone());
    let line = line!() - 2;
    drop(node);
    assert_eq!(graph.sweep().nodes, 0);
    let report = graph.report();
    let [held] = &report.held[..] else { panic!("{report}") };
    assert_eq!((held.node, held.bytes, held.holders, held.site.line()), (1, 64, 1, line));
    assert!(report.to_string().contains("node 1 (64 bytes, made at "), "{report}");
    // Cut by hand it goes.
    let node = cell.lock().take();
    drop(node);
    assert_eq!((graph.len(), graph.report().held.len(), log.take().len()), (0, 0, 1));
}

struct Cyclic {
    _own: Arc<Mutex<Option<Node<Cyclic>>>>,
    saved: Saved,
}

impl Payload for Cyclic {
    fn bytes(&self) -> u64 {
        self.saved.bytes
    }
}

/// A node of one graph has a parent in another: they are reported together, and each goes its own way.
#[test]
fn graphs_merge_where_a_node_has_parents_in_two() {
    let log = Log::default();
    let [a, b, c, alone] = ["a", "b", "c", "alone"].map(Graph::new);
    let of_a = a.leaf(log.payload("a", 1));
    let of_b = b.leaf(log.payload("b", 10));
    let of_c = c.leaf(log.payload("c", 100));
    let _alone = alone.leaf(log.payload("alone", 1000));
    let joined = a.node(log.payload("joined", 2), [&of_a, &of_b]);
    assert_eq!((a.merged_report().graphs, a.merged_report().nodes, a.merged_report().bytes), (2, 3, 13));
    assert_eq!(b.merged_report().bytes, 13);
    assert_holds(&a, 2, 3);
    assert_holds(&b, 1, 10);
    let all = c.node(log.payload("all", 200), [&of_c, &joined]);
    for graph in [&a, &b, &c] {
        assert_eq!((graph.merged_report().graphs, graph.merged_report().bytes), (3, 313));
    }
    assert_eq!(alone.merged_report().graphs, 1);
    drop((of_a, of_b, of_c, joined));
    assert_eq!(all.ancestors().len(), 5, "a walk crosses");
    drop(all);
    assert_eq!(log.take(), ["all", "c", "joined", "a", "b"]);
    // A graph that is gone is no part of the group.
    drop(b);
    assert_eq!((a.merged_report().graphs, a.merged_report().nodes), (2, 0));
}

#[test]
fn a_group_does_not_grow_with_graphs_that_are_gone() {
    let lasting = Graph::new("lasting");
    let parameter = lasting.leaf(());
    for _ in 0..1000 {
        let short = Graph::new("short");
        drop(short.node((), [&parameter]));
    }
    assert_eq!(lasting.merged_report().graphs, 1);
    let short = Graph::new("short");
    let _node = short.node((), [&parameter]);
    assert_eq!(short.merged_report().graphs, 2);
}

#[derive(Clone, Debug)]
enum Do {
    Make(Vec<usize>),
    Clone(usize),
    Drop(usize),
    Detach(usize),
}

fn doing() -> impl Strategy<Value = Do> {
    prop_oneof![
        4 => proptest::collection::vec(any::<usize>(), 0..4).prop_map(Do::Make),
        1 => any::<usize>().prop_map(Do::Clone),
        3 => any::<usize>().prop_map(Do::Drop),
        1 => any::<usize>().prop_map(Do::Detach),
    ]
}

proptest! {
    /// Whatever is made, cloned, dropped and detached: what is there is what the handles reach, and no more.
    #[test]
    fn only_what_handles_reach_is_there(steps in proptest::collection::vec(doing(), 1..120)) {
        let (graph, log) = (Graph::new("g"), Log::default());
        let mut handles: Vec<Node<Saved>> = Vec::new();
        let mut made = 0;
        for step in steps {
            match step {
                Do::Make(parents) => {
                    let parents: Vec<Node<Saved>> = if handles.is_empty() {
                        Vec::new()
                    } else {
                        parents.iter().map(|at| handles[at % handles.len()].clone()).collect()
                    };
                    made += 1;
                    handles.push(graph.node(log.payload("", made), &parents));
                }
                Do::Clone(at) if !handles.is_empty() => handles.push(handles[at % handles.len()].clone()),
                Do::Drop(at) if !handles.is_empty() => drop(handles.swap_remove(at % handles.len())),
                Do::Detach(at) if !handles.is_empty() => {
                    handles[at % handles.len()].detach().unwrap();
                }
                Do::Clone(_) | Do::Drop(_) | Do::Detach(_) => {}
            }
            let reached = super::super::node::walk(handles.iter().cloned());
            let bytes = reached.iter().map(|reached| reached.node.bytes()).sum();
            assert_holds(&graph, reached.len() as u64, bytes);
        }
        handles.clear();
        assert_holds(&graph, 0, 0);
        prop_assert_eq!(log.take().len() as u64, made);
    }
}
