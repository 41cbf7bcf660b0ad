//! Cases about handles: what keeps a tensor, what only names it, and that it is retired once (L1, L2).
//!
//! Not here: recordings as handles (`recordings.rs`) and handles that outlive their manager (`closed.rs`).

use std::any::Any;
use std::collections::BTreeSet;
use std::sync::Barrier;

use tenure_core::{EndOfLife, Error, EventKind, EventLog, ExecutionStatus, ResourceKind, Tensor, op};

use super::support::{LEN, MIB, assert_given_back, given_back, mebibytes, settled, stale, untrimmed};
use crate::bed::{Bed, Rig};
use crate::instrument::CallKind;

type MakeHandle = fn(&Tensor<u32>) -> Box<dyn Any>;

/// Each kind of handle alone keeps the tensor, and the tensor goes with it: a clone, an erased handle, a view, a view
/// of a view, a read that was or was not polled, and an operation that was not recorded.
pub(super) fn every_kind_of_handle_keeps_it(bed: &Bed) {
    let kinds: [(&str, MakeHandle); 7] = [
        ("a clone", |tensor| Box::new(tensor.clone())),
        ("an erased handle", |tensor| Box::new(tensor.erase())),
        ("a view", |tensor| Box::new(tensor.view(3..5).unwrap())),
        ("an empty view", |tensor| Box::new(tensor.view(1..9).unwrap().view(8..8).unwrap())),
        ("a read", |tensor| Box::new(tensor.read_async())),
        ("an operation", |tensor| Box::new(op::fill(tensor, 1))),
        ("an operation on a view", |tensor| Box::new(op::fill(tensor.view(3..5).unwrap(), 1))),
    ];
    let manager = bed.open_with(untrimmed()).manager;
    for (kind, make) in kinds {
        let tensor = manager.tensor::<u32>(LEN).unwrap();
        let handle = make(&tensor);
        drop(tensor);
        let memory = settled(&manager);
        assert_eq!((memory.tensors, memory.live.bytes), (1, MIB), "{kind} keeps the tensor");
        drop(handle);
        let memory = settled(&manager);
        assert_eq!((memory.tensors, memory.live.bytes, memory.cached.bytes), (0, 0, MIB), "{kind} has gone");
    }
    assert_given_back(&manager);
}

/// What only names a tensor keeps nothing: its id and site, errors and events about it, and the host's side of a
/// download (L1, L20).
pub(super) fn what_only_names_it_keeps_nothing(bed: &Bed) {
    let manager = bed.open_with(untrimmed()).manager;
    let log = manager.record_events();
    let tensor = manager.tensor_from("named", &[1_u32; 64]).unwrap();
    let (operation, download) = op::download(&tensor);
    drop(operation);
    let error = tensor.view(0..65).unwrap_err();
    let (id, site) = (tensor.id(), tensor.site());
    drop(tensor);
    let memory = settled(&manager);
    assert_eq!((memory.tensors, memory.live.bytes, memory.retired.bytes), (0, 0, 0));
    assert!(error.to_string().contains("named"), "{error}");
    assert!(matches!(download.get(), Err(Error::NotReady { .. })));
    assert_eq!((site.file(), format!("{id:?}").is_empty()), (file!(), false));
    assert_eq!(ends(&log, "named"), (1, 1));
    assert_given_back(&manager);
}

/// An execution keeps nothing once it has retired, and has its result for as long as it is kept, after the manager too.
pub(super) fn an_execution_is_no_handle(bed: &Bed) {
    let manager = bed.open_with(untrimmed()).manager;
    let scope = manager.scope("s").unwrap();
    let tensor = manager.tensor::<u32>(LEN).unwrap();
    let execution = scope.evaluate([op::fill(&tensor, 1)]).unwrap();
    drop(tensor);
    execution.wait().unwrap();
    assert_eq!(settled(&manager).tensors, 0);
    assert_eq!(mebibytes(&manager), [0, 0, 1]);
    assert!(scope.anonymous_sequences().is_empty());
    scope.finish_blocking().unwrap();
    drop(scope);
    assert!(manager.close().unwrap().is_clean());
    drop(manager);
    execution.wait().unwrap();
    assert_eq!(execution.status(), ExecutionStatus::Completed);
}

