//! Sequences, part 1: their states, and what executions say of them (L7).
//!
//! Not here: what a destroyed sequence answers (`names.rs`).

use std::sync::mpsc;
use std::time::Duration;

use tenure_core::{Error, ExecutionStatus, ManagerOptions, SequenceState, hook, op};

use super::{open, settled};
use crate::bed::{Bed, Rig};
use crate::case::{Case, FIRST, Requirement};
use crate::cases::hooks::support::{FAR, Latch, MIB, case, case_with, receive, threadless};
use crate::instrument::{CallKind, ObjectKind};

pub(super) const CASES: &[Case] = &[
    case("sequences/timeout_leaves_it_running", &["L7", "L4"], timeout_leaves_it_running),
    case("sequences/no_time_and_all_time", &["L7"], no_time_and_all_time),
    case("sequences/states_of_a_life", &["L7"], states_of_a_life),
    case("sequences/busy_while_running_and_nothing_changes", &["L7"], busy_while_running),
    case("sequences/an_empty_recording_evaluates", &["L7"], an_empty_recording_evaluates),
    case("sequences/a_refused_operation_changes_nothing", &["L7"], a_refused_operation_changes_nothing),
    case("sequences/a_destroyed_tensor_leaves_the_state", &["L3", "L5", "L7"], a_destroyed_tensor_leaves_it),
    case("sequences/hooks_hold_no_evaluation_up", &["L7"], hooks_hold_no_evaluation_up),
    case("sequences/evaluated_again_by_its_own_hook", &["L7", "L11"], evaluated_again_by_its_own_hook),
    case("sequences/each_retires_at_its_own_point", &["L7"], each_retires_at_its_own_point),
    case("sequences/a_result_can_be_asked_for_again", &["L7"], a_result_can_be_asked_for_again),
    case("sequences/an_execution_outlives_everything", &["L1", "L6", "L7"], an_execution_outlives_everything),
    case_with(
        "sequences/a_failed_one_can_be_evaluated_again",
        &["L7", "L13"],
        &[Requirement::HostKernels],
        a_failed_one_can_be_evaluated_again,
    ),
    case_with("sequences/ways_out_of_failed", &["L7"], &[Requirement::HostKernels], ways_out_of_failed),
    case_with(
        "sequences/a_failure_stays_with_its_execution",
        &["L7"],
        &[Requirement::HostKernels],
        a_failure_stays_with_its_execution,
    ),
];

/// A wait that times out changes nothing: the sequence runs on with all that it holds, and its result is right.
fn timeout_leaves_it_running(bed: &Bed) {
    let (rig, scope, tensor) = open(bed);
    let held = rig.manager.tensor::<u8>(MIB).unwrap();
    let sequence = scope.named("fills").unwrap();
    sequence.record(op::fill(&tensor, 3)).unwrap().record(op::fill(&held, 1)).unwrap();
    drop(held);
    rig.probe.hold();
    let execution = sequence.evaluate().unwrap();
    for _ in 0..3 {
        let waited = execution.wait_timeout(Duration::from_millis(1));
        assert!(matches!(waited, Err(Error::TimedOut { .. })), "{waited:?}");
        assert_eq!(
            (sequence.state(), execution.status()),
            (SequenceState::Running, ExecutionStatus::Running)
        );
        assert!(matches!(sequence.evaluate(), Err(Error::Busy { .. })));
        assert_eq!(rig.manager.memory().tensors, 2, "the recording holds its tensors");
        assert_eq!(rig.probe.lifetimes(ObjectKind::Sequence).given_back, 0);
    }
    let waited = rig.manager.wait_idle_timeout(Duration::from_millis(1));
    assert!(matches!(waited, Err(Error::TimedOut { .. })), "{waited:?}");
    rig.probe.release_all();
    execution.wait().unwrap();
    assert_eq!(sequence.state(), SequenceState::Finished);
    assert_eq!(tensor.read().unwrap(), [3; 64]);
    scope.finish_blocking().unwrap();
    assert_eq!(rig.probe.calls(CallKind::Submit), 1);
}

