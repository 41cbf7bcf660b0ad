//! Cases C24 and C29 to C31: many sequences, many executions, many threads; nothing piles up.
//!
//! Not here: a million of them (`tests/growth.rs`), and the end of the process (`tests/process`).

use std::collections::VecDeque;

use tenure_core::{Error, Execution, ManagedScope, Manager, ManagerOptions, Outcome, Tensor, hook, op};

use super::support::{Count, MIB, assert_given_back, case, settled, untrimmed};
use crate::bed::{Bed, Rig};
use crate::case::{Case, FIRST};
use crate::instrument::{CallKind, ObjectKind};
use crate::random::Random;

pub(super) const CASES: &[Case] = &[
    case("field/c24_anonymous_sequences_stay_few", &["L8", "L19"], c24_anonymous_sequences_stay_few),
    case("field/c24_dropped_tensors_stay_few", &["L2", "L19"], c24_dropped_tensors_stay_few),
    case("field/c24_a_wait_for_all_is_for_all", &["L8", "L11", "L18"], c24_a_wait_for_all_is_for_all),
    case("field/c24_a_later_wait_holds_nothing", &["L5", "L18"], c24_a_later_wait_holds_nothing),
    case("field/c29_recorded_and_dropped", &["L5", "L8", "L9", "L11"], c29_recorded_and_dropped),
    case("field/c29_recorded_and_finished", &["L5", "L11"], c29_recorded_and_finished),
    case("field/c29_uploaded_and_dropped", &["L2", "L19"], c29_uploaded_and_dropped),
    case("field/c30_one_pass_retires_all", &["L7", "L8", "L4"], c30_one_pass_retires_all),
    case("field/c30_steady_state", &["L8", "L9"], c30_steady_state),
    case("field/c31_scopes_of_many_threads", &["L10", "L11", "L19"], c31_scopes_of_many_threads),
    case("field/c31_one_finishes_while_another_runs", &["L16", "L4"], c31_one_finishes_while_another_runs),
];

/// Executions in flight at most in the loops.
const IN_FLIGHT: u64 = 16;

/// A hundred thousand anonymous sequences are evaluated and dropped, a few at a time in flight: neither the scope's list
/// nor the driver's objects grow (KomputeProject/kompute#36). Nobody polls or trims.
fn c24_anonymous_sequences_stay_few(bed: &Bed) {
    const COUNT: u64 = 100_000;
    let Rig { manager, probe } = bed.open();
    let scope = manager.scope("s").unwrap();
    let tensor = scope.tensor::<u32>(64).unwrap();
    let hooks = Count::default();
    scope.register(hooks.each("each")).unwrap();
    for at in 0..COUNT {
        let execution = scope.evaluate([op::fill(&tensor, at as u32)]).unwrap();
        if at % IN_FLIGHT == IN_FLIGHT - 1 {
            execution.wait().unwrap();
        }
        if at % 1000 == 999 {
            let listed = scope.anonymous_sequences().len() as u64;
            assert!(listed <= IN_FLIGHT, "{listed} sequences are listed after {at}");
            assert_eq!(manager.memory().tensors, 1);
        }
    }
    assert_eq!(tensor.read().unwrap(), [COUNT as u32 - 1; 64]);
    let sequences = probe.lifetimes(ObjectKind::Sequence);
    assert!(sequences.peak <= IN_FLIGHT, "{} native sequences at a time", sequences.peak);
    assert_eq!((probe.lifetimes(ObjectKind::Block).peak, probe.lifetimes(ObjectKind::Scope).peak), (1, 1));
    let report = scope.finish_blocking().unwrap();
    assert_eq!((report.executions, report.hooks.len()), (COUNT, 1));
    assert_eq!((report.hooks[0].runs, hooks.get()), (COUNT, COUNT));
    assert_given_back(&manager);
}

/// Twenty thousand tensors are made and dropped: they share one block.
fn c24_dropped_tensors_stay_few(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    for _ in 0..20_000 {
        drop(manager.tensor::<u8>(1).unwrap());
    }
    assert_eq!(manager.memory().tensors, 0);
    assert_eq!(probe.lifetimes(ObjectKind::Block).made, 1);
    assert_given_back(&manager);
}

