//! Training on the host backend beside a plain trainer, and what every way out of it leaves behind.
//!
//! Not here: other backends (`devices.rs`) and the command (`command.rs`).

mod support;

use std::panic::{AssertUnwindSafe, catch_unwind};

use logistic_regression::device::{DeviceModel, SEQUENCE};
use logistic_regression::model::{Parameters, Samples};
use logistic_regression::training::{Training, TrainingError, train};
use support::{TOLERANCE, assert_near, trained};
use tenure::host::HostBackend;
use tenure::{BackendErrorKind, Error, EventKind, ManagedScope, Manager, ManagerOptions, Outcome, RunError};
use tenure_conformance::CallKind;
use tenure_conformance::instrument::Instrumented;

/// Gradient descent by the definitions, in double precision: nothing shared with the kernel or the loop.
fn plain(samples: &Samples, steps: u64, rate: f64) -> [f64; 4] {
    let count = samples.y.len();
    let at = |values: &[f32], index: usize| f64::from(values[index]);
    let (mut w_i, mut w_j, mut b) = (0.001, 0.001, 0.0);
    let predicted = |index: usize, [w_i, w_j, b]: [f64; 3]| {
        1.0 / (1.0 + (-(w_i * at(&samples.x_i, index) + w_j * at(&samples.x_j, index) + b)).exp())
    };
    for _ in 0..steps {
        let mut slope = [0.0; 3];
        for index in 0..count {
            let difference = predicted(index, [w_i, w_j, b]) - at(&samples.y, index);
            slope[0] += difference * at(&samples.x_i, index) / count as f64;
            slope[1] += difference * at(&samples.x_j, index) / count as f64;
            slope[2] += difference / count as f64;
        }
        w_i -= rate * slope[0];
        w_j -= rate * slope[1];
        b -= rate * slope[2];
    }
    let loss = |index| {
        let p: f64 = predicted(index, [w_i, w_j, b]);
        let y = at(&samples.y, index);
        -(y * p.ln() + (1.0 - y) * (1.0 - p).ln())
    };
    [w_i, w_j, b, (0..count).map(loss).sum::<f64>() / count as f64]
}

/// Other samples than Kompute's: more than a workgroup, classes that no line divides.
fn mixed() -> Samples {
    let number = |index: u32, factor: u32| ((index * factor) % 101) as f32 / 50.0 - 1.0;
    let x_i: Vec<f32> = (0..150).map(|index| number(index, 37)).collect();
    let x_j: Vec<f32> = (0..150).map(|index| number(index, 59)).collect();
    let belongs = |(index, (i, j)): (usize, (&f32, &f32))| f32::from((i + 2.0 * j > 0.3) != (index % 9 == 0));
    let y = x_i.iter().zip(&x_j).enumerate().map(belongs).collect();
    Samples { x_i, x_j, y }
}

/// Trains with `rate`, and hands `taken` the number of each step and the scope.
fn attempt(
    manager: &Manager,
    samples: &Samples,
    rate: f32,
    taken: impl Fn(u64, &ManagedScope),
) -> Result<(), RunError<TrainingError>> {
    let training = Training { steps: 50, learning_rate: rate };
    let body = |scope: &ManagedScope| train(scope, samples, training, |step| taken(step.number, scope));
    manager.run("training", body).map(|_| ())
}

/// Nothing is held, and nothing is left over after closing.
fn assert_released(manager: &Manager) {
    manager.wait_idle().unwrap();
    let memory = manager.memory();
    assert_eq!((memory.live.bytes, memory.retired.bytes, memory.tensors), (0, 0, 0));
    assert_eq!(memory.cached.bytes, 0, "the policy has trimmed");
    let closed = manager.close().unwrap();
    assert!(closed.is_clean(), "{closed}");
    assert_eq!(closed.memory.allocations, closed.memory.frees);
}

