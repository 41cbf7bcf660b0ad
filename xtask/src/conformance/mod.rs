//! `cargo xtask conformance`: the suite on every backend, each built with its own feature and run in a process of
//! its own, then one table over all of them.
//!
//! Here: the command line, the order of things, the verdict. `build.rs` builds, `runner.rs` runs and `story.rs`
//! judges one process, which speaks `protocol.rs`; `record.rs` is what is known then, and `summary.rs`,
//! `json.rs` and `junit.rs` write it down. Not here: the cases. They are in `crates/conformance`.

mod build;
mod json;
mod junit;
mod progress;
mod protocol;
mod record;
mod runner;
mod story;
mod summary;
#[cfg(all(test, unix))]
mod tests;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use clap::Args;

use self::build::Built;
use self::progress::Progress;
use self::protocol::{Case, Status};
use self::record::{Presence, Record};
use crate::backends::{self, Backend};
use crate::library::Profile;
use crate::terminal::bold;
use crate::workspace::{Problem, Verdict, root};

pub use self::build::PACKAGE;
pub use self::record::Tally;

/// The command line of `cargo xtask conformance`.
#[derive(Args, Clone, Debug)]
pub struct Arguments {
    /// Backends to run on, by name; `all` for every one that there is.
    #[arg(long, value_delimiter = ',', default_value = "all", value_name = "BACKEND,...")]
    pub backend: Vec<String>,
    /// Run only cases whose id contains this text, or with `rule:L4` those about a rule. May be given again.
    #[arg(long, value_name = "TEXT")]
    pub filter: Vec<String>,
    /// Write the results to this file as JSON.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the results to this file as JUnit XML.
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// Fail if one of these backends cannot run here; `all` for every one.
    #[arg(long, value_delimiter = ',', value_name = "BACKEND,...")]
    pub require: Vec<String>,
    /// Build the suite with optimisation.
    #[arg(long)]
    pub release: bool,
    /// End a suite that shows no sign of life for this long.
    #[arg(long, default_value_t = PATIENCE, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub patience: u64,
}

/// How long a suite may be silent, in seconds. Far above what any case takes, and above the time after which the suite
/// itself ends a case.
const PATIENCE: u64 = 300;

impl Default for Arguments {
    /// As on a command line without options.
    fn default() -> Self {
        Arguments {
            backend: vec!["all".to_owned()],
            filter: Vec::new(),
            json: None,
            junit: None,
            require: Vec::new(),
            release: false,
            patience: PATIENCE,
        }
    }
}

/// What a run came to.
#[derive(Debug)]
pub struct Summary {
    /// The counts over all backends.
    pub tally: Tally,
    /// Whether nothing failed and every required backend ran.
    pub good: bool,
}

/// Runs the command.
///
/// # Errors
/// See [`run`].
pub fn command(arguments: &Arguments) -> Verdict {
    run(arguments).map(|summary| summary.good)
}

/// Runs the suite on the chosen backends and prints the summary.
///
/// # Errors
/// An unknown backend, a filter that matches nothing, a required backend that was not chosen, a program that
/// cannot be started, or a file that cannot be written.
pub fn run(arguments: &Arguments) -> Result<Summary, Problem> {
    let chosen = backends::select(&arguments.backend)?;
    let required = required(&arguments.require, &chosen)?;
    // A run is long: a file that cannot be written is found before it.
    for file in [&arguments.json, &arguments.junit].into_iter().flatten() {
        check_writable(file)?;
    }
    let mut records = Vec::new();
    for backend in chosen {
        records.push(run_one(backend, arguments)?);
    }
    write(arguments.json.as_deref(), || json::render(&records))?;
    write(arguments.junit.as_deref(), || junit::render(&records, &required))?;
    print!("{}", summary::render(&records, &required));
    let tally = Tally::of(records.iter().flat_map(|record| &record.cases));
    Ok(Summary { tally, good: is_good(&records, &required) })
}

