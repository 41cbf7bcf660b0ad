//! Cases about many threads on one manager (L4, L6, L7, L15, L19).
//!
//! Not here: interleavings one by one; those are modelled in core's own tests.

use std::sync::Barrier;

use tenure_core::{Error, ManagerOptions, Outcome, QueueId, ScopeOptions, hook, op};

use crate::bed::{Bed, Rig};
use crate::case::{Case, Requirement};

/// The cases of this topic.
pub const CASES: &[Case] = &[
    case("threads/eight_threads_eight_scopes_one_manager", &["L4", "L19"], eight_threads),
    case("threads/tensors_die_on_foreign_threads", &["L1", "L2"], tensors_die_elsewhere),
    case("threads/a_scope_finishes_on_another_thread", &["L16"], a_scope_finishes_elsewhere),
    case("threads/one_of_many_evaluations_wins", &["L7"], one_evaluation_wins),
    case("threads/destroying_against_evaluating", &["L3", "L4"], destroying_against_evaluating),
    case("threads/trimming_against_allocating", &["L19", "L21"], trimming_against_allocating),
    case("threads/closing_against_everything", &["L3", "L6"], closing_against_everything),
    case("threads/registering_against_finishing", &["L10", "L11"], registering_against_finishing),
    case("threads/two_threads_finish_one_scope", &["L10"], two_threads_finish),
    case("threads/polling_from_several_threads", &["L16"], polling_from_several_threads),
    Case {
        id: "threads/queues_of_their_own_share_a_tensor",
        rules: &["L4"],
        requires: &[Requirement::Queues(2)],
        run: queues_share_a_tensor,
    },
];

