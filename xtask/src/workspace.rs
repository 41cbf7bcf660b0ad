//! Where the repository is, how cargo is called, and the one error type of these commands.
//!
//! Not here: what the commands do with it.

use std::fmt::{self, Display};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// Why a command could not do its work. A check that ran and found something is no `Problem`: commands
/// answer `Ok(false)` for that.
#[derive(Debug)]
pub struct Problem(String);

/// What a command answers: whether all was well.
pub type Verdict = Result<bool, Problem>;

impl Problem {
    /// A problem in words. Further lines may say what to do about it.
    pub fn new(text: impl Into<String>) -> Problem {
        Problem(text.into())
    }

    /// For `map_err`: what was attempted, before what went wrong.
    pub fn while_doing<E: Display>(action: impl Display) -> impl FnOnce(E) -> Problem {
        move |error| Problem(format!("{action}: {error}"))
    }
}

impl Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Problem {}

/// The root of the repository.
pub fn root() -> &'static Path {
    static ROOT: OnceLock<PathBuf> = OnceLock::new();
    ROOT.get_or_init(|| {
        // Cargo sets the variable for `cargo run`; the value from the build serves a binary started by hand.
        let package = std::env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        package.parent().map_or_else(|| package.clone(), Path::to_path_buf)
    })
}

/// Cargo, started in the root of the repository, with these arguments.
pub fn cargo<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Command {
    // The variable names the cargo that runs this command, so that all steps use one toolchain.
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.current_dir(root()).args(arguments);
    command
}

/// The first line that a program prints when asked for its version; `None` if it is not there.
pub fn version_of(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    let line = String::from_utf8_lossy(&output.stdout).lines().next()?.trim().to_owned();
    output.status.success().then_some(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_holds_the_workspace() {
        let manifest = std::fs::read_to_string(root().join("Cargo.toml")).unwrap();
        assert!(manifest.contains("[workspace]"));
    }

    #[test]
    fn a_program_that_is_not_there_has_no_version() {
        assert_eq!(version_of(&mut Command::new("tenure-no-such-program")), None);
        assert!(version_of(cargo(["--version"]).arg("--quiet")).unwrap().starts_with("cargo "));
    }
}
