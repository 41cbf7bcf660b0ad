//! Cases about promoting a tensor to the parent scope or to the manager, also while scopes finish (L2).
//!
//! Not here: moving whole scopes (`scopes.rs`).

use std::sync::{Barrier, mpsc};

use tenure_core::{EndOfLife, Error, ManagedScope, ResourceKind, ScopeRef, Tensor, hook, op};

use super::support::{LEN, MIB, assert_given_back, mebibytes, settled, stale, untrimmed};
use crate::bed::{Bed, Rig};

/// Bytes of live local tensors, of three scopes.
fn live(scopes: [&ManagedScope; 3]) -> [u64; 3] {
    scopes.map(|scope| scope.live_bytes())
}

/// A tensor goes up one scope at a time, then to the manager; each scope counts it while it has it, and none releases
/// what it has no more. Promoting the manager's tensor is nothing.
pub(super) fn promote_goes_one_scope_up(bed: &Bed) {
    let manager = bed.open_with(untrimmed()).manager;
    let outer = manager.scope("outer").unwrap();
    let middle = outer.scope("middle").unwrap();
    let inner = middle.scope("inner").unwrap();
    let scopes = || live([&inner, &middle, &outer]);
    let tensor = inner.tensor::<u32>(LEN).unwrap();
    tensor.view(0..2).unwrap().write(&[1, 2]).unwrap();
    assert_eq!(scopes(), [MIB, 0, 0]);
    tensor.promote().unwrap();
    assert_eq!(scopes(), [0, MIB, 0]);
    let report = inner.finish_blocking().unwrap();
    assert_eq!((report.released_tensors, report.released_bytes, report.peak_bytes), (0, 0, MIB));
    tensor.promote().unwrap();
    assert_eq!(scopes(), [0, 0, MIB]);
    let report = middle.finish_blocking().unwrap();
    assert_eq!((report.released_tensors, report.peak_bytes), (0, MIB));
    tensor.promote().unwrap();
    assert_eq!(scopes(), [0, 0, 0]);
    tensor.promote().unwrap();
    tensor.promote_to_manager().unwrap();
    let report = outer.finish_blocking().unwrap();
    assert_eq!((report.released_tensors, report.peak_bytes), (0, MIB));
    assert_eq!(tensor.view(0..2).unwrap().read().unwrap(), [1, 2]);
    assert_eq!(mebibytes(&manager), [1, 0, 0]);
    drop(tensor);
    assert_given_back(&manager);
}

/// Straight to the manager, past the scopes between, one after the other and by the same call twice.
pub(super) fn promote_to_manager_passes_every_scope(bed: &Bed) {
    let manager = bed.open_with(untrimmed()).manager;
    let outer = manager.scope("outer").unwrap();
    let inner = outer.scope("inner").unwrap();
    let tensors: [Tensor<u32>; 2] = [inner.tensor(LEN).unwrap(), inner.tensor(LEN).unwrap()];
    for tensor in &tensors {
        tensor.promote_to_manager().unwrap();
        tensor.promote_to_manager().unwrap();
    }
    let report = outer.finish_blocking().unwrap();
    assert_eq!((report.released_tensors, inner.live_bytes(), mebibytes(&manager)), (0, 0, [2, 0, 0]));
    // The manager's tensors go with their handles like any other.
    drop(tensors);
    assert_eq!((settled(&manager).tensors, mebibytes(&manager)), (0, [0, 0, 2]));
    assert_given_back(&manager);
}

/// A promoted tensor belongs to its new scope as if it had been made there: that scope releases it and is named.
pub(super) fn a_promoted_tensor_ends_with_its_new_scope(bed: &Bed) {
    let manager = bed.open_with(untrimmed()).manager;
    let outer = manager.scope("outer").unwrap();
    let inner = outer.scope("inner").unwrap();
    let promoted = inner.tensor_from("promoted", &vec![1_u32; LEN as usize]).unwrap();
    let local = inner.tensor::<u32>(LEN).unwrap();
    promoted.promote().unwrap();
    // The outer scope finishes the inner one first.
    let report = outer.finish_blocking().unwrap();
    assert_eq!((report.released_tensors, report.released_bytes), (1, MIB));
    let why = stale(promoted.read(), ResourceKind::Tensor, "promoted");
    assert_eq!(why, EndOfLife::ScopeFinished("outer".into()));
    let why = stale(local.read(), ResourceKind::Tensor, "tensor");
    assert_eq!(why, EndOfLife::ScopeFinished("inner".into()));
    drop((promoted, local));
    assert_given_back(&manager);
}

