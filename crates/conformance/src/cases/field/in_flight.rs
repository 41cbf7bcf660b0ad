//! Cases C1 to C4: what is dropped, forgotten or destroyed while the device works.
//!
//! Not here: scopes that are cancelled (`abort.rs`), every order of dropping (`devices.rs`).

use std::task::Poll;

use tenure_core::{Error, ExecutionStatus, ManagedScope, Manager, Outcome, ScopeOptions, Tensor, op};

use super::support::{
    Count, DRIVER_WORK, MIB, WATCHDOG, assert_given_back, case, case_with, poll_once, settled, untrimmed,
};
use crate::bed::{Bed, Rig};
use crate::case::{Case, FIRST, Requirement, SECOND};
use crate::instrument::{CallKind, ObjectKind, Probe};

pub(super) const CASES: &[Case] = &[
    case("field/c01_dropped_while_running", &["L4", "L5", "L18", "L19"], c01_dropped_while_running),
    case("field/c01_destroyed_while_running", &["L4", "L5", "L19"], c01_destroyed_while_running),
    case("field/c01_manager_dropped_while_running", &["L4", "L6"], c01_manager_dropped_while_running),
    case_with(
        "field/c02_two_queues_share_a_tensor",
        &["L4", "L19"],
        &[Requirement::Queues(2)],
        c02_two_queues_share_a_tensor,
    ),
    case("field/c02_a_view_is_a_use", &["L4"], c02_a_view_is_a_use),
    case("field/c03_forgotten_scope_and_execution", &["L17", "L28"], c03_forgotten_scope_and_execution),
    case(
        "field/c03_forgotten_under_a_dropped_manager",
        &["L17", "L6"],
        c03_forgotten_under_a_dropped_manager,
    ),
    case("field/c03_forgotten_finish", &["L18", "L10"], c03_forgotten_finish),
    case("field/c04_read_outlives_the_handle", &["L18", "L4"], c04_read_outlives_the_handle),
    case("field/c04_cancelled_read", &["L18"], c04_cancelled_read),
    case("field/c04_destroyed_under_a_read", &["L3", "L18"], c04_destroyed_under_a_read),
    case("field/c04_overwritten_under_a_read", &["L18", "L15"], c04_overwritten_under_a_read),
];

/// Elements of a tensor of 1 MiB.
const LEN: u64 = MIB / 4;

/// Driver calls that give a native object back or end the device.
fn given_back(probe: &Probe) -> u64 {
    probe.calls(
        CallKind::Free
            | CallKind::Recycle
            | CallKind::ResetSequence
            | CallKind::ResetScope
            | CallKind::CloseScope
            | CallKind::DestroyKernel
            | CallKind::Shutdown,
    )
}

/// Tensors and their sequence are dropped right after the submission: no driver work then, no free before completion,
/// one each after it, and the result is right (KomputeProject/kompute#214).
fn c01_dropped_while_running(bed: &Bed) {
    let Rig { manager, probe } = bed.open_with(untrimmed());
    let scope = manager.scope("s").unwrap();
    let data: Vec<u32> = (0..LEN as u32).collect();
    let a = manager.tensor_from("a", &data).unwrap();
    let b = manager.tensor::<u32>(LEN).unwrap();
    let (download, values) = op::download(&b);
    let sequence = scope.sequence().unwrap();
    sequence.record(op::copy(&a, &b)).unwrap().record(download).unwrap();
    probe.hold();
    let execution = sequence.evaluate().unwrap();
    {
        let _no_driver_work = probe.forbid_here(DRIVER_WORK);
        drop((a, b, sequence));
    }
    assert_eq!(execution.status(), ExecutionStatus::Running);
    assert_eq!(manager.trim().unwrap().blocks, 0);
    assert_eq!(given_back(&probe), 0, "nothing goes back before the completion");
    let memory = settled(&manager);
    assert_eq!(memory.live.bytes + memory.retired.bytes, 2 * MIB);

    probe.release_all();
    execution.wait().unwrap();
    assert_eq!(values.get().unwrap(), data);
    let memory = settled(&manager);
    assert_eq!((memory.live.bytes, memory.retired.bytes, memory.cached.bytes), (0, 0, 2 * MIB));
    scope.finish_blocking().unwrap();
    assert_given_back(&manager);
    assert_eq!(probe.calls(CallKind::Free), 2);
    assert_eq!(probe.lifetimes(ObjectKind::Sequence).given_back, 1);
}

