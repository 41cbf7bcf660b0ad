//! Traversals that take nodes (L26).

use super::support::{Log, assert_holds, names};
use crate::error::Error;
use crate::graph::{BackwardError, Graph, Node, Retain, Visited, backward};

/// Traverses and returns the names in order; those of taken payloads end with `!`.
fn visited(root: &Node<super::support::Saved>, retain: Retain) -> Result<Vec<String>, Error> {
    let mut order = Vec::new();
    let answer = root.backward(retain, |step| {
        let taken = if matches!(step.payload, Visited::Taken(_)) { "!" } else { "" };
        order.push(format!("{}{taken}", step.payload.name));
        Ok::<(), std::convert::Infallible>(())
    });
    match answer {
        Ok(report) => {
            assert_eq!(report.visited as usize, order.len());
            assert_eq!(report.taken as usize, order.iter().filter(|name| name.ends_with('!')).count());
            Ok(order)
        }
        Err(BackwardError::Graph(error)) => {
            assert!(order.is_empty(), "nothing was visited");
            Err(error)
        }
        Err(BackwardError::Visit { error, .. }) => match error {},
    }
}

#[test]
fn children_come_before_parents_and_leaves_keep_theirs() {
    let (graph, log) = (Graph::new("g"), Log::default());
    let x = graph.leaf(log.payload("x", 1));
    let w = graph.leaf(log.payload("w", 2));
    let product = graph.node(log.payload("product", 4), [&x, &w]);
    // A short and a long way to the same node: it comes after both.
    let relu = graph.node(log.payload("relu", 8), [&product]);
    let loss = graph.node(log.payload("loss", 16), [&relu, &product]);
    drop((x, product, relu));
    assert_eq!(visited(&loss, Retain::Yes).unwrap(), ["loss", "relu", "product", "x", "w"]);
    assert_holds(&graph, 5, 31);
    let order = visited(&loss, Retain::No).unwrap();
    assert_eq!(order, ["loss!", "relu!", "product!", "x", "w"]);
    assert_eq!(log.take(), ["loss", "relu", "product", "x"], "each goes when it was visited");
    let report = graph.report();
    assert_eq!((report.nodes, report.consumed, report.bytes), (2, 1, 2), "the loss, consumed, and w");
    assert!(loss.is_consumed() && loss.is_leaf() && !w.is_consumed());
    drop(loss);
    assert_eq!((graph.report().consumed, names(&[w])), (0, vec!["w".to_owned()]));
}

#[test]
fn a_consumed_node_is_an_error_and_nothing_is_taken() {
    let (graph, log) = (Graph::new("g"), Log::default());
    let x = graph.leaf(log.payload("x", 1));
    let shared = graph.node(log.payload("shared", 1), [&x]);
    let [first, second] = ["first", "second"].map(|name| graph.node(log.payload(name, 1), [&shared]));
    assert_eq!(visited(&first, Retain::No).unwrap(), ["first!", "shared!", "x"]);
    let error = visited(&second, Retain::No).unwrap_err();
    assert!(matches!(&error, Error::NodeConsumed { graph, node: 2 } if &**graph == "g"), "{error}");
    assert_eq!(
        error.to_string(),
        "node 2 of graph `g` was consumed: its payload was taken by an earlier step"
    );
    assert!(!second.is_consumed(), "as if nobody had asked");
    assert!(matches!(visited(&second, Retain::Yes), Err(Error::NodeConsumed { .. })));
    assert!(matches!(visited(&first, Retain::No), Err(Error::NodeConsumed { node: 3, .. })));
    assert!(matches!(shared.consume(), Err(Error::NodeConsumed { node: 2, .. })));
    assert!(matches!(shared.with(|_| ()), Err(Error::NodeConsumed { node: 2, .. })));
    assert!(matches!(shared.detach(), Err(Error::NodeConsumed { node: 2, .. })));
    // A child of a consumed node can be made, and says so when it is traversed.
    let child = graph.node(log.payload("child", 1), [&shared]);
    assert!(matches!(visited(&child, Retain::No), Err(Error::NodeConsumed { node: 2, .. })));
}

