//! Threads, part 1: each with work of its own, or one after the other on the same thing.
//!
//! Not here: two calls against each other (`racing.rs`).

use std::sync::mpsc;

use tenure_core::{
    Error, ExecutionStatus, ManagedScope, Outcome, QueueId, ScopeOptions, ScopeReport, Tensor, hook, op,
};

use crate::bed::{Bed, Rig};
use crate::case::{Case, Requirement};
use crate::cases::hooks::support::{Count, MIB, WATCHDOG, case, case_with, receive, threadless};
use crate::cases::sequences::settled;
use crate::instrument::{CallKind, ObjectKind};
use crate::kernels::groups_for;

pub(super) const CASES: &[Case] = &[
    case("threads/eight_threads_eight_scopes_one_manager", &["L4", "L19"], eight_threads),
    case("threads/tensors_die_on_foreign_threads", &["L1", "L2"], tensors_die_elsewhere),
    case("threads/tensors_die_elsewhere_in_flight", &["L1", "L4"], tensors_die_elsewhere_in_flight),
    case("threads/a_scope_finishes_on_another_thread", &["L16"], a_scope_finishes_elsewhere),
    case("threads/scopes_go_round", &["L1", "L16", "L19"], scopes_go_round),
    case("threads/everybody_reads_one_tensor", &["L4", "L7"], everybody_reads_one_tensor),
    case("threads/everybody_waits_until_idle", &["L7", "L19"], everybody_waits_until_idle),
    case("threads/polling_from_several_threads", &["L16", "L11"], polling_from_several_threads),
    case_with(
        "threads/one_kernel_from_many_threads",
        &["L4", "L19"],
        &[Requirement::Kernels],
        one_kernel_from_many_threads,
    ),
    case_with(
        "threads/queues_of_their_own_share_a_tensor",
        &["L4"],
        &[Requirement::Queues(2)],
        queues_share_a_tensor,
    ),
];

