//! The engine on every device backend of this build, beside the host: the same values, the same training, and nothing left.
//!
//! Not here: whether the host is right (`gradients.rs`).

use std::process::{Command, ExitCode};

use autodiff::engine::Tape;
use autodiff::kernels::{Kernels, Parameters, dispatch};
use autodiff::perceptron::Random;
use autodiff::training::{Sample, Training, train};
use autodiff::{Engine, Variable};
use tenure::graph::Graph;
use tenure::{Kernel, Manager};
use tenure_conformance::trials::{self, Test};

const TESTS: &[(&str, Test)] = &[
    ("each_operation_computes_what_the_host_does", each_operation_computes_what_the_host_does),
    ("what_does_not_fit_is_left_alone", what_does_not_fit_is_left_alone),
    ("training_goes_as_on_the_host_and_memory_is_flat", training_goes_as_on_the_host_and_memory_is_flat),
    ("the_command_names_the_device", the_command_names_the_device),
];

fn main() -> ExitCode {
    trials::run(tenure::BACKENDS, tenure::open, TESTS)
}

/// Sums of few terms: what a device rounds otherwise is some units in the last place.
#[track_caller]
fn assert_near(what: &str, found: &[f32], expected: &[f32], tolerance: f32) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
        let within = tolerance * (1.0 + expected.abs());
        assert!(
            (found - expected).abs() <= within,
            "{what}: element {at} is {found}, on the host {expected}"
        );
    }
}

/// Every operation on a backend, of more elements than a workgroup has, in a fixed order.
fn operations(backend: &str) -> Vec<(String, Vec<f32>)> {
    let manager = tenure::open(backend).unwrap();
    let scope = manager.scope("operations").unwrap();
    let graph: Graph<Tape> = Graph::new("operations");
    let engine = Engine::new(&scope, &Kernels::new(&manager).unwrap(), &graph);
    let mut random = Random(5);
    let mut matrix = |shape: [u64; 2]| {
        let elements: Vec<f32> = (0..shape[0] * shape[1]).map(|_| random.next(1.0)).collect();
        engine.constant(shape, &elements).unwrap()
    };
    let (x, y) = (matrix([13, 17]), matrix([13, 17]));
    let mut values = vec![
        ("add".to_owned(), engine.add(&x, &y).unwrap()),
        ("multiply".to_owned(), engine.multiply(&x, &y).unwrap()),
        ("scale".to_owned(), engine.scale(&x, -1.5).unwrap()),
        ("relu".to_owned(), engine.relu(&x).unwrap()),
        ("sum".to_owned(), engine.sum(&x).unwrap()),
        ("broadcast".to_owned(), engine.broadcast(&engine.sum(&y).unwrap(), [20, 9]).unwrap()),
    ];
    for transposed in [[false, false], [true, false], [false, true], [true, true]] {
        let turned = |shape: [u64; 2], turn: bool| if turn { [shape[1], shape[0]] } else { shape };
        let (left, right) = (matrix(turned([13, 7], transposed[0])), matrix(turned([7, 11], transposed[1])));
        values.push((format!("matmul {transposed:?}"), engine.matmul(&left, &right, transposed).unwrap()));
    }
    // The mask of `relu` is made where that is tracked.
    let leaf = engine.leaf(x.tensor().clone(), x.shape());
    let total = engine.sum(&engine.relu(&leaf).unwrap()).unwrap();
    let gradients = engine.backward(&total, autodiff::BackwardOptions::default()).unwrap();
    values.push(("step".to_owned(), gradients.of(&leaf).unwrap().clone()));
    engine.descend(y.tensor(), &x, 0.25).unwrap();
    values.push(("axpy".to_owned(), y.clone()));
    let read = |(name, value): (String, Variable)| (name, value.read().unwrap());
    let values = values.into_iter().map(read).collect();
    drop((x, y, leaf, total, gradients, engine, graph));
    scope.finish_blocking().unwrap();
    drop(scope);
    assert!(manager.close().unwrap().is_clean());
    values
}

fn each_operation_computes_what_the_host_does(backend: &str) {
    for ((name, found), (_, expected)) in operations(backend).iter().zip(operations("host")) {
        // `sum` has the most terms, 221.
        assert_near(name, found, &expected, 221.0 * f32::EPSILON);
    }
}

/// Inputs that are too short for the result, which the engine never passes: nobody reads beyond them.
fn what_does_not_fit_is_left_alone(backend: &str) {
    let manager = tenure::open(backend).unwrap();
    let kernels = Kernels::new(&manager).unwrap();
    let scope = manager.scope("short").unwrap();
    let short = scope.tensor_from("short", &[1.0_f32; 3]).unwrap();
    let run = |kernel: &Kernel, inputs: usize| {
        let result = scope.tensor_from("result", &[0.0_f32; 100]).unwrap();
        let parameters = Parameters { factor: 1.0, columns: 10, inner: 10, transposed: 0 };
        let inputs = vec![&short; inputs];
        scope.evaluate([dispatch(kernel, &inputs, &result, parameters)]).unwrap().wait().unwrap();
        assert_eq!(result.read().unwrap().len(), 100);
    };
    let binary = [&kernels.add, &kernels.multiply, &kernels.matmul];
    let unary =
        [&kernels.scale, &kernels.relu, &kernels.step, &kernels.sum, &kernels.broadcast, &kernels.axpy];
    binary.into_iter().for_each(|kernel| run(kernel, 2));
    unary.into_iter().for_each(|kernel| run(kernel, 1));
    scope.finish_blocking().unwrap();
    drop((scope, short, kernels));
    assert!(manager.close().unwrap().is_clean());
}

fn trained(manager: &Manager, training: Training) -> Vec<Sample> {
    let mut samples = Vec::new();
    train(manager, training, |_, sample| samples.push(sample)).unwrap();
    samples
}

fn training_goes_as_on_the_host_and_memory_is_flat(backend: &str) {
    let training = Training { steps: 30, epoch: 10, ..Training::default() };
    let [on_device, on_host] = [backend, "host"].map(|backend| {
        let manager = tenure::open(backend).unwrap();
        let samples = trained(&manager, training);
        assert!(manager.close().unwrap().is_clean());
        samples
    });
    let losses = |samples: &[Sample]| samples.iter().map(|sample| sample.loss).collect::<Vec<_>>();
    // What is rounded otherwise adds up over the steps.
    assert_near("the loss", &losses(&on_device), &losses(&on_host), 1e-4);
    let nodes = |samples: &[Sample]| samples.iter().map(|sample| sample.nodes).collect::<Vec<_>>();
    assert_eq!(nodes(&on_device), nodes(&on_host));
    let live: Vec<u64> = on_device.iter().map(|sample| sample.live_bytes).collect();
    // A scope's steps leave their samples for its end; each scope begins as the one before.
    assert_eq!(live[..10], live[20..], "live bytes after each step");
}

fn the_command_names_the_device(backend: &str) {
    let manager = tenure::open(backend).unwrap();
    let info = manager.info().clone();
    manager.close().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_autodiff"));
    let output = command.args(["--backend", backend, "--steps", "3", "--epoch", "2"]).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}{err}");
    let software = if info.software { " (software)" } else { "" };
    assert!(out.starts_with(&format!("{}{software}: 3 steps", info.device)), "{out}");
}
