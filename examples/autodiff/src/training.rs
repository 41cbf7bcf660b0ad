//! The loop: generated data, a scope an epoch, figures of memory at every step.

use tenure::graph::{Graph, SweepOnFinish};
use tenure::{Error, Manager, RunError, ScopeReport};

use crate::engine::{BackwardOptions, Engine, Tape};
use crate::kernels::Kernels;
use crate::perceptron::{Perceptron, Random, Sizes};

/// What to train.
#[derive(Clone, Copy, Debug)]
pub struct Training {
    /// Steps in all.
    pub steps: u64,
    /// Steps of one scope.
    pub epoch: u64,
    /// Rows of a batch.
    pub batch: u64,
    /// Neurons of the hidden layer.
    pub hidden: u64,
    /// Learning rate.
    pub rate: f32,
}

impl Default for Training {
    fn default() -> Self {
        Training { steps: 1_000, epoch: 100, batch: 32, hidden: 16, rate: 0.05 }
    }
}

/// Figures after one step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// The loss.
    pub loss: f32,
    /// Bytes of live tensors.
    pub live_bytes: u64,
    /// Bytes that the pool has from the driver.
    pub reserved_bytes: u64,
    /// Nodes in the graph.
    pub nodes: u64,
}

/// Trains a perceptron on `y = x0 * x1`, and calls `seen` after every step. Returns the last epoch's report.
///
/// # Errors
/// What the device or the memory said.
pub fn train(
    manager: &Manager,
    training: Training,
    mut seen: impl FnMut(u64, Sample),
) -> Result<Option<ScopeReport>, RunError<Error>> {
    let kernels = Kernels::new(manager).map_err(RunError::Scope)?;
    let sizes = Sizes { inputs: 2, hidden: training.hidden, outputs: 1 };
    let model = Perceptron::new(manager, sizes, 42).map_err(RunError::Scope)?;
    let graph: Graph<Tape> = Graph::new("training");
    let mut random = Random(7);
    let mut last = None;
    let mut step = 0;
    while step < training.steps {
        let end = training.steps.min(step + training.epoch.max(1));
        let (_, report) = manager.run("epoch", |scope| {
            scope.register(SweepOnFinish::new(graph.clone()))?;
            let engine = Engine::new(scope, &kernels, &graph);
            while step < end {
                let loss = one_step(&engine, &model, training, &mut random)?;
                // What the device still works with is held too: the figures are of what is left.
                manager.wait_idle()?;
                let memory = manager.memory();
                let sample = Sample {
                    loss,
                    live_bytes: memory.live.bytes,
                    reserved_bytes: memory.reserved.bytes,
                    nodes: graph.len(),
                };
                seen(step, sample);
                step += 1;
            }
            Ok::<(), Error>(())
        })?;
        last = Some(report);
    }
    Ok(last)
}

/// One step: a batch, forward, backward, descend. Returns the loss.
fn one_step(
    engine: &Engine,
    model: &Perceptron,
    training: Training,
    random: &mut Random,
) -> Result<f32, Error> {
    let rows = training.batch;
    let inputs: Vec<f32> = (0..2 * rows).map(|_| random.next(1.0)).collect();
    let expected: Vec<f32> = inputs.chunks(2).map(|row| row[0] * row[1]).collect();
    let batch = engine.constant([rows, 2], &inputs)?;
    let expected = engine.constant([rows, 1], &expected)?;
    let tracked = model.track(engine);
    let loss = engine.mean_squared_error(&tracked.forward(engine, &batch)?, &expected)?;
    let gradients = engine.backward(&loss, BackwardOptions::default())?;
    model.descend(engine, &tracked, &gradients, training.rate)?;
    Ok(loss.read()?[0])
}
