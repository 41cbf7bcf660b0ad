//! Cases about a device that is lost: waits, hooks, what is destroyed, what is abandoned, opening again (L13, L14,
//! L23).
//!
//! Not here: other faults of the driver, and loss at every call (`faults.rs`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tenure_core::{
    BackendErrorKind, CleanupErrorKind, Error, HookClass, ManagerOptions, Outcome, Period, SequenceState,
    hook, op,
};

use crate::bed::{Bed, Rig};
use crate::case::{Case, FIRST, Requirement};
use crate::instrument::{CallKind, Limits, ObjectKind};

/// The cases of this topic.
pub const CASES: &[Case] = &[
    Case {
        id: "loss/a_new_manager_opens",
        rules: &["L23"],
        requires: &[Requirement::ReopensAfterLoss],
        run: a_new_manager_opens,
    },
    case("loss/every_pending_wait_ends_with_the_first_cause", &["L23"], every_pending_wait_ends),
    case("loss/everything_answers_the_first_cause", &["L23"], everything_answers_the_first_cause),
    case("loss/nothing_is_recycled", &["L23", "L19"], nothing_is_recycled),
    case("loss/objects_are_abandoned_where_they_cannot_be_destroyed", &["L23", "L19"], objects_are_abandoned),
    case("loss/device_hooks_are_skipped_and_host_hooks_run", &["L14", "L11"], device_hooks_are_skipped),
    case("loss/execution_hooks_run_for_lost_executions", &["L11", "L23"], execution_hooks_run),
    case("loss/the_root_cause_comes_before_its_cascade", &["L13", "L23"], the_root_cause_is_first),
    case("loss/a_body_keeps_its_error", &["L13", "L23"], a_body_keeps_its_error),
    case("loss/an_engine_can_tell", &["L23"], an_engine_can_tell),
    case("loss/handles_drop_silently_after_loss", &["L6", "L23"], handles_drop_silently),
    case("loss/a_read_in_flight_ends", &["L18", "L23"], a_read_in_flight_ends),
    case("loss/without_threads_poll_notices", &["L23"], without_threads_poll_notices),
    case("loss/trim_and_close_succeed", &["L21", "L23"], trim_and_close_succeed),
];