#[test]
fn several_roots_are_one_traversal() {
    let (graph, log) = (Graph::new("g"), Log::default());
    let x = graph.leaf(log.payload("x", 1));
    let shared = graph.node(log.payload("shared", 1), [&x]);
    let roots = ["a", "b"].map(|name| graph.node(log.payload(name, 1), [&shared]));
    drop((x, shared));
    let mut order = Vec::new();
    let report = backward(&roots, Retain::No, |step| {
        order.push(step.payload.name.clone());
        Ok::<(), Error>(())
    })
    .unwrap();
    order[..2].sort();
    assert_eq!(order, ["a", "b", "shared", "x"]);
    assert_eq!((report.visited, report.taken, report.taken_bytes), (4, 3, 3));
    drop(roots);
    assert_holds(&graph, 0, 0);
}

#[test]
fn consuming_one_node_lets_go_of_its_parents() {
    let (graph, log) = (Graph::new("g"), Log::default());
    let node = graph.node(log.payload("node", 2), [&graph.leaf(log.payload("x", 1))]);
    let saved = node.consume().unwrap();
    assert_eq!((&*saved.name, log.take()), ("node", vec!["x".to_owned()]));
    assert_holds(&graph, 1, 0);
    drop(saved);
    assert!(matches!(node.consume(), Err(Error::NodeConsumed { .. })));
}

#[test]
fn a_visitors_error_ends_it_and_says_how_far() {
    let (graph, log) = (Graph::new("g"), Log::default());
    let x = graph.leaf(log.payload("x", 1));
    let a = graph.node(log.payload("a", 1), [&x]);
    let b = graph.node(log.payload("b", 1), [&a]);
    let c = graph.node(log.payload("c", 1), [&b]);
    let answer = c.backward(Retain::No, |step| if step.payload.name == "b" { Err("stop") } else { Ok(()) });
    let Err(BackwardError::Visit { error: "stop", report }) = answer else { panic!("{answer:?}") };
    assert_eq!((report.visited, report.taken), (2, 2));
    assert!(c.is_consumed() && b.is_consumed() && !a.is_consumed());
    assert_eq!(a.with(|saved| saved.name.clone()).unwrap(), "a", "the rest is as it was");
    assert_eq!(visited(&a, Retain::No).unwrap(), ["a!", "x"]);
}

#[test]
fn a_visitors_panic_gives_the_rest_back() {
    let (graph, log) = (Graph::new("g"), Log::default());
    let x = graph.leaf(log.payload("x", 1));
    let a = graph.node(log.payload("a", 1), [&x]);
    let b = graph.node(log.payload("b", 1), [&a]);
    for retain in [Retain::Yes, Retain::No] {
        let panicking = std::panic::AssertUnwindSafe(|| {
            let _ = b.backward(retain, |_| -> Result<(), Error> { panic!("the visitor's own") });
        });
        assert!(std::panic::catch_unwind(panicking).is_err());
    }
    assert!(b.is_consumed());
    assert_eq!(visited(&a, Retain::No).unwrap(), ["a!", "x"]);
}

#[test]
fn the_visitor_may_make_nodes_and_traverse() {
    let (graph, log) = (Graph::new("g"), Log::default());
    let x = graph.leaf(log.payload("x", 1));
    let root = graph.node(log.payload("root", 1), [&x]);
    let mut made = Vec::new();
    root.backward(Retain::No, |step| {
        if let Visited::Kept(_) = step.payload {
            return Ok(());
        }
        let gradient = graph.node(log.payload("gradient", 1), step.parents);
        assert_eq!(visited(&gradient, Retain::Yes)?, ["gradient", "x"]);
        assert!(matches!(step.node.with(|_| ()), Err(Error::NodeConsumed { .. })));
        made.push(gradient);
        Ok::<(), Error>(())
    })
    .unwrap();
    assert_eq!(visited(&made[0], Retain::No).unwrap(), ["gradient!", "x"]);
}

#[test]
fn a_node_that_is_looked_at_is_busy() {
    let (graph, log) = (Graph::new("g"), Log::default());
    let x = graph.leaf(log.payload("x", 1));
    let root = graph.node(log.payload("root", 1), [&x]);
    root.with(|_| {
        assert!(matches!(visited(&root, Retain::No), Err(Error::NodeBusy { node: 2, .. })));
        assert!(matches!(root.consume(), Err(Error::NodeBusy { .. })));
        assert!(matches!(root.detach(), Err(Error::NodeBusy { .. })));
        assert_eq!(visited(&root, Retain::Yes).unwrap(), ["root", "x"], "others may look");
    })
    .unwrap();
    // Looking at a leaf holds nobody up.
    x.with(|_| assert_eq!(visited(&root, Retain::No).unwrap(), ["root!", "x"])).unwrap();
}