/// Promoted while the device writes it: its scope finishes without it, and the values arrive.
pub(super) fn promote_in_flight(bed: &Bed) {
    let Rig { manager, probe } = bed.open_with(untrimmed());
    let outer = manager.scope("outer").unwrap();
    let inner = outer.scope("inner").unwrap();
    let tensor = inner.tensor::<u32>(LEN).unwrap();
    probe.hold();
    outer.evaluate([op::fill(&tensor, 7)]).unwrap();
    tensor.promote().unwrap();
    assert_eq!(inner.finish_blocking().unwrap().released_tensors, 0);
    assert_eq!(mebibytes(&manager), [1, 0, 0]);
    probe.release_all();
    assert_eq!(tensor.read().unwrap(), vec![7; LEN as usize]);
    assert_eq!(outer.finish_blocking().unwrap().released_tensors, 1);
    drop(tensor);
    assert_given_back(&manager);
}

/// The parent is finishing: it takes nothing any more, the error says so, and the tensor stays where it is. From inside
/// a hook of the parent's it is still taken (L10), and released with the rest.
pub(super) fn a_finishing_scope_takes_nothing(bed: &Bed) {
    let manager = bed.open_with(untrimmed()).manager;
    let outer = manager.scope("outer").unwrap();
    let inner = outer.scope("inner").unwrap();
    let tensor = inner.tensor::<u32>(LEN).unwrap();
    let (send, told) = mpsc::channel();
    let seen = [ScopeRef::clone(&inner), ScopeRef::clone(&outer)];
    let mine = tensor.clone();
    // Registered after the inner scope was opened: it runs before that is finished.
    outer
        .register(hook::once("promote", move |_| {
            let live = || seen.each_ref().map(ScopeRef::live_bytes);
            let theirs = mine.clone();
            let refused = std::thread::spawn(move || theirs.promote()).join().unwrap();
            send.send((refused, live())).unwrap();
            let taken = mine.promote();
            send.send((taken, live())).unwrap();
            Ok(())
        }))
        .unwrap();
    let report = outer.finish_blocking().unwrap();
    match told.recv().unwrap() {
        (Err(Error::ScopeFinishing { scope }), live) => assert_eq!((&*scope, live), ("outer", [MIB, 0])),
        other => panic!("a finishing scope took a tensor: {other:?}"),
    }
    let (taken, live) = told.recv().unwrap();
    taken.unwrap();
    assert_eq!((live, report.released_tensors), ([0, MIB], 1));
    let why = stale(tensor.view(0..1), ResourceKind::Tensor, "tensor");
    assert_eq!(why, EndOfLife::ScopeFinished("outer".into()));
    drop(tensor);
    assert_given_back(&manager);
}

