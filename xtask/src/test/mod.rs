//! `cargo xtask test`: the whole test run, set-up included, in one order for people and for CI.
//!
//! Here: the steps and the report. `setup.rs` prepares the machine, `counts.rs` reads what test programs print.
//! Not here: what the steps check.

mod counts;
mod output;
mod setup;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use clap::Args;

pub use self::setup::{REQUIREMENTS, VULKAN_PACKAGES, has_vulkan};

use self::counts::Counts;
use self::output::Output;
use crate::backends::{self, BACKENDS, Backend};
use crate::conformance;
use crate::kernels;
use crate::library::{self, Profile};
use crate::terminal::{bold, green, red, seconds, table, yellow};
use crate::tidy;
use crate::workspace::{Problem, Verdict, cargo};

/// The command line of `cargo xtask test`.
#[derive(Args, Clone, Copy, Debug)]
pub struct Arguments {
    /// Go on after a step that failed.
    #[arg(long)]
    pub keep_going: bool,
}

/// Runs all steps. Prints the sums alone on the last line.
///
/// # Errors
/// None by itself: a step that cannot be run is a step that failed.
pub fn command(arguments: &Arguments) -> Verdict {
    let results = run_all(STEPS, arguments.keep_going);
    println!("\n{}", report(STEPS, &results));
    println!("{}", closing_line(&results));
    Ok(results.len() == STEPS.len() && results.iter().all(|result| result.passed))
}

/// One step of the run.
struct Step {
    name: &'static str,
    work: fn() -> Result<Done, Problem>,
}

/// What a step came to.
struct Done {
    passed: bool,
    counts: Counts,
}

/// The same, with its time.
struct StepResult {
    passed: bool,
    counts: Counts,
    time: Duration,
}

/// Cheap checks first.
const STEPS: &[Step] = &[
    Step { name: "set-up", work: || setup::prepare().map(|()| Done::of(true)) },
    Step { name: "rustfmt", work: || plain(cargo(["fmt", "--all", "--check"])) },
    Step { name: "clippy", work: || plain(clippy()) },
    Step { name: "tidy", work: || tidy::command().map(Done::of) },
    // Without stopping at the first program that fails: the counts are those of the whole run.
    Step { name: "tests", work: || counted(cargo(["test", "--workspace", "--no-fail-fast"])) },
    Step {
        name: "concurrency models",
        work: || {
            counted(cargo(["test", "--package", "tenure-core", "--features", "shuttle", "--test", "shuttle"]))
        },
    },
    Step { name: "examples on devices", work: || counted(examples_on_devices()) },
    // A process has one CUDA driver: what runs on the one in software runs apart from what may run on another.
    Step { name: "examples on softcuda (in software)", work: examples_on_softcuda },
    Step { name: "documentation", work: || plain(documentation()) },
    Step { name: "conformance", work: run_conformance },
    // Last: only these compile CubeCL.
    Step { name: "generated kernels", work: || kernels::command(&CHECK_KERNELS).map(Done::of) },
    Step { name: "kernels with CubeCL", work: || counted(with_cubecl("test", &["--no-fail-fast"])) },
    Step {
        name: "clippy with CubeCL",
        work: || plain(with_cubecl("clippy", &["--all-targets", "--", "--deny", "warnings"])),
    },
];

/// All targets need all backends' features: the suite's executable is built with at least one.
fn clippy() -> Command {
    let mut command = cargo(["clippy", "--workspace", "--all-targets"]);
    for backend in BACKENDS {
        command.arg("--features").arg(format!("{}/{}", conformance::PACKAGE, backend.feature));
    }
    command.args(["--", "--deny", "warnings"]);
    command
}

/// The examples whose results on every device are compared with those of the host, by a test program `devices` each. They
/// have a feature for every backend.
const EXAMPLES: &[&str] = &["autodiff", "chain", "logistic_regression"];

/// The whole workspace is named, so that what it depends on is built with the features that the step before built it with,
/// and not once more.
fn devices_of_examples() -> Command {
    let mut command = cargo(["test", "--workspace", "--no-fail-fast", "--test", "devices"]);
    for example in EXAMPLES {
        for device in device_backends() {
            command.arg("--features").arg(format!("{example}/{device}"));
        }
    }
    command
}

fn examples_on_devices() -> Command {
    let mut command = devices_of_examples();
    // As for the suite: where the driver is there, a device that does not open is a failure. The tests read this.
    let required = required_backends();
    let devices: Vec<&str> =
        device_backends().filter(|device| required.iter().any(|name| name == device)).collect();
    command.env(REQUIRED, devices.join(","));
    command
}

