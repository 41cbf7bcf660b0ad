//! Burn under tenure. `train`: a training loop of Burn's with a scope an epoch, whose hooks synchronise the device, sweep
//! Burn's graph and clean its memory up. `bench`: the hot loops of Burn's graph and of tenure's side by side.

mod bench;
mod train;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Burn under tenure.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Train a linear model, with a scope an epoch.
    Train {
        /// Epochs.
        #[arg(long, default_value_t = 10)]
        epochs: u32,
    },
    /// Run the hot loops of both graphs in one process.
    Bench {
        /// Iterations of each loop.
        #[arg(long, default_value_t = 500_000)]
        iterations: u32,
        /// Add the rows to this file as JSON.
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
    },
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Train { epochs } => train::run(epochs),
        Command::Bench { iterations, json } => bench::run(iterations, json.as_deref()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
