//! Cases about handles of all kinds that outlive their manager (L6).
//!
//! Not here: closing while work runs (`overrides.rs`, `drop_order.rs`).

use tenure_core::{
    CleanupContext, EndOfLife, Error, ExecutionStatus, Outcome, ResourceKind, ScopeRef, ScopeState, hook, op,
};

use super::support::{MIB, WATCHDOG, stale, untrimmed};
use crate::bed::{Bed, Rig};
use crate::instrument::CallSet;
use crate::kernels::groups_for;

/// Whether a scope's answer says that there is nothing more to be had from it.
fn refuses<T>(answer: &Result<T, Error>) -> bool {
    matches!(answer, Err(Error::Closed { .. } | Error::ScopeFinished { .. } | Error::Stale { .. }))
}

/// Every kind of handle is kept, the manager closed: tensors, views and sequences are stale, scopes refuse, what has
/// arrived on the host stays, and neither a call nor a drop reaches the driver.
pub(super) fn every_handle_outlives_its_manager(bed: &Bed) {
    let Rig { manager, probe } = bed.open_with(untrimmed());
    let scope = manager.scope("s").unwrap();
    let child = scope.scope("child").unwrap();
    let context = keep_context(&child);
    let tensor = manager.tensor_from("data", &[3_u32; 64]).unwrap();
    let local = scope.tensor_from("local", &[4_u32; 64]).unwrap();
    let view = tensor.view(0..8).unwrap();
    let erased = tensor.erase();
    let mut read = tensor.read_async();
    let kernel = bed.facts().kernels.then(|| manager.kernel(&bed.kernels().increment).unwrap());
    let (download, values) = op::download(&tensor);
    let sequence = scope.named("work").unwrap();
    sequence.record(download).unwrap();
    let execution = sequence.evaluate().unwrap();
    let kept = ScopeRef::clone(&scope);
    execution.wait().unwrap();
    child.finish_blocking().unwrap();
    let context = context.join().unwrap();
    let first = manager.close().unwrap();
    assert!(probe.is_shut_down());
    let calls = probe.calls(CallSet::ALL);

    let closed = EndOfLife::ManagerClosed("manager".into());
    assert_eq!(stale(tensor.read(), ResourceKind::Tensor, "data"), closed);
    assert_eq!(stale(tensor.write(&[0; 64]), ResourceKind::Tensor, "data"), closed);
    assert_eq!(stale(tensor.view(0..1), ResourceKind::Tensor, "data"), closed);
    assert_eq!(stale(view.read(), ResourceKind::Tensor, "data"), closed);
    assert_eq!(stale(tensor.promote(), ResourceKind::Tensor, "data"), closed);
    assert_eq!(stale(pollster::block_on(&mut read), ResourceKind::Tensor, "data"), closed);
    assert_eq!(stale(erased.cast::<u32>().unwrap().read(), ResourceKind::Tensor, "data"), closed);
    stale(local.read(), ResourceKind::Tensor, "local");
    stale(sequence.evaluate(), ResourceKind::Sequence, "work");
    stale(sequence.reset(), ResourceKind::Sequence, "work");
    stale(sequence.record(op::fill(&tensor, 1)).map(|_| ()), ResourceKind::Sequence, "work");
    if let Some(kernel) = &kernel {
        let dispatch = op::dispatch(kernel).bind(&tensor).groups(groups_for(64));
        stale(sequence.record(dispatch).map(|_| ()), ResourceKind::Sequence, "work");
        assert_eq!(kernel.label(), "increment");
    }
    tensor.destroy().unwrap();
    sequence.destroy().unwrap();
    assert_eq!((tensor.label(), tensor.len(), tensor.is_live()), ("data", 64, false));
    assert_eq!(values.get().unwrap(), [3; 64], "what was downloaded is the host's");
    execution.wait().unwrap();
    assert_eq!(execution.status(), ExecutionStatus::Completed);

    assert_eq!(scope.state(), ScopeState::Finished(Outcome::Abandoned));
    for scope in [&*scope, &kept, &context.scope()] {
        assert!(refuses(&scope.tensor::<u32>(64)) && refuses(&scope.tensor::<u32>(0)));
        assert!(refuses(&scope.sequence()) && refuses(&scope.scope("more")));
        assert!(refuses(&scope.evaluate([op::fill(&tensor, 1)])));
        let rejected = scope.register(hook::once("late", |_| Ok(()))).unwrap_err();
        assert_eq!(rejected.value.label(), "late", "a refused hook is handed back");
        scope.cancel();
        assert_eq!((scope.live_bytes(), scope.clear()), (0, 0));
    }
    assert!(refuses(&scope.finish_blocking()) && refuses(&scope.move_out()));

    let other = manager.clone();
    for manager in [&manager, &other] {
        assert!(matches!(manager.tensor::<u8>(MIB), Err(Error::Closed { .. })));
        assert!(matches!(manager.tensor_from("late", &[1_u8]), Err(Error::Closed { .. })));
        assert!(matches!(manager.scope("late"), Err(Error::Closed { .. })));
        assert!(matches!(manager.trim(), Err(Error::Closed { .. })));
        assert!(matches!(manager.driver_memory(), Err(Error::Closed { .. })));
        assert!(manager.kernel(&bed.kernels().increment).is_err());
        manager.wait_idle().unwrap();
        manager.poll().unwrap();
        assert_eq!(manager.memory(), first.memory);
        assert_eq!(manager.close().unwrap().memory, first.memory);
    }
    drop((tensor, local, view, erased, read, kernel, values, sequence, execution));
    drop((scope, child, kept, context, manager, other));
    assert_eq!(probe.calls(CallSet::ALL), calls, "a device that is gone is left alone");
}

/// The context of a hook of this scope, kept after its run.
fn keep_context(scope: &ScopeRef) -> std::thread::JoinHandle<CleanupContext> {
    let (send, kept) = std::sync::mpsc::channel();
    scope
        .register(hook::once("keeps its context", move |context| {
            send.send(context.clone())?;
            Ok(())
        }))
        .unwrap();
    std::thread::spawn(move || kept.recv_timeout(WATCHDOG).expect("the hook runs"))
}

/// The last manager handle goes with nothing in flight: its tensors and sequences are stale from then on.
pub(super) fn a_dropped_manager_ends_its_tensors(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let tensor = manager.tensor_from("data", &[3_u32; 64]).unwrap();
    let other = manager.clone();
    drop(manager);
    assert_eq!(tensor.read().unwrap(), [3; 64], "a clone is still there");
    drop(other);
    let why = stale(tensor.read(), ResourceKind::Tensor, "data");
    assert_eq!(why, EndOfLife::ManagerClosed("manager".into()));
    assert!(probe.wait_shutdown(WATCHDOG));
    drop(tensor);
}
