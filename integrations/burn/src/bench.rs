//! The hot loops of Burn's graph and of tenure's, in pairs, with the same payload: Burn's tensors of two by two.
//!
//! Both sides make the same values with the same backend. Burn tracks them in its graph; on the other side they are not
//! tracked by Burn and are payloads of tenure's nodes. Nothing is ever traversed: these are the loops in which values
//! are made, tracked and dropped.

use std::error::Error;
use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use burn::tensor::{Device, Tensor};
use tenure::graph::{Graph, Node, Payload};
use tenure_bench::measure::median;
use tenure_bench::report::{Report, Row};
use tenure_bench::resident::resident;

/// Parts of each loop; those of the two sides take turns, and the median part counts.
const PARTS: u32 = 11;

/// A tensor of Burn's as payload.
struct Saved(#[allow(dead_code, reason = "it is there to be kept and dropped")] Tensor<2>);

impl Payload for Saved {
    fn bytes(&self) -> u64 {
        16
    }
}

/// What both sides make their values with.
struct Sides {
    tracked: Device,
    plain: Device,
    graph: Graph<Saved>,
}

impl Sides {
    fn burns(&self) -> Tensor<2> {
        Tensor::zeros([2, 2], &self.tracked).require_grad()
    }

    fn own(&self) -> (Tensor<2>, Node<Saved>) {
        let value: Tensor<2> = Tensor::zeros([2, 2], &self.plain);
        (value.clone(), self.graph.leaf(Saved(value)))
    }

    fn op(&self, value: Tensor<2>, parents: &[&Node<Saved>]) -> (Tensor<2>, Node<Saved>) {
        (value.clone(), self.graph.node(Saved(value), parents.iter().copied()))
    }
}

/// A loop of both sides.
struct Loop {
    name: &'static str,
    own: fn(&Sides, &(Tensor<2>, Node<Saved>)),
    burns: fn(&Sides, &Tensor<2>),
}

/// Each gets a parameter that lives on.
const LOOPS: [Loop; 4] = [
    Loop {
        name: "leaf_drop",
        own: |sides, _| drop(black_box(sides.own())),
        burns: |sides, _| drop(black_box(sides.burns())),
    },
    Loop {
        name: "leaf_op_drop",
        own: |sides, _| {
            let (value, leaf) = sides.own();
            drop(black_box(sides.op(value * 2.0, &[&leaf])));
        },
        burns: |sides, _| drop(black_box(sides.burns() * 2.0)),
    },
    Loop {
        name: "forward_live_parameter",
        own: |sides, (value, parameter)| {
            let (product, node) = sides.op(value.clone() * 2.0, &[parameter]);
            drop(black_box(sides.op(product * value.clone(), &[&node, parameter])));
        },
        burns: |_, parameter| drop(black_box((parameter.clone() * 2.0) * parameter.clone())),
    },
    Loop {
        name: "crossing_trees",
        own: |sides, _| {
            let ((a, of_a), (b, of_b)) = (sides.own(), sides.own());
            let (shared, of_shared) = sides.op(a.clone() * b.clone(), &[&of_a, &of_b]);
            let first = sides.op(shared.clone() * a, &[&of_shared, &of_a]);
            let second = sides.op(shared * b, &[&of_shared, &of_b]);
            drop(black_box((first, second)));
        },
        burns: |sides, _| {
            let (a, b) = (sides.burns(), sides.burns());
            let shared = a.clone() * b.clone();
            drop(black_box((shared.clone() * a, shared * b)));
        },
    },
];

/// Runs all loops, prints a table, and adds the rows to a JSON file on request.
pub fn run(iterations: u32, json: Option<&Path>) -> Result<(), Box<dyn Error>> {
    let sides =
        Sides { tracked: Device::flex().autodiff(), plain: Device::flex(), graph: Graph::new("bench") };
    let part = (iterations / PARTS).max(1);
    let mut rows = Vec::new();
    for Loop { name, own, burns } in &LOOPS {
        let own_parameter = sides.own();
        let burns_parameter = sides.burns();
        let run_own = || (0..part).for_each(|_| own(&sides, &own_parameter));
        let run_burns = || (0..part).for_each(|_| burns(&sides, &burns_parameter));
        let (mut own_parts, mut burns_parts) = (Vec::new(), Vec::new());
        for _ in 0..PARTS {
            own_parts.push(measured(part, run_own)?);
            burns_parts.push(measured(part, run_burns)?);
        }
        let time = |parts: &[(f64, f64)]| median(parts.iter().map(|(time, _)| *time).collect());
        let growth = |parts: &[(f64, f64)]| parts.iter().map(|(_, kib)| kib).sum::<f64>();
        rows.push(row(format!("graph.{name}_vs_burn"), "ns", time(&own_parts), time(&burns_parts)));
        rows.push(row(
            format!("graph.{name}_growth_vs_burn"),
            "KiB",
            growth(&own_parts),
            growth(&burns_parts),
        ));
    }
    let report = Report::new(rows);
    println!("{} iterations a loop\n{report}", part * PARTS);
    if let Some(file) = json {
        report.add_to(file)?;
    }
    Ok(())
}

fn row(id: String, unit: &'static str, value: f64, burns: f64) -> Row {
    Row::new(id, value, unit).against("Burn 0.22.1", burns)
}

/// Nanoseconds an iteration, and KiB of growth.
fn measured(iterations: u32, run: impl FnOnce()) -> Result<(f64, f64), Box<dyn Error>> {
    let resident_kib = || resident().map(|bytes| bytes as f64 / 1024.0).ok_or("the system does not say");
    let before = resident_kib()?;
    let start = Instant::now();
    run();
    let took = start.elapsed().as_nanos() as f64 / f64::from(iterations);
    Ok((took, (resident_kib()? - before).max(0.0)))
}
