//! Threads, part 3: races about the life of a scope: registering, finishing, promoting and moving out.
//!
//! Not here: cancelling against finishing (`cancellation/racing.rs`).

use std::collections::HashSet;
use std::sync::{Barrier, mpsc};

use tenure_core::{CleanupContext, Error, ScopeState, hook, op};

use crate::bed::{Bed, Rig};
use crate::case::Case;
use crate::cases::hooks::support::{Count, Latch, MIB, case, poll_once, receive};
use crate::cases::sequences::settled;

pub(super) const CASES: &[Case] = &[
    case("threads/registering_against_finishing", &["L10", "L11"], registering_against_finishing),
    case("threads/adopting_against_finishing", &["L10", "L11"], adopting_against_finishing),
    case("threads/one_key_from_many_threads", &["L12"], one_key_from_many_threads),
    case("threads/two_threads_finish_one_scope", &["L10"], two_threads_finish),
    case("threads/finishing_parent_and_child", &["L10", "L16"], finishing_parent_and_child),
    case("threads/evaluating_against_finishing", &["L10", "L11", "L16"], evaluating_against_finishing),
    case("threads/promoting_against_finishing", &["L2"], promoting_against_finishing),
    case("threads/moving_out_against_finishing", &["L10", "L17"], moving_out_against_finishing),
];

/// A closure for a hook that counts its runs.
fn counts(
    count: &Count,
) -> impl FnMut(&CleanupContext) -> Result<(), tenure_core::BoxError> + Send + 'static {
    let count = count.clone();
    move |_| {
        count.add();
        Ok(())
    }
}

