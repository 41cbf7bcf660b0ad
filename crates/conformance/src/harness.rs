//! [`Suite`]: the whole suite as a program, for our own backends and for anyone's.
//!
//! ```no_run
//! use std::process::ExitCode;
//! use tenure_conformance::Suite;
//! # use tenure_core::{Backend, BackendError};
//! # fn main_of<B: Backend>(open: fn() -> Result<B, BackendError>) -> ExitCode {
//! Suite::new("mine", open).main()
//! # }
//! ```
//!
//! Not here: the parts that it puts together.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Parser};
use parking_lot::Mutex;
use tenure_core::{Backend, BackendError, BackendErrorKind, Error};

use crate::bed::Bed;
use crate::case::Case;
use crate::cases;
use crate::engine_memory::EngineMemory;
use crate::expectations::Expectations;
use crate::human::Human;
use crate::junit;
use crate::report::{BackendReport, CaseResult, Event, Report, Reporter, Status};
use crate::runner::{Census, Complaints, Filter, Planned, Runner};
use crate::watchdog::Watchdog;

/// Exit codes. A run in which nothing was run is no success.
const GOOD: u8 = 0;
const BAD: u8 = 1;
const NOTHING_RUN: u8 = 2;

/// The command line of a suite.
#[derive(Args, Clone, Debug)]
pub struct Arguments {
    /// List the cases and the rules that they are about, and run nothing.
    #[arg(long)]
    pub list: bool,
    /// Run only cases whose id contains this text, or with `rule:L4` those about a rule. May be given again.
    #[arg(long, value_name = "TEXT")]
    pub filter: Vec<String>,
    /// Print events as JSON, one a line.
    #[arg(long)]
    pub jsonl: bool,
    /// Write the results to this file as JSON.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the results to this file as JUnit XML.
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// End the process when a case runs for longer.
    #[arg(long, default_value_t = 240, value_name = "SECONDS")]
    pub timeout: u64,
}

#[derive(Parser)]
#[command(about = "Runs tenure's conformance suite on a backend")]
struct CommandLine {
    #[command(flatten)]
    arguments: Arguments,
}

/// The suite for one backend.
pub struct Suite {
    name: String,
    open: Box<dyn FnOnce() -> Result<Bed, Error>>,
    expectations: Expectations,
    complaints: Option<Complaints>,
    census: Option<Census>,
    engine_memory: Option<EngineMemory>,
}

impl Suite {
    /// The suite for the backends that `factory` makes: one for each manager, many in one process. The factory
    /// answers `Unavailable` where there is no such device here.
    pub fn new<B: Backend>(
        name: impl Into<String>,
        factory: impl Fn() -> Result<B, BackendError> + Send + Sync + 'static,
    ) -> Self {
        let open = Box::new(move || Bed::new(factory));
        Suite {
            name: name.into(),
            open,
            expectations: Expectations::new(),
            complaints: None,
            census: None,
            engine_memory: None,
        }
    }

    /// What is expected of the backend.
    pub fn expectations(mut self, expectations: Expectations) -> Self {
        self.expectations = expectations;
        self
    }

    /// Has `census` count the objects that the driver has for this process, before and after each case: they are as many,
    /// unless a device was lost in the case.
    pub fn census(mut self, census: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        self.census = Some(Box::new(census));
        self
    }

    /// Says what an engine would hand in for a block, had it made the block itself: cases about adopted memory run then. `B`
    /// is the backend of [`Suite::new`].
    pub fn engine_memory<B: Backend>(
        mut self,
        foreign_of: impl Fn(&B::Block) -> B::Foreign + Send + Sync + 'static,
    ) -> Self {
        self.engine_memory = Some(EngineMemory::new::<B>(foreign_of));
        self
    }

    /// Asks `complaints` after each case, once its backends are shut down: what has something to say of them (a
    /// validation layer, a leak checker) fails the case. What came up while the backend was opened for its facts is
    /// the first case's.
    pub fn complaints(mut self, complaints: impl Fn() -> Vec<String> + Send + Sync + 'static) -> Self {
        self.complaints = Some(Box::new(complaints));
        self
    }

    /// Opens the backend for its facts and makes a runner, for harnesses of one's own.
    ///
    /// # Errors
    /// As [`Bed::new`].
    pub fn into_runner(self) -> Result<Runner, Error> {
        let bed = (self.open)()?;
        let bed = match self.engine_memory {
            Some(memory) => bed.with_engine_memory(memory),
            None => bed,
        };
        let runner = Runner::new(bed, self.expectations);
        let runner = match self.complaints {
            Some(complaints) => runner.with_complaints(complaints),
            None => runner,
        };
        Ok(match self.census {
            Some(census) => runner.with_census(census),
            None => runner,
        })
    }

    /// Runs the suite as the process's arguments say.
    pub fn main(self) -> ExitCode {
        self.run(&CommandLine::parse().arguments)
    }

    /// Runs the suite. The exit code is 0 if no case failed, 1 if one did, and 2 where nothing was run: the backend is
    /// unavailable, or no case matches.
    pub fn run(self, arguments: &Arguments) -> ExitCode {
        let lines: Box<dyn Reporter + Send> =
            if arguments.jsonl { Box::new(JsonLines) } else { Box::new(Human::new()) };
        ExitCode::from(self.run_cases(&cases::all(), arguments, lines))
    }