fn run_one(backend: &'static Backend, arguments: &Arguments) -> Result<Record, Problem> {
    let profile = if arguments.release { Profile::Release } else { Profile::Dev };
    eprintln!("{}", bold(&format!("conformance: building for {}", backend.name)));
    let start = Instant::now();
    let executable = match build::build(backend, profile)? {
        Built::Ready(executable) => executable,
        Built::Refused => return Ok(does_not_build(backend, start.elapsed())),
    };
    check_filter(backend, &executable, &arguments.filter)?;
    let mut command = suite(backend, &executable, &arguments.filter);
    command.arg("--jsonl");
    let mut progress = Progress::new(backend.name);
    runner::run(backend, command, Duration::from_secs(arguments.patience), &mut progress)
}

/// A filter that matches nothing must not look like a run in which nothing failed.
fn check_filter(backend: &Backend, executable: &Path, filters: &[String]) -> Result<(), Problem> {
    if filters.is_empty() || !list(suite(backend, executable, filters))?.is_empty() {
        return Ok(());
    }
    let all = list(suite(backend, executable, &[]))?;
    let topics: BTreeSet<&str> = all.iter().filter_map(|case| case.split('/').next()).collect();
    let topics: Vec<String> = topics.into_iter().map(|topic| format!("{topic}/")).collect();
    Err(Problem::new(format!("no case matches `{}`; there are: {}", filters.join("`, `"), topics.join(", "))))
}

/// One line a case: its id and its rules.
fn list(mut suite: Command) -> Result<Vec<String>, Problem> {
    let output = suite.arg("--list").output().map_err(Problem::while_doing("listing the suite's cases"))?;
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr);
        return Err(Problem::new(format!("the suite cannot list its cases ({}):\n{error}", output.status)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
}

/// The suite's executable with what every call of it needs.
fn suite(backend: &Backend, executable: &Path, filters: &[String]) -> Command {
    let mut command = Command::new(executable);
    command.current_dir(root()).envs(backend.environment.iter().copied());
    command.args(["--backend", backend.name]);
    for filter in filters {
        command.args(["--filter", filter]);
    }
    command
}

fn does_not_build(backend: &'static Backend, time: Duration) -> Record {
    let case = Case {
        id: "(build)".to_owned(),
        rule: String::new(),
        status: Status::Failed,
        reason: Some(format!("the suite does not build with the one feature `{}`", backend.feature)),
        ms: 0.0,
    };
    Record { backend, presence: Presence::Broken, cases: vec![case], time }
}

/// The names behind `--require`. To require what is not run can only be a mistake.
fn required(names: &[String], chosen: &[&'static Backend]) -> Result<Vec<&'static str>, Problem> {
    let required = backends::select(names)?;
    match required.iter().find(|backend| !chosen.iter().any(|other| other.name == backend.name)) {
        Some(missing) => Err(Problem::new(format!(
            "backend `{}` is required, but --backend does not choose it",
            missing.name
        ))),
        None => Ok(required.iter().map(|backend| backend.name).collect()),
    }
}

fn is_good(records: &[Record], required: &[&str]) -> bool {
    records.iter().all(|record| {
        let there = match record.presence {
            Presence::Present(_) => true,
            Presence::Unavailable(_) => !required.contains(&record.backend.name),
            Presence::Broken => false,
        };
        there && record.tally().failed == 0
    })
}

fn check_writable(file: &Path) -> Result<(), Problem> {
    let opened = std::fs::OpenOptions::new().create(true).append(true).open(file);
    opened.map(drop).map_err(Problem::while_doing(format!("writing {}", file.display())))
}

fn write(file: Option<&Path>, contents: impl FnOnce() -> String) -> Result<(), Problem> {
    let Some(file) = file else { return Ok(()) };
    std::fs::write(file, contents()).map_err(Problem::while_doing(format!("writing {}", file.display())))
}
