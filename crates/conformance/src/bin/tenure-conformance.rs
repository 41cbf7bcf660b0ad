//! The suite on one of our backends: `tenure-conformance --backend host`.
//!
//! Not here: everything but the choice of the backend. See `Suite`.

use std::process::ExitCode;

use clap::Parser;
use clap::builder::PossibleValuesParser;
use tenure_conformance::{Arguments, backends};

/// Runs tenure's conformance suite on a backend.
#[derive(Parser)]
#[command(version)]
struct CommandLine {
    /// The backend to run on.
    #[arg(long, value_parser = PossibleValuesParser::new(backends::NAMES))]
    backend: String,
    #[command(flatten)]
    arguments: Arguments,
}

fn main() -> ExitCode {
    let line = CommandLine::parse();
    match backends::suite(&line.backend) {
        Some(suite) => suite.run(&line.arguments),
        None => {
            eprintln!("there is no backend `{}` in this build", line.backend);
            ExitCode::FAILURE
        }
    }
}