/// Two anonymous sequences in flight and one wait for everything: both have completed, and both have had their hooks
/// when the scope has finished.
fn c24_a_wait_for_all_is_for_all(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let scope = manager.scope("s").unwrap();
    let hooks = Count::default();
    scope.register(hooks.each("each")).unwrap();
    let tensors = [scope.tensor::<u32>(64).unwrap(), scope.tensor::<u32>(64).unwrap()];
    probe.hold();
    for (value, tensor) in (1..).zip(&tensors) {
        // The handles of both executions are dropped at once.
        scope.evaluate([op::fill(tensor, value)]).unwrap();
    }
    assert_eq!(scope.anonymous_sequences().len(), 2);
    std::thread::scope(|threads| {
        let idle = threads.spawn(|| manager.wait_idle());
        probe.release_all();
        idle.join().unwrap().unwrap();
    });
    assert!(scope.anonymous_sequences().is_empty());
    assert_eq!(probe.reported(FIRST), 2);
    assert_eq!((tensors[0].read().unwrap(), tensors[1].read().unwrap()), (vec![1; 64], vec![2; 64]));
    scope.finish_blocking().unwrap();
    assert_eq!(hooks.get(), 2);
    drop(tensors);
    assert_given_back(&manager);
}

/// A handle of the newest execution keeps nothing of the older ones, nor of its own once it has retired.
fn c24_a_later_wait_holds_nothing(bed: &Bed) {
    let Rig { manager, probe } = bed.open_with(untrimmed());
    let scope = manager.scope("s").unwrap();
    probe.hold();
    let executions: Vec<Execution> = (0..3)
        .map(|_| {
            let tensor = manager.tensor::<u8>(MIB).unwrap();
            scope.evaluate([op::fill(tensor.view(0..64).unwrap(), 1)]).unwrap()
        })
        .collect();
    let newest = executions.into_iter().next_back().unwrap();
    assert_eq!(settled(&manager).tensors, 3);
    probe.release(FIRST, 2);
    probe.settle();
    let memory = settled(&manager);
    assert_eq!((memory.tensors, memory.live.bytes, memory.cached.bytes), (1, MIB, 2 * MIB));
    probe.release_all();
    newest.wait().unwrap();
    assert_eq!(settled(&manager).tensors, 0);
    scope.finish_blocking().unwrap();
    newest.wait().unwrap();
    assert_given_back(&manager);
}

/// Sequences that are recorded and dropped without an evaluation leave nothing, not even a native sequence
/// (gfx-rs/wgpu#2553).
fn c29_recorded_and_dropped(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let scope = manager.scope("s").unwrap();
    let hooks = Count::default();
    scope.register(hooks.each("each")).unwrap();
    for at in 0..20_000 {
        let tensor = scope.tensor::<u32>(64).unwrap();
        let sequence = scope.sequence().unwrap();
        sequence.record(op::fill(&tensor, at)).unwrap();
        drop(tensor);
        assert_eq!(manager.memory().tensors, 1, "the recording holds it");
        if at % 2 == 0 {
            sequence.reset().unwrap();
            assert_eq!(manager.memory().tensors, 0);
        }
        drop(sequence);
        assert_eq!(manager.memory().tensors, 0);
    }
    assert!(scope.anonymous_sequences().is_empty());
    assert_eq!(
        probe.lifetimes(ObjectKind::Sequence).made,
        0,
        "a recording is core's own until it is evaluated"
    );
    assert_eq!(probe.lifetimes(ObjectKind::Block).peak, 1);
    let report = scope.finish_blocking().unwrap();
    assert_eq!((report.executions, hooks.get()), (0, 0));
    assert_given_back(&manager);
}

