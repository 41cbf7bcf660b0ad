//! Cases about running out of memory: what is tried, in which order and how often, and what the error says (L20).
//!
//! Not here: the user's callback (`callback.rs`), and limits of the device (`limits.rs`).

use std::time::Duration;

use tenure_core::{
    BackendErrorKind, Error, EventKind, Execution, ExecutionStatus, Manager, ManagerOptions, Tensor,
    TensorOptions, TrimPolicy, op,
};

use super::out_of_memory;
use crate::bed::{Bed, Rig};
use crate::cases::ownership::support::{
    MIB, WATCHDOG, assert_given_back, given_back, mebibytes, settled, untrimmed, untrimmed_threadless,
};
use crate::instrument::{CallKind, Limits, ObjectKind, Probe};

/// A driver that is full of cached blocks of other sizes: one trim, one retry, and it fits. What cannot fit is an
/// error with the figures.
pub(super) fn room_in_the_cache_is_found(bed: &Bed) {
    let limits = Limits { capacity_bytes: Some(8 * MIB), ..Limits::default() };
    let rig = bed.open_limited(limits, untrimmed());
    for mib in [1, 2, 4] {
        drop(rig.manager.tensor::<u8>(mib * MIB).unwrap());
    }
    let tensor = rig.manager.tensor::<u8>(6 * MIB).unwrap();
    let memory = rig.manager.memory();
    assert_eq!((memory.retries, memory.failed_allocations), (1, 0));
    let too_much = rig.manager.tensor::<u8>(6 * MIB);
    assert!(matches!(&too_much, Err(Error::OutOfMemory(figures)) if figures.requested == 6 * MIB));
    assert_eq!(rig.manager.memory().failed_allocations, 1);
    assert!(tensor.is_live());
    assert!(rig.probe.calls(CallKind::Free) >= 3);
}

/// A driver that is out of memory is asked twice for one request, with one trim in between, and not again.
pub(super) fn the_driver_is_asked_twice(bed: &Bed) {
    let Rig { manager, probe } = bed.open_with(untrimmed());
    probe.fail_always(CallKind::Allocate, BackendErrorKind::OutOfMemory);
    for request in 1..=3 {
        let error = out_of_memory(manager.tensor::<u8>(MIB));
        assert_eq!(error.driver.as_ref().map(|error| error.kind), Some(BackendErrorKind::OutOfMemory));
        let memory = settled(&manager);
        assert_eq!(probe.calls(CallKind::Allocate), 2 * request);
        assert_eq!((memory.retries, memory.trims, memory.failed_allocations), (request, request, request));
        assert_eq!((memory.reserved.bytes, memory.allocations, memory.tensors), (0, 0, 0));
    }
    probe.clear_faults();
    drop(manager.tensor::<u8>(MIB).unwrap());
    assert_given_back(&manager);
}

/// The driver is out of memory once: the retry succeeds, and nobody is told.
pub(super) fn one_refusal_is_recovered(bed: &Bed) {
    let Rig { manager, probe } = bed.open_with(untrimmed());
    probe.fail_nth(CallKind::Allocate, 1, BackendErrorKind::OutOfMemory);
    let tensor = manager.tensor_from("data", &vec![1_u8; MIB as usize]).unwrap();
    let memory = settled(&manager);
    assert_eq!((memory.retries, memory.failed_allocations, memory.allocations), (1, 0, 1));
    assert_eq!(tensor.read().unwrap(), vec![1; MIB as usize]);
    assert!(manager.take_errors().is_empty());
    drop(tensor);
    assert_given_back(&manager);
}

/// Any other error of the driver's is final: no retry, no trim, nothing cached is given up for it.
pub(super) fn other_errors_are_not_retried(bed: &Bed) {
    let Rig { manager, probe } = bed.open_with(untrimmed());
    drop(manager.tensor::<u8>(MIB).unwrap());
    probe.fail_nth(CallKind::Allocate, 1, BackendErrorKind::Driver);
    assert!(matches!(manager.tensor::<u8>(4 * MIB), Err(Error::Backend(_))));
    let memory = settled(&manager);
    assert_eq!((memory.retries, memory.trims, memory.failed_allocations), (0, 0, 1));
    assert_eq!((mebibytes(&manager), probe.calls(CallKind::Allocate)), ([0, 0, 1], 2));
    assert_given_back(&manager);
}