/// No time at all is a question, the longest time is a wait, and with the result there both have it; with tenure's threads
/// and without.
fn no_time_and_all_time(bed: &Bed) {
    for options in [ManagerOptions::default(), threadless()] {
        let rig = bed.open_with(options);
        let scope = rig.manager.scope("s").unwrap();
        let tensor = scope.tensor::<u32>(64).unwrap();
        rig.probe.hold();
        let execution = scope.evaluate([op::fill(&tensor, 3)]).unwrap();
        assert!(matches!(execution.wait_timeout(Duration::ZERO), Err(Error::TimedOut { .. })));
        rig.probe.release_all();
        execution.wait_timeout(Duration::MAX).unwrap();
        execution.wait_timeout(Duration::ZERO).unwrap();
        execution.wait_timeout(FAR).unwrap();
        assert_eq!(tensor.read().unwrap(), [3; 64]);
    }
}

/// Recording, Ready, Running, Finished, and back by recording or reset.
fn states_of_a_life(bed: &Bed) {
    let (rig, scope, tensor) = open(bed);
    let sequence = scope.named("s").unwrap();
    assert_eq!(sequence.state(), SequenceState::Recording);
    sequence.reset().unwrap();
    assert_eq!(sequence.state(), SequenceState::Recording);
    sequence.record(op::fill(&tensor, 1)).unwrap();
    assert_eq!(sequence.state(), SequenceState::Ready);
    sequence.reset().unwrap();
    assert_eq!((sequence.state(), sequence.len()), (SequenceState::Recording, 0));
    sequence.record(op::fill(&tensor, 1)).unwrap();
    for _ in 0..2 {
        rig.probe.hold();
        let execution = sequence.evaluate().unwrap();
        assert_eq!(sequence.state(), SequenceState::Running);
        rig.probe.release_all();
        execution.wait().unwrap();
        assert_eq!(sequence.state(), SequenceState::Finished);
    }
    sequence.record(op::fill(&tensor, 2)).unwrap();
    assert_eq!((sequence.state(), sequence.len()), (SequenceState::Ready, 2));
    sequence.run().unwrap();
    sequence.reset().unwrap();
    assert_eq!(sequence.state(), SequenceState::Recording);
}

/// Recording, resetting and evaluating a running sequence is `Busy`, and the recording stays as it was.
fn busy_while_running(bed: &Bed) {
    let (rig, scope, tensor) = open(bed);
    let sequence = scope.named("s").unwrap();
    sequence.record(op::fill(&tensor, 5)).unwrap();
    rig.probe.hold();
    let execution = sequence.evaluate().unwrap();
    let submits = rig.probe.calls(CallKind::Submit);
    for refused in [
        sequence.record(op::fill(&tensor, 6)).map(drop),
        sequence.reset(),
        sequence.evaluate().map(drop),
        sequence.run(),
    ] {
        assert!(matches!(&refused, Err(Error::Busy { sequence }) if &**sequence == "s"), "{refused:?}");
        assert_eq!(sequence.state(), SequenceState::Running);
    }
    assert_eq!((sequence.len(), rig.probe.calls(CallKind::Submit)), (1, submits));
    rig.probe.release_all();
    execution.wait().unwrap();
    assert_eq!(tensor.read().unwrap(), [5; 64]);
    assert_eq!(scope.finish_blocking().unwrap().executions, 1);
}

/// Nothing recorded is nothing to do: it is submitted, completes, and counts.
fn an_empty_recording_evaluates(bed: &Bed) {
    let (rig, scope, _tensor) = open(bed);
    let sequence = scope.sequence().unwrap();
    sequence.run().unwrap();
    assert_eq!((sequence.state(), sequence.is_empty()), (SequenceState::Finished, true));
    sequence.run().unwrap();
    assert_eq!((rig.probe.calls(CallKind::Submit), rig.probe.calls(CallKind::Record)), (2, 0));
    assert_eq!(scope.finish_blocking().unwrap().executions, 2);
}