/// Sequences that are recorded and left to the finish of their scope, evaluated before or never, leave nothing.
fn c29_recorded_and_finished(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let hooks = Count::default();
    for round in 0..500 {
        let scope = manager.scope("s").unwrap();
        scope.register(hooks.each("each")).unwrap();
        let tensor = scope.tensor::<u32>(64).unwrap();
        let named = scope.named("named").unwrap();
        named.record(op::fill(&tensor, 1)).unwrap();
        let anonymous = scope.sequence().unwrap();
        anonymous.record(op::fill(&tensor, 2)).unwrap();
        if round % 5 == 0 {
            named.evaluate().unwrap();
            anonymous.run().unwrap();
        }
        scope.finish_blocking().unwrap();
        assert!(matches!(named.evaluate(), Err(Error::Stale { .. })));
        assert_eq!(manager.memory().tensors, 0);
    }
    assert_eq!(hooks.get(), 200);
    assert!(probe.lifetimes(ObjectKind::Sequence).peak <= 2);
    assert!(probe.lifetimes(ObjectKind::Scope).peak <= 1);
    assert_given_back(&manager);
}

/// Uploads into tensors that no sequence ever uses leave nothing.
fn c29_uploaded_and_dropped(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    for at in 0..20_000_u32 {
        let tensor = manager.tensor_from("upload", &[at; 64]).unwrap();
        if at % 1000 == 0 {
            assert_eq!(tensor.read().unwrap(), [at; 64]);
        }
    }
    assert_eq!(probe.calls(CallKind::WriteBlock), 20_000, "one copy each");
    let blocks = probe.lifetimes(ObjectKind::Block);
    assert_eq!((blocks.made, blocks.peak), (1, 1));
    assert_given_back(&manager);
}

/// Thousands of executions complete at once: one pass retires them all and takes back what they used
/// (gfx-rs/wgpu#5397).
fn c30_one_pass_retires_all(bed: &Bed) {
    const COUNT: u64 = 5000;
    // Without threads of tenure's: the pass is the one that the case asks for.
    let Rig { manager, probe } = bed.open_with(ManagerOptions::builder().threads(false).build());
    let scope = manager.scope("s").unwrap();
    let tensor = manager.tensor::<u32>(64).unwrap();
    probe.hold();
    for at in 0..COUNT {
        scope.evaluate([op::fill(&tensor, at as u32)]).unwrap();
    }
    tensor.destroy().unwrap();
    assert_eq!(scope.anonymous_sequences().len() as u64, COUNT);
    assert_eq!(manager.poll().unwrap().retired, 0);
    assert_eq!(probe.lifetimes(ObjectKind::Sequence).live(), COUNT);
    probe.settle();
    probe.release_all();
    assert_eq!(manager.poll().unwrap().retired, COUNT);
    assert!(scope.anonymous_sequences().is_empty());
    assert_eq!(probe.lifetimes(ObjectKind::Sequence).live(), 0);
    let memory = manager.memory();
    assert_eq!((memory.retired.bytes, memory.live.bytes), (0, 0));
    drop(tensor);
    assert_eq!(scope.finish_blocking().unwrap().executions, COUNT);
    assert_given_back(&manager);
}

/// A steady stream with three executions in flight needs three native sequences, and nobody has to poll.
fn c30_steady_state(bed: &Bed) {
    const COUNT: u32 = 10_000;
    let Rig { manager, probe } = bed.open();
    let scope = manager.scope("s").unwrap();
    let tensor = scope.tensor::<u32>(64).unwrap();
    let mut in_flight = VecDeque::new();
    for at in 0..COUNT {
        if in_flight.len() == 3 {
            let oldest: Execution = in_flight.pop_front().unwrap();
            oldest.wait().unwrap();
        }
        in_flight.push_back(scope.evaluate([op::fill(&tensor, at)]).unwrap());
    }
    drop(in_flight);
    assert_eq!(tensor.read().unwrap(), [COUNT - 1; 64]);
    let sequences = probe.lifetimes(ObjectKind::Sequence);
    assert!(sequences.peak <= 3, "{} native sequences at a time", sequences.peak);
    assert_eq!(scope.finish_blocking().unwrap().executions, u64::from(COUNT));
    drop(tensor);
    assert_given_back(&manager);
}

