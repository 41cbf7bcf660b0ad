//! `cargo xtask`: the workspace's own commands. This file holds the command line and nothing else.
//!
//! One module per command: [`conformance`], [`mod@test`], [`mod@bench`], [`doctor`], [`kernels`], [`tidy`]. Beside them: [`backends`], the
//! table of backends that all of them read; [`rules`], the contract's numbers; [`workspace`], where the
//! repository is and how cargo is called; [`terminal`], how output looks.
//!
//! Not here: anything that a user of the library needs. The package is never published.

mod backends;
mod bench;
mod conformance;
mod doctor;
mod kernels;
mod library;
mod rules;
mod terminal;
mod test;
mod tidy;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Commands of the tenure workspace.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the conformance suite, each backend built with its own feature and run in its own process.
    Conformance(conformance::Arguments),
    /// Run every check of this repository, set-up included.
    Test(test::Arguments),
    /// Measure a topic, built for release: a table, and JSON and a chart on request.
    Bench(bench::Arguments),
    /// Say which backends this machine can run, and the command that fixes what is missing.
    Doctor,
    /// Generate the texts of the kernels that tenure ships, or check them for drift.
    Kernels(kernels::Arguments),
    /// Check the rules that no compiler checks: module docs, unsafe code, file lengths, links.
    Tidy,
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Conformance(arguments) => conformance::command(&arguments),
        Command::Test(arguments) => test::command(&arguments),
        Command::Bench(arguments) => bench::command(&arguments),
        Command::Doctor => doctor::command(),
        Command::Kernels(arguments) => kernels::command(&arguments),
        Command::Tidy => tidy::command(),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!("{} {problem}", terminal::red("error:"));
            ExitCode::FAILURE
        }
    }
}
