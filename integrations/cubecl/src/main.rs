//! CubeCL's runtime beside tenure: what its client's memory and its launches cost, in pairs that take turns, on one device.
//!
//! Not here: CubeCL as a compiler, which is how tenure uses it (`crates/kernels`).

mod bench;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};

/// CubeCL's runtime beside tenure.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measure a topic.
    Bench {
        /// What to measure.
        topic: Topic,
        /// Add the rows to this file as JSON.
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
    },
}

/// What can be measured.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Topic {
    /// Memory of 1 MiB, made and dropped.
    Pool,
    /// An empty kernel, launched and waited for.
    Eval,
}

fn main() -> ExitCode {
    let Command::Bench { topic, json } = Arguments::parse().command;
    match bench::run(topic, json.as_deref()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