/// Ids are never used twice, and a stale handle never sees who has its memory now.
pub(super) fn ids_are_never_reused(bed: &Bed) {
    let Rig { manager, probe } = bed.open_with(untrimmed());
    let mut ids = BTreeSet::new();
    let mut old: Option<Tensor<u32>> = None;
    for value in 0..100_u32 {
        let tensor = manager.tensor::<u32>(LEN).unwrap();
        tensor.view(0..4).unwrap().write(&[value; 4]).unwrap();
        assert!(ids.insert(tensor.id()), "{:?} was used before", tensor.id());
        if let Some(old) = &old {
            assert!(*old != tensor);
            let why = stale(old.read(), ResourceKind::Tensor, "tensor");
            assert!(matches!(why, EndOfLife::Destroyed(_)), "{why}");
            stale(old.write(&[0; LEN as usize]), ResourceKind::Tensor, "tensor");
        }
        assert_eq!(tensor.view(0..4).unwrap().read().unwrap(), [value; 4]);
        tensor.destroy().unwrap();
        old = Some(tensor);
    }
    assert_eq!(probe.calls(CallKind::Allocate), 1, "all of them had the same memory");
    drop(old);
    assert_given_back(&manager);
}

/// How often the tensor of this label was retired and reclaimed.
fn ends(log: &EventLog, name: &str) -> (usize, usize) {
    let events = log.events();
    let count = |wanted: fn(&EventKind) -> Option<&str>| {
        events.iter().filter(|event| wanted(&event.kind) == Some(name)).count()
    };
    let retired = count(|kind| match kind {
        EventKind::Retire { label, .. } => Some(label),
        _ => None,
    });
    let reclaimed = count(|kind| match kind {
        EventKind::Reclaim { label, .. } => Some(label),
        _ => None,
    });
    (retired, reclaimed)
}

/// Destroyed by two threads, dropped by a third, while its scope finishes: it is retired and reclaimed once.
pub(super) fn retired_once_whatever_ends_it(bed: &Bed) {
    const ROUNDS: usize = 50;
    let manager = bed.open_with(untrimmed()).manager;
    let log = manager.record_events();
    for round in 0..ROUNDS {
        let label = format!("round {round}");
        let scope = manager.scope("s").unwrap();
        let tensor = scope.tensor_from(label.as_str(), &[1_u32; 64]).unwrap();
        scope.evaluate([op::fill(&tensor, 2)]).unwrap();
        let others = [tensor.clone(), tensor.clone()];
        let start = Barrier::new(4);
        std::thread::scope(|threads| {
            for other in others {
                let start = &start;
                threads.spawn(move || {
                    start.wait();
                    other.destroy().unwrap();
                });
            }
            threads.spawn(|| {
                start.wait();
                drop(tensor);
            });
            start.wait();
            scope.finish_blocking().unwrap();
        });
        settled(&manager);
        assert_eq!(ends(&log, &label), (1, 1), "{label}");
    }
    assert_given_back(&manager);
}

/// A tensor that is dropped by the body of a scope is gone at once, not when the scope finishes.
pub(super) fn a_scopes_tensor_goes_with_its_last_handle(bed: &Bed) {
    let Rig { manager, probe } = bed.open_with(untrimmed());
    let scope = manager.scope("s").unwrap();
    for _ in 0..10 {
        let tensor = scope.tensor::<u32>(LEN).unwrap();
        assert_eq!((scope.live_bytes(), mebibytes(&manager)), (MIB, [1, 0, 0]));
        drop(tensor);
        assert_eq!((scope.live_bytes(), mebibytes(&manager)), (0, [0, 0, 1]));
    }
    assert_eq!((probe.calls(CallKind::Allocate), given_back(&probe)), (1, 0));
    let report = scope.finish_blocking().unwrap();
    assert_eq!((report.released_tensors, report.released_bytes, report.peak_bytes), (0, 0, MIB));
    assert_given_back(&manager);
}
