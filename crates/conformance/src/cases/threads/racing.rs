//! Threads, part 2: two calls against each other on one sequence, tensor or manager.
//!
//! Not here: races about the life of a scope (`scopes.rs`).

use std::collections::BTreeSet;
use std::sync::Barrier;

use tenure_core::{Error, Execution, SequenceState, op};

use crate::bed::{Bed, Rig};
use crate::case::Case;
use crate::cases::hooks::support::{MIB, WATCHDOG, assert_given_back, case};
use crate::cases::sequences::settled;
use crate::instrument::{CallKind, ObjectKind};

pub(super) const CASES: &[Case] = &[
    case("threads/one_of_many_evaluations_wins", &["L7"], one_evaluation_wins),
    case("threads/recording_against_evaluating", &["L7", "L9"], recording_against_evaluating),
    case("threads/destroying_against_evaluating", &["L3", "L4"], destroying_against_evaluating),
    case("threads/destroying_a_sequence_against_evaluating_it", &["L3", "L8"], destroying_a_sequence),
    case("threads/dropping_a_sequence_against_its_retirement", &["L8", "L4"], dropping_a_sequence),
    case("threads/one_of_many_gets_the_name", &["L8"], one_gets_the_name),
    case("threads/everybody_replaces_one_name", &["L8"], everybody_replaces_one_name),
    case("threads/clearing_against_evaluating", &["L8", "L3"], clearing_against_evaluating),
    case("threads/refused_evaluations_take_no_number_twice", &["L7", "L11"], numbers_are_unique),
    case("threads/trimming_against_allocating", &["L19", "L21"], trimming_against_allocating),
    case("threads/closing_against_everything", &["L3", "L6"], closing_against_everything),
    case("threads/many_close_at_once", &["L6", "L28"], many_close_at_once),
    case("threads/the_last_of_many_managers_closes", &["L6"], the_last_of_many_managers),
];

/// Many threads evaluate one sequence at once: one submits, the others are `Busy` and change nothing.
fn one_evaluation_wins(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let scope = manager.scope("s").unwrap();
    let tensor = scope.tensor::<u32>(4).unwrap();
    let sequence = scope.named("s").unwrap();
    sequence.record(op::fill(&tensor, 1)).unwrap();
    for round in 1..=20 {
        probe.hold();
        let start = Barrier::new(8);
        let won: Vec<Execution> = std::thread::scope(|threads| {
            let attempt = || {
                start.wait();
                match sequence.evaluate() {
                    Ok(execution) => Some(execution),
                    Err(Error::Busy { .. }) => None,
                    Err(error) => panic!("{error}"),
                }
            };
            let attempts: Vec<_> = (0..8).map(|_| threads.spawn(attempt)).collect();
            attempts.into_iter().filter_map(|attempt| attempt.join().unwrap()).collect()
        });
        assert_eq!(won.len(), 1);
        assert_eq!(probe.calls(CallKind::Submit), round);
        probe.release_all();
        won[0].wait().unwrap();
    }
    assert_eq!(scope.finish_blocking().unwrap().executions, 20);
}

/// One thread records while another evaluates: each operation is either in an evaluation or refused as `Busy`, and the
/// last evaluation has all that was recorded.
fn recording_against_evaluating(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let scope = manager.scope("s").unwrap();
    let tensor = scope.tensor_from("data", &[0_u32; 256]).unwrap();
    let sequence = scope.named("s").unwrap();
    let recorded: Vec<u64> = std::thread::scope(|threads| {
        let recording = threads.spawn(|| {
            let places = (0..256).filter(|at| {
                let place = tensor.view(*at..*at + 1).unwrap();
                match sequence.record(op::fill(place, 1)) {
                    Ok(_) => true,
                    Err(Error::Busy { .. }) => false,
                    Err(error) => panic!("{error}"),
                }
            });
            places.collect()
        });
        while !recording.is_finished() {
            match sequence.evaluate() {
                Ok(execution) => execution.wait().unwrap(),
                Err(error) => panic!("{error}"),
            }
        }
        recording.join().unwrap()
    });
    assert_eq!(sequence.len(), recorded.len());
    sequence.run().unwrap();
    let mut expected = [0; 256];
    recorded.iter().for_each(|at| expected[*at as usize] = 1);
    assert_eq!(tensor.read().unwrap(), expected);
}

