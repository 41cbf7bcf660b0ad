//! The state machine of sequences against a model, by random steps (L3, L5, L7).

#![cfg(not(feature = "shuttle"))]

mod support;

use proptest::prelude::*;
use support::Device;
use tenure_core::{Error, Execution, Manager, ManagerOptions, SequenceState, op};

#[derive(Clone, Copy, Debug)]
enum Step {
    Record,
    Reset,
    Evaluate,
    Complete,
    DestroyTensor,
    Cancel,
    DestroySequence,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => Just(Step::Record),
        2 => Just(Step::Reset),
        6 => Just(Step::Evaluate),
        6 => Just(Step::Complete),
        1 => Just(Step::DestroyTensor),
        1 => Just(Step::Cancel),
        1 => Just(Step::DestroySequence),
    ]
}

/// What the contract says a sequence is.
struct Model {
    state: SequenceState,
    operations: usize,
    tensor: bool,
    cancelled: bool,
    live: bool,
}

impl Model {
    /// The error that a change or an evaluation gets because of the sequence itself.
    fn refusal(&self) -> Option<&'static str> {
        if !self.live {
            return Some("stale");
        }
        match self.state {
            SequenceState::Running => Some("busy"),
            SequenceState::Cancelled => Some("cancelled"),
            _ => None,
        }
    }
}

fn name(error: &Error) -> &'static str {
    match error {
        Error::Stale { .. } => "stale",
        Error::Busy { .. } => "busy",
        Error::Cancelled { .. } => "cancelled",
        other => panic!("no step is answered by {other}"),
    }
}

proptest! {
    #[test]
    fn sequences_follow_the_model(steps in proptest::collection::vec(step(), 1..60)) {
        let device = Device::default();
        let manager = Manager::open_with(device.backend(), ManagerOptions::default()).unwrap();
        let scope = manager.scope("s").unwrap();
        let tensor = scope.tensor::<u8>(64).unwrap();
        let sequence = scope.named("q").unwrap();
        let mut running: Option<Execution> = None;
        let mut model = Model {
            state: SequenceState::Recording,
            operations: 0,
            tensor: true,
            cancelled: false,
            live: true,
        };
        for step in steps {
            match step {
                Step::Record => {
                    let answer = sequence.record(op::fill(&tensor, 1)).map(drop);
                    match model.refusal().or((!model.tensor).then_some("stale")) {
                        Some(refusal) => prop_assert_eq!(name(&answer.unwrap_err()), refusal),
                        None => {
                            answer.unwrap();
                            model.operations += 1;
                            model.state = SequenceState::Ready;
                        }
                    }
                }
                Step::Reset => match model.refusal() {
                    Some(refusal) => prop_assert_eq!(name(&sequence.reset().unwrap_err()), refusal),
                    None => {
                        sequence.reset().unwrap();
                        model.operations = 0;
                        model.state = SequenceState::Recording;
                    }
                },
                Step::Evaluate => {
                    device.hold();
                    let names_stale = model.operations > 0 && !model.tensor;
                    let refusal = model
                        .refusal()
                        .or(model.cancelled.then_some("cancelled"))
                        .or(names_stale.then_some("stale"));
                    let answer = sequence.evaluate();
                    match refusal {
                        Some(refusal) => {
                            prop_assert_eq!(name(&answer.unwrap_err()), refusal);
                            if refusal == "cancelled" {
                                model.state = SequenceState::Cancelled;
                            }
                        }
                        None => {
                            running = Some(answer.unwrap());
                            model.state = SequenceState::Running;
                        }
                    }
                }
                Step::Complete => {
                    device.complete_all();
                    if let Some(execution) = running.take() {
                        execution.wait().unwrap();
                        model.state = SequenceState::Finished;
                    }
                }
                Step::DestroyTensor => {
                    tensor.destroy().unwrap();
                    model.tensor = false;
                }
                Step::Cancel => {
                    scope.cancel();
                    let waiting = matches!(model.state, SequenceState::Recording | SequenceState::Ready);
                    if !model.cancelled && waiting && model.live {
                        model.state = SequenceState::Cancelled;
                    }
                    model.cancelled = true;
                }
                Step::DestroySequence => {
                    sequence.destroy().unwrap();
                    model.live = false;
                    if model.state != SequenceState::Running {
                        model.operations = 0;
                    }
                }
            }
            prop_assert_eq!(sequence.state(), model.state, "after {:?}", step);
            if model.live {
                prop_assert_eq!(sequence.len(), model.operations);
            }
        }
        device.complete_all();
        scope.finish_blocking().unwrap();
        let report = manager.close().unwrap();
        prop_assert!(report.is_clean(), "{}", report);
        let (taken, given) = device.balance();
        prop_assert_eq!(taken, given);
    }
}