/// Promotes tensors while their scope finishes, round after round. Whoever is told Ok has a tensor that outlives the
/// scope, whoever is told `Stale` has none, and nothing is counted twice.
fn against_finish(bed: &Bed, promote: fn(&Tensor<u32>) -> Result<(), Error>) {
    const ROUNDS: usize = 150;
    const TENSORS: usize = 24;
    let manager = bed.open_with(untrimmed()).manager;
    let outer = manager.scope("outer").unwrap();
    let (mut kept, mut gone) = (0, 0);
    for _ in 0..ROUNDS {
        let inner = outer.scope("inner").unwrap();
        let tensors: Vec<Tensor<u32>> = (0..TENSORS).map(|_| inner.tensor(64).unwrap()).collect();
        let start = Barrier::new(2);
        let (answers, report) = std::thread::scope(|threads| {
            let promoting = threads.spawn(|| {
                start.wait();
                tensors.iter().map(promote).collect::<Vec<_>>()
            });
            start.wait();
            let report = inner.finish_blocking().unwrap();
            (promoting.join().unwrap(), report)
        });
        let mut live = 0;
        for (tensor, answer) in tensors.iter().zip(answers) {
            match answer {
                Ok(()) => {
                    assert!(tensor.is_live(), "Ok, and the tensor ended with the scope that it had left");
                    live += 1;
                }
                Err(Error::Stale { .. }) => assert!(!tensor.is_live(), "stale, and it lives"),
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!(settled(&manager).tensors, live);
        assert_eq!(inner.live_bytes(), 0);
        assert_eq!(report.released_tensors + live, TENSORS as u64);
        assert!(outer.live_bytes() == 0 || outer.live_bytes() == live * tensors[0].bytes());
        kept += live;
        gone += report.released_tensors;
    }
    outer.finish_blocking().unwrap();
    assert_eq!(kept + gone, (ROUNDS * TENSORS) as u64);
    assert_given_back(&manager);
}

/// Promoting to the parent against the scope's finish.
pub(super) fn promote_races_with_finish(bed: &Bed) {
    against_finish(bed, Tensor::promote);
}

/// Promoting to the manager against the scope's finish.
pub(super) fn promote_to_manager_races_with_finish(bed: &Bed) {
    against_finish(bed, Tensor::promote_to_manager);
}

/// Promoting against the finish of the parent, which finishes the scope first: once it has finished, every tensor is
/// stale, those that were promoted to it too.
pub(super) fn promote_races_with_the_parents_finish(bed: &Bed) {
    const ROUNDS: usize = 150;
    const TENSORS: usize = 24;
    let manager = bed.open_with(untrimmed()).manager;
    for _ in 0..ROUNDS {
        let outer = manager.scope("outer").unwrap();
        let inner = outer.scope("inner").unwrap();
        let tensors: Vec<Tensor<u32>> = (0..TENSORS).map(|_| inner.tensor(64).unwrap()).collect();
        let start = Barrier::new(2);
        std::thread::scope(|threads| {
            threads.spawn(|| {
                start.wait();
                for tensor in &tensors {
                    match tensor.promote() {
                        Ok(()) | Err(Error::Stale { .. } | Error::ScopeFinishing { .. }) => {}
                        Err(Error::ScopeFinished { .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            });
            start.wait();
            outer.finish_blocking().unwrap();
        });
        let left = tensors.iter().filter(|tensor| tensor.is_live()).count();
        assert_eq!((left, outer.live_bytes(), inner.live_bytes()), (0, 0, 0), "both scopes have finished");
        assert_eq!(settled(&manager).tensors, 0);
    }
    assert_given_back(&manager);
}

/// Making tensors against the scope's finish: whoever gets one has it only until the scope has finished.
pub(super) fn making_races_with_finish(bed: &Bed) {
    const ROUNDS: usize = 150;
    let manager = bed.open_with(untrimmed()).manager;
    for _ in 0..ROUNDS {
        let scope = manager.scope("s").unwrap();
        let start = Barrier::new(2);
        let made = std::thread::scope(|threads| {
            let making = threads.spawn(|| {
                start.wait();
                let mut made = Vec::new();
                loop {
                    match scope.tensor::<u32>(64) {
                        Ok(tensor) => made.push(tensor),
                        Err(Error::ScopeFinishing { .. } | Error::ScopeFinished { .. }) => return made,
                        Err(error) => panic!("{error}"),
                    }
                }
            });
            start.wait();
            scope.finish_blocking().unwrap();
            making.join().unwrap()
        });
        assert!(made.iter().all(|tensor| !tensor.is_live()), "the scope has finished");
        let memory = settled(&manager);
        assert_eq!((memory.tensors, memory.live.bytes, scope.live_bytes()), (0, 0, 0));
    }
    assert_given_back(&manager);
}
