//! What an idle tensor keeps, and who ends what it keeps: tensors that are kept whole for the next one like them (A13)
//! against the ends of scopes and managers.

#![cfg(not(feature = "shuttle"))]

mod support;

use std::collections::HashSet;
use std::error::Error as StdError;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use support::Device;
use tenure_core::{
    AnyTensor, Element, Error, ManagedScope, Manager, ManagerOptions, Tensor, TensorOptions, TrimPolicy,
    hook, op,
};

const BYTES: u64 = 1 << 20;

fn untrimmed(device: &Device) -> Manager {
    let options = ManagerOptions::builder().trim(TrimPolicy::Never).build();
    Manager::open_with(device.backend(), options).unwrap()
}

/// One line of the program, so that every tensor is like every other.
fn make(scope: &ManagedScope) -> Tensor<u8> {
    scope.tensor(BYTES).unwrap()
}

/// An error of the user's that holds a manager, and makes a tensor as it goes.
#[derive(Debug)]
struct Greedy {
    manager: Manager,
    gone: Arc<AtomicUsize>,
}

impl fmt::Display for Greedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("greedy")
    }
}

impl StdError for Greedy {}

impl Drop for Greedy {
    fn drop(&mut self) {
        let scope = self.manager.scope("in a destructor").unwrap();
        drop(make(&scope));
        self.gone.fetch_add(1, Ordering::SeqCst);
    }
}

/// A scope whose hook fails with a [`Greedy`] error, and which leaves an idle tensor behind.
fn leave_an_idle_tensor(manager: &Manager, gone: &Arc<AtomicUsize>) {
    let scope = manager.scope("failing").unwrap();
    drop(make(&scope));
    let error = Greedy { manager: manager.clone(), gone: gone.clone() };
    scope.register(hook::once("fails", move |_| Err(Box::new(error)))).unwrap();
    let failure = scope.finish_blocking().unwrap_err();
    drop(scope);
    assert_eq!(gone.load(Ordering::SeqCst), 0);
    drop(failure);
}

/// L15: what a finished scope still has of the user's goes with the last of the user's handles, under no lock; an idle tensor
/// does not keep it until the next tensor is made of it, under a lock.
#[test]
fn an_idle_tensor_keeps_nothing_of_its_scope() {
    let device = Device::default();
    let manager = untrimmed(&device);
    let gone = Arc::new(AtomicUsize::new(0));
    leave_an_idle_tensor(&manager, &gone);
    assert_eq!(gone.load(Ordering::SeqCst), 1);
    let scope = manager.scope("next").unwrap();
    let tensor = make(&scope);
    assert!(tensor.is_live());
    scope.finish_blocking().unwrap();
    assert!(manager.close().unwrap().is_clean());
}

/// One line of the program for tensors of every kind.
fn make_any<T: Element>(
    manager: &Manager,
    scope: Option<&ManagedScope>,
    label: &'static str,
    shape: &[u64],
) -> AnyTensor {
    #[track_caller]
    fn at_one_place<T: Element>(
        place: Option<&ManagedScope>,
        manager: &Manager,
        options: TensorOptions,
    ) -> Tensor<T> {
        match place {
            None => manager.tensor_with(options),
            Some(scope) => scope.tensor_with(options),
        }
        .unwrap()
    }
    let options = TensorOptions::builder().label(label).shape(shape).build();
    at_one_place::<T>(scope, manager, options).erase()
}

/// A tensor that is made at the same place as an idle one of the same bytes is what was asked for, not what is there.
#[test]
fn one_line_makes_tensors_of_many_kinds() {
    let device = Device::default();
    let manager = untrimmed(&device);
    let scope = manager.scope("s").unwrap();
    let mut ids = HashSet::new();
    for round in 0..16_usize {
        let label = ["a", "b"][round % 2];
        let shape: &[u64] = [&[4, 256][..], &[256, 4]][round / 2 % 2];
        let local = round / 4 % 2 == 0;
        let place = local.then_some(&scope);
        let make = if round < 8 { make_any::<u32> } else { make_any::<f32> };
        let made = make(&manager, place, label, shape);
        assert!(ids.insert(made.id()), "ids are never used again");
        assert_eq!((made.label(), made.bytes()), (label, 4096));
        assert_eq!(scope.live_bytes(), if local { 4096 } else { 0 });
        match round / 8 {
            0 => assert_eq!(made.cast::<u32>().unwrap().shape(), shape),
            _ => assert_eq!(made.cast::<f32>().unwrap().shape(), shape),
        }
    }
    scope.finish_blocking().unwrap();
    assert_eq!(manager.memory().tensors, 0);
    assert!(manager.close().unwrap().is_clean());
}

/// L19: a request that the scope refuses takes no idle tensor: no figure changes.
#[test]
fn a_refused_request_leaves_the_idle_ones() {
    let device = Device::default();
    let manager = untrimmed(&device);
    let finished = manager.scope("finished").unwrap();
    finished.finish_blocking().unwrap();
    let open = manager.scope("open").unwrap();
    let make = |scope: &ManagedScope| scope.tensor::<u8>(BYTES);
    drop(make(&open).unwrap());
    let events = manager.record_events();
    assert!(matches!(make(&finished), Err(Error::ScopeFinished { .. })));
    assert!(events.events().is_empty());
    drop(make(&open).unwrap());
    let memory = manager.memory();
    assert_eq!((memory.cache_hits, memory.allocations, memory.peak_live_bytes), (1, 1, BYTES));
    open.finish_blocking().unwrap();
    assert!(manager.close().unwrap().is_clean());
}

/// L23: a lost device makes no tensors, also where an idle one is at hand; closing gives it back.
#[test]
fn a_lost_device_hands_out_no_idle_tensor() {
    let device = Device::default();
    let manager = untrimmed(&device);
    let make = || manager.tensor::<u8>(BYTES);
    drop(make().unwrap());
    manager.notify_lost("told by the engine");
    assert!(matches!(make(), Err(Error::DeviceLost { .. })));
    assert_eq!(manager.memory().tensors, 0);
    assert_eq!(manager.close().unwrap().memory.reserved.bytes, 0);
    assert_eq!(device.balance(), (1, 1));
}

/// L4: a manager whose last handle is in such an error closes.
#[test]
fn an_idle_tensor_keeps_no_manager_open() {
    let device = Device::default();
    let manager = untrimmed(&device);
    leave_an_idle_tensor(&manager, &Arc::default());
    drop(manager);
    device.wait_shut_down();
    assert_eq!(device.balance(), (1, 1));
}

/// Without threads: a hook that a wait runs drops the last manager. The wait closes it, for nobody else would.
#[test]
fn a_wait_closes_the_manager_that_its_hook_dropped() {
    let device = Device::default();
    let options = ManagerOptions::builder().threads(false).build();
    let manager = Manager::open_with(device.backend(), options).unwrap();
    let scope = manager.scope("s").unwrap();
    let tensor = make(&scope);
    let last = Mutex::new(Some(manager));
    let own = device.clone();
    scope
        .register(hook::each("drops", move |_| {
            drop(last.lock().unwrap().take());
            own.complete_all();
            Ok(())
        }))
        .unwrap();
    scope.evaluate([op::fill(&tensor, 1)]).unwrap();
    device.hold();
    // Its hook is due while this one waits.
    scope.evaluate([op::fill(&tensor, 2)]).unwrap().wait().unwrap();
    drop((scope, tensor));
    device.wait_shut_down();
    assert_eq!(device.balance(), (1, 1));
}
