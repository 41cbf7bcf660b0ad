//! `tenure-bench`: measures a topic, prints a table, and writes JSON and a chart on request. Run it by
//! `cargo xtask bench`, which builds it for release.
//!
//! One module a topic. Not here: how things are measured and told (the library of this package).

#[cfg(feature = "chain")]
mod chain;
#[cfg(feature = "chain")]
mod costed;
#[cfg(feature = "cuda")]
mod cuda;
mod eval;
mod graph;
#[cfg(feature = "vulkan")]
mod kompute;
mod pool;
#[cfg(feature = "vulkan")]
mod raw_vulkan;
#[cfg(feature = "wgpu")]
mod raw_wgpu;
mod scope;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use tenure_bench::chart;
use tenure_bench::measure::{Bench, Failure};
use tenure_bench::report::Report;

/// Measures tenure.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// What to measure.
    topic: Topic,
    /// Write the rows to this file as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Draw the rows' figures to this file as SVG.
    #[arg(long)]
    chart: Option<PathBuf>,
    /// Measure only rows whose id contains this text.
    #[arg(long)]
    filter: Option<String>,
    /// A tenth of the work: to see that it runs, not to quote.
    #[arg(long)]
    quick: bool,
    /// Only do what the topic's first row times, so often, and measure nothing. For programs that count instructions.
    #[arg(long, value_name = "ROUNDS")]
    repeat: Option<u64>,
    /// With `--repeat`: without tenure's threads, so that every instruction is this thread's.
    #[arg(long, requires = "repeat")]
    without_threads: bool,
}

/// What can be measured.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Topic {
    /// Graphs: making and dropping nodes, at any scale and from many threads.
    Graph,
    /// The pool: making and dropping tensors, beside allocators, at any scale and from many threads.
    Pool,
    /// Evaluating: what core adds to a driver's submission.
    Eval,
    /// Scopes, handles and hooks: the calls that a program makes all the time.
    Scope,
    /// The shape of Kompute's own benchmark, beside raw Vulkan.
    #[cfg(feature = "vulkan")]
    Kompute,
    /// A chain of image filters under each trim policy.
    #[cfg(feature = "chain")]
    Chain,
    /// The CUDA backend: a matrix product.
    #[cfg(feature = "cuda")]
    Cuda,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), Failure> {
    if cfg!(debug_assertions) {
        eprintln!("note: this is a debug build; its figures mean nothing. Use `cargo xtask bench`.");
    }
    if let Some(rounds) = arguments.repeat {
        return repeat(arguments.topic, rounds, !arguments.without_threads);
    }
    let mut bench = Bench::new(arguments.quick, arguments.filter.clone())?;
    let rows = match arguments.topic {
        Topic::Graph => graph::rows(&mut bench)?,
        Topic::Pool => pool::rows(&mut bench)?,
        Topic::Eval => eval::rows(&mut bench)?,
        Topic::Scope => scope::rows(&mut bench)?,
        #[cfg(feature = "vulkan")]
        Topic::Kompute => kompute::rows(&mut bench)?,
        #[cfg(feature = "chain")]
        Topic::Chain => chain::rows(&mut bench)?,
        #[cfg(feature = "cuda")]
        Topic::Cuda => cuda::rows(&mut bench)?,
    };
    let report = Report::new(rows);
    println!("{report}");
    if let Some(file) = &arguments.json {
        std::fs::write(file, report.to_json()? + "\n")
            .map_err(|error| format!("{}: {error}", file.display()))?;
    }
    if let Some(file) = &arguments.chart {
        std::fs::write(file, chart::draw(&report)).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    Ok(())
}

fn repeat(topic: Topic, rounds: u64, threads: bool) -> Result<(), Failure> {
    match topic {
        Topic::Pool => pool::repeat(rounds),
        Topic::Eval => eval::repeat(rounds, threads),
        Topic::Scope => scope::repeat(rounds),
        other => Err(format!("there is nothing to repeat in the topic {other:?}").into()),
    }
}
