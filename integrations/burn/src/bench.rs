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
use comfy_table::{Table, presets};
use serde::Serialize;
use tenure::graph::{Graph, Node, Payload};

/// Parts of each loop; those of the two sides take turns, and the median part counts.
const PARTS: u32 = 11;

/// A tensor of Burn's as payload.
struct Saved(#[allow(dead_code, reason = "it is there to be kept and dropped")] Tensor<2>);

impl Payload for Saved {
    fn bytes(&self) -> u64 {
        16
    }
}

#[derive(Serialize)]
struct Row {
    id: String,
    value: f64,
    unit: &'static str,
    baseline: &'static str,
    baseline_value: f64,
    ratio: f64,
}

#[derive(Serialize)]
struct Report {
    machine: String,
    rows: Vec<Row>,
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

/// Runs all loops, prints a table, and writes JSON on request.
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
        let growth = |parts: &[(f64, f64)]| parts.iter().map(|(_, kib)| kib).sum::<f64>();
        rows.push(row(format!("graph.{name}_vs_burn"), "ns", median(&own_parts), median(&burns_parts)));
        rows.push(row(
            format!("graph.{name}_growth_vs_burn"),
            "KiB",
            growth(&own_parts),
            growth(&burns_parts),
        ));
    }
    let report = Report { machine: machine(), rows };
    println!("{}, {} iterations a loop", report.machine, part * PARTS);
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED);
    table.set_header(["row", "tenure", "Burn 0.22.1", "unit", "ratio"]);
    for row in &report.rows {
        let figure = |value: f64| format!("{value:.2}");
        table.add_row([
            row.id.clone(),
            figure(row.value),
            figure(row.baseline_value),
            row.unit.to_owned(),
            format!("{:.4}", row.ratio),
        ]);
    }
    println!("{table}");
    if let Some(file) = json {
        std::fs::write(file, serde_json::to_string_pretty(&report)? + "\n")?;
    }
    Ok(())
}

fn row(id: String, unit: &'static str, value: f64, baseline_value: f64) -> Row {
    Row { id, value, unit, baseline: "Burn 0.22.1", baseline_value, ratio: value / baseline_value }
}

/// Nanoseconds an iteration, and KiB of growth.
fn measured(iterations: u32, run: impl FnOnce()) -> Result<(f64, f64), Box<dyn Error>> {
    let before = resident_kib()?;
    let start = Instant::now();
    run();
    let took = start.elapsed().as_nanos() as f64 / f64::from(iterations);
    Ok((took, (resident_kib()? - before).max(0.0)))
}

fn resident_kib() -> Result<f64, Box<dyn Error>> {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup")?;
    let line = text.lines().find_map(|line| line.strip_prefix("Rss:")).ok_or("no resident size")?;
    Ok(line.split_whitespace().next().ok_or("no number")?.parse()?)
}

fn median(parts: &[(f64, f64)]) -> f64 {
    let mut times: Vec<f64> = parts.iter().map(|(time, _)| *time).collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn machine() -> String {
    let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get());
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name"));
    let model = model.map_or(std::env::consts::ARCH, |rest| rest.trim_start_matches([' ', '\t', ':']));
    format!("{model}, {threads} threads, {}", std::env::consts::OS)
}