const fn case(id: &'static str, rules: &'static [&'static str], run: fn(&Bed)) -> Case {
    Case { id, rules, requires: &[], run }
}

/// The device is lost under running work: the wait says so, closing succeeds, and a new manager works.
fn a_new_manager_opens(bed: &Bed) {
    let rig = bed.open();
    let scope = rig.manager.scope("lost").unwrap();
    let tensor = scope.tensor::<u32>(64).unwrap();
    rig.probe.hold();
    let execution = scope.evaluate([op::fill(&tensor, 1)]).unwrap();
    rig.probe.lose_device();
    let waited = execution.wait();
    assert!(matches!(waited, Err(Error::DeviceLost { .. })), "{waited:?}");
    drop((scope, tensor));
    rig.manager.close().unwrap();

    let again = bed.open().manager;
    let (_, report) = again
        .run("again", |scope| -> Result<(), Error> {
            let tensor = scope.tensor_from("data", &[1u32; 64])?;
            scope.evaluate([op::fill(&tensor, 2)])?.wait()?;
            assert_eq!(tensor.read()?, [2; 64]);
            Ok(())
        })
        .unwrap();
    assert_eq!(report.outcome, Outcome::Completed);
}

/// Threads that wait for executions, for idleness and for a finish all come back.
fn every_pending_wait_ends(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let scope = manager.scope("s").unwrap();
    let tensor = scope.tensor::<u32>(64).unwrap();
    probe.hold();
    let executions: Vec<_> = (0..4).map(|_| scope.evaluate([op::fill(&tensor, 1)]).unwrap()).collect();
    std::thread::scope(|threads| {
        let waits: Vec<_> = executions.iter().map(|execution| threads.spawn(|| execution.wait())).collect();
        let future = executions[0].clone();
        let awaited = threads.spawn(move || pollster::block_on(future));
        let idle = threads.spawn(|| manager.wait_idle());
        probe.lose_device();
        for wait in waits {
            let result = wait.join().unwrap();
            assert!(matches!(result, Err(Error::DeviceLost { .. })), "{result:?}");
        }
        assert!(matches!(awaited.join().unwrap(), Err(Error::DeviceLost { .. })));
        idle.join().unwrap().unwrap();
    });
    let error = scope.finish_blocking().unwrap_err();
    let Error::Cleanup(failure) = error else { panic!("{error:?}") };
    assert_eq!(failure.report.outcome, Outcome::DeviceLost);
}

/// Making, recording, evaluating, reading and writing say that the device is lost, and by what; they reach no driver.
fn everything_answers_the_first_cause(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let scope = manager.scope("s").unwrap();
    let tensor = scope.tensor_from("data", &[1u32; 64]).unwrap();
    let sequence = scope.sequence().unwrap();
    sequence.record(op::fill(&tensor, 2)).unwrap();
    probe.fail_nth(CallKind::Submit, 1, BackendErrorKind::DeviceLost);
    let first = sequence.evaluate().unwrap_err();
    let Error::DeviceLost { cause, restart } = &first else { panic!("{first:?}") };
    assert_eq!(*restart, bed.capabilities().loss_is_sticky);
    let before = probe.calls(CallKind::Allocate | CallKind::Submit | CallKind::Record | CallKind::WriteBlock);
    let answers = [
        manager.tensor::<u32>(64).err(),
        scope.tensor::<u32>(64).err(),
        manager.kernel(&bed.kernels().scale).err(),
        sequence.evaluate().err(),
        tensor.read().err(),
        tensor.write(&[0; 64]).err(),
        pollster::block_on(tensor.read_async()).err(),
    ];
    for (at, answer) in answers.into_iter().enumerate() {
        match answer {
            Some(Error::DeviceLost { cause: named, .. }) => {
                assert_eq!(named.to_string(), cause.to_string(), "call {at} names the first cause");
            }
            other => panic!("call {at} answered {other:?}"),
        }
    }
    assert_eq!(
        probe.calls(CallKind::Allocate | CallKind::Submit | CallKind::Record | CallKind::WriteBlock),
        before,
        "a lost device is left alone"
    );
    assert!(!matches!(sequence.state(), SequenceState::Running));
}

/// What is dropped after loss goes to the driver or is abandoned; none of it serves another tensor.
fn nothing_is_recycled(bed: &Bed) {
    let Rig { manager, probe } = bed.open_with(ManagerOptions::builder().label("lost").build());
    let held = manager.tensor::<u8>(1 << 20).unwrap();
    let cached = manager.tensor::<u8>(1 << 20).unwrap();
    drop(cached);
    probe.lose_device();
    manager.notify_lost("as the driver said");
    drop(held);
    assert!(matches!(manager.tensor::<u8>(1 << 20), Err(Error::DeviceLost { .. })));
    let report = manager.close().unwrap();
    let memory = report.memory;
    assert_eq!(memory.reserved.bytes, 0);
    assert_eq!(memory.allocations, memory.frees + memory.abandoned);
    if bed.capabilities().abandons_on_loss {
        assert_eq!(memory.frees, 0);
    } else {
        assert_eq!(memory.abandoned, 0);
        assert_eq!(probe.lifetimes(ObjectKind::Block).given_back, memory.frees);
    }
}

/// Where native objects die with the device, core gives none back: allocations = frees + abandoned.
fn objects_are_abandoned(bed: &Bed) {
    let limits = Limits { abandons_on_loss: Some(true), ..Limits::default() };
    let Rig { manager, probe } = bed.open_limited(limits, ManagerOptions::default());
    let scope = manager.scope("s").unwrap();
    let tensor = scope.tensor::<u8>(1 << 20).unwrap();
    let other = manager.tensor::<u8>(1 << 20).unwrap();
    let kernel = bed.facts().kernels.then(|| manager.kernel(&bed.kernels().scale).unwrap());
    scope.evaluate([op::fill(&tensor, 1)]).unwrap().wait().unwrap();
    probe.lose_device();
    assert!(scope.evaluate([op::fill(&tensor, 2)]).unwrap_err().is_device_lost());
    drop((tensor, other, kernel));
    // Nobody waits for the lost scope: its error is the close report's.
    drop(scope);
    let report = manager.close().unwrap();
    assert_eq!((report.memory.allocations, report.memory.frees, report.memory.abandoned), (2, 0, 2));
    assert_eq!(probe.calls(CallKind::Free | CallKind::DestroyKernel | CallKind::CloseScope), 0);
    assert_eq!(probe.lifetimes(ObjectKind::Block).abandoned, 2);
}

/// After loss a device hook is `Skipped`, which counts as its run; a host hook runs.
fn device_hooks_are_skipped(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let scope = manager.scope("s").unwrap();
    let host = Arc::new(AtomicU64::new(0));
    for (label, period) in [("host scope", Period::Scope), ("host after", Period::AfterRelease)] {
        let runs = host.clone();
        let run = move |_: &tenure_core::CleanupContext| {
            runs.fetch_add(1, Ordering::SeqCst);
            Ok(())
        };
        let made = match period {
            Period::AfterRelease => hook::after_release(label, run),
            _ => hook::once(label, run),
        };
        scope.register(made).unwrap();
    }
    scope.register(hook::once("device", |_| panic!("a device hook ran after loss")).device()).unwrap();
    scope.register(hook::custom(OnDevice)).unwrap();
    probe.lose_device();
    manager.notify_lost("as the driver said");
    let error = scope.finish_blocking().unwrap_err();
    let Error::Cleanup(failure) = error else { panic!("{error:?}") };
    assert_eq!(host.load(Ordering::SeqCst), 2);
    for label in ["device", "custom device"] {
        let row = failure.report.hook(label).unwrap();
        assert_eq!((row.runs, row.skipped, row.failed), (0, 1, 0), "{label}");
    }
    assert_eq!(failure.report.outcome, Outcome::DeviceLost);
    assert_eq!(failure.report.error_count, 1, "a skip is no error of its own");
}

struct OnDevice;

#[async_trait::async_trait]
impl tenure_core::CleanupHook for OnDevice {
    fn label(&self) -> &str {
        "custom device"
    }

    fn period(&self) -> Period {
        Period::Scope
    }

    fn class(&self) -> HookClass {
        HookClass::Device
    }

    async fn run(&mut self, _: &tenure_core::CleanupContext) -> Result<(), tenure_core::BoxError> {
        panic!("a device hook ran after loss")
    }
}

/// Executions that the loss ended have their hooks run, once each, with the loss as their result.
fn execution_hooks_run(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let scope = manager.scope("s").unwrap();
    let lost = Arc::new(AtomicU64::new(0));
    let seen = lost.clone();
    scope
        .register(hook::each("each", move |context| {
            let result = &context.execution().expect("an execution hook").result;
            assert!(matches!(result, Err(Error::DeviceLost { .. })), "{result:?}");
            seen.fetch_add(1, Ordering::SeqCst);
            Ok(())
        }))
        .unwrap();
    let tensor = scope.tensor::<u32>(64).unwrap();
    probe.hold();
    for _ in 0..3 {
        scope.evaluate([op::fill(&tensor, 1)]).unwrap();
    }
    probe.lose_device();
    let _lost = scope.finish_blocking().unwrap_err();
    assert_eq!(lost.load(Ordering::SeqCst), 3);
}

/// Three executions and a hook fail because of the loss: the loss itself is the primary error, once.
fn the_root_cause_is_first(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let scope = manager.scope("s").unwrap();
    let tensor = scope.tensor::<u32>(64).unwrap();
    let read = tensor.clone();
    scope.register(hook::once("reads", move |_| Ok(read.read().map(drop)?))).unwrap();
    probe.hold();
    for _ in 0..3 {
        scope.evaluate([op::fill(&tensor, 1)]).unwrap();
    }
    probe.lose_device();
    let error = scope.finish_blocking().unwrap_err();
    let Error::Cleanup(failure) = error else { panic!("{error:?}") };
    assert_eq!(failure.primary.kind, CleanupErrorKind::DeviceLost);
    assert!(matches!(failure.primary.source.downcast_ref(), Some(Error::DeviceLost { .. })));
    let others: Vec<_> = failure.others.iter().map(|error| error.hook.as_deref()).collect();
    assert_eq!(others, [Some("reads")], "three lost executions are one loss");
}

/// The body fails because of the loss: its error comes back as it is, the loss is in the report.
fn a_body_keeps_its_error(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let result = manager.run("s", |scope| -> Result<(), String> {
        let tensor = scope.tensor::<u32>(64).map_err(|error| error.to_string())?;
        probe.hold();
        let execution = scope.evaluate([op::fill(&tensor, 1)]).map_err(|error| error.to_string())?;
        probe.lose_device();
        execution.wait().map_err(|error| format!("step 7: {error}"))
    });
    let error = result.unwrap_err();
    assert_eq!(error.report().unwrap().outcome, Outcome::DeviceLost);
    assert_eq!(error.report().unwrap().errors[0].kind, CleanupErrorKind::DeviceLost);
    assert!(error.body().unwrap().starts_with("step 7: the device is lost"));
}

/// An engine that shares its device knows first: `notify_lost` ends what is pending, with the engine's words.
fn an_engine_can_tell(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let scope = manager.scope("s").unwrap();
    let tensor = scope.tensor::<u32>(64).unwrap();
    let execution = scope.evaluate([op::fill(&tensor, 1)]).unwrap();
    probe.lose_silently();
    manager.notify_lost("the window went away");
    manager.notify_lost("a second reason");
    // It may have retired before the engine told.
    if let Err(error) = execution.wait() {
        assert!(error.to_string().contains("the window went away"), "{error}");
    }
    let error = manager.tensor::<u32>(1).unwrap_err();
    assert!(error.is_device_lost());
    assert!(error.to_string().contains("the window went away"), "{error}");
}

/// Handles of all kinds are dropped after the loss, in an odd order, and nothing panics.
fn handles_drop_silently(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let scope = manager.scope("s").unwrap();
    let tensor = scope.tensor::<u32>(64).unwrap();
    let sequence = scope.named("fill").unwrap();
    sequence.record(op::fill(&tensor, 1)).unwrap();
    probe.hold();
    let execution = sequence.evaluate().unwrap();
    probe.lose_device();
    drop(manager);
    drop(execution);
    drop(sequence);
    drop(scope);
    drop(tensor);
}

/// A read that waits for the device ends with the loss.
fn a_read_in_flight_ends(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let scope = manager.scope("s").unwrap();
    let tensor = scope.tensor::<u32>(64).unwrap();
    probe.hold();
    scope.evaluate([op::fill(&tensor, 1)]).unwrap();
    std::thread::scope(|threads| {
        let blocking = threads.spawn(|| tensor.read());
        let future = tensor.read_async();
        let awaited = threads.spawn(move || pollster::block_on(future));
        probe.lose_device();
        for answer in [blocking.join().unwrap(), awaited.join().unwrap()] {
            assert!(matches!(answer, Err(Error::DeviceLost { .. })), "{answer:?}");
        }
    });
}

/// Without threads the next poll takes the loss in.
fn without_threads_poll_notices(bed: &Bed) {
    let Rig { manager, probe } = bed.open_with(ManagerOptions::builder().threads(false).build());
    let scope = manager.scope("s").unwrap();
    let tensor = scope.tensor::<u32>(64).unwrap();
    probe.hold();
    let execution = scope.evaluate([op::fill(&tensor, 1)]).unwrap();
    assert_eq!(manager.poll().unwrap().retired, 0);
    probe.lose_device();
    assert_eq!(manager.poll().unwrap().retired, 1);
    assert!(matches!(execution.wait(), Err(Error::DeviceLost { .. })));
    assert_eq!(probe.reported(FIRST), 0, "loss completes nothing, it ends everything");
}

/// Trimming and closing work after loss; closing twice gives the same report.
fn trim_and_close_succeed(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    drop(manager.tensor::<u8>(1 << 20).unwrap());
    probe.lose_device();
    manager.notify_lost("as the driver said");
    let report = manager.trim().unwrap();
    assert_eq!(report.blocks, 1);
    let first = manager.close().unwrap();
    let second = manager.close().unwrap();
    assert_eq!(first.memory, second.memory);
    assert_eq!(first.memory.reserved.bytes, 0);
}
