//! Cases about `mem::forget`: handles, futures and scopes whose destructor never runs keep what they keep until their
//! scope finishes or the manager closes, and then everything is given back (L1, L17, L18).
//!
//! Not here: what the report of a close looks like (`observability.rs`).

use std::mem::forget;

use tenure_core::{Outcome, ScopeRef, ScopeState, op};

use super::support::{Count, LEN, MIB, assert_given_back, mebibytes, poll_once, settled, untrimmed};
use crate::bed::{Bed, Rig};
use crate::instrument::{CallKind, ObjectKind};

/// Handles of the manager's tensors are forgotten, one of each kind: the tensors live on, the close reports each, and
/// gives all of them back.
pub(super) fn forgotten_handles_end_with_the_manager(bed: &Bed) {
    let Rig { manager, probe } = bed.open_with(untrimmed());
    let scope = manager.scope("s").unwrap();
    let make = |label: &str| {
        let tensor = manager.tensor_from(label, &vec![1_u32; LEN as usize]).unwrap();
        scope.evaluate([op::fill(&tensor, 2)]).unwrap().wait().unwrap();
        tensor
    };
    forget(make("handle"));
    forget(make("view").view(0..8).unwrap());
    forget(make("erased").erase());
    forget(op::fill(make("operation"), 1));
    let mut read = make("read").read_async();
    assert!(poll_once(&mut read).is_ready());
    forget(read);
    scope.finish_blocking().unwrap();
    let memory = settled(&manager);
    assert_eq!((memory.tensors, memory.live.bytes), (5, 5 * MIB));
    assert_eq!(manager.trim().unwrap().blocks, 0);
    let report = manager.close().unwrap();
    let told: Vec<_> = report.leaks.iter().map(|leak| (&*leak.tensor, leak.bytes, leak.handles)).collect();
    let expected = ["handle", "view", "erased", "operation", "read"].map(|label| (label, MIB, 1));
    assert_eq!(told, expected);
    assert_eq!((report.memory.reserved.bytes, probe.calls(CallKind::Free)), (0, 5));
}

/// Handles of a scope's tensors and sequences and its executions are forgotten: its finish ends them all the same.
pub(super) fn forgotten_handles_end_with_the_scope(bed: &Bed) {
    let Rig { manager, probe } = bed.open_with(untrimmed());
    let scope = manager.scope("s").unwrap();
    for name in [None, Some("named")] {
        let tensor = scope.tensor::<u32>(LEN).unwrap();
        let sequence = match name {
            None => scope.sequence().unwrap(),
            Some(name) => scope.named(name).unwrap(),
        };
        sequence.record(op::fill(&tensor, 1)).unwrap();
        let execution = sequence.evaluate().unwrap();
        forget((tensor, sequence, execution));
    }
    let report = scope.finish_blocking().unwrap();
    assert_eq!((report.released_tensors, report.executions), (2, 2));
    assert_eq!((settled(&manager).tensors, mebibytes(&manager)), (0, [0, 0, 2]));
    assert_eq!(probe.lifetimes(ObjectKind::Sequence).live(), 0);
    assert_given_back(&manager);
}

/// An execution and a read are forgotten while their work runs: they hold up neither the work nor the finish, and the
/// tensor that the read holds lives until its scope finishes.
pub(super) fn forgotten_futures_hold_up_nobody(bed: &Bed) {
    let Rig { manager, probe } = bed.open_with(untrimmed());
    let scope = manager.scope("s").unwrap();
    let each = Count::default();
    scope.register(each.each("each")).unwrap();
    let tensor = scope.tensor::<u32>(LEN).unwrap();
    let watched = tensor.clone();
    probe.hold();
    let mut execution = scope.evaluate([op::fill(&tensor, 1)]).unwrap();
    let mut read = tensor.read_async();
    assert!(poll_once(&mut execution).is_pending() && poll_once(&mut read).is_pending());
    forget((execution, read));
    drop(tensor);
    probe.release_all();
    assert_eq!(watched.read().unwrap(), vec![1; LEN as usize]);
    drop(watched);
    assert_eq!(mebibytes(&manager), [1, 0, 0], "the forgotten read is a handle");
    let report = scope.finish_blocking().unwrap();
    assert_eq!((report.released_tensors, each.get()), (1, 1));
    assert_given_back(&manager);
}

/// A forgotten scope with a child: the scope above finishes both, with their hooks.
pub(super) fn a_forgotten_scope_ends_with_its_parent(bed: &Bed) {
    let manager = bed.open_with(untrimmed()).manager;
    let outer = manager.scope("outer").unwrap();
    let middle = outer.scope("middle").unwrap();
    let inner = middle.scope("inner").unwrap();
    let once = Count::default();
    let mut scopes = Vec::new();
    for scope in [middle, inner] {
        scope.register(once.once("once")).unwrap();
        let tensor = scope.tensor::<u32>(LEN).unwrap();
        scope.evaluate([op::fill(&tensor, 1)]).unwrap();
        scopes.push(ScopeRef::clone(&scope));
        forget((scope, tensor));
    }
    assert_eq!((once.get(), mebibytes(&manager)), (0, [2, 0, 0]));
    outer.finish_blocking().unwrap();
    assert_eq!((once.get(), mebibytes(&manager)), (2, [0, 0, 2]));
    for scope in scopes {
        assert_eq!(scope.state(), ScopeState::Finished(Outcome::Completed));
    }
    assert_given_back(&manager);
}