/// The same with explicit destroys: the bytes count as retired between destroy and completion, to the byte.
fn c01_destroyed_while_running(bed: &Bed) {
    let Rig { manager, probe } = bed.open_with(untrimmed());
    let scope = manager.scope("s").unwrap();
    let a = manager.tensor::<u32>(LEN).unwrap();
    let b = manager.tensor::<u32>(LEN).unwrap();
    let sequence = scope.named("copy").unwrap();
    sequence.record(op::copy(&a, &b)).unwrap();
    probe.hold();
    let execution = sequence.evaluate().unwrap();
    {
        let _no_driver_work = probe.forbid_here(DRIVER_WORK);
        a.destroy().unwrap();
        b.destroy().unwrap();
        scope.destroy("copy").unwrap();
    }
    let memory = settled(&manager);
    assert_eq!((memory.live.bytes, memory.retired.bytes), (0, 2 * MIB));
    assert_eq!(given_back(&probe), 0);
    assert!(matches!(sequence.evaluate(), Err(Error::Stale { .. })));
    probe.release_all();
    execution.wait().unwrap();
    let memory = settled(&manager);
    assert_eq!((memory.live.bytes, memory.retired.bytes, memory.cached.bytes), (0, 0, 2 * MIB));
    scope.finish_blocking().unwrap();
    assert_given_back(&manager);
    assert_eq!(probe.calls(CallKind::Free), 2);
}

/// The manager is dropped first, then the rest, all under a running execution: nothing waits, nothing is given back
/// before the completion, and the future still has its result.
fn c01_manager_dropped_while_running(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let scope = manager.scope("s").unwrap();
    let (each, once) = (Count::default(), Count::default());
    scope.register(each.each("each")).unwrap();
    scope.register(once.once("once")).unwrap();
    let a = scope.tensor_from("a", &[7_u32; 64]).unwrap();
    let b = scope.tensor::<u32>(64).unwrap();
    let (download, values) = op::download(&b);
    probe.hold();
    let execution = scope.evaluate([op::copy(&a, &b), download]).unwrap();
    {
        let _no_driver_work = probe.forbid_here(DRIVER_WORK);
        drop(manager);
        drop(scope);
        drop((a, b));
    }
    assert_eq!(execution.status(), ExecutionStatus::Running);
    assert_eq!(given_back(&probe), 0);
    probe.release_all();
    execution.wait().unwrap();
    assert_eq!(values.get().unwrap(), [7; 64]);
    assert!(probe.wait_shutdown(WATCHDOG), "the device ends when it is idle");
    assert_eq!((each.get(), once.get()), (1, 1));
}

/// A tensor that two queues use is not handed out again when the first of them has finished (pytorch/pytorch#23729).
fn c02_two_queues_share_a_tensor(bed: &Bed) {
    let Rig { manager, probe } = bed.open_with(untrimmed());
    let open = |queue| manager.scope_with(ScopeOptions::builder().queue(queue).build()).unwrap();
    let scopes = [open(FIRST), open(SECOND)];
    let shared = manager.tensor::<u8>(MIB).unwrap();
    let targets = [manager.tensor::<u8>(1024).unwrap(), manager.tensor::<u8>(1024).unwrap()];
    probe.hold();
    let executions: Vec<_> = scopes
        .iter()
        .zip(&targets)
        .map(|(scope, target)| scope.evaluate([op::copy(shared.view(0..1024).unwrap(), target)]).unwrap())
        .collect();
    shared.destroy().unwrap();
    drop(shared);
    probe.release(FIRST, executions[0].point().value);
    executions[0].wait().unwrap();
    assert_not_reused(&manager, &probe);
    probe.release_all();
    executions[1].wait().unwrap();
    assert_reused(&manager, &probe);
    scopes.iter().for_each(|scope| drop(scope.finish_blocking().unwrap()));
    drop(targets);
    assert_given_back(&manager);
}