#[test]
fn it_learns_what_a_plain_trainer_learns() {
    for (samples, steps) in [(Samples::kompute(), 100), (Samples::kompute(), 5_000), (mixed(), 300)] {
        let (learned, _) = trained("host", &samples, Training { steps, learning_rate: 0.1 });
        let [weight_i, weight_j, bias, loss] = plain(&samples, steps, f64::from(0.1_f32));
        let Parameters { weights, bias: learned_bias } = learned.parameters;
        assert_near("weight i", weights[0], weight_i);
        assert_near("weight j", weights[1], weight_j);
        assert_near("bias", learned_bias, bias);
        assert_near("loss", learned.loss, loss);
    }
}

#[test]
fn komputes_data_is_told_apart() {
    let samples = Samples::kompute();
    let (learned, report) = trained("host", &samples, Training::default());
    // What Kompute's example asks of its result.
    let Parameters { weights: [weight_i, weight_j], bias } = learned.parameters;
    assert!(weight_i <= 0.01 && weight_j >= 1.0 && bias <= 0.0, "{learned:?}");
    assert!(learned.loss < learned.first_loss);
    assert_eq!((learned.executions, report.executions, report.outcome), (101, 101, Outcome::Completed));

    let (learned, _) = trained("host", &samples, Training { steps: 1_000, ..Training::default() });
    for ((x_i, x_j), y) in samples.x_i.iter().zip(&samples.x_j).zip(&samples.y) {
        assert_eq!(learned.parameters.predict(*x_i, *x_j) > 0.5, *y == 1.0, "{x_i} {x_j}");
    }
}

#[test]
fn without_a_step_there_is_the_start() {
    let (learned, _) = trained("host", &Samples::kompute(), Training { steps: 0, learning_rate: 0.1 });
    assert_eq!(learned.parameters, Parameters::START);
    assert_eq!((learned.first_loss, learned.executions), (learned.loss, 1));
}

/// The parameters change at every step and the recording does not (L9).
#[test]
fn it_is_recorded_once() {
    let manager = tenure::open("host").unwrap();
    assert!(manager.capabilities().reusable_recordings);
    let events = manager.record_events();
    let samples = Samples::kompute();
    attempt(&manager, &samples, 0.1, |_, scope| {
        let [sequence] = &scope.named_sequences()[..] else { panic!("there is one sequence") };
        assert_eq!(&*sequence.name, SEQUENCE);
        assert!(scope.anonymous_sequences().is_empty());
    })
    .unwrap();
    let encoded = |kind: &EventKind| matches!(kind, EventKind::Encode { operations: 5, .. });
    assert_eq!(events.take().iter().filter(|event| encoded(&event.kind)).count(), 1);
    let (learned, _) = trained("host", &samples, Training::default());
    assert_eq!((learned.recordings, learned.operations, learned.encodings), (1, 5, 1));
    assert_released(&manager);
}

#[test]
fn a_step_to_infinity_is_an_error_and_everything_is_released() {
    let manager = tenure::open("host").unwrap();
    // One input, both classes: each step throws the weight to the other side, until there is no number for it.
    let samples = Samples { x_i: vec![3.0, 3.0], x_j: vec![0.0, 0.0], y: vec![0.0, 1.0] };
    let error = attempt(&manager, &samples, 3e38, |_, _| ()).unwrap_err();
    assert_eq!(error.report().unwrap().outcome, Outcome::Failed);
    assert!(matches!(error.body(), Some(TrainingError::Diverged { step: 2 })));
    assert_released(&manager);
}

#[test]
fn a_panic_between_steps_releases_everything() {
    let manager = tenure::open("host").unwrap();
    let samples = Samples::kompute();
    let run = || attempt(&manager, &samples, 0.1, |step, _| assert_ne!(step, 7, "step 7"));
    assert!(catch_unwind(AssertUnwindSafe(run)).is_err());
    assert_released(&manager);
}

