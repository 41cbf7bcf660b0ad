//! Cases C25 and C26: handles that are dropped in any order, by any thread, and two devices side by side.
//!
//! Not here: which context a driver call needs; that is a backend's business and its own tests'.

use std::cell::RefCell;
use std::sync::mpsc;

use tenure_core::{
    Error, ManagedScope, ManagedSequence, Manager, ManagerOptions, Outcome, ResourceKind, Tensor, hook, op,
};

use super::support::{Count, DRIVER_WORK, MIB, WATCHDOG, assert_given_back, case, case_with};
use crate::bed::{Bed, Rig};
use crate::case::{Case, FIRST, Requirement};
use crate::instrument::{CallKind, CallSet, ObjectKind, Probe};
use crate::kernels::groups_for;

pub(super) const CASES: &[Case] = &[
    case("field/c25_a_every_order_when_idle", &["L6", "L17"], c25_a_every_order_when_idle),
    case("field/c25_b_every_order_in_flight", &["L6", "L4", "L17"], c25_b_every_order_in_flight),
    case("field/c25_c_destroyed_then_dropped", &["L2", "L6"], c25_c_destroyed_then_dropped),
    case("field/c25_d_a_tensor_outlives_its_manager", &["L6", "L3"], c25_d_a_tensor_outlives_its_manager),
    case("field/c25_e_stale_while_it_closes", &["L6", "L3", "L4"], c25_e_stale_while_it_closes),
    case("field/c26_a_devices_are_apart", &["L19", "L21"], c26_a_devices_are_apart),
    case("field/c26_b_dropped_by_other_threads", &["L2", "L4"], c26_b_dropped_by_other_threads),
    case("field/c26_c_dropped_as_a_thread_ends", &["L6", "L17"], c26_c_dropped_as_a_thread_ends),
    case("field/c26_d_foreign_tensors_are_refused", &["L3"], c26_d_foreign_tensors_are_refused),
    case_with(
        "field/c26_d_foreign_kernels_are_refused",
        &["L3"],
        &[Requirement::Kernels],
        c26_d_foreign_kernels_are_refused,
    ),
    case("field/c26_e_finished_by_another_thread", &["L10", "L11"], c26_e_finished_by_another_thread),
];

/// One handle of each kind.
enum Handle {
    Manager(Manager),
    Tensor(Tensor<u32>),
    Sequence(ManagedSequence),
    Scope(ManagedScope),
}

impl Handle {
    fn drop_it(self) {
        match self {
            Handle::Manager(manager) => drop(manager),
            Handle::Tensor(tensor) => drop(tensor),
            Handle::Sequence(sequence) => drop(sequence),
            Handle::Scope(scope) => drop(scope),
        }
    }
}

/// The 24 orders of four things.
fn orders() -> Vec<[usize; 4]> {
    let mut orders = Vec::new();
    for a in 0..4 {
        for b in (0..4).filter(|b| *b != a) {
            for c in (0..4).filter(|c| *c != a && *c != b) {
                orders.push([a, b, c, 6 - a - b - c]);
            }
        }
    }
    assert_eq!(orders.len(), 24);
    orders
}

/// Drops manager, tensor, sequence and scope in every order, with or without work in flight, with the tensor the
/// scope's or the manager's, and with the sequence named or not.
fn drop_in_every_order(bed: &Bed, in_flight: bool) {
    for (number, order) in orders().into_iter().enumerate() {
        let Rig { manager, probe } = bed.open();
        let hooks = Count::default();
        let scope = manager.scope("s").unwrap();
        scope.register(hooks.each("each")).unwrap();
        scope.register(hooks.once("once")).unwrap();
        let tensor =
            if number % 2 == 0 { scope.tensor::<u32>(64).unwrap() } else { manager.tensor(64).unwrap() };
        let sequence = if number % 3 == 0 { scope.named("fill") } else { scope.sequence() }.unwrap();
        sequence.record(op::fill(&tensor, 1)).unwrap();
        sequence.run().unwrap();
        if in_flight {
            probe.hold();
            sequence.evaluate().unwrap();
        }
        let mut handles = [
            Some(Handle::Manager(manager)),
            Some(Handle::Tensor(tensor)),
            Some(Handle::Sequence(sequence)),
            Some(Handle::Scope(scope)),
        ];
        for at in order {
            handles[at].take().unwrap().drop_it();
        }
        if in_flight {
            assert_eq!(probe.calls(CallKind::Free | CallKind::Recycle | CallKind::Shutdown), 0, "{order:?}");
            probe.release_all();
        }
        assert!(probe.wait_shutdown(WATCHDOG), "{order:?}");
        assert_eq!(hooks.get(), 2 + u64::from(in_flight), "{order:?}");
        for kind in ObjectKind::ALL {
            assert!(probe.lifetimes(kind).is_balanced(), "{order:?}: {kind}");
        }
    }
}