/// A use through a view with an offset is a use of the whole memory (pytorch/pytorch#27366).
fn c02_a_view_is_a_use(bed: &Bed) {
    let Rig { manager, probe } = bed.open_with(untrimmed());
    let scope = manager.scope("s").unwrap();
    let shared = manager.tensor::<u8>(MIB).unwrap();
    let target = manager.tensor::<u8>(1024).unwrap();
    let view = shared.view(512 << 10..(512 << 10) + 1024).unwrap();
    probe.hold();
    let execution = scope.evaluate([op::copy(&view, &target)]).unwrap();
    shared.destroy().unwrap();
    drop((shared, view));
    assert_not_reused(&manager, &probe);
    probe.release_all();
    execution.wait().unwrap();
    assert_reused(&manager, &probe);
    scope.finish_blocking().unwrap();
    drop(target);
    assert_given_back(&manager);
}

/// A new tensor of 1 MiB does not get the 1 MiB that is retired.
fn assert_not_reused(manager: &Manager, probe: &Probe) {
    assert_eq!(settled(manager).retired.bytes, MIB);
    let before = (probe.calls(CallKind::Allocate), manager.memory().cache_hits);
    let other = manager.tensor::<u8>(MIB).unwrap();
    let after = (probe.calls(CallKind::Allocate), manager.memory().cache_hits);
    assert_eq!(after, (before.0 + 1, before.1), "the memory is in use, a block of its own is due");
    // Kept out of the pool, so that what is reused later is the retired block.
    drop(other);
    assert_eq!(manager.trim().unwrap().blocks, 1);
}

/// A new tensor of 1 MiB gets the 1 MiB that was retired: it is the only one there.
fn assert_reused(manager: &Manager, probe: &Probe) {
    assert_eq!(settled(manager).retired.bytes, 0);
    let before = (probe.calls(CallKind::Allocate), manager.memory().cache_hits);
    let other = manager.tensor::<u8>(MIB).unwrap();
    let after = (probe.calls(CallKind::Allocate), manager.memory().cache_hits);
    assert_eq!(after, (before.0, before.1 + 1));
    drop(other);
}

/// An execution and its scope are forgotten: other scopes work, and closing finishes the forgotten one and names it
/// (embassy-rs/embassy#4378).
fn c03_forgotten_scope_and_execution(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let hooks = Count::default();
    let scope = manager.scope("forgotten").unwrap();
    scope.register(hooks.once("last words")).unwrap();
    let tensor = scope.tensor::<u8>(MIB).unwrap();
    let execution = scope.evaluate([op::fill(&tensor, 1)]).unwrap();
    std::mem::forget(execution);
    std::mem::forget(scope);
    drop(tensor);

    let other = manager.scope("other").unwrap();
    let works = other.tensor::<u32>(64).unwrap();
    other.evaluate([op::fill(&works, 3)]).unwrap().wait().unwrap();
    assert_eq!(works.read().unwrap(), [3; 64]);
    other.finish_blocking().unwrap();
    assert_eq!(hooks.get(), 0, "nobody has finished the forgotten scope yet");

    let report = manager.close().unwrap();
    assert_eq!(hooks.get(), 1);
    assert_eq!(report.unfinished_scopes.len(), 1);
    assert_eq!(&*report.unfinished_scopes[0].scope, "forgotten");
    assert_eq!(report.unfinished_scopes[0].hooks.len(), 1);
    assert_eq!(&*report.unfinished_scopes[0].hooks[0], "last words");
    assert_eq!(report.memory.reserved.bytes, 0);
    assert_eq!(report.memory.allocations, report.memory.frees);
}

/// Everything is forgotten but the manager, which is dropped with the execution in flight: its background close runs
/// the hook and gives everything back.
fn c03_forgotten_under_a_dropped_manager(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let hooks = Count::default();
    let scope = manager.scope("forgotten").unwrap();
    scope.register(hooks.once("last words")).unwrap();
    let tensor = scope.tensor::<u32>(64).unwrap();
    probe.hold();
    let execution = scope.evaluate([op::fill(&tensor, 1)]).unwrap();
    std::mem::forget((scope, tensor, execution));
    drop(manager);
    probe.release_all();
    assert!(probe.wait_shutdown(WATCHDOG));
    assert_eq!(hooks.get(), 1);
}

