//! Models of graphs: drop against making against traversal against sweep (L24 to L26).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use shuttle::thread;
use tenure_core::graph::{BackwardError, Graph, Node, Payload, Retain, Visited};
use tenure_core::{Error, Manager, ManagerOptions, SweepOnFinish, Tensor};

use super::explore;
use super::support::Device;

/// Counts its drops.
struct Saved(Arc<AtomicU64>);

impl Payload for Saved {
    fn bytes(&self) -> u64 {
        8
    }
}

impl Drop for Saved {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn assert_empty(graph: &Graph<Saved>, drops: &AtomicU64) {
    graph.sweep();
    let report = graph.report();
    assert_eq!((report.nodes, report.bytes, report.retired, report.consumed), (0, 0, 0, 0), "{report}");
    assert_eq!(drops.load(Ordering::SeqCst), report.made, "each payload was dropped once");
}

/// Visits everything; how many payloads it took.
fn traverse(root: &Node<Saved>) -> Result<u64, Error> {
    let mut taken = 0;
    let answer = root.backward(Retain::No, |step| {
        taken += u64::from(matches!(step.payload, Visited::Taken(_)));
        Ok::<(), Error>(())
    });
    match answer {
        Ok(_) => Ok(taken),
        Err(BackwardError::Graph(error) | BackwardError::Visit { error, .. }) => Err(error),
    }
}

/// One thread drops a node's handle, one makes a child of its parent, one sweeps under a pin of its own.
#[test]
fn drop_against_making_against_sweep() {
    explore(|| {
        let drops = Arc::new(AtomicU64::new(0));
        let saved = || Saved(drops.clone());
        let graph = Graph::new("g");
        let parent = graph.leaf(saved());
        let child = graph.node(saved(), [&parent]);
        let dropping = thread::spawn(move || drop(child));
        let making = {
            let (graph, payload) = (graph.clone(), saved());
            thread::spawn(move || {
                // L25: the builder holds the parent from here on.
                let building = graph.builder().parent(&parent);
                drop(parent);
                let node = building.build(payload);
                assert_eq!(node.parents().len(), 1);
                node.parents()[0].with(|_| ()).unwrap();
            })
        };
        let sweeping = {
            let graph = graph.clone();
            thread::spawn(move || {
                let pin = graph.pin();
                thread::yield_now();
                drop(pin);
                graph.sweep();
            })
        };
        for thread in [dropping, making, sweeping] {
            thread.join().unwrap();
        }
        assert_empty(&graph, &drops);
    });
}

/// Two traversals meet in a node that a third thread drops its handle of: one takes it, the other is told.
#[test]
fn traversal_against_traversal_against_drop() {
    explore(|| {
        let drops = Arc::new(AtomicU64::new(0));
        let saved = || Saved(drops.clone());
        let graph = Graph::new("g");
        let leaf = graph.leaf(saved());
        let shared = graph.node(saved(), [&leaf]);
        let roots = [(); 2].map(|()| graph.node(saved(), [&shared]));
        drop(leaf);
        let dropping = thread::spawn(move || drop(shared));
        let traversing = roots.map(|root| thread::spawn(move || traverse(&root)));
        let results = traversing.map(|thread| thread.join().unwrap());
        dropping.join().unwrap();
        let won = results.iter().filter(|result| matches!(result, Ok(2))).count();
        assert_eq!(won, 1, "{results:?}");
        let told = |result: &&Result<u64, Error>| {
            matches!(result, Err(Error::NodeConsumed { .. } | Error::NodeBusy { .. }))
        };
        assert_eq!(results.iter().filter(told).count(), 1, "{results:?}");
        assert_empty(&graph, &drops);
    });
}

/// A traversal against a detach of a node in its way: either it goes through, or it does not, and nothing is half done.
#[test]
fn traversal_against_detach() {
    explore(|| {
        let drops = Arc::new(AtomicU64::new(0));
        let saved = || Saved(drops.clone());
        let graph = Graph::new("g");
        let middle = graph.node(saved(), [&graph.leaf(saved())]);
        let root = graph.node(saved(), [&middle]);
        let traversing = thread::spawn(move || traverse(&root));
        let detached = middle.detach();
        let taken = traversing.join().unwrap();
        match (&detached, &taken) {
            // Cut before: the middle is a leaf. Cut meanwhile: somebody is told.
            (Ok(1), Ok(1)) | (Ok(1), Err(Error::NodeBusy { .. })) => assert!(!middle.is_consumed()),
            (Err(Error::NodeBusy { .. } | Error::NodeConsumed { .. }), Ok(2)) => {
                assert!(middle.is_consumed())
            }
            other => panic!("{other:?}"),
        }
        drop(middle);
        assert_empty(&graph, &drops);
    });
}

/// A scope's finish sweeps a graph while another thread drops nodes that hold its tensors.
#[test]
fn finish_against_drop_of_nodes() {
    explore(|| {
        let device = Device::default();
        let manager = Manager::open_with(device.backend(), ManagerOptions::default()).unwrap();
        let scope = manager.scope("s").unwrap();
        let graph: Graph<Tensor<f32>> = Graph::new("g");
        scope.register(SweepOnFinish::new(graph.clone())).unwrap();
        let leaf = graph.leaf(scope.tensor::<f32>(64).unwrap());
        let node = graph.node(scope.tensor::<f32>(64).unwrap(), [&leaf]);
        let pin = graph.pin();
        let dropping = thread::spawn(move || {
            drop(node);
            drop(pin);
            drop(leaf);
        });
        scope.finish_blocking().unwrap();
        dropping.join().unwrap();
        graph.sweep();
        assert_eq!((graph.len(), graph.report().retired), (0, 0));
        let report = manager.close().unwrap();
        assert!(report.is_clean(), "{report}");
    });
}
