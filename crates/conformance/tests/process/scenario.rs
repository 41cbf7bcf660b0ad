//! [`Scenario`]s: what a process does and how it must end. Running one in a process of its own, as a test.
//!
//! Not here: the scenarios.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitCode, Stdio};

use libtest_mimic::{Arguments, Failed, Trial};

use crate::ffi;

/// The environment variable that makes this program run a scenario.
const VARIABLE: &str = "TENURE_PROCESS_SCENARIO";

/// Seconds until a process that hangs is ended by a signal, and its test has failed.
pub(crate) const LIMIT_SECONDS: u32 = 60;

/// One process.
pub(crate) struct Scenario {
    pub name: &'static str,
    /// What it does. Runs as the main function of its process.
    pub run: fn() -> ExitCode,
    pub ends: Ends,
    /// What must be in its standard error. Empty: nothing may be.
    pub says: &'static str,
}

/// How a process must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ends {
    /// With this exit code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

/// Runs the scenario that the environment names; otherwise all of them, as tests.
pub(crate) fn main(parts: &[&'static [Scenario]]) -> ExitCode {
    let all = || parts.iter().flat_map(|part| part.iter());
    if let Ok(name) = std::env::var(VARIABLE) {
        let scenario = all().find(|scenario| scenario.name == name).expect("the scenario is there");
        ffi::end_after(LIMIT_SECONDS);
        return (scenario.run)();
    }
    let arguments = Arguments::from_args();
    let trials = all().map(|scenario| Trial::test(scenario.name, move || judge(scenario))).collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Runs a scenario in a process of its own and compares its end.
fn judge(scenario: &Scenario) -> Result<(), Failed> {
    let program = std::env::current_exe()?;
    let output = Command::new(program)
        .env(VARIABLE, scenario.name)
        .env_remove("RUST_BACKTRACE")
        .stdin(Stdio::null())
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    let ended = match (output.status.code(), output.status.signal()) {
        (Some(code), _) => Ends::Code(code),
        (None, signal) => Ends::Signal(signal.unwrap_or_default()),
    };
    if ended != scenario.ends {
        return Err(format!("it should end with {:?} and ended with {ended:?}: {said}", scenario.ends).into());
    }
    if !said.contains(scenario.says) || (scenario.says.is_empty() && !said.is_empty()) {
        return Err(format!("it should say `{}` and said: {said}", scenario.says).into());
    }
    Ok(())
}
