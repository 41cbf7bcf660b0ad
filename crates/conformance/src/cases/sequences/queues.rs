//! Sequences, part 5: several in flight, their order, and what waits for what across queues (L4, L7).
//!
//! Not here: threads that use queues of their own (`threads/`).

use std::time::Duration;

use tenure_core::{Error, ManagedScope, Manager, QueueId, ScopeOptions, SequenceState, op};

use super::{open, settled};
use crate::bed::{Bed, Rig};
use crate::case::{Case, FIRST, Requirement, SECOND};
use crate::cases::hooks::support::{case, case_with};
use crate::instrument::Probe;

pub(super) const CASES: &[Case] = &[
    case("sequences/work_runs_in_the_order_of_evaluation", &["L4", "L7"], order_of_evaluation),
    case("sequences/work_on_one_queue_needs_no_wait_for_reads", &["L4"], reads_need_no_wait),
    case("sequences/points_rise_by_one", &["L7"], points_rise_by_one),
    case("sequences/a_queue_that_is_not_there_is_refused", &["L22"], no_such_queue),
    two_queues("sequences/another_queue_waits_for_the_write", &["L4", "L9"], another_queue_waits),
    two_queues("sequences/hazards_wait_on_the_device", &["L4"], hazards_wait_on_the_device),
    two_queues("sequences/reads_on_two_queues_wait_for_nothing", &["L4"], reads_wait_for_nothing),
    two_queues("sequences/a_diamond_across_queues", &["L4", "L9"], a_diamond_across_queues),
    two_queues("sequences/queues_retire_on_their_own", &["L4", "L7"], queues_retire_on_their_own),
    two_queues("sequences/a_child_works_on_its_parents_queue", &["L7"], a_child_inherits_its_queue),
];