/// Any order is legal when the device is idle (gfx-rs/wgpu#5529, for all of C25).
fn c25_a_every_order_when_idle(bed: &Bed) {
    drop_in_every_order(bed, false);
}

/// Any order is legal while the device works.
fn c25_b_every_order_in_flight(bed: &Bed) {
    drop_in_every_order(bed, true);
}

/// Destroying explicitly, twice, and dropping afterwards: the second is nothing, and each object goes once.
fn c25_c_destroyed_then_dropped(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let scope = manager.scope("s").unwrap();
    let tensor = scope.tensor::<u8>(MIB).unwrap();
    let sequence = scope.named("fill").unwrap();
    sequence.record(op::fill(tensor.view(0..64).unwrap(), 1)).unwrap();
    sequence.run().unwrap();
    let copies = (tensor.clone(), sequence.clone());
    for _ in 0..2 {
        tensor.destroy().unwrap();
        sequence.destroy().unwrap();
    }
    copies.0.destroy().unwrap();
    copies.1.destroy().unwrap();
    drop((tensor, sequence, copies));
    scope.finish_blocking().unwrap();
    let first = manager.close().unwrap();
    assert!(first.is_clean(), "{first}");
    assert_eq!(manager.close().unwrap().memory, first.memory);
    assert_eq!((probe.calls(CallKind::Free), probe.calls(CallKind::Shutdown)), (1, 1));
}

/// Asserts that the tensor is stale because its manager has closed.
#[track_caller]
fn assert_stale<T: std::fmt::Debug>(answer: Result<T, Error>) {
    assert!(matches!(answer, Err(Error::Stale { kind: ResourceKind::Tensor, .. })), "{answer:?}");
}

/// A function returns a tensor and drops the manager that it made: the tensor is stale, and drops silently.
fn c25_d_a_tensor_outlives_its_manager(bed: &Bed) {
    fn weights(bed: &Bed) -> (Tensor<u32>, Probe) {
        let Rig { manager, probe } = bed.open();
        let tensor = manager.tensor_from("weights", &[1; 64]).unwrap();
        manager.run("warm up", |scope| scope.evaluate([op::fill(&tensor, 2)])?.wait()).unwrap();
        (tensor, probe)
    }
    let (tensor, probe) = weights(bed);
    assert!(probe.wait_shutdown(WATCHDOG));
    let calls = probe.calls(CallSet::ALL);
    assert_stale(tensor.read());
    assert_stale(tensor.write(&[0; 64]));
    assert_stale(tensor.view(0..1));
    assert_stale(tensor.promote());
    assert_stale(pollster::block_on(tensor.read_async()));
    assert_eq!((tensor.is_live(), tensor.label(), tensor.len()), (false, "weights", 64));
    tensor.destroy().unwrap();
    drop(tensor);
    assert_eq!(probe.calls(CallSet::ALL), calls, "a device that is gone is left alone");
}

/// The manager is dropped with work in flight and closes in the background: meanwhile a handle that outlives it answers
/// `Stale` already, and calls no driver.
fn c25_e_stale_while_it_closes(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let scope = manager.scope("s").unwrap();
    let tensor = manager.tensor_from("weights", &[1_u32; 64]).unwrap();
    let idle = manager.tensor_from("idle", &[1_u32; 64]).unwrap();
    probe.hold();
    let execution = scope.evaluate([op::fill(&tensor, 2)]).unwrap();
    drop(manager);
    {
        let _no_driver_work = probe.forbid_here(DRIVER_WORK);
        assert_stale(idle.read());
        assert_stale(tensor.read());
        assert_stale(tensor.write(&[0; 64]));
        assert_stale(pollster::block_on(idle.read_async()));
    }
    probe.release_all();
    execution.wait().unwrap();
    drop(scope);
    assert!(probe.wait_shutdown(WATCHDOG));
}

