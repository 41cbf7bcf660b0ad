//! The command `chain`. Not here: anything that it does (`lib.rs` lists where that is).

use std::process::ExitCode;

use chain::cli::Arguments;
use clap::Parser;

fn main() -> ExitCode {
    chain::app::run(&Arguments::parse()).into()
}
