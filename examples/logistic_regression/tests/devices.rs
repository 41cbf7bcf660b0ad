//! Training on every device backend of this build, beside the host: the same parameters, and nothing left.
//!
//! Where a backend has no device on this machine a line says why, and its tests count as ignored. Not here: whether the
//! host is right (`training.rs`).

mod support;

use std::process::{Command, ExitCode};

use logistic_regression::model::Samples;
use logistic_regression::report;
use logistic_regression::training::{Training, TrainingError, train};
use support::{assert_near, trained};
use tenure::{Error, Outcome};
use tenure_conformance::trials::{self, Test};

const TESTS: &[(&str, Test)] = &[
    ("it_learns_what_the_host_learns", it_learns_what_the_host_learns),
    ("it_is_recorded_once", it_is_recorded_once),
    ("cancelling_between_steps_releases_everything", cancelling_between_steps_releases_everything),
    ("the_command_names_the_device", the_command_names_the_device),
];

fn main() -> ExitCode {
    trials::run(tenure::BACKENDS, tenure::open, TESTS)
}

fn it_learns_what_the_host_learns(backend: &str) {
    for steps in [1, 100, 2_000] {
        let training = Training { steps, ..Training::default() };
        let [(on_device, _), (on_host, _)] =
            [backend, "host"].map(|backend| trained(backend, &Samples::kompute(), training));
        for at in [0, 1] {
            let expected = on_host.parameters.weights[at];
            assert_near("a weight", on_device.parameters.weights[at], expected.into());
        }
        assert_near("the bias", on_device.parameters.bias, on_host.parameters.bias.into());
        assert_near("the loss", on_device.loss, on_host.loss.into());
        assert_near("the first loss", on_device.first_loss, on_host.first_loss.into());
    }
}

/// Where a driver takes a recording again it is encoded once; else once an evaluation (L9).
fn it_is_recorded_once(backend: &str) {
    let manager = tenure::open(backend).unwrap();
    let reusable = manager.capabilities().reusable_recordings;
    manager.close().unwrap();
    let (learned, _) = trained(backend, &Samples::kompute(), Training::default());
    assert_eq!((learned.recordings, learned.operations, learned.executions), (1, 5, 101));
    assert_eq!(learned.encodings, if reusable { 1 } else { learned.executions });
}

fn cancelling_between_steps_releases_everything(backend: &str) {
    let manager = tenure::open(backend).unwrap();
    let error = manager
        .run("training", |scope| {
            train(scope, &Samples::kompute(), Training::default(), |step| {
                if step.number == 7 {
                    scope.cancel();
                }
            })
        })
        .unwrap_err();
    assert_eq!(error.report().unwrap().outcome, Outcome::Cancelled);
    assert!(matches!(error.body(), Some(TrainingError::Tenure(Error::Cancelled { .. }))));
    let memory = manager.memory();
    assert_eq!((memory.live.bytes, memory.retired.bytes, memory.cached.bytes), (0, 0, 0));
    assert!(manager.close().unwrap().is_clean());
}

fn the_command_names_the_device(backend: &str) {
    let manager = tenure::open(backend).unwrap();
    let device = report::device(manager.info());
    assert_eq!(device.contains("(software)"), manager.info().software);
    let mut command = Command::new(env!("CARGO_BIN_EXE_logistic_regression"));
    let output = command.args(["--backend", backend]).output().unwrap();
    let out = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{out}");
    assert!(out.starts_with(&format!("{device}\n")), "{out}");
    assert!(out.contains("1 of 5 operations, evaluated 101 times"), "{out}");
}