/// Two managers side by side: what one does, its trims too, is no call on the other's device, and a device that is never
/// used gets no call (pytorch/pytorch#25752).
fn c26_a_devices_are_apart(bed: &Bed) {
    let (busy, idle, unused) = (bed.open(), bed.open(), bed.open());
    let kept = idle.manager.tensor_from("kept", &[1_u32; 64]).unwrap();
    let before = idle.probe.calls(CallSet::ALL);
    for _ in 0..10 {
        let scope = busy.manager.scope("s").unwrap();
        let tensor = scope.tensor::<u8>(MIB).unwrap();
        scope.evaluate([op::fill(tensor.view(0..64).unwrap(), 1)]).unwrap().wait().unwrap();
        scope.finish_blocking().unwrap();
        busy.manager.trim().unwrap();
    }
    assert_eq!(idle.probe.calls(CallSet::ALL), before);
    assert_eq!(kept.read().unwrap(), [1; 64]);
    drop(kept);
    idle.manager.trim().unwrap();
    assert_eq!(unused.manager.memory().reserved.bytes, 0);
    unused.manager.wait_idle().unwrap();
    drop(unused.manager.scope("nothing in it").unwrap());
    let asked = CallSet::ALL.without(CallKind::Info | CallKind::Capabilities);
    // Finishing the scope trims; that is all, and it makes nothing.
    assert_eq!(unused.probe.calls(asked.without(CallKind::Trim.into())), 0);
    for rig in [busy, idle, unused] {
        assert_given_back(&rig.manager);
    }
}

/// Tensors of two managers, in flight, are dropped by fresh threads and by a pool of threads.
fn c26_b_dropped_by_other_threads(bed: &Bed) {
    let rigs = [bed.open(), bed.open()];
    for round in 0..10 {
        let (send, receive) = mpsc::channel::<Tensor<u32>>();
        let receive = parking_lot::Mutex::new(receive);
        let scopes: Vec<_> = rigs.iter().map(|rig| rig.manager.scope("s").unwrap()).collect();
        std::thread::scope(|threads| {
            for _ in 0..3 {
                threads.spawn(|| {
                    loop {
                        let next = receive.lock().recv();
                        match next {
                            Ok(tensor) => drop(tensor),
                            Err(_) => return,
                        }
                    }
                });
            }
            for at in 0..20 {
                let (rig, scope) = (&rigs[at % 2], &scopes[at % 2]);
                let tensor = rig.manager.tensor::<u32>(64).unwrap();
                scope.evaluate([op::fill(&tensor, at as u32)]).unwrap();
                if (at + round) % 5 == 0 {
                    threads.spawn(move || drop(tensor));
                } else {
                    send.send(tensor).unwrap();
                }
            }
            drop(send);
        });
        scopes.into_iter().for_each(|scope| drop(scope.finish_blocking().unwrap()));
        assert!(rigs.iter().all(|rig| rig.manager.memory().tensors == 0));
    }
    rigs.iter().for_each(|rig| assert_given_back(&rig.manager));
}

thread_local! {
    /// What a thread still has when it ends.
    static LAST: RefCell<Vec<Handle>> = const { RefCell::new(Vec::new()) };
}

