//! What the tests of the command share: folders of their own, runs of the binary, interrupted ones too, and the chain by
//! hand.
//!
//! Not here: tests.

pub mod by_hand;
#[cfg(unix)]
pub mod interrupt;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Folders of one test, gone at its end.
pub struct Folders {
    root: PathBuf,
}

impl Folders {
    /// With an empty input folder and no output folder. `test` names no other test.
    pub fn new(test: &str) -> Folders {
        let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}-{}", std::process::id()));
        // What an earlier process of this number left.
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(root.join("in")).unwrap();
        Folders { root }
    }

    /// With the shipped samples in the input folder.
    pub fn with_samples(test: &str) -> Folders {
        let folders = Folders::new(test);
        for name in names(&samples()) {
            fs::copy(samples().join(&name), folders.input().join(&name)).unwrap();
        }
        folders
    }

    /// The input folder.
    pub fn input(&self) -> PathBuf {
        self.root.join("in")
    }

    /// The output folder.
    pub fn output(&self) -> PathBuf {
        self.root.join("out")
    }

    /// Writes a file to the input folder.
    pub fn put(&self, name: &str, bytes: &[u8]) {
        fs::write(self.input().join(name), bytes).unwrap();
    }

    /// The command on these folders.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_chain"));
        command.arg("--input").arg(self.input()).arg("--output").arg(self.output()).args(arguments);
        command
    }

    /// Runs the command on these folders.
    pub fn run(&self, arguments: &[&str]) -> Run {
        Run::of(&mut self.command(arguments))
    }
}

impl Drop for Folders {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

/// What a run answered.
#[derive(Debug)]
pub struct Run {
    /// The exit code; none if a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl Run {
    /// Runs a command to its end.
    pub fn of(command: &mut Command) -> Run {
        Run::from(command.output().unwrap())
    }

    /// The words after a name in the report's list of figures.
    pub fn figure(&self, name: &str) -> &str {
        let value = self.out.lines().find_map(|line| {
            let (first, value) = line.trim().split_once(' ')?;
            (first == name).then(|| value.trim())
        });
        value.unwrap_or_else(|| panic!("no figure `{name}` in {self:#?}"))
    }
}

impl From<Output> for Run {
    fn from(output: Output) -> Run {
        Run {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// The shipped samples.
pub fn samples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("samples")
}

/// Names of all that is in a folder, hidden files too, in order; none if there is no folder.
pub fn names(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