/// Each thread gets its own data right, each scope counts and frees its own, and at the end nothing is left.
fn eight_threads(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let reports: Vec<ScopeReport> = std::thread::scope(|threads| {
        let workers: Vec<_> = (0..8_u32)
            .map(|thread| {
                let manager = &manager;
                threads.spawn(move || {
                    let each = Count::default();
                    let scope = manager.scope(format!("thread {thread}")).unwrap();
                    let seen = each.clone();
                    scope
                        .register(hook::each("each", move |_| {
                            seen.add();
                            Ok(())
                        }))
                        .unwrap();
                    let tensor = scope.tensor::<u32>(256 * u64::from(thread + 1)).unwrap();
                    let elements = tensor.len() as usize;
                    for round in 0..100 {
                        let value = thread * 1000 + round;
                        scope.evaluate([op::fill(&tensor, value)]).unwrap().wait().unwrap();
                        if round % 10 == 0 {
                            assert_eq!(tensor.read().unwrap(), vec![value; elements]);
                        }
                    }
                    let report = scope.finish_blocking().unwrap();
                    assert_eq!((report.executions, each.get()), (100, 100));
                    assert_eq!((report.released_tensors, report.released_bytes), (1, tensor.bytes()));
                    report
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).collect()
    });
    // Each has its own figures, and together they are all there were.
    assert_eq!(reports.iter().map(|report| report.released_bytes).sum::<u64>(), 1024 * (1 + 8) * 8 / 2);
    assert_eq!(reports.iter().map(|report| report.executions).sum::<u64>(), probe.calls(CallKind::Submit));
    let memory = settled(&manager);
    assert_eq!((memory.live.bytes, memory.retired.bytes, memory.cached.bytes), (0, 0, 0));
}

/// Handles are sent elsewhere and dropped there, also in a thread's last moments.
fn tensors_die_elsewhere(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    for _ in 0..20 {
        let tensor = manager.tensor::<u8>(MIB).unwrap();
        let clone = tensor.clone();
        let other = std::thread::spawn(move || drop(clone));
        std::thread::spawn(move || drop(tensor)).join().unwrap();
        other.join().unwrap();
        assert_eq!(manager.memory().live.bytes, 0);
    }
    assert_eq!(manager.memory().allocations, 1);
}

/// Handles dropped on threads that never called tenure before, with the device at work on every tensor: nothing is given
/// back under it, all of it after.
fn tensors_die_elsewhere_in_flight(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let scope = manager.scope("s").unwrap();
    let tensors: Vec<Tensor<u8>> = (0..8).map(|_| manager.tensor(MIB).unwrap()).collect();
    probe.hold();
    for tensor in &tensors {
        scope.evaluate([op::fill(tensor, 1)]).unwrap();
    }
    for tensor in tensors {
        std::thread::spawn(move || drop(tensor)).join().unwrap();
    }
    assert_eq!(manager.memory().tensors, 8, "recordings in flight hold them");
    assert_eq!(probe.calls(CallKind::Free), 0);
    probe.release_all();
    let memory = settled(&manager);
    assert_eq!((memory.tensors, memory.live.bytes, memory.retired.bytes), (0, 0, 0));
}

/// Opened here, finished there: the hooks run there, the figures are the same.
fn a_scope_finishes_elsewhere(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let scope = manager.scope("s").unwrap();
    let (tell, told) = mpsc::channel();
    scope.register(hook::once("where", move |_| Ok(tell.send(std::thread::current().id())?))).unwrap();
    let tensor = scope.tensor::<u8>(MIB).unwrap();
    scope.evaluate([op::fill(&tensor, 1)]).unwrap();
    let other = std::thread::spawn(move || {
        let report = scope.finish_blocking().unwrap();
        assert_eq!((report.outcome, report.executions), (Outcome::Completed, 1));
        assert_eq!(report.released_bytes, MIB);
        std::thread::current().id()
    });
    assert_eq!(other.join().unwrap(), receive(&told));
}

/// Scopes are handed from thread to thread, each of which adds one: opened, evaluated and finished on three threads.
fn scopes_go_round(bed: &Bed) {
    const SCOPES: u64 = 50;
    let Rig { manager, .. } = bed.open();
    let (to_second, second) = mpsc::channel::<(ManagedScope, Tensor<u64>, u64)>();
    let (to_third, third) = mpsc::channel::<(ManagedScope, Tensor<u64>, u64)>();
    std::thread::scope(|threads| {
        let opening = &manager;
        threads.spawn(move || {
            for number in 0..SCOPES {
                let scope = opening.scope(format!("scope {number}")).unwrap();
                let tensor = scope.tensor_from("data", &[number; 32]).unwrap();
                to_second.send((scope, tensor, number)).unwrap();
            }
        });
        threads.spawn(move || {
            for (scope, tensor, number) in second {
                let place = tensor.view(0..16).unwrap();
                scope.evaluate([op::fill(place, number + 1000)]).unwrap();
                to_third.send((scope, tensor, number)).unwrap();
            }
        });
        threads.spawn(move || {
            for (scope, tensor, number) in third {
                let values = tensor.read().unwrap();
                assert_eq!((&values[..16], &values[16..]), (&[number + 1000; 16][..], &[number; 16][..]));
                let report = scope.finish_blocking().unwrap();
                assert_eq!((report.executions, report.released_bytes), (1, 256));
            }
        });
    });
    let memory = settled(&manager);
    assert_eq!((memory.tensors, memory.live.bytes, memory.retired.bytes), (0, 0, 0));
}

/// Eight threads read one tensor by every way to read, while another writes it again and again: no read is torn.
fn everybody_reads_one_tensor(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let scope = manager.scope("s").unwrap();
    let tensor = scope.tensor_from("shared", &[0_u32; 4096]).unwrap();
    std::thread::scope(|threads| {
        for thread in 0..8_u32 {
            let tensor = tensor.clone();
            threads.spawn(move || {
                let mut last = 0;
                for round in 0..30 {
                    let values = match (thread + round) % 3 {
                        0 => tensor.read().unwrap(),
                        1 => tensor.read_async().wait().unwrap(),
                        _ => pollster::block_on(tensor.read_async()).unwrap(),
                    };
                    assert!(values.iter().all(|value| *value == values[0]), "a torn read");
                    assert!(values[0] >= last, "what was seen once is not undone");
                    last = values[0];
                }
            });
        }
        for value in 1..=60 {
            scope.evaluate([op::fill(&tensor, value)]).unwrap().wait().unwrap();
        }
    });
    assert_eq!(tensor.read().unwrap(), [60; 4096]);
}

/// Threads wait for the manager to be idle while others submit: whoever returns finds what it submitted itself retired.
fn everybody_waits_until_idle(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    std::thread::scope(|threads| {
        for thread in 0..4_u32 {
            let manager = &manager;
            threads.spawn(move || {
                let scope = manager.scope(format!("thread {thread}")).unwrap();
                let tensor = scope.tensor::<u32>(64).unwrap();
                for value in 0..25 {
                    let executions: Vec<_> =
                        (0..4).map(|_| scope.evaluate([op::fill(&tensor, value)]).unwrap()).collect();
                    if thread % 2 == 0 {
                        manager.wait_idle().unwrap();
                    } else {
                        manager.wait_idle_timeout(WATCHDOG).unwrap();
                    }
                    assert!(executions.iter().all(|it| it.status() == ExecutionStatus::Completed));
                }
                assert_eq!(scope.finish_blocking().unwrap().executions, 100);
            });
        }
    });
}

/// Without threads of tenure's, several threads poll: everything is done once.
fn polling_from_several_threads(bed: &Bed) {
    let Rig { manager, .. } = bed.open_with(threadless());
    let scope = manager.scope("s").unwrap();
    let tensor = scope.tensor::<u32>(4).unwrap();
    let runs = Count::default();
    let seen = runs.clone();
    scope
        .register(hook::each("each", move |_| {
            seen.add();
            Ok(())
        }))
        .unwrap();
    let executions: Vec<_> =
        (0..20).map(|value| scope.evaluate([op::fill(&tensor, value)]).unwrap()).collect();
    std::thread::scope(|threads| {
        for _ in 0..3 {
            threads.spawn(|| {
                // An engine's loop: it polls once a turn until it has what it wants.
                while executions.iter().any(|it| it.status() == ExecutionStatus::Running) {
                    manager.poll().unwrap();
                }
            });
        }
    });
    let report = scope.finish_blocking().unwrap();
    assert_eq!((report.executions, report.hooks[0].runs), (20, 20));
    assert_eq!(runs.get(), 20);
}

/// One handle of a kernel and one source, used by eight threads at once: each compiles or shares, all have their results,
/// and every native kernel goes.
fn one_kernel_from_many_threads(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let shared = manager.kernel(&bed.kernels().increment).unwrap();
    std::thread::scope(|threads| {
        for thread in 0..8_u32 {
            let (manager, shared) = (&manager, shared.clone());
            threads.spawn(move || {
                let own = manager.kernel(&bed.kernels().increment).unwrap();
                let scope = manager.scope(format!("thread {thread}")).unwrap();
                let tensor = scope.tensor_from("data", &[thread; 64]).unwrap();
                for round in 0..20 {
                    let kernel = if round % 2 == 0 { &own } else { &shared };
                    let dispatch = op::dispatch(kernel).bind(&tensor).groups(groups_for(64));
                    scope.evaluate([dispatch]).unwrap();
                }
                drop((own, shared));
                assert_eq!(tensor.read().unwrap(), [thread + 20; 64]);
                scope.finish_blocking().unwrap();
            });
        }
    });
    drop(shared);
    manager.close().unwrap();
    assert_eq!(probe.lifetimes(ObjectKind::Kernel).live(), 0);
}

/// Two threads on queues of their own write and read one tensor: each read sees one write, whole.
fn queues_share_a_tensor(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let shared = manager.tensor_from("shared", &[0_u32; 1024]).unwrap();
    std::thread::scope(|threads| {
        for queue in 0..2_u32 {
            let (manager, shared) = (&manager, &shared);
            threads.spawn(move || -> Result<(), Error> {
                let options = ScopeOptions::builder().label("s").queue(QueueId(queue)).build();
                let scope = manager.scope_with(options)?;
                let copy = scope.tensor::<u32>(1024)?;
                for round in 0..100 {
                    let value = queue * 1000 + round;
                    scope.evaluate([op::fill(shared, value)])?;
                    scope.evaluate([op::copy(shared, &copy)])?.wait()?;
                    let seen = copy.read()?;
                    assert!(seen.iter().all(|other| *other == seen[0]), "a torn read");
                }
                assert_eq!(scope.finish_blocking()?.executions, 200);
                Ok(())
            });
        }
    });
}