/// Handles of all kinds, the manager's own among them, are dropped by the destructor of a thread's locals, with tenure's
/// threads and without.
fn c26_c_dropped_as_a_thread_ends(bed: &Bed) {
    for with_threads in [true, false] {
        for manager_first in [true, false] {
            let Rig { manager, probe } =
                bed.open_with(ManagerOptions::builder().threads(with_threads).build());
            let hooks = Count::default();
            let once = hooks.once("once");
            let ending = std::thread::spawn(move || {
                LAST.with_borrow_mut(|last| {
                    let scope = manager.scope("s").unwrap();
                    scope.register(once).unwrap();
                    let tensor = scope.tensor::<u32>(64).unwrap();
                    let sequence = scope.named("fill").unwrap();
                    sequence.record(op::fill(&tensor, 1)).unwrap();
                    sequence.run().unwrap();
                    last.push(Handle::Tensor(tensor));
                    last.push(Handle::Sequence(sequence));
                    last.push(Handle::Scope(scope));
                    let at = if manager_first { 0 } else { last.len() };
                    last.insert(at, Handle::Manager(manager));
                });
            });
            ending.join().unwrap();
            assert!(probe.wait_shutdown(WATCHDOG));
            assert_eq!(hooks.get(), 1);
        }
    }
}

/// A tensor of another manager is refused when it is recorded, by name, and nothing reaches either device.
fn c26_d_foreign_tensors_are_refused(bed: &Bed) {
    let here = bed.open_with(ManagerOptions::builder().label("here").build());
    let there = bed.open_with(ManagerOptions::builder().label("there").build());
    let scope = here.manager.scope("s").unwrap();
    let own = scope.tensor::<u32>(64).unwrap();
    let foreign = there.manager.tensor_from("foreign", &[1_u32; 64]).unwrap();
    let sequence = scope.sequence().unwrap();
    for operation in [op::fill(&foreign, 1), op::copy(&foreign, &own), op::copy(&own, &foreign)] {
        match sequence.record(operation).map(|_| ()) {
            Err(Error::ForeignManager { kind, label, owner, manager }) => {
                assert_eq!((kind, &*label), (ResourceKind::Tensor, "foreign"));
                assert_eq!((&*owner, &*manager), ("there", "here"));
            }
            other => panic!("a foreign tensor was recorded: {other:?}"),
        }
    }
    assert!(sequence.is_empty());
    assert_eq!((here.probe.submitted(FIRST), there.probe.submitted(FIRST)), (0, 0));
    assert_eq!(foreign.read().unwrap(), [1; 64]);
    scope.finish_blocking().unwrap();
    drop((own, foreign));
    assert_given_back(&here.manager);
    assert_given_back(&there.manager);
}

/// So is a kernel of another manager.
fn c26_d_foreign_kernels_are_refused(bed: &Bed) {
    let (here, there) = (bed.open(), bed.open());
    let scope = here.manager.scope("s").unwrap();
    let tensor = scope.tensor::<u32>(64).unwrap();
    let foreign = there.manager.kernel(&bed.kernels().increment).unwrap();
    let dispatch = op::dispatch(&foreign).bind(&tensor).groups(groups_for(64));
    let refused = scope.evaluate([dispatch]).unwrap_err();
    assert!(matches!(refused, Error::ForeignManager { kind: ResourceKind::Kernel, .. }), "{refused}");
    scope.finish_blocking().unwrap();
}

/// A scope is opened by one thread, used by a second and finished by a third: the hooks run on the one that finishes,
/// each once.
fn c26_e_finished_by_another_thread(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let (send, finished_on) = mpsc::channel();
    let hooks = Count::default();
    let scope = std::thread::scope(|threads| {
        let open = threads.spawn(|| {
            let scope = manager.scope("s").unwrap();
            scope.register(hooks.once("once")).unwrap();
            scope
                .register(hook::once("thread", move |_| {
                    send.send(std::thread::current().id())?;
                    Ok(())
                }))
                .unwrap();
            scope
        });
        open.join().unwrap()
    });
    std::thread::scope(|threads| {
        threads.spawn(|| {
            let tensor = scope.tensor::<u32>(64).unwrap();
            scope.evaluate([op::fill(&tensor, 1)]).unwrap();
        });
    });
    let (thread, report) = std::thread::scope(|threads| {
        let finish = threads.spawn(|| (std::thread::current().id(), scope.finish_blocking().unwrap()));
        finish.join().unwrap()
    });
    assert_eq!(finished_on.recv(), Ok(thread));
    assert_eq!((report.outcome, report.executions, hooks.get()), (Outcome::Completed, 1, 1));
    drop(scope);
    assert_given_back(&manager);
}
