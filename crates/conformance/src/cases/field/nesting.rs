//! Cases C33 (b and c) and C34: hooks that own what they clean up, and scopes in scopes.
//!
//! Not here: cycles through a graph's nodes (C33 a and d), scopes of tasks that take turns (`tasks.rs`).

use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::Arc;

use tenure_core::{Error, ManagedScope, Manager, Outcome, RunError, ScopeState, Tensor, hook, op};

use super::support::{Count, MIB, Order, WATCHDOG, assert_given_back, case, settled, untrimmed};
use crate::bed::{Bed, Rig};
use crate::case::Case;

pub(super) const CASES: &[Case] = &[
    case("field/c33_b_a_hook_owns_its_scope", &["L11", "L16"], c33_b_a_hook_owns_its_scope),
    case("field/c33_b_a_hook_owns_its_manager", &["L11", "L17", "L6"], c33_b_a_hook_owns_its_manager),
    case("field/c33_b_never_finished_is_named", &["L17", "L28"], c33_b_never_finished_is_named),
    case("field/c33_c_a_hook_owns_its_sequence", &["L5", "L11"], c33_c_a_hook_owns_its_sequence),
    case("field/c34_a_kept_and_returned", &["L2", "L10", "L16"], c34_a_kept_and_returned),
    case("field/c34_b_the_inner_fails", &["L2", "L13", "L16"], c34_b_the_inner_fails),
    case("field/c34_c_the_inner_panics", &["L2", "L13", "L17"], c34_c_the_inner_panics),
    case("field/c34_d_the_inner_outlives_the_outer", &["L17", "L2"], c34_d_the_inner_outlives_the_outer),
    case("field/c34_e_the_outer_finishes_first", &["L10", "L11"], c34_e_the_outer_finishes_first),
];

/// Two hooks capture their own scope: after the finish nothing of them is left (jax-ml/jax#725, for all of C33).
fn c33_b_a_hook_owns_its_scope(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let scope = Arc::new(manager.scope("s").unwrap());
    let watch = Arc::downgrade(&scope);
    for hook in [hook::once as fn(_, _) -> _, hook::after_release] {
        let owned = scope.clone();
        let hook: tenure_core::Hook = hook("owner", move |_: &tenure_core::CleanupContext| {
            assert!(matches!(owned.state(), ScopeState::Finishing));
            Ok(())
        });
        scope.register(hook).unwrap();
    }
    scope.finish_blocking().unwrap();
    drop(scope);
    assert!(watch.upgrade().is_none(), "the hooks went with their run");
    assert_given_back(&manager);
}

/// A hook captures its manager, and is the last to hold it: finishing lets the manager go and it closes; so does
/// dropping the scope.
fn c33_b_a_hook_owns_its_manager(bed: &Bed) {
    for finishes in [true, false] {
        let Rig { manager, probe } = bed.open();
        let (sentinel, runs) = (Arc::new(()), Count::default());
        let scope = manager.scope("s").unwrap();
        let (owned, watch, seen) = (manager.clone(), sentinel.clone(), runs.clone());
        scope
            .register(hook::once("owner", move |_| {
                let _ = &watch;
                assert!(owned.memory().live.bytes > 0);
                seen.add();
                Ok(())
            }))
            .unwrap();
        let tensor = scope.tensor::<u32>(64).unwrap();
        scope.evaluate([op::fill(&tensor, 1)]).unwrap();
        drop(manager);
        if finishes {
            scope.finish_blocking().unwrap();
            assert_eq!(Arc::strong_count(&sentinel), 1);
        } else {
            drop(scope);
        }
        assert!(probe.wait_shutdown(WATCHDOG));
        assert_eq!(runs.get(), 1);
        assert_eq!(Arc::strong_count(&sentinel), 1);
    }
}

/// A hook captures the only handle of its scope, which is so never finished: closing finishes it, and names scope and
/// hook.
fn c33_b_never_finished_is_named(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let scope = Arc::new(manager.scope("owned by its hook").unwrap());
    let watch = Arc::downgrade(&scope);
    let owned = scope.clone();
    let runs = Count::default();
    let seen = runs.clone();
    scope
        .register(hook::once("owner", move |context| {
            let _ = &owned;
            assert_eq!(context.outcome(), Some(Outcome::Abandoned));
            seen.add();
            Ok(())
        }))
        .unwrap();
    drop(scope);
    assert!(watch.upgrade().is_some());
    let report = manager.close().unwrap();
    assert_eq!(report.unfinished_scopes.len(), 1);
    assert_eq!(&*report.unfinished_scopes[0].scope, "owned by its hook");
    let hooks: Vec<_> = report.unfinished_scopes[0].hooks.iter().map(|hook| &**hook).collect();
    assert_eq!((hooks, runs.get()), (vec!["owner"], 1));
    assert!(watch.upgrade().is_none());
    assert_eq!(report.memory.reserved.bytes, 0);
}