/// A request that passes the budget is refused without asking the driver for it, after one retry.
pub(super) fn a_budget_is_refused_without_the_driver(bed: &Bed) {
    let options = ManagerOptions::builder().trim(TrimPolicy::Never).budget(4 * MIB).build();
    let Rig { manager, probe } = bed.open_with(options);
    let held = manager.tensor::<u8>(2 * MIB).unwrap();
    let asked = probe.calls(CallKind::Allocate);
    let error = out_of_memory(manager.tensor::<u8>(3 * MIB));
    assert_eq!((error.budget, error.requested, error.live), (Some(4 * MIB), 3 * MIB, 2 * MIB));
    assert!(error.driver.is_none(), "the driver was not asked");
    assert_eq!(probe.calls(CallKind::Allocate), asked);
    assert_eq!(manager.memory().retries, 1);
    let rest = manager.tensor::<u8>(2 * MIB).unwrap();
    assert_eq!(mebibytes(&manager), [4, 0, 0]);
    drop((held, rest));
    assert_given_back(&manager);
    assert_eq!(probe.lifetimes(ObjectKind::Block).peak_bytes, 4 * MIB);
}

/// A tensor of `mib` mebibytes that was destroyed while the device is busy with it, until the probe releases it.
fn retired_in_flight(rig: &Rig, mib: u64) -> Execution {
    let scope = rig.manager.scope("busy").unwrap();
    let tensor = rig.manager.tensor::<u8>(mib * MIB).unwrap();
    rig.probe.hold();
    let execution = scope.evaluate([op::fill(tensor.view(0..64).unwrap(), 1)]).unwrap();
    tensor.destroy().unwrap();
    // It is finished by the next call that does the cleanup thread's work.
    drop(scope);
    execution
}

/// Asks for memory on a thread of its own, and releases what is held once that thread waits for the device.
///
/// The manager has no threads of tenure's: nobody else waits.
pub(super) fn ask_and_release(
    probe: &Probe,
    execution: &Execution,
    ask: impl FnOnce() -> Result<Tensor<u8>, Error> + Send,
) -> Result<Tensor<u8>, Error> {
    let waits = probe.calls(CallKind::WaitAny);
    std::thread::scope(|threads| {
        let asking = threads.spawn(|| {
            let answer = ask();
            if answer.is_err() {
                // It did not wait for the device. This does, so that nobody waits for that in vain.
                let _ = execution.wait_timeout(Duration::from_millis(100));
            }
            answer
        });
        let waiting = probe.wait_calls(CallKind::WaitAny, waits + 1, WATCHDOG);
        probe.release_all();
        let answer = asking.join().unwrap();
        assert!(waiting, "whoever asks waits for the device");
        answer
    })
}

/// Asserts that 4 MiB are had beside 6 MiB that the device still uses, by waiting for those, once.
fn waits_for_pending_frees(rig: &Rig) {
    let Rig { manager, probe } = rig;
    let execution = retired_in_flight(rig, 6);
    assert_eq!(mebibytes(manager), [0, 6, 0]);
    let tensor = ask_and_release(probe, &execution, || manager.tensor::<u8>(4 * MIB)).unwrap();
    let memory = settled(manager);
    assert_eq!((memory.retries, memory.failed_allocations), (1, 0));
    assert_eq!((mebibytes(manager), probe.calls(CallKind::Free)), ([4, 0, 0], 1));
    execution.wait().unwrap();
    drop(tensor);
    end(manager);
}

/// Does what the cleanup thread would do, and checks that everything is given back.
fn end(manager: &Manager) {
    manager.wait_idle().unwrap();
    manager.poll().unwrap();
    assert_given_back(manager);
}

fn threadless_with_budget(bytes: u64) -> ManagerOptions {
    ManagerOptions::builder().trim(TrimPolicy::Never).threads(false).budget(bytes).build()
}

/// There is no room in the budget, and there is when the device has finished: the request waits for that.
pub(super) fn pending_frees_of_the_budget_are_waited_for(bed: &Bed) {
    waits_for_pending_frees(&bed.open_with(threadless_with_budget(8 * MIB)));
}

