//! Case C5: a scope that is cancelled while its work and that of others is running.
//!
//! Not here: what is dropped while it runs (`in_flight.rs`).

use std::sync::mpsc;

use tenure_core::{Error, ManagedScope, Outcome, SequenceState, op};

use super::support::{Count, DRIVER_WORK, assert_given_back, case, settled};
use crate::bed::{Bed, Rig};
use crate::case::Case;
use crate::random::Random;

pub(super) const CASES: &[Case] =
    &[case("field/c05_abort_while_running", &["L16", "L11", "L4"], c05_abort_while_running)];

/// One of ten busy scopes is cancelled at a random point: it submits nothing more, ends as cancelled with its hooks
/// run, and the other nine have the results of an undisturbed run (ggml-org/llama.cpp#9928).
fn c05_abort_while_running(bed: &Bed) {
    const SCOPES: u64 = 10;
    const ROUNDS: u64 = 20;
    let Rig { manager, probe } = bed.open();
    let mut random = Random::new(5);
    for _ in 0..ROUNDS {
        let (victim, after) = (random.below(SCOPES), random.below(EVALUATIONS));
        let scopes: Vec<_> = (0..SCOPES).map(|_| manager.scope("worker").unwrap()).collect();
        let target = (*scopes[victim as usize]).clone();
        let (reach, reached) = mpsc::channel();
        let (cancelled, is_cancelled) = mpsc::channel();
        std::thread::scope(|threads| {
            let mut abort = Some((after, reach, is_cancelled));
            for (number, scope) in (0..).zip(scopes) {
                match abort.take_if(|_| number == victim) {
                    Some(abort) => threads.spawn(move || victim_of_an_abort(&scope, abort)),
                    None => threads.spawn(move || undisturbed(&scope, number)),
                };
            }
            reached.recv().unwrap();
            let _no_driver_work = probe.forbid_here(DRIVER_WORK);
            target.cancel();
            cancelled.send(()).unwrap();
        });
        let memory = settled(&manager);
        assert_eq!((memory.live.bytes, memory.retired.bytes), (0, 0));
    }
    assert_given_back(&manager);
}

/// Evaluations of one scope of the abort case.
const EVALUATIONS: u64 = 20;

/// Evaluates to the end and finds its own values.
fn undisturbed(scope: &ManagedScope, number: u64) {
    let (each, once) = (Count::default(), Count::default());
    scope.register(each.each("each")).unwrap();
    scope.register(once.once("once")).unwrap();
    let tensor = scope.tensor_from("values", &[0_u64; EVALUATIONS as usize]).unwrap();
    for at in 0..EVALUATIONS {
        let element = tensor.view(at..at + 1).unwrap();
        let execution = scope.evaluate([op::fill(&element, number * 100 + at)]).unwrap();
        if at % 3 == 0 {
            execution.wait().unwrap();
        }
    }
    let expected: Vec<u64> = (0..EVALUATIONS).map(|at| number * 100 + at).collect();
    assert_eq!(tensor.read().unwrap(), expected);
    let report = scope.finish_blocking().unwrap();
    assert_eq!(report.outcome, Outcome::Completed);
    assert_eq!((report.executions, each.get(), once.get()), (EVALUATIONS, EVALUATIONS, 1));
}

type Abort = (u64, mpsc::Sender<()>, mpsc::Receiver<()>);

/// Evaluates until it is cancelled, and then once more in vain.
fn victim_of_an_abort(scope: &ManagedScope, (after, reach, is_cancelled): Abort) {
    let (each, once) = (Count::default(), Count::default());
    scope.register(each.each("each")).unwrap();
    scope.register(once.once("once")).unwrap();
    let tensor = scope.tensor_from("values", &[0_u64; EVALUATIONS as usize]).unwrap();
    let ready = scope.named("never started").unwrap();
    ready.record(op::fill(&tensor, 9)).unwrap();
    let mut submitted = 0;
    for at in 0..EVALUATIONS {
        if at == after {
            reach.send(()).unwrap();
        }
        match scope.evaluate([op::fill(tensor.view(at..at + 1).unwrap(), at)]) {
            Ok(_) => submitted += 1,
            Err(Error::Cancelled { .. }) => break,
            Err(error) => panic!("a cancelled scope answered {error}"),
        }
    }
    is_cancelled.recv().unwrap();
    assert!(matches!(scope.evaluate([op::fill(&tensor, 9)]), Err(Error::Cancelled { .. })));
    assert_eq!(ready.state(), SequenceState::Cancelled);
    let report = scope.finish_blocking().unwrap();
    assert_eq!(report.outcome, Outcome::Cancelled);
    assert_eq!((report.executions, each.get(), once.get()), (submitted, submitted, 1));
}