/// An operation that is refused is not recorded: state, length and what evaluating does stay as they were.
fn a_refused_operation_changes_nothing(bed: &Bed) {
    let (rig, scope, tensor) = open(bed);
    let shorter = scope.tensor::<u32>(63).unwrap();
    let sequence = scope.named("s").unwrap();
    let refuse = |state: SequenceState| {
        let length = sequence.len();
        let refused = sequence.record(op::copy(&tensor, &shorter)).unwrap_err();
        assert!(matches!(refused, Error::Length { .. }), "{refused}");
        let refused = sequence.record(op::copy(&tensor, &tensor)).unwrap_err();
        assert!(matches!(refused, Error::Aliased { .. }), "{refused}");
        assert_eq!((sequence.state(), sequence.len()), (state, length));
    };
    refuse(SequenceState::Recording);
    sequence.record(op::fill(&tensor, 2)).unwrap();
    refuse(SequenceState::Ready);
    sequence.run().unwrap();
    let encoded = rig.probe.calls(CallKind::Record);
    refuse(SequenceState::Finished);
    sequence.run().unwrap();
    assert_eq!(tensor.read().unwrap(), [2; 64]);
    if rig.manager.capabilities().reusable_recordings {
        assert_eq!(rig.probe.calls(CallKind::Record), encoded, "nothing new was recorded");
    }
}

/// A recording whose tensor was destroyed evaluates as `Stale`, submits nothing and keeps its state; a reset mends it.
fn a_destroyed_tensor_leaves_it(bed: &Bed) {
    let (rig, scope, tensor) = open(bed);
    let gone = rig.manager.tensor::<u8>(MIB).unwrap();
    let sequence = scope.named("s").unwrap();
    sequence.record(op::fill(&gone, 1)).unwrap();
    rig.probe.hold();
    let execution = sequence.evaluate().unwrap();
    gone.destroy().unwrap();
    assert_eq!(rig.manager.memory().retired.bytes, MIB, "still in flight");
    rig.probe.release_all();
    execution.wait().unwrap();
    assert_eq!(settled(&rig.manager).retired.bytes, 0, "no reset is needed for that");
    for _ in 0..2 {
        let error = sequence.evaluate().unwrap_err();
        assert!(matches!(error, Error::Stale { .. }), "{error}");
        assert_eq!((sequence.state(), sequence.len()), (SequenceState::Finished, 1));
    }
    sequence.record(op::fill(&tensor, 2)).unwrap();
    assert!(matches!(sequence.evaluate(), Err(Error::Stale { .. })));
    assert_eq!(sequence.state(), SequenceState::Ready);
    sequence.reset().unwrap();
    sequence.record(op::fill(&tensor, 2)).unwrap().run().unwrap();
    assert_eq!(tensor.read().unwrap(), [2; 64]);
    assert_eq!(rig.probe.calls(CallKind::Submit), 2);
    assert_eq!(scope.finish_blocking().unwrap().executions, 2);
}

/// While a hook of its last execution is still running, a sequence is finished and can be evaluated again, and nobody but
/// the finish waits for the hook.
fn hooks_hold_no_evaluation_up(bed: &Bed) {
    let (Rig { manager, .. }, scope, tensor) = open(bed);
    let (begin, begun) = mpsc::channel();
    let latch = Latch::default();
    let inside = latch.clone();
    scope
        .register(hook::each("each", move |_| {
            begin.send(()).unwrap();
            inside.wait();
            Ok(())
        }))
        .unwrap();
    let sequence = scope.named("s").unwrap();
    sequence.record(op::fill(&tensor, 4)).unwrap();
    let execution = sequence.evaluate().unwrap();
    // Nobody waits: the hook runs on the cleanup thread.
    receive(&begun);
    assert_eq!(execution.status(), ExecutionStatus::Completed);
    assert_eq!(sequence.state(), SequenceState::Finished);
    execution.wait_timeout(FAR).unwrap();
    pollster::block_on(execution.clone()).unwrap();
    execution.wait().unwrap();
    manager.wait_idle().unwrap();
    assert_eq!(tensor.read().unwrap(), [4; 64]);
    let again = sequence.evaluate().unwrap();
    pollster::block_on(again).unwrap();
    latch.open();
    let report = scope.finish_blocking().unwrap();
    assert_eq!((report.executions, report.hooks[0].runs), (2, 2));
}