const fn two_queues(id: &'static str, rules: &'static [&'static str], run: fn(&Bed)) -> Case {
    case_with(id, rules, &[Requirement::Queues(2)], run)
}

#[track_caller]
fn scope_on(manager: &Manager, queue: QueueId) -> ManagedScope {
    manager.scope_with(ScopeOptions::builder().label(queue.to_string()).queue(queue).build()).unwrap()
}

/// The submissions in the log, without the sequences' numbers.
fn submissions(probe: &Probe) -> Vec<String> {
    let log = probe.log();
    log.iter().filter_map(|line| line.split_once(" as ")).map(|(_, rest)| rest.to_owned()).collect()
}

/// Twenty sequences in flight, each using what the one before wrote: the last one has all of it.
fn order_of_evaluation(bed: &Bed) {
    let (rig, scope, first) = open(bed);
    rig.probe.hold();
    let mut last = first;
    let mut executions = Vec::new();
    for step in 0..20_u64 {
        let next = scope.tensor::<u32>(64).unwrap();
        let mark = next.view(step..step + 1).unwrap();
        executions.push(scope.evaluate([op::copy(&last, &next), op::fill(mark, 100)]).unwrap());
        last = next;
    }
    rig.probe.release_all();
    executions.last().unwrap().wait().unwrap();
    let values = last.read().unwrap();
    assert_eq!((&values[..20], &values[20..]), (&[100; 20][..], &[1; 44][..]));
    // Sooner submitted on one queue is sooner complete.
    for execution in executions {
        execution.wait_timeout(Duration::ZERO).unwrap();
    }
}

/// Several sequences that only read one tensor are in flight together.
fn reads_need_no_wait(bed: &Bed) {
    let (rig, scope, tensor) = open(bed);
    rig.probe.log_on();
    rig.probe.hold();
    let reads: Vec<_> = (0..4)
        .map(|_| {
            let copy = scope.tensor::<u32>(64).unwrap();
            (scope.evaluate([op::copy(&tensor, &copy)]).unwrap(), copy)
        })
        .collect();
    let expected: Vec<_> = (1..=4).map(|point| format!("point {point} of queue 0")).collect();
    assert_eq!(submissions(&rig.probe), expected, "no submission waits for another");
    rig.probe.release_all();
    for (execution, copy) in reads {
        execution.wait().unwrap();
        assert_eq!(copy.read().unwrap(), [1; 64]);
    }
}

/// Each submission to a queue is its next point, whichever scope it is of; a refused one takes none.
fn points_rise_by_one(bed: &Bed) {
    let (rig, scope, tensor) = open(bed);
    let other = rig.manager.scope("other").unwrap();
    let gone = scope.tensor::<u32>(64).unwrap();
    let stale = scope.sequence().unwrap();
    stale.record(op::fill(&gone, 1)).unwrap();
    gone.destroy().unwrap();
    for value in 1..=10_u64 {
        stale.evaluate().unwrap_err();
        let scope = if value % 3 == 0 { &other } else { &scope };
        let execution = scope.evaluate([op::fill(&tensor, 1)]).unwrap();
        assert_eq!((execution.point().queue, execution.point().value), (FIRST, value));
    }
    assert_eq!(rig.probe.submitted(FIRST), 10);
    assert_eq!(scope.finish_blocking().unwrap().executions, 7);
    assert_eq!(other.finish_blocking().unwrap().executions, 3);
}

/// A scope on a queue that the device does not have is refused, by option and number.
fn no_such_queue(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let beyond = QueueId(manager.capabilities().queues);
    let parent = manager.scope("parent").unwrap();
    for queue in [beyond, QueueId(u32::MAX)] {
        let options = || ScopeOptions::builder().label("s").queue(queue).build();
        for refused in [manager.scope_with(options()), parent.scope_with(options())] {
            let Err(Error::InvalidOption { option, problem }) = refused else { panic!("{refused:?}") };
            assert!(option == "queue" && problem.contains(&queue.to_string()), "{option}: {problem}");
        }
    }
}

/// A read on another queue waits on the device for the write, and not on the host.
fn another_queue_waits(bed: &Bed) {
    let (rig, scope, tensor) = open(bed);
    let other = scope_on(&rig.manager, SECOND);
    let copy = other.tensor::<u32>(64).unwrap();
    for value in 0..100 {
        scope.evaluate([op::fill(&tensor, value)]).unwrap();
        other.evaluate([op::copy(&tensor, &copy)]).unwrap().wait().unwrap();
        assert_eq!(copy.read().unwrap(), [value; 64]);
    }
}

/// Across queues a read waits for the write before it, a write for the write before it, and a write for the reads before
/// it: for those points and no others.
fn hazards_wait_on_the_device(bed: &Bed) {
    let (rig, scope, tensor) = open(bed);
    let second = scope_on(&rig.manager, SECOND);
    let [idle, first_copy] = [scope.tensor::<u32>(64).unwrap(), scope.tensor::<u32>(64).unwrap()];
    let copy = second.tensor::<u32>(64).unwrap();
    rig.probe.log_on();
    rig.probe.hold();
    let evaluate = |scope: &ManagedScope, operation| scope.evaluate([operation]).unwrap();
    let executions = [
        evaluate(&scope, op::fill(&idle, 0)),
        evaluate(&scope, op::fill(&tensor, 2)),
        // A read after the write.
        evaluate(&second, op::copy(&tensor, &copy)),
        // A write after the write.
        evaluate(&second, op::fill(&tensor, 3)),
        // A read after that, here, and a write after the read, there.
        evaluate(&scope, op::copy(&tensor, &first_copy)),
        evaluate(&second, op::fill(&tensor, 4)),
    ];
    let lines = submissions(&rig.probe);
    assert_eq!(lines[0], "point 1 of queue 0");
    assert_eq!(lines[1], "point 2 of queue 0");
    assert_eq!(lines[2], "point 1 of queue 1 after 2");
    assert_eq!(waits(&lines[3]), [1, 2], "the write, and its own queue's read");
    assert_eq!(lines[4], "point 3 of queue 0 after 2");
    assert_eq!(waits(&lines[5]), [2, 3], "its own queue's write, and the other's read");
    rig.probe.release_all();
    for execution in executions {
        execution.wait().unwrap();
    }
    assert_eq!((copy.read().unwrap(), first_copy.read().unwrap()), (vec![2; 64], vec![3; 64]));
    assert_eq!(tensor.read().unwrap(), [4; 64]);
}

/// The points that a submission of the log waits for, in rising order.
fn waits(submission: &str) -> Vec<u64> {
    let Some((_, waits)) = submission.split_once(" after ") else { return Vec::new() };
    let mut waits: Vec<u64> = waits.split(", ").map(|wait| wait.parse().unwrap()).collect();
    waits.sort_unstable();
    waits
}

/// Reads of one tensor on two queues do not wait for each other, nor for work that has nothing to do with it.
fn reads_wait_for_nothing(bed: &Bed) {
    let (rig, scope, tensor) = open(bed);
    let scopes = [scope, scope_on(&rig.manager, SECOND)];
    let copies = scopes.each_ref().map(|scope| scope.tensor::<u32>(64).unwrap());
    let idle = scopes.each_ref().map(|scope| scope.tensor::<u32>(64).unwrap());
    rig.probe.log_on();
    rig.probe.hold();
    let mut executions = Vec::new();
    for (at, scope) in scopes.iter().enumerate() {
        executions.push(scope.evaluate([op::fill(&idle[at], 0)]).unwrap());
        executions.push(scope.evaluate([op::copy(&tensor, &copies[at])]).unwrap());
    }
    let expected = ["point 1 of queue 0", "point 2 of queue 0", "point 1 of queue 1", "point 2 of queue 1"];
    assert_eq!(submissions(&rig.probe), expected);
    rig.probe.release_all();
    for execution in executions {
        execution.wait().unwrap();
    }
    for copy in copies {
        assert_eq!(copy.read().unwrap(), [1; 64]);
    }
}

/// One tensor is written on one queue, two copies of it are changed on two queues, and both come together on the second:
/// the same four sequences, evaluated again and again with no wait between them.
fn a_diamond_across_queues(bed: &Bed) {
    let (rig, scope, top) = open(bed);
    let second = scope_on(&rig.manager, SECOND);
    let [left, right, bottom] = [(); 3].map(|()| rig.manager.tensor::<u32>(64).unwrap());
    let counter = rig.manager.tensor_from("counter", &[0_u32; 64]).unwrap();
    let lower = scope.named("lower left").unwrap();
    lower.record(op::copy(&top, &left)).unwrap();
    lower.record(op::fill(left.view(0..8).unwrap(), 100)).unwrap();
    let other = second.named("lower right").unwrap();
    other.record(op::copy(&top, &right)).unwrap();
    other.record(op::fill(right.view(0..8).unwrap(), 200)).unwrap();
    let join = second.named("join").unwrap();
    for (source, range) in [(&left, 0..32), (&right, 32..64)] {
        let from = source.view(0..32).unwrap();
        join.record(op::copy(from, bottom.view(range).unwrap())).unwrap();
    }
    let (download, values) = op::download(&bottom);
    join.record(download).unwrap().record(op::copy(&bottom, &counter)).unwrap();
    for value in 1..=50_u32 {
        scope.evaluate([op::fill(&top, value)]).unwrap();
        lower.evaluate().unwrap();
        other.evaluate().unwrap();
        join.evaluate().unwrap().wait().unwrap();
        let mut expected = vec![value; 64];
        expected[0..8].fill(100);
        expected[32..40].fill(200);
        assert_eq!(values.get().unwrap(), expected);
        // What is still running is busy: each has to be over before the next round.
        settled(&rig.manager);
    }
    assert_eq!(counter.read().unwrap()[63], 50);
}

/// One queue is held back; work on the other that has nothing to do with it completes, and so do its scope and memory.
fn queues_retire_on_their_own(bed: &Bed) {
    let (rig, scope, tensor) = open(bed);
    let second = scope_on(&rig.manager, SECOND);
    rig.probe.hold_queue(FIRST);
    let held = scope.named("held").unwrap();
    held.record(op::fill(&tensor, 2)).unwrap();
    let execution = held.evaluate().unwrap();
    let other = second.tensor::<u32>(64).unwrap();
    for value in 0..10 {
        second.evaluate([op::fill(&other, value)]).unwrap().wait().unwrap();
        assert_eq!(other.read().unwrap(), [value; 64]);
    }
    assert_eq!(second.finish_blocking().unwrap().executions, 10);
    assert_eq!(held.state(), SequenceState::Running);
    let waited = execution.wait_timeout(Duration::from_millis(1));
    assert!(matches!(waited, Err(Error::TimedOut { .. })), "{waited:?}");
    rig.probe.release_all();
    execution.wait().unwrap();
}

/// A scope works on the queue of the one that it was opened in, unless it asks for another.
fn a_child_inherits_its_queue(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let parent = scope_on(&manager, SECOND);
    let child = parent.scope("child").unwrap();
    let asking = parent.scope_with(ScopeOptions::builder().label("asking").queue(FIRST).build()).unwrap();
    let tensor = manager.tensor::<u32>(64).unwrap();
    for (scope, queue) in [(&parent, SECOND), (&child, SECOND), (&asking, FIRST)] {
        let execution = scope.evaluate([op::fill(&tensor, 1)]).unwrap();
        assert_eq!(execution.point().queue, queue);
        execution.wait().unwrap();
    }
}
