//! The situations of burn-autodiff's memory management tests (`tests/memory_management.rs` there, version 0.22), by
//! their names, against this graph, with counts and bytes. What there needs a later `backward` goes here at once.

use super::support::{Log, Saved, assert_holds};
use crate::error::Error;
use crate::graph::{BackwardError, Graph, Node, Retain};

/// Bytes of every node here.
const BYTES: u64 = 4;

struct Engine {
    graph: Graph<Saved>,
    log: Log,
}

impl Engine {
    fn new() -> Self {
        Engine { graph: Graph::new("g"), log: Log::default() }
    }

    fn leaf(&self, name: &str) -> Node<Saved> {
        self.graph.leaf(self.log.payload(name, BYTES))
    }

    fn op(&self, name: &str, parents: &[&Node<Saved>]) -> Node<Saved> {
        self.graph.node(self.log.payload(name, BYTES), parents.iter().copied())
    }

    /// Asserts so many nodes, each with its bytes.
    #[track_caller]
    fn holds(&self, nodes: u64) {
        assert_holds(&self.graph, nodes, nodes * BYTES);
    }

    fn backward(&self, root: &Node<Saved>) -> Result<Vec<String>, Error> {
        let mut order = Vec::new();
        let answer = root.backward(Retain::No, |step| {
            order.push(step.payload.name.clone());
            Ok::<(), Error>(())
        });
        match answer {
            Ok(_) => Ok(order),
            Err(BackwardError::Graph(error) | BackwardError::Visit { error, .. }) => Err(error),
        }
    }
}

/// `mm_independent_trees`: two trees of one engine; the traversal of one leaves the other alone.
#[test]
fn independent_trees() {
    let engine = Engine::new();
    let [a, b] = ["a", "b"].map(|name| engine.leaf(name));
    let first = engine.op("first", &[&engine.op("a2", &[&a])]);
    let second = engine.op("second", &[&engine.op("b2", &[&b])]);
    engine.holds(6);
    assert_eq!(engine.backward(&first).unwrap(), ["first", "a2", "a"]);
    drop(first);
    engine.holds(4);
    assert_eq!(engine.backward(&second).unwrap(), ["second", "b2", "b"]);
    drop(second);
    engine.holds(2);
}

/// `mm_crossover_trees_root_unavailable`: two trees share a subtree; one root is dropped without a traversal.
#[test]
fn crossover_trees_root_unavailable() {
    let engine = Engine::new();
    let [a, b] = ["a", "b"].map(|name| engine.leaf(name));
    let shared = engine.op("shared", &[&a, &b]);
    let dropped = engine.op("dropped", &[&shared, &b]);
    let root = engine.op("root", &[&shared, &a]);
    drop((a, b, shared));
    engine.holds(5);
    drop(dropped);
    engine.holds(4);
    assert_eq!(engine.log.take(), ["dropped"]);
    let order = engine.backward(&root).unwrap();
    assert_eq!((order.len(), &order[..2]), (4, &["root".to_owned(), "shared".to_owned()][..]));
    drop(root);
    engine.holds(0);
}

/// `mm_crossover_trees_with_referred_subtree`: a subtree of a taken tree is still referred to.
#[test]
fn crossover_trees_with_referred_subtree() {
    let engine = Engine::new();
    let [a, b, c] = ["a", "b", "c"].map(|name| engine.leaf(name));
    let referred = engine.op("referred", &[&b, &c]);
    let crossing = engine.op("crossing", &[&a, &referred]);
    let root = engine.op("root", &[&crossing]);
    drop(crossing);
    assert_eq!(engine.backward(&root).unwrap().len(), 6);
    drop(root);
    // The handle still has its node, without its payload and its parents.
    assert!(referred.is_consumed() && referred.is_leaf());
    assert_holds(&engine.graph, 4, 3 * BYTES);
    assert!(matches!(engine.backward(&referred), Err(Error::NodeConsumed { .. })));
    drop(referred);
    engine.holds(3);
}

/// `mm_three_crossover_trees_last_taken`: of three trees over shared leaves two are dropped, the last is taken.
#[test]
fn three_crossover_trees() {
    let engine = Engine::new();
    let leaves = ["a", "b", "c", "d"].map(|name| engine.leaf(name));
    let first = engine.op("first", &[&leaves[0], &leaves[1]]);
    let second = engine.op("second", &[&leaves[1], &leaves[2]]);
    let third = engine.op("third", &[&leaves[2], &leaves[3]]);
    drop(leaves);
    engine.holds(7);
    drop(first);
    assert_eq!(engine.log.take(), ["first", "a"], "b is second's too");
    drop(second);
    assert_eq!(engine.log.take(), ["second", "b"]);
    engine.holds(3);
    assert_eq!(engine.backward(&third).unwrap().len(), 3);
    drop(third);
    engine.holds(0);
}