/// An execution's hook evaluates the same sequence again: it is not running any more. The hook may wait for that one, and
/// a finish waits for the whole chain.
fn evaluated_again_by_its_own_hook(bed: &Bed) {
    let (rig, scope, tensor) = open(bed);
    let sequence = scope.named("again").unwrap();
    let (download, values) = op::download(&tensor);
    sequence.record(download).unwrap().record(op::fill(&tensor, 2)).unwrap();
    scope
        .register(hook::each("again", |context| {
            let number = context.execution().unwrap().number;
            if number < 5 {
                let next = context.scope().find("again")?.evaluate()?;
                assert_eq!(next.number(), number + 1);
                if number % 2 == 0 {
                    next.wait()?;
                }
            }
            Ok(())
        }))
        .unwrap();
    sequence.evaluate().unwrap();
    let report = scope.finish_blocking().unwrap();
    assert_eq!((report.executions, report.hooks[0].runs), (5, 5));
    assert_eq!(rig.probe.calls(CallKind::Submit), 5);
    assert_eq!(values.get().unwrap(), [2; 64]);
}

/// Three sequences in flight at a time: each is over when its own point is, and not before.
fn each_retires_at_its_own_point(bed: &Bed) {
    let (rig, scope, tensor) = open(bed);
    rig.probe.hold();
    let sequences: Vec<_> = (0..3_u32)
        .map(|value| {
            let sequence = scope.named(format!("fill {value}")).unwrap();
            sequence.record(op::fill(&tensor, value)).unwrap();
            let execution = sequence.evaluate().unwrap();
            (sequence, execution)
        })
        .collect();
    let states = || sequences.iter().map(|(sequence, _)| sequence.state()).collect::<Vec<_>>();
    for (over, (_, execution)) in sequences.iter().enumerate() {
        let mut expected = vec![SequenceState::Finished; over];
        expected.resize(3, SequenceState::Running);
        assert_eq!(states(), expected);
        assert_eq!(rig.probe.release_one(FIRST), Some(execution.point().value));
        execution.wait().unwrap();
    }
    assert_eq!(states(), [SequenceState::Finished; 3]);
    let numbers: Vec<_> = sequences.iter().map(|(_, execution)| execution.number()).collect();
    assert_eq!(numbers, [1, 2, 3]);
}

/// A result is there for everybody who asks, as often as they ask, by every way to ask.
fn a_result_can_be_asked_for_again(bed: &Bed) {
    let (rig, scope, tensor) = open(bed);
    rig.probe.hold();
    let execution = scope.evaluate([op::fill(&tensor, 3)]).unwrap();
    std::thread::scope(|threads| {
        let waiters: Vec<_> = (0..3)
            .map(|_| threads.spawn(|| execution.wait()))
            .chain((0..3).map(|_| threads.spawn(|| pollster::block_on(execution.clone()))))
            .collect();
        rig.probe.release_all();
        for waiter in waiters {
            waiter.join().unwrap().unwrap();
        }
    });
    execution.wait().unwrap();
    pollster::block_on(execution.clone()).unwrap();
    assert_eq!(execution.status(), ExecutionStatus::Completed);
}

/// An execution's handle has its result when sequence, scope and manager are gone.
fn an_execution_outlives_everything(bed: &Bed) {
    let (Rig { manager, probe }, scope, tensor) = open(bed);
    let sequence = scope.named("s").unwrap();
    sequence.record(op::fill(&tensor, 3)).unwrap();
    let execution = sequence.evaluate().unwrap();
    sequence.destroy().unwrap();
    scope.finish_blocking().unwrap();
    drop((sequence, scope, tensor));
    manager.close().unwrap();
    drop(manager);
    assert!(probe.is_shut_down());
    assert_eq!((execution.number(), execution.status()), (1, ExecutionStatus::Completed));
    assert_eq!((execution.point().queue, execution.point().value), (FIRST, 1));
    execution.wait().unwrap();
    execution.wait_timeout(Duration::ZERO).unwrap();
    pollster::block_on(execution).unwrap();
}