/// The driver has no room, and has when the device has finished: the request waits for that.
pub(super) fn pending_frees_of_the_driver_are_waited_for(bed: &Bed) {
    let limits = Limits { capacity_bytes: Some(8 * MIB), ..Limits::default() };
    waits_for_pending_frees(&bed.open_limited(limits, untrimmed_threadless()));
}

/// The same where there is a budget, and the driver has less than that.
pub(super) fn a_driver_below_the_budget_is_waited_for(bed: &Bed) {
    let limits = Limits { capacity_bytes: Some(8 * MIB), ..Limits::default() };
    waits_for_pending_frees(&bed.open_limited(limits, threadless_with_budget(64 * MIB)));
}

/// All handles of a tensor are gone and only work that runs holds it: that is a pending free too, and is waited for,
/// under a budget and with a driver that is full.
pub(super) fn what_only_running_work_holds_is_waited_for(bed: &Bed) {
    let full = Limits { capacity_bytes: Some(8 * MIB), ..Limits::default() };
    let beds = [(Limits::default(), threadless_with_budget(8 * MIB)), (full, untrimmed_threadless())];
    for (limits, options) in beds {
        let Rig { manager, probe } = bed.open_limited(limits, options);
        let scope = manager.scope("busy").unwrap();
        let tensor = manager.tensor::<u8>(6 * MIB).unwrap();
        probe.hold();
        let execution = scope.evaluate([op::fill(tensor.view(0..64).unwrap(), 1)]).unwrap();
        drop(tensor);
        let other = ask_and_release(&probe, &execution, || manager.tensor::<u8>(4 * MIB)).unwrap();
        let memory = settled(&manager);
        assert_eq!((memory.retries, memory.failed_allocations), (1, 0));
        execution.wait().unwrap();
        scope.finish_blocking().unwrap();
        drop(other);
        assert_given_back(&manager);
    }
}

/// What the device still uses would not make it fit: the request fails at once, and waits for nothing.
pub(super) fn no_wait_where_it_would_not_help(bed: &Bed) {
    let rig = bed.open_with(threadless_with_budget(8 * MIB));
    let Rig { manager, probe } = &rig;
    let held = manager.tensor::<u8>(5 * MIB).unwrap();
    let execution = retired_in_flight(&rig, 1);
    {
        let _no_wait = probe.forbid_here(CallKind::WaitAny);
        let error = out_of_memory(manager.tensor::<u8>(4 * MIB));
        assert_eq!((error.live, error.retired, error.cached), (5 * MIB, MIB, 0));
    }
    assert_eq!((mebibytes(manager), given_back(probe)), ([5, 1, 0], 0));
    probe.release_all();
    execution.wait().unwrap();
    drop(held);
    end(manager);
}

/// What the device has finished with is taken before anything is waited for or trimmed: a block of the right size, by
/// the retry, though nobody has looked at the queue since.
pub(super) fn what_has_retired_is_taken_first(bed: &Bed) {
    let rig = bed.open_with(threadless_with_budget(8 * MIB));
    let Rig { manager, probe } = &rig;
    let execution = retired_in_flight(&rig, 6);
    drop(manager.tensor::<u8>(MIB).unwrap());
    probe.release_all();
    probe.settle();
    let asked = probe.calls(CallKind::Allocate);
    let tensor = manager.tensor::<u8>(6 * MIB).unwrap();
    let memory = settled(manager);
    assert_eq!((memory.retries, memory.trims, memory.failed_allocations), (1, 0, 0));
    assert_eq!((mebibytes(manager), probe.calls(CallKind::Allocate)), ([6, 0, 1], asked));
    execution.wait().unwrap();
    drop(tensor);
    end(manager);
}

