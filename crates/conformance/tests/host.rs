//! The suite on the host backend as tests of cargo's, one a case: `host::topic/name`.
//!
//! A case that is skipped says why in its name. Cases run one after the other, for some observe the process. Not
//! here: the same suite as a program (`src/bin`).

use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Failed, Trial};
use tenure_backend_host::{HostBackend, HostBlock};
use tenure_conformance::backends::host_expectations;
use tenure_conformance::report::Status;
use tenure_conformance::{Planned, Runner, Suite, Verdict, cases};

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(1);
    let suite = Suite::new("host", || Ok(HostBackend::new()))
        .engine_memory::<HostBackend>(HostBlock::memory)
        .expectations(host_expectations());
    let runner = match suite.into_runner() {
        Ok(runner) => Arc::new(runner),
        Err(error) => {
            eprintln!("the host backend does not open: {error}");
            return ExitCode::FAILURE;
        }
    };
    let mut trials = vec![expectations(&runner)];
    trials.extend(runner.plan(cases::all()).into_iter().map(|planned| trial(&runner, planned)));
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// The lists of expectations are right themselves.
fn expectations(runner: &Arc<Runner>) -> Trial {
    let runner = runner.clone();
    Trial::test("host::expectations", move || {
        let problems = runner.check_expectations(cases::all());
        let texts: Vec<String> = problems.into_iter().filter_map(|problem| problem.reason).collect();
        if texts.is_empty() { Ok(()) } else { Err(Failed::from(texts.join("\n"))) }
    })
}

fn trial(runner: &Arc<Runner>, planned: Planned) -> Trial {
    let id = planned.case.id;
    if let Verdict::Skip(reason) = &planned.verdict {
        let name = format!("host::{id} ({reason})");
        return Trial::test(name, || Ok(())).with_ignored_flag(true);
    }
    let runner = runner.clone();
    Trial::test(format!("host::{id}"), move || {
        let result = runner.run(&planned);
        match result.status {
            Status::Passed | Status::ExpectedFailure => Ok(()),
            Status::Failed | Status::Skipped => Err(Failed::from(result.reason.unwrap_or_default())),
        }
    })
}
