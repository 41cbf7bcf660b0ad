//! Graphs: what making and dropping nodes costs, at any scale and from many threads, and that nothing grows.

use std::hint::black_box;

use tenure_bench::measure::{Bench, Failure};
use tenure_bench::report::Row;
use tenure_bench::resident::growth_kib;
use tenure_bench::scaling::{paired_ratio, relative_scaling};
use tenure_core::graph::{Graph, Node, Payload};

const MILLION: u64 = 1_000_000;

/// A saved state: as large as two handles of tensors.
struct Saved(#[allow(dead_code, reason = "it is there to be moved and dropped")] [u64; 4]);

impl Payload for Saved {
    fn bytes(&self) -> u64 {
        4096
    }
}

fn saved() -> Saved {
    Saved(black_box([1; 4]))
}

/// All rows.
pub fn rows(bench: &mut Bench) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    hot_loops(bench, &mut rows)?;
    large_graphs(bench, &mut rows)?;
    live_scaling(bench, &mut rows);
    growth(bench, &mut rows);
    threads(bench, &mut rows);
    Ok(rows)
}

fn hot_loops(bench: &mut Bench, rows: &mut Vec<Row>) -> Result<(), Failure> {
    let graph = Graph::new("hot");
    if bench.wants("graph.hot_loop") {
        let value = bench.time("graph.hot_loop", || drop(black_box(graph.leaf(saved()))))?;
        rows.push(Row::new("graph.hot_loop", value, "ns").at_most(100.0));
    }
    if bench.wants("graph.leaf_op_drop") {
        let value = bench.time("graph.leaf_op_drop", || {
            let leaf = graph.leaf(saved());
            drop(black_box(graph.node(saved(), [&leaf])));
        })?;
        rows.push(Row::new("graph.leaf_op_drop", value, "ns"));
    }
    if bench.wants("graph.handle_clone_drop") {
        let node = graph.leaf(saved());
        let value = bench.time("graph.handle_clone_drop", || drop(black_box(node.clone())))?;
        let shared = std::sync::Arc::new(0_u64);
        let arc = bench.time("arc.clone_drop", || drop(black_box(shared.clone())))?;
        rows.push(Row::new("graph.handle_clone_drop", value, "ns").against("Arc", arc));
    }
    Ok(())
}

/// The last node of a chain, each with the one before as its parent.
fn chain(graph: &Graph<Saved>, nodes: u64) -> Node<Saved> {
    let mut last = graph.leaf(saved());
    for _ in 1..nodes {
        last = graph.node(saved(), [&last]);
    }
    last
}

/// The last two nodes of a lattice, each with both of the level before as parents.
fn lattice(graph: &Graph<Saved>, nodes: u64) -> [Node<Saved>; 2] {
    let mut level = [graph.leaf(saved()), graph.leaf(saved())];
    for _ in 1..nodes / 2 {
        level = [graph.node(saved(), &level), graph.node(saved(), &level)];
    }
    level
}

fn large_graphs(bench: &mut Bench, rows: &mut Vec<Row>) -> Result<(), Failure> {
    let nodes = bench.scaled(MILLION);
    let graph = Graph::new("large");
    if bench.wants("graph.chain_drop") {
        let value = bench.time_of("graph.chain_drop", || chain(&graph, nodes), drop)? / nodes as f64;
        rows.push(Row::new("graph.chain_drop", value, "ns").at_most(100.0));
    }
    if bench.wants("graph.lattice_drop") {
        let value = bench.time_of("graph.lattice_drop", || lattice(&graph, nodes), drop)? / nodes as f64;
        rows.push(Row::new("graph.lattice_drop", value, "ns").at_most(100.0));
    }
    assert!(graph.is_empty(), "everything went");
    Ok(())
}

/// One dead node beside a hundred thousand live ones, against one beside a hundred.
fn live_scaling(bench: &Bench, rows: &mut Vec<Row>) {
    if !bench.wants("graph.live_scaling") {
        return;
    }
    let beside = |live: u64| {
        let graph = Graph::new("live");
        let held: Vec<Node<Saved>> = (0..live).map(|_| graph.leaf(saved())).collect();
        move || drop(black_box(graph.node(saved(), [&held[0]])))
    };
    let value = paired_ratio(bench.scaled(20_000), beside(100_000), beside(100));
    rows.push(Row::new("graph.live_scaling", value, "ratio").at_most(1.2));
}

fn growth(bench: &Bench, rows: &mut Vec<Row>) {
    let graph = Graph::new("growth");
    if bench.wants("graph.hot_loop_growth") {
        let grown = growth_kib(bench.scaled(10 * MILLION), |_| drop(black_box(graph.leaf(saved()))));
        rows.extend(grown.map(|kib| Row::new("graph.hot_loop_growth", kib, "KiB").at_most(64.0)));
    }
    if bench.wants("graph.live_parameter_growth") {
        let parameter = graph.leaf(saved());
        let grown = growth_kib(bench.scaled(MILLION), |_| {
            let product = graph.node(saved(), [&parameter]);
            drop(black_box(graph.node(saved(), [&product])));
        });
        rows.extend(grown.map(|kib| Row::new("graph.live_parameter_growth", kib, "KiB").at_most(64.0)));
    }
}

/// Threads with a graph each.
fn threads(bench: &Bench, rows: &mut Vec<Row>) {
    let iterations = bench.scaled(MILLION);
    let work = || {
        let graph = Graph::new("own");
        for _ in 0..iterations {
            let leaf = graph.leaf(saved());
            drop(black_box(graph.node(saved(), [&leaf])));
        }
    };
    // About as long as the work.
    let spins = iterations * 100;
    if bench.wants("graph.threads_2") {
        let value = relative_scaling(2, spins, work);
        rows.push(Row::new("graph.threads_2", value, "ratio").at_least(0.85));
    }
    if bench.wants("graph.threads_8") {
        rows.push(Row::new("graph.threads_8", relative_scaling(8, spins, work), "ratio"));
    }
}