/// A kernel that fails makes the sequence `Failed`, with the error naming sequence and execution; reset, it works again.
fn a_failed_one_can_be_evaluated_again(bed: &Bed) {
    let (rig, scope, tensor) = open(bed);
    let fail = rig.manager.kernel(&bed.kernels().fail).unwrap();
    let sequence = scope.named("risky").unwrap();
    sequence.record(op::dispatch(&fail).bind(&tensor)).unwrap();
    for number in 1..=2 {
        let error = sequence.run().unwrap_err();
        assert!(
            matches!(&error, Error::Execution { sequence, execution, .. } if &**sequence == "risky" && *execution == number),
            "{error}"
        );
        assert_eq!(sequence.state(), SequenceState::Failed);
    }
    sequence.reset().unwrap();
    sequence.record(op::fill(&tensor, 8)).unwrap().run().unwrap();
    assert_eq!((sequence.state(), tensor.read().unwrap()), (SequenceState::Finished, vec![8; 64]));
}

/// From `Failed` on: recording makes it `Ready`, resetting `Recording`, evaluating `Running`.
fn ways_out_of_failed(bed: &Bed) {
    let (rig, scope, tensor) = open(bed);
    let fail = rig.manager.kernel(&bed.kernels().fail).unwrap();
    let failed = |name: &str| {
        let sequence = scope.named(name).unwrap();
        sequence.record(op::dispatch(&fail).bind(&tensor)).unwrap();
        sequence.run().unwrap_err();
        assert_eq!(sequence.state(), SequenceState::Failed);
        sequence
    };
    let recorded = failed("recorded");
    recorded.record(op::fill(&tensor, 2)).unwrap();
    assert_eq!((recorded.state(), recorded.len()), (SequenceState::Ready, 2));
    let reset = failed("reset");
    reset.reset().unwrap();
    assert_eq!((reset.state(), reset.len()), (SequenceState::Recording, 0));
    let evaluated = failed("evaluated");
    rig.probe.hold();
    let execution = evaluated.evaluate().unwrap();
    assert_eq!(evaluated.state(), SequenceState::Running);
    rig.probe.release_all();
    execution.wait().unwrap_err();
    let destroyed = failed("destroyed");
    destroyed.destroy().unwrap();
    assert!(matches!(destroyed.evaluate(), Err(Error::Stale { .. })));
}

/// What fails is one execution: every waiter of it gets that error, and work before and behind it is right.
fn a_failure_stays_with_its_execution(bed: &Bed) {
    let (rig, scope, tensor) = open(bed);
    let fail = rig.manager.kernel(&bed.kernels().fail).unwrap();
    let other = scope.tensor::<u32>(64).unwrap();
    rig.probe.hold();
    let before = scope.evaluate([op::fill(&other, 5)]).unwrap();
    let risky = scope.evaluate([op::dispatch(&fail).bind(&tensor)]).unwrap();
    let behind = scope.evaluate([op::fill(&tensor, 6)]).unwrap();
    rig.probe.release_all();
    let texts: Vec<String> = std::thread::scope(|threads| {
        let waiters: Vec<_> =
            (0..4).map(|_| threads.spawn(|| risky.wait().unwrap_err().to_string())).collect();
        waiters.into_iter().map(|waiter| waiter.join().unwrap()).collect()
    });
    assert!(texts.iter().all(|text| *text == texts[0]), "{texts:?}");
    assert!(texts[0].contains("execution 2 of sequence `anonymous`"), "{}", texts[0]);
    assert_eq!(pollster::block_on(risky.clone()).unwrap_err().to_string(), texts[0]);
    before.wait().unwrap();
    behind.wait().unwrap();
    assert_eq!(
        [before.status(), risky.status(), behind.status()],
        [ExecutionStatus::Completed, ExecutionStatus::Failed, ExecutionStatus::Completed]
    );
    assert_eq!((other.read().unwrap(), tensor.read().unwrap()), (vec![5; 64], vec![6; 64]));
}
