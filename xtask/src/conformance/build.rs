//! Builds the conformance executable with the feature of one backend and no other, and the library that it loads.
//!
//! That it builds with one feature alone is itself a check: features select. Not here: running it (`runner.rs`).

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::Stdio;

use serde::Deserialize;

use crate::backends::Backend;
use crate::library::{self, Profile};
use crate::workspace::{Problem, cargo};

/// The package of the suite and the executable in it.
pub const PACKAGE: &str = "tenure-conformance";

/// How a build ended.
#[derive(Debug)]
pub enum Built {
    /// Here is the executable.
    Ready(PathBuf),
    /// It does not compile. Cargo has printed why.
    Refused,
}

/// Builds it. Cargo's own progress goes to the terminal.
///
/// # Errors
/// Cargo cannot be started, or succeeds without naming an executable.
pub fn build(backend: &Backend, profile: Profile) -> Result<Built, Problem> {
    if !library::build(backend, profile)? {
        return Ok(Built::Refused);
    }
    let mut command = cargo(["build", "--package", PACKAGE, "--bin", PACKAGE, "--no-default-features"]);
    command.args(["--features", backend.feature, "--message-format", "json-render-diagnostics"]);
    if profile == Profile::Release {
        command.arg("--release");
    }
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(Problem::while_doing("starting cargo build"))?;
    let mut executable = None;
    if let Some(stream) = child.stdout.take() {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            executable = executable_in(&line).or(executable);
        }
    }
    let status = child.wait().map_err(Problem::while_doing("waiting for cargo build"))?;
    if !status.success() {
        return Ok(Built::Refused);
    }
    executable
        .map(Built::Ready)
        .ok_or_else(|| Problem::new(format!("cargo built {PACKAGE} but named no executable")))
}

/// The part of cargo's messages that matters here.
#[derive(Deserialize)]
struct Message {
    reason: String,
    target: Target,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

fn executable_in(line: &str) -> Option<PathBuf> {
    // Messages of other shapes are other messages.
    let message: Message = serde_json::from_str(line).ok()?;
    let ours = message.reason == "compiler-artifact"
        && message.target.name == PACKAGE
        && message.target.kind.iter().any(|kind| kind == "bin");
    if ours { message.executable } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_executable_is_found_among_cargos_messages() {
        let ours = r#"{"reason":"compiler-artifact","target":{"kind":["bin"],"name":"tenure-conformance"},"executable":"/t/x"}"#;
        assert_eq!(executable_in(ours), Some(PathBuf::from("/t/x")));
        for other in [
            r#"{"reason":"compiler-artifact","target":{"kind":["lib"],"name":"tenure-conformance"},"executable":null}"#,
            r#"{"reason":"compiler-artifact","target":{"kind":["bin"],"name":"other"},"executable":"/t/y"}"#,
            r#"{"reason":"build-finished","success":true}"#,
            "no json",
        ] {
            assert_eq!(executable_in(other), None, "{other}");
        }
    }
}
