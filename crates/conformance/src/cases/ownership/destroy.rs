//! Cases about explicit destroys: twice is Ok, the first one counts (L2).
//!
//! Not here: what stale handles answer (`stale.rs`).

use std::sync::Barrier;

use tenure_core::{EndOfLife, Error, EventKind, ResourceKind, Tensor, op};

use super::support::{DRIVER_WORK, LEN, assert_given_back, mebibytes, stale, untrimmed};
use crate::bed::{Bed, Rig};
use crate::instrument::CallKind;

/// The second destroy is Ok and nothing, through any handle; the place of the first stays in the error.
pub(super) fn destroy_twice_is_ok_and_the_first_counts(bed: &Bed) {
    let Rig { manager, probe } = bed.open_with(untrimmed());
    let scope = manager.scope("s").unwrap();
    let tensor = manager.tensor_from("data", &vec![1_u32; LEN as usize]).unwrap();
    let copy = tensor.clone();
    let sequence = scope.named("fill").unwrap();
    let log = manager.record_events();
    let line = line!() + 1;
    tensor.destroy().unwrap();
    for handle in [&tensor, &copy] {
        handle.destroy().unwrap();
        match stale(handle.read(), ResourceKind::Tensor, "data") {
            EndOfLife::Destroyed(site) => assert_eq!(site.line(), line),
            other => panic!("the tensor was destroyed, not {other}"),
        }
    }
    sequence.destroy().unwrap();
    sequence.destroy().unwrap();
    match scope.destroy("fill") {
        Err(Error::UnknownName { name, scope }) => assert_eq!((&*name, &*scope), ("fill", "s")),
        other => panic!("the name is free: {other:?}"),
    }
    let retired = |kind: &EventKind| matches!(kind, EventKind::Retire { .. });
    assert_eq!(log.events().iter().filter(|event| retired(&event.kind)).count(), 1);
    drop((tensor, copy));
    assert_eq!(mebibytes(&manager), [0, 0, 1]);
    scope.finish_blocking().unwrap();
    assert_given_back(&manager);
    assert_eq!(probe.calls(CallKind::Free), 1);
}

/// Eight threads destroy one tensor at the same time, in flight: all are Ok, none waits, it is given back once.
pub(super) fn many_threads_destroy_one_tensor(bed: &Bed) {
    const THREADS: usize = 8;
    let Rig { manager, probe } = bed.open_with(untrimmed());
    for _ in 0..20 {
        let scope = manager.scope("s").unwrap();
        let tensor = manager.tensor::<u32>(LEN).unwrap();
        probe.hold();
        let execution = scope.evaluate([op::fill(&tensor, 1)]).unwrap();
        let start = Barrier::new(THREADS);
        std::thread::scope(|threads| {
            for handle in [(); THREADS].map(|()| tensor.clone()) {
                let (start, probe) = (&start, &probe);
                threads.spawn(move || {
                    let _no_driver_work = probe.forbid_here(DRIVER_WORK);
                    start.wait();
                    handle.destroy().unwrap();
                    drop(handle);
                });
            }
        });
        drop::<Tensor<u32>>(tensor);
        assert_eq!(mebibytes(&manager), [0, 1, 0]);
        probe.release_all();
        execution.wait().unwrap();
        assert_eq!(mebibytes(&manager), [0, 0, 1]);
        scope.finish_blocking().unwrap();
    }
    assert_eq!(probe.calls(CallKind::Free), 0);
    assert_given_back(&manager);
    assert_eq!(probe.calls(CallKind::Free), 1);
}