    fn run_cases(self, all: &[&'static Case], arguments: &Arguments, lines: Box<dyn Reporter + Send>) -> u8 {
        let filters: Vec<Filter> = arguments.filter.iter().map(|text| Filter::parse(text)).collect();
        let is_selected =
            |case: &&'static Case| filters.is_empty() || filters.iter().any(|filter| filter.selects(case));
        let selected: Vec<&'static Case> = all.iter().copied().filter(is_selected).collect();
        if arguments.list {
            list(&selected);
            return GOOD;
        }
        if selected.is_empty() {
            eprintln!("no case matches {}", arguments.filter.join(", "));
            return NOTHING_RUN;
        }
        let name = self.name.clone();
        let output = Output::new(lines);
        let runner = match self.into_runner() {
            Ok(runner) => runner,
            Err(error) => return not_opened(&output, arguments, name, &error),
        };
        let problems = runner.check_expectations(all.iter().copied());
        let plan = runner.plan(selected);
        run_plan(&runner, &name, problems, &plan, &output, Duration::from_secs(arguments.timeout));
        let written = write_files(&output, arguments);
        if written && output.report().failed == 0 { GOOD } else { BAD }
    }
}

impl std::fmt::Debug for Suite {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Suite")
            .field("name", &self.name)
            .field("expectations", &self.expectations)
            .finish_non_exhaustive()
    }
}

/// Where events go: a stream of lines, and the report. Shared with the watchdog's thread.
#[derive(Clone)]
struct Output(Arc<Mutex<Sinks>>);

struct Sinks {
    lines: Box<dyn Reporter + Send>,
    report: BackendReport,
}

impl Output {
    fn new(lines: Box<dyn Reporter + Send>) -> Self {
        Output(Arc::new(Mutex::new(Sinks { lines, report: BackendReport::default() })))
    }

    fn event(&self, event: Event) {
        let mut sinks = self.0.lock();
        sinks.lines.event(&event);
        sinks.report.event(&event);
    }

    fn report(&self) -> BackendReport {
        self.0.lock().report.clone()
    }
}

/// The streaming protocol, on standard output.
struct JsonLines;

impl Reporter for JsonLines {
    fn event(&mut self, event: &Event) {
        let mut out = std::io::stdout().lock();
        // Who listened is gone: the exit code still tells.
        let _ = writeln!(out, "{}", event.to_line());
        let _ = out.flush();
    }
}

fn list(cases: &[&'static Case]) {
    let mut out = std::io::stdout().lock();
    for case in cases {
        let rules: Vec<String> = case.rules.iter().map(|rule| format!("rule:{rule}")).collect();
        // A reader that closes the pipe early has what it wanted.
        if writeln!(out, "{} {}", case.id, rules.join(" ")).is_err() {
            return;
        }
    }
}

fn not_opened(output: &Output, arguments: &Arguments, name: String, error: &Error) -> u8 {
    match error {
        Error::Backend(missing) if missing.kind == BackendErrorKind::Unavailable => {
            output.event(Event::Unavailable { name, reason: missing.message.to_string() });
            write_files(output, arguments);
            NOTHING_RUN
        }
        // A backend that is there and does not open is broken, not unavailable.
        error => {
            eprintln!("backend `{name}` does not open: {error}");
            BAD
        }
    }
}

fn run_plan(
    runner: &Runner,
    name: &str,
    problems: Vec<CaseResult>,
    plan: &[Planned],
    output: &Output,
    timeout: Duration,
) {
    let info = runner.bed().info();
    output.event(Event::Start {
        name: name.to_owned(),
        device: info.device.clone(),
        software: info.software,
        total: problems.len() + plan.len(),
    });
    for problem in problems {
        output.event(Event::Case(problem));
    }
    let watchdog = {
        let output = output.clone();
        Watchdog::new(timeout, move |id| give_up(&output, id, timeout))
    };
    for planned in plan {
        let case = planned.case;
        output.event(Event::Running { id: case.id.to_owned(), rule: case.rule() });
        let result = {
            let _watch = watchdog.watch(case.id);
            runner.run(planned)
        };
        output.event(Event::Case(result));
    }
    let report = output.report();
    output.event(Event::End { passed: report.passed, failed: report.failed, skipped: report.skipped });
}

/// Reports the case that hangs and ends the process. Not by `exit`: that runs destructors, which may hang too.
fn give_up(output: &Output, id: &str, timeout: Duration) {
    let rule = cases::all().into_iter().find(|case| case.id == id).map(Case::rule).unwrap_or_default();
    output.event(Event::Case(CaseResult {
        id: id.to_owned(),
        rule,
        status: Status::Failed,
        reason: Some(format!("still running after {} s; the process ends here", timeout.as_secs())),
        ms: timeout.as_secs_f64() * 1000.0,
    }));
    eprintln!("case `{id}` is still running after {} s: ending the process", timeout.as_secs());
    std::process::abort();
}

/// Writes the files that were asked for. False if one could not be written.
fn write_files(output: &Output, arguments: &Arguments) -> bool {
    let report = Report { backends: vec![output.report()] };
    let files = [
        (&arguments.json, Report::to_json as fn(&Report) -> String),
        (&arguments.junit, junit::render as fn(&Report) -> String),
    ];
    let mut written = true;
    for (path, render) in files {
        let Some(path) = path else { continue };
        if let Err(error) = std::fs::write(path, render(&report)) {
            eprintln!("{} cannot be written: {error}", path.display());
            written = false;
        }
    }
    written
}

#[cfg(test)]
mod tests;
