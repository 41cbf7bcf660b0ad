//! One run of the command, from its arguments to its exit code.
//!
//! Not here: the parts (`batch.rs` and the files that it names).

use std::process::ExitCode;
use std::sync::Arc;

use tenure::{CloseReport, Error, ManagerOptions, Outcome};

use crate::batch::{Batch, Ended, Job};
use crate::cancel::Cancel;
use crate::cli::Arguments;
use crate::error::SetupError;
use crate::ledger::Ledger;
use crate::progress::{Progress, complain, say};
use crate::report::Summary;
use crate::{chain, files, samples};

/// How a run ended, for the shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All images were done.
    Done,
    /// Some images, or the cleanup, failed.
    Failed,
    /// The command could not be carried out.
    Refused,
    /// Ctrl-C.
    Cancelled,
}

impl From<Verdict> for ExitCode {
    fn from(verdict: Verdict) -> ExitCode {
        ExitCode::from(match verdict {
            Verdict::Done => 0,
            Verdict::Failed => 1,
            Verdict::Refused => 2,
            // What shells make of a program that SIGINT ended.
            Verdict::Cancelled => 130,
        })
    }
}

/// Runs the command and says what there is to say.
pub fn run(arguments: &Arguments) -> Verdict {
    attempt(arguments).unwrap_or_else(|error| {
        complain(format_args!("error: {error}"));
        Verdict::Refused
    })
}

fn attempt(arguments: &Arguments) -> Result<Verdict, SetupError> {
    let cancel = Cancel::default();
    cancel.on_signal().map_err(SetupError::Signal)?;
    if let Some(count) = arguments.generate {
        generate(arguments, count, &cancel)?;
    }
    let jobs = jobs(arguments)?;

    let options = ManagerOptions::builder().label("chain").trim(arguments.trim.into()).build();
    let manager = tenure::open_with_options(&arguments.backend, options).map_err(SetupError::Device)?;
    let nodes = chain::nodes(&manager, arguments.max_pixels).map_err(SetupError::Device)?;
    let ledger = Arc::new(Ledger::new(nodes.iter().map(|node| node.name())));
    let ended = Batch {
        manager: &manager,
        nodes: &nodes,
        weights: &Arc::default(),
        ledger: &ledger,
        cancel: &cancel,
        progress: &Progress::new(jobs.len(), arguments.quiet),
        fail_fast: arguments.fail_fast,
        pause_after: arguments.pause_after,
    }
    .run(&jobs);

    // Before closing: afterwards there is nothing left to show.
    let memory = manager.memory();
    drop(nodes);
    let closed = manager.close();
    if !arguments.quiet {
        let counts = ledger.counts();
        let summary = Summary {
            device: manager.info(),
            tally: &ended.tally,
            counts: &counts,
            memory: &memory,
            batch: ended.report.as_ref(),
        };
        say(format_args!("{summary}"));
    }
    Ok(judge(&ended, &closed))
}

/// Writes samples if the input folder has nothing in it.
fn generate(arguments: &Arguments, count: u32, cancel: &Cancel) -> Result<(), SetupError> {
    let input = &arguments.input;
    let failed = |source| SetupError::Input { path: input.clone(), source };
    if files::is_missing_or_empty(input).map_err(failed)? {
        return samples::generate(input, count, || cancel.is_requested());
    }
    if !arguments.quiet {
        complain(format_args!("{} is not empty: no samples are made", input.display()));
    }
    Ok(())
}

fn jobs(arguments: &Arguments) -> Result<Vec<Job>, SetupError> {
    let images = files::images(&arguments.input)?;
    files::prepare_output(&arguments.output, &arguments.input)?;
    let job = |source: std::path::PathBuf| {
        let target = arguments.output.join(source.file_name().unwrap_or_default());
        Job { source, target }
    };
    Ok(images.into_iter().map(job).collect())
}

/// Complains about all that went wrong, and says what it comes to.
fn judge(ended: &Ended, closed: &Result<CloseReport, Error>) -> Verdict {
    let failures = &ended.tally.failures;
    if !failures.is_empty() {
        complain(format_args!("error: {} of {} images failed:", failures.len(), ended.tally.total));
    }
    for failure in failures {
        complain(format_args!("  {} {}", failure.source.display(), failure.error));
    }
    if let Some(error) = &ended.error {
        complain(format_args!("error: {error}"));
    }
    let clean = match closed {
        Ok(report) if report.is_clean() => true,
        Ok(report) => {
            complain(format_args!("error: {report}"));
            false
        }
        Err(error) => {
            complain(format_args!("error: {error}"));
            false
        }
    };
    let outcome = ended.report.as_ref().map(|report| report.outcome);
    if outcome == Some(Outcome::Cancelled) {
        complain(format_args!("cancelled: {} of {} images were done", ended.tally.done, ended.tally.total));
        return Verdict::Cancelled;
    }
    if clean && outcome == Some(Outcome::Completed) { Verdict::Done } else { Verdict::Failed }
}