/// Threads register while another finishes: a hook that was accepted runs once, one that was refused comes back.
fn registering_against_finishing(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    for _ in 0..50 {
        let scope = manager.scope("s").unwrap();
        let runs = Count::default();
        let start = Barrier::new(3);
        let accepted: usize = std::thread::scope(|threads| {
            let register = || {
                start.wait();
                let attempts = (0..20).filter(|_| match scope.register(hook::once("count", counts(&runs))) {
                    Ok(_) => true,
                    Err(rejected) => {
                        assert_eq!(rejected.value.label(), "count");
                        assert!(
                            matches!(
                                rejected.error,
                                Error::ScopeFinishing { .. } | Error::ScopeFinished { .. }
                            ),
                            "{}",
                            rejected.error
                        );
                        false
                    }
                });
                attempts.count()
            };
            let registering: Vec<_> = (0..2).map(|_| threads.spawn(register)).collect();
            start.wait();
            let report = scope.finish_blocking().unwrap();
            assert!(report.hooks.iter().all(|row| row.runs == 1));
            registering.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(runs.get(), accepted as u64);
    }
}

/// The same with values: each is released once or handed back, never both and never neither.
fn adopting_against_finishing(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    for _ in 0..50 {
        let scope = manager.scope("s").unwrap();
        let (release, released) = mpsc::channel();
        let start = Barrier::new(2);
        let mut seen: Vec<u32> = std::thread::scope(|threads| {
            let adopting = threads.spawn(|| {
                start.wait();
                let adopt = |value: u32| {
                    let release = release.clone();
                    scope.adopt("value", value, move |value, _| Ok(release.send(value)?)).err()
                };
                (0..40).filter_map(adopt).map(|rejected| rejected.value).collect::<Vec<_>>()
            });
            start.wait();
            scope.finish_blocking().unwrap();
            adopting.join().unwrap()
        });
        drop(release);
        seen.extend(released);
        seen.sort_unstable();
        assert_eq!(seen, (0..40).collect::<Vec<_>>());
    }
}

/// Many threads register one key at once: one registration, the same for all, that runs once.
fn one_key_from_many_threads(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    for _ in 0..20 {
        let scope = manager.scope("s").unwrap();
        let runs = Count::default();
        let start = Barrier::new(8);
        let ids: HashSet<_> = std::thread::scope(|threads| {
            let register = || {
                start.wait();
                scope.register(hook::after_release("clear", counts(&runs)).key("cache")).unwrap()
            };
            let registering: Vec<_> = (0..8).map(|_| threads.spawn(register)).collect();
            registering.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(ids.len(), 1);
        let report = scope.finish_blocking().unwrap();
        assert_eq!((report.hooks.len(), report.hooks[0].runs, runs.get()), (1, 1, 1));
    }
}

/// Two finish one scope: whoever comes while the other is at it gets the same report. Hooks run once.
fn two_threads_finish(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let scope = manager.scope("s").unwrap();
    let (begin, begun) = mpsc::channel();
    let latch = Latch::default();
    let inside = latch.clone();
    scope
        .register(hook::once("once", move |_| {
            begin.send(())?;
            inside.wait();
            Ok(())
        }))
        .unwrap();
    let tensor = scope.tensor::<u32>(4).unwrap();
    scope.evaluate([op::fill(&tensor, 1)]).unwrap();
    std::thread::scope(|threads| {
        let first = threads.spawn(|| scope.finish_blocking().unwrap());
        receive(&begun);
        let mut second = scope.finish();
        assert!(poll_once(&mut second).is_pending());
        let third = threads.spawn(|| pollster::block_on(second).unwrap());
        latch.open();
        for finishing in [first, third] {
            let report = finishing.join().unwrap();
            assert_eq!((report.executions, report.hooks[0].runs), (1, 1));
        }
    });
    assert!(matches!(scope.finish_blocking(), Err(Error::ScopeFinished { .. })));
}

/// A scope and the one that it was opened in are finished at once: each finishes once, the inner one first.
fn finishing_parent_and_child(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    for _ in 0..100 {
        let outer = manager.scope("outer").unwrap();
        let inner = outer.scope("inner").unwrap();
        let inner_runs = Count::default();
        let seen = inner_runs.clone();
        outer
            .register(hook::after_release("outer", move |_| {
                assert_eq!(seen.get(), 1, "what is below ends first");
                Ok(())
            }))
            .unwrap();
        inner.register(hook::once("inner", counts(&inner_runs))).unwrap();
        let tensor = inner.tensor::<u32>(64).unwrap();
        inner.evaluate([op::fill(&tensor, 1)]).unwrap();
        let start = Barrier::new(2);
        std::thread::scope(|threads| {
            let finishing = threads.spawn(|| {
                start.wait();
                inner.finish_blocking()
            });
            start.wait();
            outer.finish_blocking().unwrap();
            match finishing.join().unwrap() {
                Ok(report) => assert_eq!((report.executions, report.hooks[0].runs), (1, 1)),
                Err(error) => assert!(matches!(error, Error::ScopeFinished { .. }), "{error}"),
            }
        });
        assert!(matches!(inner.state(), ScopeState::Finished(_)));
        assert_eq!(inner_runs.get(), 1);
        assert_eq!(settled(&manager).tensors, 0);
    }
}

/// A thread evaluates until the scope takes no more: what was submitted is in the report and had its hook.
fn evaluating_against_finishing(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    for _ in 0..50 {
        let scope = manager.scope("s").unwrap();
        let runs = Count::default();
        scope.register(hook::each("each", counts(&runs))).unwrap();
        let tensor = manager.tensor::<u32>(64).unwrap();
        let (reached, reach) = mpsc::channel();
        let (submitted, report) = std::thread::scope(|threads| {
            let (scope, tensor) = (&scope, &tensor);
            let evaluating = threads.spawn(move || {
                let mut executions = Vec::new();
                loop {
                    match scope.evaluate([op::fill(tensor, 1)]) {
                        Ok(execution) => executions.push(execution),
                        Err(
                            Error::ScopeFinishing { .. } | Error::ScopeFinished { .. } | Error::Stale { .. },
                        ) => {
                            return executions;
                        }
                        Err(error) => panic!("{error}"),
                    }
                    if executions.len() == 3 {
                        reached.send(()).unwrap();
                    }
                }
            });
            receive(&reach);
            let report = scope.finish_blocking().unwrap();
            (evaluating.join().unwrap(), report)
        });
        for execution in &submitted {
            execution.wait_timeout(std::time::Duration::ZERO).unwrap();
        }
        assert_eq!((report.executions, runs.get()), (submitted.len() as u64, submitted.len() as u64));
    }
    assert_eq!(settled(&manager).tensors, 0);
}

/// A tensor is promoted while its scope finishes: either it lives on with its data, or it is `Stale`, and the call says
/// which.
fn promoting_against_finishing(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    for round in 0..100_u8 {
        let scope = manager.scope("s").unwrap();
        let tensor = scope.tensor::<u8>(MIB).unwrap();
        scope.evaluate([op::fill(&tensor, round)]).unwrap();
        let start = Barrier::new(2);
        let (promoted, report) = std::thread::scope(|threads| {
            let promoting = threads.spawn(|| {
                start.wait();
                if round % 2 == 0 { tensor.promote() } else { tensor.promote_to_manager() }
            });
            start.wait();
            let report = scope.finish_blocking().unwrap();
            (promoting.join().unwrap(), report)
        });
        match promoted {
            Ok(()) => {
                assert_eq!(tensor.read().unwrap(), vec![round; MIB as usize]);
                assert_eq!((report.released_tensors, manager.memory().live.bytes), (0, MIB));
            }
            Err(error) => {
                assert!(matches!(error, Error::Stale { .. }), "{error}");
                assert!(matches!(tensor.read(), Err(Error::Stale { .. })));
                assert_eq!((report.released_tensors, manager.memory().live.bytes), (1, 0));
            }
        }
    }
    assert_eq!(settled(&manager).live.bytes, 0);
}

/// A scope moves out while the one that it was opened in finishes: either it goes on as a root, or it is finished with it.
/// Its hook runs once either way.
fn moving_out_against_finishing(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    for _ in 0..100 {
        let outer = manager.scope("outer").unwrap();
        let inner = outer.scope("inner").unwrap();
        let runs = Count::default();
        inner.register(hook::once("once", counts(&runs))).unwrap();
        let tensor = inner.tensor::<u32>(64).unwrap();
        let start = Barrier::new(2);
        let moved = std::thread::scope(|threads| {
            let moving = threads.spawn(|| {
                start.wait();
                inner.move_out()
            });
            start.wait();
            outer.finish_blocking().unwrap();
            moving.join().unwrap()
        });
        match moved {
            Ok(moved) => {
                assert_eq!((moved.state(), runs.get()), (ScopeState::Open, 0));
                moved.evaluate([op::fill(&tensor, 1)]).unwrap();
                assert_eq!(moved.finish_blocking().unwrap().executions, 1);
            }
            Err(error) => assert!(
                matches!(error, Error::ScopeFinishing { .. } | Error::ScopeFinished { .. }),
                "{error}"
            ),
        }
        assert_eq!(runs.get(), 1);
        assert_eq!(settled(&manager).tensors, 0);
    }
}
