//! `cargo xtask kernels`: the generated texts of the shipped kernels, made anew or checked.
//!
//! The work is done by a program of the package `tenure-kernels`, so that only this command compiles CubeCL. Not here:
//! the kernels, and what is written.

use std::process::Stdio;

use clap::Args;

use crate::workspace::{Problem, Verdict, cargo};

/// The package of the kernels.
pub const PACKAGE: &str = "tenure-kernels";

/// Its feature that brings CubeCL.
pub const FEATURE: &str = "cubecl";

/// The profile in which CubeCL is built: without optimisation, for its texts are made in a moment.
pub const PROFILE: &str = "generate";

/// The command line of `cargo xtask kernels`.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct Arguments {
    /// Change nothing; fail if a text is not what its source makes.
    #[arg(long)]
    pub check: bool,
}

/// Generates or checks. True if the texts are now what their sources make.
///
/// # Errors
/// Cargo cannot be started.
pub fn command(arguments: &Arguments) -> Verdict {
    let mut command = cargo(["run", "--quiet", "--profile", PROFILE, "--package", PACKAGE]);
    command.args(["--features", FEATURE, "--bin", "tenure-kernels-generate", "--"]);
    if arguments.check {
        command.arg("--check");
    }
    let status = command.stdin(Stdio::null()).status().map_err(Problem::while_doing("starting cargo"))?;
    Ok(status.success())
}