/// An execution hook captures the sequence that it runs for, and a tensor: both go when the scope has finished.
fn c33_c_a_hook_owns_its_sequence(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let sentinel = Arc::new(());
    let scope = manager.scope("s").unwrap();
    let tensor = manager.tensor::<u32>(64).unwrap();
    let sequence = scope.sequence().unwrap();
    sequence.record(op::fill(&tensor, 1)).unwrap();
    let captured = (sequence.clone(), tensor.clone(), sentinel.clone());
    scope
        .register(hook::each("owner", move |context| {
            let (sequence, tensor, _) = &captured;
            assert_eq!(context.execution().unwrap().sequence.as_ref(), sequence.name());
            assert!(tensor.is_live());
            Ok(())
        }))
        .unwrap();
    sequence.run().unwrap();
    sequence.run().unwrap();
    drop((sequence, tensor));
    assert_eq!((manager.memory().tensors, scope.anonymous_sequences().len()), (1, 1));
    let report = scope.finish_blocking().unwrap();
    assert_eq!(report.hooks[0].runs, 2);
    assert_eq!((Arc::strong_count(&sentinel), manager.memory().tensors), (1, 0));
    drop(scope);
    assert_given_back(&manager);
}

/// Tensors of 1 MiB, as the cases of C34 need them.
struct Kept {
    outers: Tensor<u8>,
    inners: Tensor<u8>,
    returned: Tensor<u8>,
    temporary: Tensor<u8>,
}

/// In an inner scope: keeps a tensor of the outer's and one of its own, returns a third, and leaves a fourth.
fn keep(inner: &ManagedScope, outers: &Tensor<u8>) -> Result<Kept, Error> {
    let kept = Kept {
        outers: outers.clone(),
        inners: inner.tensor(MIB)?,
        returned: inner.tensor(MIB)?,
        temporary: inner.tensor(MIB)?,
    };
    kept.outers.promote_to_manager()?;
    kept.inners.promote_to_manager()?;
    kept.returned.promote()?;
    for tensor in [&kept.outers, &kept.inners, &kept.returned, &kept.temporary] {
        inner.evaluate([op::fill(tensor.view(0..64)?, 1)])?;
    }
    Ok(kept)
}

/// Outer scope with hook and tensor.
fn open_outer(manager: &Manager, order: &Order) -> (ManagedScope, Tensor<u8>) {
    let outer = manager.scope("outer").unwrap();
    note(&outer, order, "outer");
    let tensor = outer.tensor::<u8>(MIB).unwrap();
    (outer, tensor)
}

fn note(scope: &ManagedScope, order: &Order, label: &'static str) {
    let order = order.clone();
    scope
        .register(hook::once(label, move |_| {
            order.note(label);
            Ok(())
        }))
        .unwrap();
}

/// Asserts which of the four tensors live, and the bytes of the manager and of the outer scope.
fn assert_kept(manager: &Manager, outer: &ManagedScope, kept: &Kept, live: [bool; 4]) {
    let is_live = [&kept.outers, &kept.inners, &kept.returned, &kept.temporary].map(Tensor::is_live);
    assert_eq!(is_live, live);
    let count = live.iter().filter(|live| **live).count() as u64;
    assert_eq!(settled(manager).live.bytes, count * MIB);
    assert_eq!(outer.live_bytes(), u64::from(live[2]) * MIB);
}

/// A tensor of the outer scope that the inner one keeps is kept, and so is the inner's own; what the inner scope returns
/// is the outer's, and goes with it (tensorflow/tfjs#69, for all of C34).
fn c34_a_kept_and_returned(bed: &Bed) {
    let Rig { manager, .. } = bed.open_with(untrimmed());
    let order = Order::default();
    let (outer, outers) = open_outer(&manager, &order);
    let inner = outer.scope("inner").unwrap();
    note(&inner, &order, "inner");
    assert_eq!((outer.live_bytes(), inner.live_bytes()), (MIB, 0));
    let kept = keep(&inner, &outers).unwrap();
    assert_eq!((outer.live_bytes(), inner.live_bytes()), (MIB, MIB));
    let report = inner.finish_blocking().unwrap();
    assert_eq!((report.released_tensors, report.released_bytes), (1, MIB));
    assert_kept(&manager, &outer, &kept, [true, true, true, false]);
    let report = outer.finish_blocking().unwrap();
    assert_eq!((report.released_tensors, report.released_bytes), (1, MIB));
    assert_kept(&manager, &outer, &kept, [true, true, false, false]);
    assert_eq!(kept.inners.view(0..64).unwrap().read().unwrap(), [1; 64]);
    assert_eq!(order.seen(), ["inner", "outer"]);
    drop((outers, kept));
    assert_given_back(&manager);
}

