//! Starting programs, and what is asked of all of them at their end.
//!
//! Not here: what they do (`cases/`).

use std::process::{Command, ExitCode};

use libtest_mimic::{Arguments, Failed, Trial};

use crate::{cases, ffi};

/// A program.
pub struct Case {
    /// `topic/what_is_shown`.
    pub name: &'static str,
    /// Variables that it is started with.
    pub environment: &'static [(&'static str, &'static str)],
    /// What it does.
    pub body: fn(),
    /// Words that the report of its one violation has; `None` for no violation.
    pub violation: Option<&'static str>,
    /// What it leaves behind.
    pub leaks: u64,
    /// What its process ends with.
    pub code: i32,
}

impl Case {
    /// A program that does nothing wrong.
    pub const fn new(name: &'static str, body: fn()) -> Case {
        Case { name, environment: &[], body, violation: None, leaks: 0, code: 0 }
    }

    /// With variables.
    pub const fn with(self, environment: &'static [(&'static str, &'static str)]) -> Case {
        Case { environment, ..self }
    }

    /// That has to be reported, in these words.
    pub const fn reported(self, words: &'static str) -> Case {
        Case { violation: Some(words), ..self }
    }

    /// That leaves so many objects behind.
    pub const fn leaking(self, leaks: u64) -> Case {
        Case { leaks, ..self }
    }

    /// Whose process ends with this code.
    pub const fn ending(self, code: i32) -> Case {
        Case { code, ..self }
    }
}

/// Tells a process which program it is.
const VARIABLE: &str = "SOFTCUDA_TEST_PROGRAM";

/// Runs all programs, or is one of them.
pub fn main() -> ExitCode {
    let cases = cases::all();
    if let Ok(name) = std::env::var(VARIABLE) {
        let case = cases.iter().find(|case| case.name == name).expect("a program of that name");
        run(case);
        return ExitCode::SUCCESS;
    }
    let trials = cases.into_iter().map(|case| Trial::test(case.name, move || start(&case)));
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}

/// In a process of its own: does what the program does, and looks at what the driver found.
fn run(case: &Case) {
    ffi::load();
    (case.body)();
    let report = ffi::take_report();
    match case.violation {
        None => assert_eq!(ffi::violations(), 0, "it does nothing wrong:\n{report}"),
        Some(words) => {
            assert!(ffi::violations() > 0, "it does wrong and nothing was reported");
            assert!(report.contains(words), "the report has no `{words}`:\n{report}");
        }
    }
    assert_eq!(ffi::leaks(), case.leaks, "leaks");
}

fn start(case: &Case) -> Result<(), Failed> {
    let mut program = Command::new(std::env::current_exe()?);
    program.env(VARIABLE, case.name);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("SOFTCUDA_")) {
        if name != VARIABLE {
            program.env_remove(name);
        }
    }
    program.envs(case.environment.iter().copied());
    let output = program.output()?;
    let words = String::from_utf8_lossy(&output.stderr);
    if output.status.code() != Some(case.code) {
        return Err(format!("{}\n{words}", output.status).into());
    }
    // After an error that stays nothing can be given back, so the last word is only that of the others.
    let is_told = words.contains("leaks at the end of the process");
    let is_expected = case.leaks > 0 && case.name.starts_with("leaks/");
    if is_told != is_expected {
        return Err(format!("leaks are told at the end: {is_told}\n{words}").into());
    }
    Ok(())
}
