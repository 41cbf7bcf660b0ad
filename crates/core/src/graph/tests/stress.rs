//! Many threads at one graph and at many: results as with one (L24, L25).

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::Error;
use crate::graph::{BackwardError, Graph, Node, Payload, Retain, Visited};

const ROUNDS: usize = 300;
const VICTIMS: usize = 6;
const SWEEPERS: usize = 6;

/// A value whose destructor counts.
struct Term {
    value: u64,
    dropped: &'static AtomicU64,
}

impl Payload for Term {
    fn bytes(&self) -> u64 {
        8
    }
}

impl Drop for Term {
    fn drop(&mut self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }
}

/// A victim's work: a tree over a shared parameter, traversed for its sum.
fn sum_of_tree(graph: &Graph<Term>, parameter: &Node<Term>, seed: u64, dropped: &'static AtomicU64) -> u64 {
    let term = |value| Term { value, dropped };
    let leaves: Vec<Node<Term>> = (0..4).map(|leaf| graph.leaf(term(seed * 10 + leaf))).collect();
    let left = graph.node(term(seed), [&leaves[0], &leaves[1], parameter]);
    let right = graph.node(term(seed + 1), [&leaves[2], &leaves[3], parameter]);
    let root = graph.node(term(seed + 2), [&left, &right, &left]);
    drop((leaves, left, right));
    let mut sum = 0;
    let report = root.backward(Retain::No, |step| {
        sum += step.payload.value;
        Ok::<(), Error>(())
    });
    assert_eq!(report.unwrap().visited, 8);
    sum
}

/// 300 rounds of six threads that build, traverse and drop, and six that sweep, pin and look.
#[test]
fn victims_and_sweepers_get_the_results_of_one_thread() {
    static DROPPED: AtomicU64 = AtomicU64::new(0);
    let graph = Graph::new("shared");
    let parameter = graph.leaf(Term { value: 7, dropped: &DROPPED });
    let expected: Vec<u64> =
        (0..VICTIMS as u64).map(|seed| sum_of_tree(&graph, &parameter, seed, &DROPPED)).collect();
    for round in 0..ROUNDS {
        let start = Barrier::new(VICTIMS + SWEEPERS);
        std::thread::scope(|threads| {
            for seed in 0..VICTIMS {
                let (graph, parameter, start, expected) = (&graph, &parameter, &start, &expected);
                threads.spawn(move || {
                    start.wait();
                    assert_eq!(sum_of_tree(graph, parameter, seed as u64, &DROPPED), expected[seed]);
                });
            }
            for sweeper in 0..SWEEPERS {
                let (graph, parameter, start) = (&graph, &parameter, &start);
                threads.spawn(move || {
                    start.wait();
                    let pin = (sweeper + round).is_multiple_of(3).then(|| graph.pin());
                    drop(graph.node(Term { value: 0, dropped: &DROPPED }, [parameter]));
                    graph.sweep();
                    assert!(graph.report().nodes >= 1);
                    drop(pin);
                    graph.sweep();
                });
            }
        });
    }
    graph.sweep();
    let report = graph.report();
    assert_eq!((report.nodes, report.bytes, report.retired, report.consumed), (1, 8, 0, 0), "{report}");
    assert_eq!(DROPPED.load(Ordering::Relaxed), report.removed, "each payload was dropped once");
    drop(parameter);
    assert_eq!(DROPPED.load(Ordering::Relaxed), report.made);
}

/// Two threads traverse roots that share nodes: of each pair exactly one takes the shared ones.
#[test]
fn of_two_traversals_that_meet_one_succeeds() {
    static DROPPED: AtomicU64 = AtomicU64::new(0);
    let graph = Graph::new("g");
    for _ in 0..ROUNDS {
        let term = || Term { value: 1, dropped: &DROPPED };
        let leaf = graph.leaf(term());
        let mut shared = graph.node(term(), [&leaf]);
        for _ in 0..20 {
            shared = graph.node(term(), [&shared, &leaf]);
        }
        let roots = [(); 2].map(|()| graph.node(term(), [&shared]));
        let start = Barrier::new(2);
        let results: Vec<Result<u64, Error>> = std::thread::scope(|threads| {
            let traversing: Vec<_> = roots
                .iter()
                .map(|root| {
                    threads.spawn(|| {
                        start.wait();
                        let mut taken = 0;
                        let answer = root.backward(Retain::No, |step| {
                            taken += u64::from(matches!(step.payload, Visited::Taken(_)));
                            Ok::<(), Error>(())
                        });
                        match answer {
                            Ok(_) => Ok(taken),
                            Err(BackwardError::Graph(error)) => Err(error),
                            Err(BackwardError::Visit { error, .. }) => Err(error),
                        }
                    })
                })
                .collect();
            traversing.into_iter().map(|traversing| traversing.join().unwrap()).collect()
        });
        match &results[..] {
            [Ok(22), Err(Error::NodeConsumed { .. } | Error::NodeBusy { .. })]
            | [Err(Error::NodeConsumed { .. } | Error::NodeBusy { .. }), Ok(22)] => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(graph.len(), 0);
}

/// The handles of one lattice are dropped by many threads at once: everything goes, once.
#[test]
fn one_lattice_dropped_by_many_threads() {
    static DROPPED: AtomicU64 = AtomicU64::new(0);
    for _ in 0..50 {
        DROPPED.store(0, Ordering::Relaxed);
        let graph = Graph::new("g");
        let mut handles: Vec<Node<Term>> = Vec::new();
        for at in 0..400_usize {
            let parents: Vec<&Node<Term>> =
                [at / 2, at.saturating_sub(1), at / 3].iter().filter_map(|at| handles.get(*at)).collect();
            let node = graph.node(Term { value: 0, dropped: &DROPPED }, parents);
            handles.push(node);
        }
        let mut parts: Vec<Vec<Node<Term>>> = (0..8).map(|_| Vec::new()).collect();
        for (at, handle) in handles.into_iter().enumerate() {
            parts[at % 8].push(handle);
        }
        let start = Barrier::new(8);
        std::thread::scope(|threads| {
            for part in parts {
                let start = &start;
                threads.spawn(move || {
                    start.wait();
                    drop(part);
                });
            }
        });
        assert_eq!((graph.len(), graph.report().bytes, DROPPED.load(Ordering::Relaxed)), (0, 0, 400));
    }
}