/// There is no room, but memory of the right size that the device still uses for a tensor that is gone: the new one has it
/// at once, nobody waits, and what is done with it comes after that on the device.
pub(super) fn what_is_in_flight_is_taken_over(bed: &Bed) {
    let rig = bed.open_with(threadless_with_budget(8 * MIB));
    let Rig { manager, probe } = &rig;
    let log = manager.record_events();
    let execution = retired_in_flight(&rig, 6);
    let asked = probe.calls(CallKind::Allocate);
    let tensor = {
        let _no_wait = probe.forbid_here(CallKind::WaitAny | CallKind::Allocate);
        manager.tensor::<u8>(6 * MIB).unwrap()
    };
    assert_eq!((mebibytes(manager), probe.calls(CallKind::Allocate)), ([6, 0, 0], asked));
    let reclaimed = || {
        let events = log.events();
        events.iter().filter(|event| matches!(event.kind, EventKind::Reclaim { .. })).count()
    };
    assert_eq!(reclaimed(), 0, "the device has not finished with the first");
    let scope = manager.scope("next").unwrap();
    let next = scope.evaluate([op::fill(&tensor, 9)]).unwrap();
    assert_eq!((execution.status(), next.status()), (ExecutionStatus::Running, ExecutionStatus::Running));
    probe.release_all();
    next.wait().unwrap();
    assert_eq!(reclaimed(), 1);
    assert_eq!(tensor.read().unwrap(), vec![9; 6 << 20], "the second fill came last");
    execution.wait().unwrap();
    drop(tensor);
    scope.finish_blocking().unwrap();
    end(manager);
}

/// The error names the five largest holders by label, the largest first, with what they asked for. It has the figures
/// of its moment, and says all of that as text.
pub(super) fn the_largest_holders_are_named(bed: &Bed) {
    let options = ManagerOptions::builder().trim(TrimPolicy::Never).budget(32 * MIB).build();
    let manager = bed.open_with(options).manager;
    let scope = manager.scope("s").unwrap();
    let make = |label: &str, bytes: u64| {
        scope.tensor_with::<u8>(TensorOptions::builder().shape([bytes]).label(label).build()).unwrap()
    };
    let sizes = [("two", 2), ("eight", 8), ("one", 1), ("six", 6), ("three", 3), ("four", 4), ("none", 0)];
    let held = sizes.map(|(label, mib)| make(label, mib * MIB));
    let small = make("small", 1000);
    drop(manager.tensor::<u8>(MIB).unwrap());
    let before = settled(&manager);
    let error = out_of_memory(
        scope.tensor_with::<u8>(TensorOptions::builder().shape([16, MIB]).label("too much").build()),
    );
    let named: Vec<(&str, u64)> =
        error.largest.iter().map(|holder| (&*holder.label, holder.bytes / MIB)).collect();
    assert_eq!(named, [("eight", 8), ("six", 6), ("four", 4), ("three", 3), ("two", 2)]);
    assert_eq!((&*error.label, error.requested, error.budget), ("too much", 16 * MIB, Some(32 * MIB)));
    assert_eq!((error.live, error.retired), (before.live.bytes, 0));
    assert!(error.driver.is_none() && error.callback.is_none());
    let text = error.to_string();
    let parts =
        ["`too much`", "16777216", "33554432", "`eight` 8388608", "`six`", "`four`", "`three`", "`two`"];
    for part in parts {
        assert!(text.contains(part), "{part} is not in: {text}");
    }
    assert!(!text.contains("`one`"), "{text}");
    scope.finish_blocking().unwrap();
    drop((held, small));
    assert_given_back(&manager);
}

/// The error owns nothing: what it names goes while it is kept, and it says the same afterwards.
pub(super) fn the_error_owns_no_tensor(bed: &Bed) {
    let options = ManagerOptions::builder().trim(TrimPolicy::Never).budget(4 * MIB).build();
    let manager = bed.open_with(options).manager;
    let scope = manager.scope("s").unwrap();
    let held =
        scope.tensor_with::<u8>(TensorOptions::builder().shape([3 * MIB]).label("held").build()).unwrap();
    let refused = scope.tensor::<u8>(2 * MIB).unwrap_err();
    let before = refused.to_string();
    drop(held);
    assert_eq!(mebibytes(&manager), [0, 0, 3]);
    let all = manager.tensor::<u8>(4 * MIB).unwrap();
    drop(all);
    scope.finish_blocking().unwrap();
    drop(scope);
    assert_given_back(&manager);
    assert!(manager.close().unwrap().is_clean());
    assert_eq!(refused.to_string(), before);
    assert!(before.contains("`held` 3145728"), "{before}");
}
