//! Cases about futures that are dropped: the wait ends, the work and what it holds do not (L18).
//!
//! Not here: futures that are forgotten (`forgotten.rs`).

use std::sync::mpsc;

use tenure_core::{ExecutionStatus, Outcome, hook, op};

use super::support::{
    Count, DRIVER_WORK, LEN, WATCHDOG, assert_given_back, given_back, mebibytes, poll_once, settled,
    untrimmed,
};
use crate::bed::{Bed, Rig};
use crate::case::FIRST;
use crate::instrument::CallKind;

/// An execution is polled and dropped: its work goes on, its hook runs, and what it uses stays until it is done.
pub(super) fn dropping_an_execution_cancels_nothing(bed: &Bed) {
    let Rig { manager, probe } = bed.open_with(untrimmed());
    let scope = manager.scope("s").unwrap();
    let each = Count::default();
    scope.register(each.each("each")).unwrap();
    let target = manager.tensor_from("target", &vec![0_u32; LEN as usize]).unwrap();
    let source = manager.tensor_from("source", &vec![3_u32; LEN as usize]).unwrap();
    probe.hold();
    let mut execution = scope.evaluate([op::copy(&source, &target)]).unwrap();
    assert!(poll_once(&mut execution).is_pending());
    let other = execution.clone();
    {
        let _no_driver_work = probe.forbid_here(DRIVER_WORK);
        drop((execution, source));
    }
    assert_eq!((probe.held(FIRST), given_back(&probe)), (vec![1], 0));
    assert_eq!(other.status(), ExecutionStatus::Running);
    assert_eq!(mebibytes(&manager), [2, 0, 0], "the recording holds the source");
    drop(other);
    probe.release_all();
    assert_eq!(target.read().unwrap(), vec![3; LEN as usize]);
    let report = scope.finish_blocking().unwrap();
    assert_eq!((report.executions, report.outcome, each.get()), (1, Outcome::Completed, 1));
    assert_eq!(mebibytes(&manager), [1, 0, 1]);
    drop(target);
    assert_given_back(&manager);
}

/// Eight reads wait for one execution and are dropped half-way, every second one: the others have their values, and
/// there is one copy for each of them.
pub(super) fn reads_dropped_half_way(bed: &Bed) {
    const READS: usize = 8;
    let Rig { manager, probe } = bed.open();
    let scope = manager.scope("s").unwrap();
    let tensor = manager.tensor_from("data", &[0_u32; 64]).unwrap();
    probe.hold();
    scope.evaluate([op::fill(&tensor, 4)]).unwrap();
    let mut reads: Vec<_> = (0..READS).map(|_| tensor.read_async()).collect();
    assert!(reads.iter_mut().all(|read| poll_once(read).is_pending()));
    drop(tensor);
    let mut at = 0;
    {
        let _no_driver_work = probe.forbid_here(DRIVER_WORK);
        reads.retain(|_| {
            at += 1;
            at % 2 == 0
        });
    }
    assert_eq!((probe.calls(CallKind::ReadBlock), settled(&manager).tensors), (0, 1));
    probe.release_all();
    for read in reads {
        assert_eq!(pollster::block_on(read).unwrap(), [4; 64]);
    }
    assert_eq!(probe.calls(CallKind::ReadBlock), READS as u64 / 2);
    scope.finish_blocking().unwrap();
    assert_given_back(&manager);
}

/// The read that is dropped half-way was the last handle: the tensor is retired, without a driver call, and its memory
/// goes back once, when the device has finished.
pub(super) fn a_dropped_read_was_the_last_handle(bed: &Bed) {
    let Rig { manager, probe } = bed.open_with(untrimmed());
    let scope = manager.scope("s").unwrap();
    let tensor = manager.tensor::<u32>(LEN).unwrap();
    let sequence = scope.named("fill").unwrap();
    sequence.record(op::fill(&tensor, 4)).unwrap();
    probe.hold();
    let execution = sequence.evaluate().unwrap();
    sequence.destroy().unwrap();
    let mut read = tensor.read_async();
    assert!(poll_once(&mut read).is_pending());
    {
        let _no_driver_work = probe.forbid_here(DRIVER_WORK);
        drop(tensor);
        drop(read);
    }
    let [live, retired, _] = mebibytes(&manager);
    assert_eq!((live + retired, manager.trim().unwrap().blocks), (1, 0));
    probe.release_all();
    execution.wait().unwrap();
    assert_eq!((settled(&manager).tensors, mebibytes(&manager)), (0, [0, 0, 1]));
    assert_eq!(probe.calls(CallKind::ReadBlock), 0);
    scope.finish_blocking().unwrap();
    assert_given_back(&manager);
    assert_eq!(probe.calls(CallKind::Free), 1);
}

/// A finish is polled and dropped while the scope's work runs: the cleanup thread goes on with it. The scope's tensors
/// are released after the work, its hooks run once, and the manager goes on.
pub(super) fn a_dropped_finish_goes_on(bed: &Bed) {
    let Rig { manager, probe } = bed.open_with(untrimmed());
    let scope = manager.scope("s").unwrap();
    let each = Count::default();
    scope.register(each.each("each")).unwrap();
    let (send, told) = mpsc::channel();
    let tensor = scope.tensor::<u32>(LEN).unwrap();
    let watched = tensor.clone();
    scope
        .register(hook::after_release("after", move |_| {
            send.send(watched.is_live())?;
            Ok(())
        }))
        .unwrap();
    probe.hold();
    scope.evaluate([op::fill(&tensor, 4)]).unwrap();
    let mut finish = scope.finish();
    assert!(poll_once(&mut finish).is_pending());
    {
        let _no_driver_work = probe.forbid_here(DRIVER_WORK);
        drop(finish);
        drop(scope);
    }
    assert!(tensor.is_live(), "nothing is released while the work runs");
    assert_eq!(mebibytes(&manager), [1, 0, 0]);
    probe.release_all();
    assert_eq!(told.recv_timeout(WATCHDOG), Ok(false), "the tensor was released before the hook");
    assert_eq!((each.get(), told.try_recv().is_err()), (1, true));
    assert_eq!(mebibytes(&manager), [0, 0, 1]);
    drop(tensor);
    assert_given_back(&manager);
}