/// What one thread's scope reports of itself.
struct Share {
    released: u64,
    executions: u64,
}

/// Scopes of one thread, one after the other, each finding its own data.
fn worker(manager: &Manager, number: u64) -> Share {
    let mut random = Random::new(number + 1);
    let mut share = Share { released: 0, executions: 0 };
    for _ in 0..5 {
        let scope = manager.scope("worker").unwrap();
        let (each, once) = (Count::default(), Count::default());
        scope.register(each.each("each")).unwrap();
        let own = scope.id();
        let seen = once.clone();
        scope
            .register(hook::once("once", move |context| {
                assert_eq!(context.scope().id(), own);
                seen.add();
                Ok(())
            }))
            .unwrap();
        let tensors: Vec<Tensor<u64>> = (0..4).map(|_| scope.tensor(64).unwrap()).collect();
        assert_eq!(scope.live_bytes(), 4 * 512);
        let evaluations = 10 + random.below(30);
        for at in 0..evaluations {
            let [from, to] = [at % 4, (at + 1) % 4].map(|at| &tensors[at as usize]);
            let execution = scope.evaluate([op::fill(from, number * 1000 + at), op::copy(from, to)]).unwrap();
            if random.below(4) == 0 {
                execution.wait().unwrap();
            }
        }
        let last = &tensors[(evaluations % 4) as usize];
        assert_eq!(last.read().unwrap(), [number * 1000 + evaluations - 1; 64]);
        let report = scope.finish_blocking().unwrap();
        assert_eq!((report.outcome, report.released_bytes), (Outcome::Completed, 4 * 512));
        assert_eq!((report.executions, each.get(), once.get()), (evaluations, evaluations, 1));
        share.released += report.released_bytes;
        share.executions += report.executions;
    }
    share
}

/// Eight threads with scopes of their own on one queue: each finds its own data, and each scope releases its own bytes
/// (Noxagonal/Vulkan2DRenderer#40).
fn c31_scopes_of_many_threads(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let shares: Vec<Share> = std::thread::scope(|threads| {
        let manager = &manager;
        let workers: Vec<_> = (0..8).map(|number| threads.spawn(move || worker(manager, number))).collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).collect()
    });
    let executions: u64 = shares.iter().map(|share| share.executions).sum();
    assert_eq!(probe.submitted(FIRST), executions);
    assert_eq!(shares.iter().map(|share| share.released).sum::<u64>(), 8 * 5 * 4 * 512);
    assert_given_back(&manager);
}

/// A scope with one tensor of 1 MiB.
fn with_a_mebibyte(manager: &Manager) -> (ManagedScope, Tensor<u8>) {
    let scope = manager.scope("s").unwrap();
    let tensor = scope.tensor::<u8>(MIB).unwrap();
    scope.evaluate([op::fill(tensor.view(0..64).unwrap(), 1)]).unwrap().wait().unwrap();
    (scope, tensor)
}

/// One scope finishes while another's work is in flight: it releases its own bytes, and the other goes on.
fn c31_one_finishes_while_another_runs(bed: &Bed) {
    let Rig { manager, probe } = bed.open_with(untrimmed());
    let (first, tensor) = with_a_mebibyte(&manager);
    let (second, _other) = with_a_mebibyte(&manager);
    probe.hold();
    let execution = first.evaluate([op::fill(tensor.view(0..64).unwrap(), 2)]).unwrap();
    let report = second.finish_blocking().unwrap();
    assert_eq!((report.released_tensors, report.released_bytes), (1, MIB));
    let memory = settled(&manager);
    assert_eq!((memory.live.bytes, memory.cached.bytes, first.live_bytes()), (MIB, MIB, MIB));
    probe.release_all();
    execution.wait().unwrap();
    assert_eq!(tensor.view(0..64).unwrap().read().unwrap(), [2; 64]);
    assert_eq!(first.finish_blocking().unwrap().released_bytes, MIB);
    assert_given_back(&manager);
}