/// The same tests of backend `cuda` alone, on the driver in software.
fn examples_on_softcuda() -> Result<Done, Problem> {
    let softcuda = backends::find("softcuda").expect("it is in the table");
    if !(softcuda.expected)() {
        println!("not run; it needs {}", softcuda.needs);
        return Ok(Done { passed: true, counts: Counts { skipped: 1, ..Counts::default() } });
    }
    if !library::build(softcuda, Profile::Dev)? {
        return Ok(Done::of(false));
    }
    counted(examples_of(softcuda))
}

/// The examples' tests of the one backend that is a row of the table by another name too.
fn examples_of(device: &Backend) -> Command {
    let mut command = devices_of_examples();
    command.envs(device.environment.iter().copied()).env(REQUIRED, device.feature);
    // What the driver in software finds wrong fails the process that it found it in.
    command.env("SOFTCUDA_STRICT", "1");
    // Tests are named after the backend, which is what its feature is called.
    command.arg("--").arg(format!("{}::", device.feature));
    command
}

/// The variable with the backends that tests may not find to be missing.
const REQUIRED: &str = "TENURE_REQUIRE";

/// Names that `tenure::open` takes beside the embedded backend's, each of them also a feature.
fn device_backends() -> impl Iterator<Item = &'static str> {
    let devices = BACKENDS.iter().filter(|backend| backend.nature == backends::Nature::Device);
    devices.filter(|backend| backend.name == backend.feature).map(|backend| backend.name)
}

const CHECK_KERNELS: kernels::Arguments = kernels::Arguments { check: true };

/// A command of cargo's for the package of kernels with CubeCL, which the other steps leave out.
fn with_cubecl(command: &'static str, arguments: &[&'static str]) -> Command {
    let mut cargo = cargo([command, "--profile", kernels::PROFILE, "--package", kernels::PACKAGE]);
    cargo.args(["--features", kernels::FEATURE]).args(arguments);
    cargo
}

fn documentation() -> Command {
    let mut command = cargo(["doc", "--workspace", "--no-deps"]);
    let mut flags = std::env::var("RUSTDOCFLAGS").unwrap_or_default();
    flags.push_str(" --deny warnings");
    command.env("RUSTDOCFLAGS", flags.trim_start());
    command
}

/// Those for which the machine has what they need: that one cannot be opened is then a failure.
fn required_backends() -> Vec<String> {
    let there = BACKENDS.iter().filter(|backend| (backend.expected)());
    there.map(|backend| backend.name.to_owned()).collect()
}

fn run_conformance() -> Result<Done, Problem> {
    let summary = conformance::run(&conformance::Arguments {
        require: required_backends(),
        ..conformance::Arguments::default()
    })?;
    let tally = summary.tally;
    // A failure that was expected is no pass.
    let skipped = tally.skipped + tally.expected_failures;
    Ok(Done { passed: summary.good, counts: Counts { passed: tally.passed, failed: tally.failed, skipped } })
}

impl Done {
    fn of(passed: bool) -> Done {
        Done { passed, counts: Counts::default() }
    }
}

/// Runs a program whose end is its result.
fn plain(mut command: Command) -> Result<Done, Problem> {
    let status = command.stdin(Stdio::null()).status().map_err(Problem::while_doing("starting cargo"))?;
    Ok(Done::of(status.success()))
}

/// Runs test programs: shows what they print, and counts.
fn counted(mut command: Command) -> Result<Done, Problem> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(Problem::while_doing("starting cargo test"))?;
    let mut output = Output::default();
    if let Some(stream) = child.stdout.take() {
        let mut stream = BufReader::new(stream);
        let mut bytes = Vec::new();
        // Bytes, not `lines()`: a test may print what is no UTF-8.
        while matches!(stream.read_until(b'\n', &mut bytes), Ok(1..)) {
            if let Some(line) = output.take(String::from_utf8_lossy(&bytes).trim_end()) {
                println!("{line}");
            }
            bytes.clear();
        }
    }
    let status = child.wait().map_err(Problem::while_doing("waiting for cargo test"))?;
    Ok(Done { passed: status.success(), counts: output.counts() })
}

fn run_all(steps: &[Step], keep_going: bool) -> Vec<StepResult> {
    let mut results = Vec::new();
    for (index, step) in steps.iter().enumerate() {
        println!("\n{}", bold(&format!("[{}/{}] {}", index + 1, steps.len(), step.name)));
        let start = Instant::now();
        let mut done = (step.work)().unwrap_or_else(|problem| {
            println!("{problem}");
            Done::of(false)
        });
        // A step that fails without counts of its own (no compilation, wrong format) is one failure, so that the
        // closing line of a bad run never says `0 failed`.
        if !done.passed && done.counts.failed == 0 {
            done.counts.failed = 1;
        }
        let result = StepResult { passed: done.passed, counts: done.counts, time: start.elapsed() };
        let word = if result.passed { green("ok") } else { red("FAILED") };
        println!("{}: {word} in {}", step.name, seconds(result.time));
        let stop = !result.passed && !keep_going;
        results.push(result);
        if stop {
            break;
        }
    }
    results
}