/// A tensor is destroyed while it is evaluated: either the work was submitted and completes, or it is `Stale`.
fn destroying_against_evaluating(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let scope = manager.scope("s").unwrap();
    for _ in 0..50 {
        let tensor = manager.tensor::<u8>(MIB).unwrap();
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
    let memory = settled(&manager);
    assert_eq!((memory.live.bytes, memory.retired.bytes), (0, 0));
}

/// A sequence is destroyed while it is evaluated: either it was submitted and completes, or it is `Stale`; what it held
/// goes, once.
fn destroying_a_sequence(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let scope = manager.scope("s").unwrap();
    let mut submitted = 0;
    for _ in 0..100 {
        let tensor = manager.tensor::<u32>(64).unwrap();
        let sequence = scope.named("s").unwrap();
        sequence.record(op::fill(&tensor, 1)).unwrap();
        drop(tensor);
        let start = Barrier::new(3);
        std::thread::scope(|threads| {
            let destroying: Vec<_> = (0..2)
                .map(|_| {
                    threads.spawn(|| {
                        start.wait();
                        sequence.destroy()
                    })
                })
                .collect();
            start.wait();
            match sequence.evaluate() {
                Ok(execution) => {
                    submitted += 1;
                    execution.wait().unwrap();
                }
                Err(error) => assert!(matches!(error, Error::Stale { .. }), "{error}"),
            }
            destroying.into_iter().for_each(|destroying| destroying.join().unwrap().unwrap());
        });
        assert_eq!(settled(&manager).tensors, 0);
        assert!(scope.named_sequences().is_empty());
    }
    assert_eq!(probe.lifetimes(ObjectKind::Sequence).live(), 0);
    assert_eq!(scope.finish_blocking().unwrap().executions, submitted);
}

/// The last handle of an anonymous sequence goes just as its execution retires: it is reclaimed once, whoever is first.
fn dropping_a_sequence(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let scope = manager.scope("s").unwrap();
    let tensor = scope.tensor::<u32>(64).unwrap();
    for _ in 0..200 {
        let sequence = scope.sequence().unwrap();
        sequence.record(op::fill(&tensor, 1)).unwrap();
        let execution = sequence.evaluate().unwrap();
        let start = Barrier::new(2);
        std::thread::scope(|threads| {
            let start = &start;
            threads.spawn(move || {
                start.wait();
                drop(sequence);
            });
            start.wait();
            execution.wait().unwrap();
        });
        settled(&manager);
        assert!(scope.anonymous_sequences().is_empty());
        assert_eq!(probe.lifetimes(ObjectKind::Sequence).live(), 0);
    }
}

/// Many threads ask for one name at once: one gets it, the others hear that it is taken.
fn one_gets_the_name(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let scope = manager.scope("s").unwrap();
    for _ in 0..50 {
        let start = Barrier::new(4);
        let got: usize = std::thread::scope(|threads| {
            let asking: Vec<_> = (0..4)
                .map(|_| {
                    threads.spawn(|| {
                        start.wait();
                        match scope.named("blur") {
                            Ok(_) => 1,
                            Err(Error::NameTaken { .. }) => 0,
                            Err(error) => panic!("{error}"),
                        }
                    })
                })
                .collect();
            asking.into_iter().map(|asking| asking.join().unwrap()).sum()
        });
        assert_eq!((got, scope.named_sequences().len()), (1, 1));
        scope.destroy("blur").unwrap();
    }
}

/// Many threads replace one name at once, each evaluating what it got: nobody is refused the name, everybody's work
/// completes or was replaced before it started, and one sequence is left.
fn everybody_replaces_one_name(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let scope = manager.scope("s").unwrap();
    let tensor = scope.tensor::<u32>(64).unwrap();
    for _ in 0..50 {
        let start = Barrier::new(4);
        std::thread::scope(|threads| {
            for value in 0..4_u32 {
                let (scope, tensor, start) = (&scope, &tensor, &start);
                threads.spawn(move || {
                    start.wait();
                    let sequence =
                        scope.replace("blur").expect("replacing takes the name from whoever has it");
                    let evaluated = sequence
                        .record(op::fill(tensor, value))
                        .and_then(|sequence| sequence.evaluate())
                        .map(|execution| execution.wait().unwrap());
                    assert!(matches!(evaluated, Ok(()) | Err(Error::Stale { .. })), "{evaluated:?}");
                });
            }
        });
        assert_eq!(scope.named_sequences().len(), 1);
        scope.find("blur").unwrap();
    }
    settled(&manager);
    assert!(probe.lifetimes(ObjectKind::Sequence).live() <= 1);
    scope.clear();
    assert_eq!(probe.lifetimes(ObjectKind::Sequence).live(), 0);
}

/// One thread clears all the time while others evaluate: each evaluation completes, or its sequence was cleared before it
/// started and is `Stale`.
fn clearing_against_evaluating(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let scope = manager.scope("s").unwrap();
    let submitted: u64 = std::thread::scope(|threads| {
        let evaluating: Vec<_> = (0..3)
            .map(|_| {
                threads.spawn(|| {
                    let tensor = scope.tensor::<u32>(64).unwrap();
                    let mut submitted = 0;
                    for value in 0..100 {
                        match scope.evaluate([op::fill(&tensor, value)]) {
                            Ok(execution) => {
                                submitted += 1;
                                execution.wait().unwrap();
                                assert_eq!(tensor.read().unwrap(), [value; 64]);
                            }
                            Err(error) => assert!(matches!(error, Error::Stale { .. }), "{error}"),
                        }
                    }
                    submitted
                })
            })
            .collect();
        let mut clear_all = false;
        while evaluating.iter().any(|thread| !thread.is_finished()) {
            clear_all = !clear_all;
            if clear_all {
                scope.clear()
            } else {
                scope.clear_anonymous()
            };
        }
        evaluating.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    settled(&manager);
    assert!(scope.anonymous_sequences().is_empty());
    assert_eq!(probe.lifetimes(ObjectKind::Sequence).live(), 0);
    assert_eq!(probe.calls(CallKind::Submit), submitted);
    assert_eq!(scope.finish_blocking().unwrap().executions, submitted);
}

/// Evaluations are refused on one thread while others succeed: a number names one execution, and what was refused is not
/// counted.
fn numbers_are_unique(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let scope = manager.scope("s").unwrap();
    let tensor = scope.tensor::<u32>(64).unwrap();
    let gone = scope.tensor::<u32>(64).unwrap();
    let stale = scope.named("stale").unwrap();
    stale.record(op::fill(&gone, 1)).unwrap();
    gone.destroy().unwrap();
    let sequence = scope.named("good").unwrap();
    sequence.record(op::fill(&tensor, 1)).unwrap();
    let numbers: Vec<u64> = std::thread::scope(|threads| {
        let evaluating = threads.spawn(|| {
            let evaluate = |_| {
                let execution = sequence.evaluate().unwrap();
                execution.wait().unwrap();
                execution.number()
            };
            (0..1000).map(evaluate).collect()
        });
        while !evaluating.is_finished() {
            assert!(matches!(stale.evaluate(), Err(Error::Stale { .. })));
            assert_eq!(stale.state(), SequenceState::Ready);
        }
        evaluating.join().unwrap()
    });
    assert!(numbers.is_sorted());
    assert_eq!(numbers.iter().collect::<BTreeSet<_>>().len(), 1000, "a number was given twice");
    assert_eq!(scope.finish_blocking().unwrap().executions, 1000);
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
    assert_given_back(&manager);
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
                        for value in 0..100 {
                            let scope = manager.scope("s")?;
                            let tensor = scope.tensor::<u32>(16)?;
                            scope.evaluate([op::fill(&tensor, value)])?.wait()?;
                            assert_eq!(tensor.read()?, [value; 16]);
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

/// Several threads close one manager: one does it, the others wait for it, and all have the same report.
fn many_close_at_once(bed: &Bed) {
    for _ in 0..10 {
        let Rig { manager, probe } = bed.open();
        let kept = manager.tensor_from("kept", &[1_u32; 64]).unwrap();
        let scope = manager.scope("open").unwrap();
        scope.evaluate([op::fill(&kept, 2)]).unwrap();
        let start = Barrier::new(4);
        let reports: Vec<String> = std::thread::scope(|threads| {
            let closing: Vec<_> = (0..4)
                .map(|_| {
                    threads.spawn(|| {
                        start.wait();
                        let report = manager.close().unwrap();
                        assert!(probe.is_shut_down());
                        report.to_string()
                    })
                })
                .collect();
            closing.into_iter().map(|closing| closing.join().unwrap()).collect()
        });
        assert!(reports.iter().all(|report| *report == reports[0]), "{reports:?}");
        assert!(reports[0].contains("`kept`") && reports[0].contains("`open`"), "{}", reports[0]);
        assert_eq!(probe.calls(CallKind::Shutdown), 1);
    }
}

/// Eight threads drop a clone of the manager each, all at once and with work in flight: the last one closes it, once.
fn the_last_of_many_managers(bed: &Bed) {
    for _ in 0..10 {
        let Rig { manager, probe } = bed.open();
        let scope = manager.scope("s").unwrap();
        let tensor = manager.tensor::<u32>(64).unwrap();
        let execution = scope.evaluate([op::fill(&tensor, 1)]).unwrap();
        let start = Barrier::new(8);
        let clones = vec![manager; 8];
        std::thread::scope(|threads| {
            for clone in clones {
                let start = &start;
                threads.spawn(move || {
                    start.wait();
                    drop(clone);
                });
            }
        });
        assert!(probe.wait_shutdown(WATCHDOG));
        assert_eq!(probe.calls(CallKind::Shutdown), 1);
        execution.wait().unwrap();
        assert!(matches!(tensor.read(), Err(Error::Stale { .. })));
    }
}