#[test]
fn cancelling_between_steps_releases_everything() {
    let manager = tenure::open("host").unwrap();
    let cancel = |step, scope: &ManagedScope| {
        if step == 7 {
            scope.cancel();
        }
    };
    let error = attempt(&manager, &Samples::kompute(), 0.1, cancel).unwrap_err();
    assert_eq!(error.report().unwrap().outcome, Outcome::Cancelled);
    assert_eq!(error.report().unwrap().executions, 7);
    assert!(matches!(error.body(), Some(TrainingError::Tenure(Error::Cancelled { .. }))));
    assert_released(&manager);
}

#[test]
fn a_driver_that_fails_between_steps_releases_everything() {
    let backend = Instrumented::new(HostBackend::new());
    let probe = backend.probe();
    let manager = Manager::open_with(backend, ManagerOptions::default()).unwrap();
    probe.fail_nth(CallKind::Submit, 7, BackendErrorKind::Driver);
    let error = attempt(&manager, &Samples::kompute(), 0.1, |_, _| ()).unwrap_err();
    assert_eq!((probe.faults_hit(), error.report().unwrap().outcome), (1, Outcome::Failed));
    assert!(matches!(error.body(), Some(TrainingError::Tenure(Error::Backend(_)))));
    assert_released(&manager);
    assert_eq!(probe.violations(), [""; 0]);
}

#[test]
fn a_device_lost_between_steps_is_closed_without_a_rest() {
    let backend = Instrumented::new(HostBackend::new());
    let probe = backend.probe();
    let manager = Manager::open_with(backend, ManagerOptions::default()).unwrap();
    let lose = |step, _: &ManagedScope| {
        if step == 7 {
            probe.lose_device();
        }
    };
    let error = attempt(&manager, &Samples::kompute(), 0.1, lose).unwrap_err();
    assert!(matches!(error.body(), Some(TrainingError::Tenure(error)) if error.is_device_lost()));
    assert_eq!(manager.memory().live.bytes, 0);
    let closed = manager.close().unwrap();
    assert_eq!(closed.memory.reserved.bytes, 0, "{closed}");
    assert_eq!(closed.memory.allocations, closed.memory.frees + closed.memory.abandoned);
    assert_eq!(probe.violations(), [""; 0]);
}

#[test]
fn closing_between_steps_releases_everything() {
    let manager = tenure::open("host").unwrap();
    let close = |step, _: &ManagedScope| {
        if step == 7 {
            // What was left open is in the report.
            assert!(!manager.close().unwrap().is_clean());
        }
    };
    assert!(attempt(&manager, &Samples::kompute(), 0.1, close).is_err());
    let memory = manager.memory();
    assert_eq!((memory.live.bytes, memory.reserved.bytes), (0, 0));
    assert_eq!(memory.allocations, memory.frees);
}

/// The recording keeps what it names: handles may go before the scope does (L5).
#[test]
fn a_model_outlives_its_scope_as_handles_only() {
    let manager = tenure::open("host").unwrap();
    let scope = manager.scope("training").unwrap();
    let model = DeviceModel::new(&scope, &Samples::kompute(), Parameters::START).unwrap();
    model.look().unwrap();
    scope.finish_blocking().unwrap();
    assert!(matches!(model.look(), Err(Error::Stale { .. })));
    assert!(matches!(model.set(Parameters::START), Err(Error::Stale { .. })));
    drop(scope);
    assert_released(&manager);
}

#[test]
#[should_panic(expected = "each sample has two inputs")]
fn samples_without_an_input_are_refused() {
    let samples = Samples { x_i: vec![0.0], ..Samples::kompute() };
    trained("host", &samples, Training::default());
}

#[test]
fn the_tolerance_is_below_what_a_step_changes() {
    // Else the comparison would not see a step too few.
    let after =
        |steps| trained("host", &Samples::kompute(), Training { steps, learning_rate: 0.1 }).0.parameters;
    let change = (after(100).weights[1] - after(99).weights[1]).abs();
    assert!(f64::from(change) > 10.0 * TOLERANCE, "{change}");
}
