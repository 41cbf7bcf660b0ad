//! `tenure-bench`: measures a topic, prints a table, and writes JSON and a chart on request. Run it by
//! `cargo xtask bench`, which builds it for release.
//!
//! One module a topic. Not here: how things are measured and told (the library of this package).

mod graph;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use tenure_bench::chart;
use tenure_bench::measure::Bench;
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
}

/// What can be measured.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Topic {
    /// Graphs: making and dropping nodes, at any scale and from many threads.
    Graph,
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

fn run(arguments: &Arguments) -> Result<(), Box<dyn std::error::Error>> {
    if cfg!(debug_assertions) {
        eprintln!("note: this is a debug build; its figures mean nothing. Use `cargo xtask bench`.");
    }
    let mut bench = Bench::new(arguments.quick, arguments.filter.clone())?;
    let rows = match arguments.topic {
        Topic::Graph => graph::rows(&mut bench)?,
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