fn report(steps: &[Step], results: &[StepResult]) -> String {
    let mut table = table(["step", "result", "passed", "failed", "skipped", "time"]);
    for (index, step) in steps.iter().enumerate() {
        let Some(result) = results.get(index) else {
            table.add_row([step.name, "not run", "", "", "", ""]);
            continue;
        };
        let counts = result.counts;
        let numbers = match counts {
            Counts { passed: 0, failed: 0, skipped: 0 } => [String::new(), String::new(), String::new()],
            _ => [counts.passed, counts.failed, counts.skipped].map(|count| count.to_string()),
        };
        let [passed, failed, skipped] = numbers;
        let word = if result.passed { "ok" } else { "FAILED" };
        table.add_row([step.name.to_owned(), word.to_owned(), passed, failed, skipped, seconds(result.time)]);
    }
    let mut text = table.to_string();
    if results.len() < steps.len() {
        text.push_str(&yellow("\nstopped at the first failure; --keep-going runs the rest\n"));
    }
    text
}

/// Plain on purpose: programs read it.
fn closing_line(results: &[StepResult]) -> String {
    let mut sum = Counts::default();
    for result in results {
        sum += result.counts;
    }
    format!("{} passed, {} failed, {} skipped", sum.passed, sum.failed, sum.skipped)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(passed: bool, counts: [usize; 3]) -> Result<Done, Problem> {
        let [ok, failed, skipped] = counts;
        Ok(Done { passed, counts: Counts { passed: ok, failed, skipped } })
    }

    const MIXED: &[Step] = &[
        Step { name: "first", work: || done(true, [3, 0, 1]) },
        Step { name: "second", work: || done(false, [4, 2, 0]) },
        Step { name: "third", work: || done(false, [0, 0, 0]) },
        Step { name: "fourth", work: || Err(Problem::new("cannot")) },
    ];

    #[test]
    fn the_first_failure_stops_the_run() {
        let results = run_all(MIXED, false);
        assert_eq!(results.len(), 2);
        assert_eq!(closing_line(&results), "7 passed, 2 failed, 1 skipped");
        assert!(report(MIXED, &results).contains("not run"));
    }

    #[test]
    fn keep_going_runs_the_rest_and_counts_every_failed_step() {
        let results = run_all(MIXED, true);
        assert_eq!(results.len(), 4);
        assert_eq!(closing_line(&results), "7 passed, 4 failed, 1 skipped");
        assert!(!report(MIXED, &results).contains("not run"));
    }

    #[test]
    fn a_good_run_says_so() {
        let results = run_all(&MIXED[..1], false);
        assert!(results.iter().all(|result| result.passed));
        assert_eq!(closing_line(&results), "3 passed, 0 failed, 1 skipped");
    }

    #[test]
    fn examples_run_on_each_device_backend_once() {
        let devices: Vec<&str> = device_backends().collect();
        assert!(devices.contains(&"vulkan") && devices.contains(&"wgpu"), "{devices:?}");
        assert!(!devices.contains(&"host") && !devices.contains(&"vulkan-staged"), "{devices:?}");
        let command = examples_on_devices();
        let has = |feature: &str| command.get_args().filter(|argument| *argument == feature).count();
        assert_eq!(["chain/vulkan", "logistic_regression/wgpu", "autodiff/cuda"].map(has), [1, 1, 1]);
    }

    #[test]
    fn examples_run_on_the_driver_in_software_in_a_process_of_their_own() {
        let command = examples_of(backends::find("softcuda").unwrap());
        let is_set = |name: &str, value: &str| {
            command.get_envs().any(|(key, set)| key == name && set.is_some_and(|set| set == value))
        };
        assert!(is_set("TENURE_SOFTCUDA", "1") && is_set("SOFTCUDA_STRICT", "1") && is_set(REQUIRED, "cuda"));
        assert_eq!(command.get_args().last().unwrap(), "cuda::");
        let hardware = examples_on_devices();
        assert!(hardware.get_envs().all(|(key, _)| key != "TENURE_SOFTCUDA"));
    }

    #[cfg(unix)]
    #[test]
    fn the_output_of_test_programs_is_counted() {
        let mut command = Command::new("sh");
        command.args([
            "-c",
            "echo 'test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out'; \
             echo 'test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out'; exit 1",
        ]);
        let done = counted(command).unwrap();
        assert!(!done.passed);
        assert_eq!(done.counts, Counts { passed: 3, failed: 1, skipped: 1 });
    }
}