/// The inner body fails after it has kept and returned: what was promoted stays promoted, the rest goes.
fn c34_b_the_inner_fails(bed: &Bed) {
    let Rig { manager, .. } = bed.open_with(untrimmed());
    let order = Order::default();
    let (outer, outers) = open_outer(&manager, &order);
    let inner = outer.scope("inner").unwrap();
    note(&inner, &order, "inner");
    let kept = keep(&inner, &outers).unwrap();
    let failed = inner.finish_with::<(), _>(Err("the inner body's error"));
    let RunError::Body { error, report } = failed.unwrap_err() else { panic!("the body failed") };
    let report = report.unwrap();
    assert_eq!((error, report.outcome, report.error_count), ("the inner body's error", Outcome::Failed, 0));
    assert_kept(&manager, &outer, &kept, [true, true, true, false]);
    assert_eq!(outer.finish_blocking().unwrap().outcome, Outcome::Completed);
    assert_kept(&manager, &outer, &kept, [true, true, false, false]);
    assert_eq!(order.seen(), ["inner", "outer"]);
    drop((outers, kept));
    assert_given_back(&manager);
}

/// The inner body panics and unwinds through both scopes: both clean up, the inner one first, each once.
fn c34_c_the_inner_panics(bed: &Bed) {
    let Rig { manager, .. } = bed.open_with(untrimmed());
    let order = Order::default();
    let mut kept = None;
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _ = manager.run("outer", |outer| -> Result<(), Error> {
            note(outer, &order, "outer");
            let outers = outer.tensor::<u8>(MIB)?;
            let inner = outer.scope("inner")?;
            note(&inner, &order, "inner");
            kept = Some(keep(&inner, &outers)?);
            panic_any(34_u8)
        });
    }));
    assert_eq!(panicked.unwrap_err().downcast_ref(), Some(&34_u8));
    assert_eq!(order.seen(), ["inner", "outer"]);
    let kept = kept.unwrap();
    let is_live = [&kept.outers, &kept.inners, &kept.returned, &kept.temporary].map(Tensor::is_live);
    assert_eq!(is_live, [true, true, false, false]);
    assert_eq!(settled(&manager).live.bytes, 2 * MIB);
    assert!(manager.take_errors().is_empty());
    drop(kept);
    assert_given_back(&manager);
}

/// The inner scope is moved out: it outlives the outer one with its work, its tensors and its hook.
fn c34_d_the_inner_outlives_the_outer(bed: &Bed) {
    let Rig { manager, probe } = bed.open_with(untrimmed());
    let order = Order::default();
    let (outer, outers) = open_outer(&manager, &order);
    let inner = outer.scope("inner").unwrap();
    note(&inner, &order, "inner");
    let own = inner.tensor::<u8>(MIB).unwrap();
    probe.hold();
    let execution = inner.evaluate([op::fill(own.view(0..64).unwrap(), 1)]).unwrap();
    let moved = inner.move_out().unwrap();
    assert!(matches!(inner.finish_blocking(), Err(Error::ScopeMoved { .. })));
    drop(inner);
    // It does not wait for the inner scope's work.
    assert_eq!(outer.finish_blocking().unwrap().released_bytes, MIB);
    assert_eq!(order.seen(), ["outer"]);
    assert!(own.is_live() && !outers.is_live());
    assert_eq!((moved.state(), moved.live_bytes()), (ScopeState::Open, MIB));
    probe.release_all();
    execution.wait().unwrap();
    assert_eq!(own.view(0..64).unwrap().read().unwrap(), [1; 64]);
    own.promote().unwrap();
    assert_eq!(moved.finish_blocking().unwrap().outcome, Outcome::Completed);
    assert_eq!(order.seen(), ["outer", "inner"]);
    assert!(own.is_live(), "its scope had no parent any more: it went to the manager");
    drop((outers, own));
    assert_given_back(&manager);
}

/// The outer scope is finished with two inner ones open: they finish first, the last opened first, and their own finish
/// afterwards runs nothing twice.
fn c34_e_the_outer_finishes_first(bed: &Bed) {
    let Rig { manager, .. } = bed.open_with(untrimmed());
    let order = Order::default();
    let (outer, outers) = open_outer(&manager, &order);
    let inner: Vec<_> = ["first", "second"]
        .map(|label| {
            let inner = outer.scope(label).unwrap();
            note(&inner, &order, label);
            inner
        })
        .into();
    note(&outer, &order, "outer's last");
    let tensor = inner[0].tensor::<u8>(MIB).unwrap();
    inner[0].evaluate([op::fill(tensor.view(0..64).unwrap(), 1)]).unwrap();
    outer.finish_blocking().unwrap();
    assert_eq!(order.seen(), ["outer's last", "second", "first", "outer"]);
    for inner in &inner {
        assert_eq!(inner.state(), ScopeState::Finished(Outcome::Completed));
        let again = inner.finish_blocking();
        assert!(matches!(again, Err(Error::ScopeFinished { outcome: Outcome::Completed, .. })), "{again:?}");
    }
    drop(inner);
    assert!(!tensor.is_live() && !outers.is_live());
    assert_eq!(order.seen().len(), 4);
    drop((tensor, outers));
    assert_given_back(&manager);
}