/// A finish that was polled and forgotten holds nobody up: a second one goes on with it and runs the hook once.
fn c03_forgotten_finish(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let hooks = Count::default();
    let scope = manager.scope("s").unwrap();
    scope.register(hooks.once("once")).unwrap();
    let tensor = scope.tensor::<u32>(64).unwrap();
    probe.hold();
    scope.evaluate([op::fill(&tensor, 1)]).unwrap();
    let mut finish = scope.finish();
    assert!(poll_once(&mut finish).is_pending());
    std::mem::forget(finish);
    probe.release_all();
    let report = scope.finish_blocking().unwrap();
    assert_eq!((report.outcome, report.hooks[0].runs, hooks.get()), (Outcome::Completed, 1, 1));
    drop(tensor);
    assert_given_back(&manager);
}

/// A scope with a tensor whose fill with 1 is held back.
fn held_fill(manager: &Manager, probe: &Probe) -> (ManagedScope, Tensor<u32>) {
    let scope = manager.scope("s").unwrap();
    let tensor = manager.tensor_from("data", &[0_u32; 64]).unwrap();
    probe.hold();
    scope.evaluate([op::fill(&tensor, 1)]).unwrap();
    (scope, tensor)
}

/// The tensor is dropped while a read of it waits: the read has its values (gfx-rs/wgpu#3971).
fn c04_read_outlives_the_handle(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let (scope, tensor) = held_fill(&manager, &probe);
    let mut read = tensor.read_async();
    assert!(poll_once(&mut read).is_pending());
    drop(tensor);
    assert!(poll_once(&mut read).is_pending());
    assert_eq!(settled(&manager).tensors, 1, "the read holds the tensor");
    probe.release_all();
    assert_eq!(pollster::block_on(read).unwrap(), [1; 64]);
    scope.finish_blocking().unwrap();
    assert_given_back(&manager);
}

/// A waiting read is dropped: no driver call, no trace, and the tensor goes on.
fn c04_cancelled_read(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let (scope, tensor) = held_fill(&manager, &probe);
    let mut read = tensor.read_async();
    assert!(poll_once(&mut read).is_pending());
    {
        let _no_driver_work = probe.forbid_here(DRIVER_WORK);
        drop(read);
    }
    assert_eq!(probe.calls(CallKind::ReadBlock), 0);
    probe.release_all();
    assert_eq!(tensor.read().unwrap(), [1; 64]);
    assert_eq!(probe.calls(CallKind::ReadBlock), 1);
    scope.finish_blocking().unwrap();
    drop(tensor);
    assert_given_back(&manager);
}

/// The tensor is destroyed while a read of it waits: the read ends as `Stale`, reads nothing, and the memory is freed
/// once, after the device.
fn c04_destroyed_under_a_read(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let (scope, tensor) = held_fill(&manager, &probe);
    let mut read = tensor.read_async();
    assert!(poll_once(&mut read).is_pending());
    tensor.destroy().unwrap();
    match poll_once(&mut read) {
        Poll::Ready(Err(Error::Stale { label, .. })) => assert_eq!(&*label, "data"),
        other => panic!("the read should be stale, not {other:?}"),
    }
    assert_eq!(given_back(&probe), 0);
    probe.release_all();
    scope.finish_blocking().unwrap();
    assert_eq!(probe.calls(CallKind::ReadBlock), 0);
    assert_given_back(&manager);
    assert_eq!(probe.calls(CallKind::Free), 1);
}

/// The tensor is overwritten while a read of it waits. There is no mapping that could be in the way: the read comes
/// after all writes that were submitted, and is never torn.
fn c04_overwritten_under_a_read(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let (scope, tensor) = held_fill(&manager, &probe);
    let mut read = tensor.read_async();
    assert!(poll_once(&mut read).is_pending());
    let second = scope.evaluate([op::fill(&tensor, 2)]).unwrap();
    assert_eq!(probe.release_one(FIRST), Some(1));
    assert!(poll_once(&mut read).is_pending(), "a write is in flight");
    probe.release_all();
    assert_eq!(pollster::block_on(read).unwrap(), [2; 64]);
    second.wait().unwrap();
    scope.finish_blocking().unwrap();
    drop(tensor);
    assert_given_back(&manager);
}
