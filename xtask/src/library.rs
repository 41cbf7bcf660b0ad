//! Builds the library that a backend's programs load at run time, such as a driver in software.
//!
//! Cargo puts it into the folder of programs, where it is looked for. Not here: who loads it.

use std::process::Stdio;

use crate::backends::Backend;
use crate::workspace::{Problem, Verdict, cargo};

/// How things are compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// With debug assertions.
    Dev,
    /// With optimisation.
    Release,
}

/// Builds the backend's library, if it has one. True if all that it needs is there; if not, cargo has printed why.
///
/// # Errors
/// Cargo cannot be started.
pub fn build(backend: &Backend, profile: Profile) -> Verdict {
    let Some(package) = backend.library else { return Ok(true) };
    let mut command = cargo(["build", "--package", package, "--lib"]);
    if profile == Profile::Release {
        command.arg("--release");
    }
    let status =
        command.stdin(Stdio::null()).status().map_err(Problem::while_doing("starting cargo build"))?;
    Ok(status.success())
}
