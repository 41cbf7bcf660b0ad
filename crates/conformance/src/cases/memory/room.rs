//! Cases about a driver that has no room for what is no tensor: recordings and their arenas, staging, kernels (L20).
//!
//! Not here: tensors that find no room (`out_of_memory.rs`), and every call in turn that fails (`faults.rs`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tenure_core::{BackendErrorKind, Error, ManagedScope, Manager, hook, op};

use crate::bed::{Bed, Rig};
use crate::cases::ownership::support::{MIB, assert_given_back, settled, untrimmed};
use crate::instrument::CallKind;

/// What an evaluation asks the driver for, in that order.
const EVALUATION: [CallKind; 4] =
    [CallKind::OpenScope, CallKind::OpenSequence, CallKind::Record, CallKind::Submit];

/// A scope that counts its executions by a hook.
fn counting(manager: &Manager) -> (ManagedScope, Arc<AtomicU64>) {
    let scope = manager.scope("s").unwrap();
    let runs = Arc::new(AtomicU64::new(0));
    let seen = runs.clone();
    let each = hook::each("each", move |_| {
        seen.fetch_add(1, Ordering::SeqCst);
        Ok(())
    });
    scope.register(each).unwrap();
    (scope, runs)
}

/// Whatever of an evaluation finds no room: the cache goes back, it is tried once more, and nobody is told. Idle tensors
/// and what was retired are of the cache.
pub(super) fn a_recording_finds_room(bed: &Bed) {
    for call in EVALUATION {
        let Rig { manager, probe } = bed.open_with(untrimmed());
        let (scope, runs) = counting(&manager);
        let tensor = scope.tensor_from("data", &[1_u32; 64]).unwrap();
        let held = manager.memory().reserved;
        drop(manager.tensor::<u8>(4 * MIB).unwrap());
        probe.fail_nth(call, 1, BackendErrorKind::OutOfMemory);
        let sequence = scope.named("fill").unwrap();
        sequence.record(op::fill(&tensor, 6)).unwrap();
        sequence.run().unwrap();
        assert_eq!(probe.faults_hit(), 1, "{call}");
        assert_eq!(tensor.read().unwrap(), [6; 64]);
        let memory = settled(&manager);
        assert_eq!((memory.retries, memory.trims, memory.failed_allocations), (1, 1, 0), "{call}");
        assert_eq!(memory.reserved, held, "{call}: the cache went back");
        assert!(manager.take_errors().is_empty());
        assert_eq!(scope.finish_blocking().unwrap().executions, 1, "{call}");
        assert_eq!(runs.load(Ordering::SeqCst), 1, "{call}");
        drop(tensor);
        assert_given_back(&manager);
    }
}

/// A driver that never has room is asked twice; then the error is the driver's, and nothing was submitted. Once it has room
/// the same sequence runs.
pub(super) fn a_recording_is_retried_once(bed: &Bed) {
    for call in EVALUATION {
        let Rig { manager, probe } = bed.open_with(untrimmed());
        let (scope, runs) = counting(&manager);
        let tensor = scope.tensor_from("data", &[5_u32; 64]).unwrap();
        let sequence = scope.named("fill").unwrap();
        sequence.record(op::fill(&tensor, 6)).unwrap();
        let before = sequence.state();
        let asked = probe.calls(call);
        probe.fail_always(call, BackendErrorKind::OutOfMemory);
        let error = sequence.evaluate().unwrap_err();
        assert!(
            matches!(&error, Error::Backend(error) if error.kind == BackendErrorKind::OutOfMemory),
            "{error}"
        );
        assert_eq!(probe.calls(call), asked + 2, "{call}");
        let memory = settled(&manager);
        assert_eq!((memory.retries, memory.trims), (1, 1), "{call}");
        assert_eq!((sequence.state(), runs.load(Ordering::SeqCst)), (before, 0));
        probe.clear_faults();
        sequence.run().unwrap();
        assert_eq!(tensor.read().unwrap(), [6; 64]);
        assert_eq!(scope.finish_blocking().unwrap().executions, 1);
        assert_eq!(runs.load(Ordering::SeqCst), 1);
        drop(tensor);
        assert_given_back(&manager);
    }
}

/// Any other error is final: no retry, no trim.
pub(super) fn only_a_lack_of_room_is_retried(bed: &Bed) {
    for call in EVALUATION {
        let Rig { manager, probe } = bed.open_with(untrimmed());
        let scope = manager.scope("s").unwrap();
        let tensor = scope.tensor::<u32>(64).unwrap();
        let asked = probe.calls(call);
        probe.fail_always(call, BackendErrorKind::Driver);
        assert!(matches!(scope.evaluate([op::fill(&tensor, 6)]), Err(Error::Backend(_))));
        assert_eq!(probe.calls(call), asked + 1, "{call}");
        let memory = settled(&manager);
        assert_eq!((memory.retries, memory.trims), (0, 0), "{call}");
        probe.clear_faults();
        scope.finish_blocking().unwrap();
        drop(tensor);
        assert_given_back(&manager);
    }
}

/// A copy from or to the host that finds no room is made again.
pub(super) fn a_copy_finds_room(bed: &Bed) {
    let Rig { manager, probe } = bed.open_with(untrimmed());
    let tensor = manager.tensor::<u32>(64).unwrap();
    for (retries, call) in [(1, CallKind::WriteBlock), (2, CallKind::ReadBlock)] {
        drop(manager.tensor::<u8>(4 * MIB).unwrap());
        probe.fail_nth(call, 1, BackendErrorKind::OutOfMemory);
        tensor.write(&[7; 64]).unwrap();
        assert_eq!(tensor.read().unwrap(), [7; 64]);
        assert_eq!(probe.faults_hit(), retries);
        assert_eq!(manager.memory().retries, retries);
    }
    drop(tensor);
    assert_given_back(&manager);
}

/// A kernel that finds no room is compiled again.
pub(super) fn a_kernel_finds_room(bed: &Bed) {
    let Rig { manager, probe } = bed.open_with(untrimmed());
    probe.fail_nth(CallKind::Compile, 1, BackendErrorKind::OutOfMemory);
    let kernel = manager.kernel(&bed.kernels().increment).unwrap();
    assert_eq!((probe.calls(CallKind::Compile), manager.memory().retries), (2, 1));
    drop(kernel);
    assert_given_back(&manager);
}