/// `mm_self_referencing_tree`: an operation whose inputs are one node, level after level.
#[test]
fn self_referencing_tree() {
    let engine = Engine::new();
    let mut node = engine.leaf("leaf");
    for level in 0..20 {
        // Over a million paths, and 21 nodes.
        node = engine.op(&format!("{level}"), &[&node, &node]);
    }
    engine.holds(21);
    let order = engine.backward(&node).unwrap();
    assert_eq!((order.len(), &*order[0], &*order[20]), (21, "19", "leaf"));
    drop(node);
    engine.holds(0);
}

/// `mm_tree_non_impacting_detach`: detaching one branch leaves what the other needs.
#[test]
fn detach_that_cuts_one_branch() {
    let engine = Engine::new();
    let [a, b] = ["a", "b"].map(|name| engine.leaf(name));
    let kept = engine.op("kept", &[&a]);
    let cut = engine.op("cut", &[&b]);
    let root = engine.op("root", &[&kept, &cut]);
    drop((a, b, kept));
    engine.holds(5);
    assert_eq!(cut.detach().unwrap(), 1);
    engine.holds(4);
    assert_eq!(engine.log.take(), ["b"]);
    drop(cut);
    let mut order = engine.backward(&root).unwrap();
    order.sort();
    assert_eq!(order, ["a", "cut", "kept", "root"], "what was cut is a leaf");
    drop(root);
    engine.holds(0);
}

/// `mm_tree_root_detached` and a detach that nothing follows: a leaf has nothing to cut, a root cut alone is a leaf.
#[test]
fn detach_of_roots_and_leaves() {
    let engine = Engine::new();
    let leaf = engine.leaf("leaf");
    assert_eq!(leaf.detach().unwrap(), 0);
    let root = engine.op("root", &[&engine.op("middle", &[&leaf])]);
    engine.holds(3);
    assert_eq!(root.detach().unwrap(), 1);
    engine.holds(2);
    assert_eq!(engine.backward(&root).unwrap(), ["root"]);
    assert!(!root.is_consumed(), "a leaf keeps its payload");
    drop((leaf, root));
    engine.holds(0);
}

/// `mm_missing_require_grad_after_cleanup`: a parameter that outlived its tree is used in the next one.
#[test]
fn missing_require_grad_after_cleanup() {
    let engine = Engine::new();
    let parameter = engine.leaf("parameter");
    for _ in 0..10 {
        let loss = engine.op("loss", &[&engine.op("step", &[&parameter])]);
        engine.holds(3);
        assert_eq!(engine.backward(&loss).unwrap(), ["loss", "step", "parameter"]);
        drop(loss);
        engine.holds(1);
    }
    assert!(!parameter.is_consumed());
}

/// `mm_deletables_propagate_well`: a handle in the middle keeps what is above it and nothing below.
#[test]
fn deletables_propagate() {
    let engine = Engine::new();
    let a = engine.leaf("a");
    let b = engine.op("b", &[&a]);
    let c = engine.op("c", &[&b]);
    let d = engine.op("d", &[&c]);
    let e = engine.op("e", &[&d]);
    drop((a, b, d));
    engine.holds(5);
    drop(e);
    assert_eq!(engine.log.take(), ["e", "d"]);
    engine.holds(3);
    drop(c);
    assert_eq!(engine.log.take(), ["c", "b", "a"]);
    engine.holds(0);
}

/// `mm_node_explored_once_can_still_be_tagged_as_useful_when_found_again_deeper`: a node found dead by one way is kept by
/// another.
#[test]
fn node_explored_once_can_still_be_tagged_useful() {
    let engine = Engine::new();
    let a = engine.leaf("a");
    let shared = engine.op("shared", &[&a]);
    let deep = engine.op("deeper", &[&engine.op("deep", &[&shared])]);
    let shallow = engine.op("shallow", &[&shared]);
    drop((a, shared));
    engine.holds(5);
    drop(shallow);
    assert_eq!(engine.log.take(), ["shallow"]);
    engine.holds(4);
    assert_eq!(engine.backward(&deep).unwrap(), ["deeper", "deep", "shared", "a"]);
    drop(deep);
    engine.holds(0);
}

/// Burn's growth reports (tracel-ai/burn#3976, #3957, #4345): tracked nodes that never join a traversal. A leaf, an
/// operation, a chain, a node shared by two children; a parent with a live child stays.
#[test]
fn what_never_joins_a_traversal_goes_at_once() {
    let engine = Engine::new();
    let live = engine.leaf("live");
    let child = engine.op("child", &[&live]);
    for _ in 0..1000 {
        drop(engine.leaf("leaf"));
        drop(engine.op("op", &[&engine.leaf("leaf")]));
        drop(engine.op("2", &[&engine.op("1", &[&live])]));
        let shared = engine.leaf("shared");
        let children = [engine.op("x", &[&shared]), engine.op("y", &[&shared, &child])];
        drop(shared);
        drop(children);
        engine.holds(2);
    }
    assert_eq!(engine.graph.report().made, 8 * 1000 + 2);
    drop((live, child));
    engine.holds(0);
}
