//! The loop: look, step, and again.
//!
//! Not here: the scope around it, which gives back what was made in it (`report.rs` shows what it says).

use std::fmt;

use tenure::{Error, EventKind, ScopeRef};

use crate::device::{DeviceModel, Look, SEQUENCE};
use crate::model::{Parameters, Samples};

/// How to train.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Training {
    /// Steps of gradient descent.
    pub steps: u64,
    /// How far a step goes: times the gradient.
    pub learning_rate: f32,
}

impl Default for Training {
    /// As in Kompute's example.
    fn default() -> Self {
        Training { steps: 100, learning_rate: 0.1 }
    }
}

/// A step that was taken.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// Its number, from 1.
    pub number: u64,
    /// The mean loss before it.
    pub loss: f32,
    /// The parameters after it.
    pub parameters: Parameters,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trained {
    /// What was learned, as the device has it.
    pub parameters: Parameters,
    /// The mean loss at the start.
    pub first_loss: f32,
    /// The mean loss with what was learned.
    pub loss: f32,
    /// Executions: one a step, and a last one to look.
    pub executions: u64,
    /// Sequences of the scope.
    pub recordings: usize,
    /// Operations of the recording.
    pub operations: usize,
    /// How often the recording was brought into the driver's form: once where a driver takes it again (L9).
    pub encodings: u64,
}

/// Why training ended early.
#[derive(Debug)]
#[non_exhaustive]
pub enum TrainingError {
    /// A step led where there are no numbers any more.
    Diverged {
        /// The step's number, from 1.
        step: u64,
    },
    /// The device or tenure said no.
    Tenure(Error),
}

impl From<Error> for TrainingError {
    fn from(error: Error) -> TrainingError {
        TrainingError::Tenure(error)
    }
}

impl fmt::Display for TrainingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TrainingError::Diverged { step } => {
                write!(f, "step {step} leads to infinite parameters: try a lower learning rate")
            }
            TrainingError::Tenure(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for TrainingError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            TrainingError::Diverged { .. } => None,
            TrainingError::Tenure(error) => Some(error),
        }
    }
}

/// Trains in `scope` from [`Parameters::START`], and calls `taken` after each step.
///
/// # Errors
/// [`TrainingError`]. What was made is the scope's, whatever the end.
pub fn train(
    scope: &ScopeRef,
    samples: &Samples,
    training: Training,
    mut taken: impl FnMut(&Step),
) -> Result<Trained, TrainingError> {
    let events = scope.manager()?.record_events();
    let mut encodings = 0;
    let mut count_encodings = || {
        let is_ours =
            |kind: &EventKind| matches!(kind, EventKind::Encode { sequence, .. } if **sequence == *SEQUENCE);
        // Taken at every step, so that the log stays small.
        encodings += events.take().iter().filter(|event| is_ours(&event.kind)).count() as u64;
        encodings
    };

    let model = DeviceModel::new(scope, samples, Parameters::START)?;
    let mut first_loss = None;
    for number in 1..=training.steps {
        let Look { parameters, gradients, loss } = model.look()?;
        first_loss.get_or_insert(loss);
        let parameters = parameters.descend(&gradients, training.learning_rate);
        if !is_finite(&parameters) {
            return Err(TrainingError::Diverged { step: number });
        }
        model.set(parameters)?;
        count_encodings();
        taken(&Step { number, loss, parameters });
    }
    let last = model.look()?;
    Ok(Trained {
        parameters: last.parameters,
        first_loss: first_loss.unwrap_or(last.loss),
        loss: last.loss,
        executions: training.steps + 1,
        recordings: scope.named_sequences().len() + scope.anonymous_sequences().len(),
        operations: model.operations(),
        encodings: count_encodings(),
    })
}

fn is_finite(parameters: &Parameters) -> bool {
    parameters.weights.iter().all(|weight| weight.is_finite()) && parameters.bias.is_finite()
}