const fn case(id: &'static str, rules: &'static [&'static str], run: fn(&Bed)) -> Case {
    Case { id, rules, requires: &[], run }
}

/// Each thread gets its own data right, each scope frees its own, and at the end nothing is left.
fn eight_threads(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    std::thread::scope(|threads| {
        for thread in 0..8_u32 {
            let manager = &manager;
            threads.spawn(move || {
                let scope = manager.scope(format!("thread {thread}")).unwrap();
                let tensor = scope.tensor::<u32>(256).unwrap();
                for round in 0..100 {
                    scope.evaluate([op::fill(&tensor, thread * 1000 + round)]).unwrap().wait().unwrap();
                    if round % 10 == 0 {
                        assert_eq!(tensor.read().unwrap(), [thread * 1000 + round; 256]);
                    }
                }
                let report = scope.finish_blocking().unwrap();
                assert_eq!((report.executions, report.released_bytes), (100, 1024));
            });
        }
    });
    let memory = manager.memory();
    assert_eq!((memory.live.bytes, memory.retired.bytes, memory.cached.bytes), (0, 0, 0));
}

/// Handles are sent elsewhere and dropped there, also in a thread's last moments.
fn tensors_die_elsewhere(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    for _ in 0..20 {
        let tensor = manager.tensor::<u8>(1 << 20).unwrap();
        let clone = tensor.clone();
        let other = std::thread::spawn(move || drop(clone));
        std::thread::spawn(move || drop(tensor)).join().unwrap();
        other.join().unwrap();
        assert_eq!(manager.memory().live.bytes, 0);
    }
    assert_eq!(manager.memory().allocations, 1);
}

/// Opened here, finished there: the hooks run there, the figures are the same.
fn a_scope_finishes_elsewhere(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let scope = manager.scope("s").unwrap();
    let (told, thread) = std::sync::mpsc::channel();
    scope.register(hook::once("where", move |_| Ok(told.send(std::thread::current().id())?))).unwrap();
    let other = std::thread::spawn(move || {
        assert_eq!(scope.finish_blocking().unwrap().outcome, Outcome::Completed);
        std::thread::current().id()
    });
    assert_eq!(other.join().unwrap(), thread.recv().unwrap());
}

/// Many threads evaluate one sequence at once: one submits, the others are `Busy` and change nothing.
fn one_evaluation_wins(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let scope = manager.scope("s").unwrap();
    let tensor = scope.tensor::<u32>(4).unwrap();
    let sequence = scope.named("s").unwrap();
    sequence.record(op::fill(&tensor, 1)).unwrap();
    probe.hold();
    let start = Barrier::new(8);
    let won: Vec<_> = std::thread::scope(|threads| {
        let attempts: Vec<_> = (0..8)
            .map(|_| {
                threads.spawn(|| {
                    start.wait();
                    sequence.evaluate()
                })
            })
            .collect();
        attempts
            .into_iter()
            .filter_map(|attempt| match attempt.join().unwrap() {
                Ok(execution) => Some(execution),
                Err(Error::Busy { .. }) => None,
                Err(error) => panic!("{error}"),
            })
            .collect()
    });
    assert_eq!(won.len(), 1);
    probe.release_all();
    won[0].wait().unwrap();
    assert_eq!(scope.finish_blocking().unwrap().executions, 1);
}

/// A tensor is destroyed while it is evaluated: either the work was submitted and completes, or it is `Stale`.
fn destroying_against_evaluating(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let scope = manager.scope("s").unwrap();
    for _ in 0..50 {
        let tensor = manager.tensor::<u8>(1 << 20).unwrap();
        let sequence = scope.sequence().unwrap();
        sequence.record(op::fill(&tensor, 1)).unwrap();
        let start = Barrier::new(2);
        std::thread::scope(|threads| {
            threads.spawn(|| {
                start.wait();
                tensor.destroy().unwrap();
            });
            start.wait();
            match sequence.evaluate() {
                Ok(execution) => execution.wait().unwrap(),
                Err(error) => assert!(matches!(error, Error::Stale { .. }), "{error}"),
            }
        });
    }
    manager.wait_idle().unwrap();
    assert_eq!(manager.memory().live.bytes, 0);
}

/// One thread trims all the time while others allocate: the figures add up, and what is live stays.
fn trimming_against_allocating(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    std::thread::scope(|threads| {
        let makers: Vec<_> = (0..4_u8)
            .map(|thread| {
                let manager = &manager;
                threads.spawn(move || {
                    for _ in 0..50 {
                        let tensor = manager.tensor_from("t", &[thread; 4096]).unwrap();
                        assert_eq!(tensor.read().unwrap(), [thread; 4096]);
                    }
                })
            })
            .collect();
        while makers.iter().any(|maker| !maker.is_finished()) {
            manager.trim().unwrap();
            let memory = manager.memory();
            assert_eq!(memory.reserved, memory.live + memory.retired + memory.cached);
        }
    });
    manager.trim().unwrap();
    let memory = manager.memory();
    assert_eq!((memory.reserved.bytes, memory.allocations), (0, memory.frees));
}

/// The manager closes while threads work: each call succeeds or says that it is over, and nothing is left.
fn closing_against_everything(bed: &Bed) {
    for _ in 0..10 {
        let Rig { manager, .. } = bed.open();
        let start = Barrier::new(4);
        std::thread::scope(|threads| {
            for _ in 0..3 {
                threads.spawn(|| {
                    start.wait();
                    let work = || -> Result<(), Error> {
                        for _ in 0..100 {
                            let scope = manager.scope("s")?;
                            let tensor = scope.tensor::<u32>(16)?;
                            scope.evaluate([op::fill(&tensor, 1)])?.wait()?;
                            tensor.read()?;
                        }
                        Ok(())
                    };
                    match work() {
                        Ok(()) | Err(Error::Closed { .. } | Error::Stale { .. }) => {}
                        Err(Error::ScopeFinishing { .. } | Error::ScopeFinished { .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                });
            }
            start.wait();
            let report = manager.close().unwrap();
            assert!(report.errors.is_empty(), "{report}");
            assert_eq!(report.memory.reserved.bytes, 0);
        });
    }
}

/// Threads register while another finishes: a hook that was accepted runs once, one that was refused comes back.
fn registering_against_finishing(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    for _ in 0..20 {
        let scope = manager.scope("s").unwrap();
        let runs = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let start = Barrier::new(3);
        let accepted: usize = std::thread::scope(|threads| {
            let registering: Vec<_> = (0..2)
                .map(|_| {
                    threads.spawn(|| {
                        start.wait();
                        (0..20)
                            .filter(|_| {
                                let runs = runs.clone();
                                let count = move |_: &tenure_core::CleanupContext| {
                                    runs.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                                    Ok(())
                                };
                                match scope.register(hook::once("count", count)) {
                                    Ok(_) => true,
                                    Err(rejected) => {
                                        assert_eq!(rejected.value.label(), "count");
                                        false
                                    }
                                }
                            })
                            .count()
                    })
                })
                .collect();
            start.wait();
            scope.finish_blocking().unwrap();
            registering.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(runs.load(std::sync::atomic::Ordering::SeqCst), accepted);
    }
}

/// Two threads finish one scope: both get the outcome, or the later one is told that it has finished. Hooks run once.
fn two_threads_finish(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let scope = manager.scope("s").unwrap();
    scope.register(hook::once("once", |_| Ok(()))).unwrap();
    let tensor = scope.tensor::<u32>(4).unwrap();
    probe.hold();
    scope.evaluate([op::fill(&tensor, 1)]).unwrap();
    std::thread::scope(|threads| {
        let others: Vec<_> = (0..2).map(|_| threads.spawn(|| scope.finish_blocking())).collect();
        // Released once both can have begun; the work holds the scope open until then.
        while scope.state() == tenure_core::ScopeState::Open {
            std::thread::yield_now();
        }
        probe.release_all();
        let mut reports = 0;
        for other in others {
            match other.join().unwrap() {
                Ok(report) => {
                    assert_eq!((report.executions, report.hooks[0].runs), (1, 1));
                    reports += 1;
                }
                Err(error) => assert!(matches!(error, Error::ScopeFinished { .. }), "{error}"),
            }
        }
        assert!(reports >= 1);
    });
}

/// Without threads of tenure's, several threads poll: everything is done once.
fn polling_from_several_threads(bed: &Bed) {
    let Rig { manager, .. } = bed.open_with(ManagerOptions::builder().threads(false).build());
    let scope = manager.scope("s").unwrap();
    let tensor = scope.tensor::<u32>(4).unwrap();
    let runs = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
    let seen = runs.clone();
    scope
        .register(hook::each("each", move |_| {
            seen.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            Ok(())
        }))
        .unwrap();
    let executions: Vec<_> =
        (0..20).map(|value| scope.evaluate([op::fill(&tensor, value)]).unwrap()).collect();
    std::thread::scope(|threads| {
        for _ in 0..3 {
            threads.spawn(|| {
                while executions.iter().any(|it| it.status() == tenure_core::ExecutionStatus::Running) {
                    manager.poll().unwrap();
                }
            });
        }
    });
    let report = scope.finish_blocking().unwrap();
    assert_eq!((report.executions, report.hooks[0].runs), (20, 20));
    assert_eq!(runs.load(std::sync::atomic::Ordering::SeqCst), 20);
}

/// Two threads on queues of their own write and read one tensor: each read sees one write, whole.
fn queues_share_a_tensor(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let shared = manager.tensor_from("shared", &[0_u32; 1024]).unwrap();
    std::thread::scope(|threads| {
        for queue in 0..2_u32 {
            let (manager, shared) = (&manager, &shared);
            threads.spawn(move || {
                let options = ScopeOptions::builder().label("s").queue(QueueId(queue)).build();
                let scope = manager.scope_with(options).unwrap();
                let copy = scope.tensor::<u32>(1024).unwrap();
                for round in 0..100 {
                    let value = queue * 1000 + round;
                    scope.evaluate([op::fill(shared, value)]).unwrap();
                    scope.evaluate([op::copy(shared, &copy)]).unwrap().wait().unwrap();
                    let seen = copy.read().unwrap();
                    assert!(seen.iter().all(|other| *other == seen[0]), "a torn read");
                }
                scope.finish_blocking().unwrap();
            });
        }
    });
}
