//! Tensors that are kept for the next one like them: made and dropped by several threads while others look, trim and close.

use shuttle::sync::Mutex;
use shuttle::thread;
use std::sync::Arc;
use tenure_core::{ManagedScope, Manager, ManagerOptions, Tensor, TrimPolicy};

use super::explore;
use super::support::Device;

const BYTES: u64 = 1 << 20;

/// One line of the program, so that every tensor is like every other.
fn make(manager: &Manager) -> Tensor<u8> {
    manager.tensor(BYTES).unwrap()
}

/// Bytes that live for certain, and that may live: the true figure is between both at any moment.
#[derive(Default)]
struct Bounds {
    certain: u64,
    possible: u64,
    most_certain: u64,
    most_possible: u64,
}

impl Bounds {
    fn change(bounds: &Mutex<Bounds>, change: impl FnOnce(&mut Bounds)) {
        let mut bounds = bounds.lock().unwrap();
        change(&mut bounds);
        bounds.most_certain = bounds.most_certain.max(bounds.certain);
        bounds.most_possible = bounds.most_possible.max(bounds.possible);
    }
}

/// The peak is what lived together, no less and no more, while two threads take and keep and a third looks.
#[test]
fn peak_of_two_threads_against_a_look() {
    explore(|| {
        let device = Device::default();
        let manager = Manager::open_with(device.backend(), ManagerOptions::default()).unwrap();
        let bounds = Arc::new(Mutex::new(Bounds::default()));
        let working = [(); 2].map(|()| {
            let (manager, bounds) = (manager.clone(), bounds.clone());
            thread::spawn(move || {
                for _ in 0..3 {
                    Bounds::change(&bounds, |bounds| bounds.possible += BYTES);
                    let tensor = make(&manager);
                    Bounds::change(&bounds, |bounds| bounds.certain += BYTES);
                    Bounds::change(&bounds, |bounds| bounds.certain -= BYTES);
                    drop(tensor);
                    Bounds::change(&bounds, |bounds| bounds.possible -= BYTES);
                }
            })
        });
        let looking = {
            let manager = manager.clone();
            thread::spawn(move || manager.memory())
        };
        for thread in working {
            thread.join().unwrap();
        }
        let seen = looking.join().unwrap();
        assert_eq!(seen.reserved, seen.live + seen.retired + seen.cached);
        let memory = manager.memory();
        assert_eq!((memory.live.bytes, memory.tensors), (0, 0));
        let bounds = bounds.lock().unwrap();
        assert!(bounds.most_certain <= memory.peak_live_bytes, "{memory:?}");
        assert!(memory.peak_live_bytes <= bounds.most_possible, "{memory:?}");
        assert!(manager.close().unwrap().is_clean());
        let (allocated, freed) = device.balance();
        assert_eq!(allocated, freed);
    });
}

/// The manager closes, and another thread trims, while tensors are made, kept and taken again: nothing stays.
#[test]
fn making_and_keeping_against_trim_against_close() {
    explore(|| {
        let device = Device::default();
        let manager = Manager::open_with(device.backend(), ManagerOptions::default()).unwrap();
        drop(make(&manager));
        let working = [(); 2].map(|()| {
            let manager = manager.clone();
            thread::spawn(move || {
                for _ in 0..2 {
                    let made = manager.tensor::<u8>(BYTES);
                    let again = made.as_ref().ok().cloned();
                    drop(made);
                    drop(again);
                }
            })
        });
        let trimming = {
            let manager = manager.clone();
            thread::spawn(move || _ = manager.trim())
        };
        let report = manager.close().unwrap();
        assert_eq!(report.memory.reserved.bytes, 0);
        for thread in working {
            thread.join().unwrap();
        }
        trimming.join().unwrap();
        drop(manager);
        device.wait_shut_down();
        let (allocated, freed) = device.balance();
        assert_eq!(allocated, freed);
    });
}

/// Two threads drop the last two handles of one tensor while a third ends it, and a fourth makes one like it.
#[test]
fn last_handles_against_destroy_against_making() {
    explore(|| {
        let device = Device::default();
        let manager = Manager::open_with(device.backend(), ManagerOptions::default()).unwrap();
        let first = make(&manager);
        let id = first.id();
        let (second, third) = (first.clone(), first.clone());
        let dropping = [first, second].map(|handle| thread::spawn(move || drop(handle)));
        let ending = thread::spawn(move || third.destroy().unwrap());
        let making = {
            let manager = manager.clone();
            thread::spawn(move || {
                let made = make(&manager);
                assert!(made.is_live() && made.id() != id);
                made
            })
        };
        for thread in dropping {
            thread.join().unwrap();
        }
        ending.join().unwrap();
        let made = making.join().unwrap();
        assert!(made.is_live());
        let memory = manager.memory();
        assert_eq!((memory.tensors, memory.live.bytes), (1, BYTES));
        drop(made);
        assert!(manager.close().unwrap().is_clean());
        let (allocated, freed) = device.balance();
        assert_eq!(allocated, freed);
    });
}

/// The last handle of a scope's tensor goes while the scope finishes, and another scope makes one like it: the tensor is the
/// one scope's or the other's, and never both's.
#[test]
fn last_handle_against_finish_against_another_scope() {
    explore(|| {
        let device = Device::default();
        let manager = Manager::open_with(device.backend(), ManagerOptions::default()).unwrap();
        let make = |scope: &ManagedScope| scope.tensor::<u8>(BYTES).unwrap();
        let first = manager.scope("first").unwrap();
        let tensor = make(&first);
        let id = tensor.id();
        let second = manager.scope("second").unwrap();
        let dropping = thread::spawn(move || drop(tensor));
        let finishing = thread::spawn(move || first.finish_blocking().unwrap());
        let made = make(&second);
        assert!(made.id() != id);
        dropping.join().unwrap();
        assert!(finishing.join().unwrap().released_tensors <= 1);
        assert!(made.is_live());
        assert_eq!((second.live_bytes(), manager.memory().tensors), (BYTES, 1));
        assert_eq!(second.finish_blocking().unwrap().released_tensors, 1);
        assert!(!made.is_live());
        assert!(manager.close().unwrap().is_clean());
        let (allocated, freed) = device.balance();
        assert_eq!(allocated, freed);
    });
}

/// An idle tensor is taken, and kept again, while the manager closes: closing finds it wherever it is just then.
#[test]
fn an_idle_tensor_against_close() {
    explore(|| {
        let device = Device::default();
        let manager = Manager::open_with(device.backend(), ManagerOptions::default()).unwrap();
        let make = |manager: &Manager| manager.tensor::<u8>(BYTES);
        drop(make(&manager).unwrap());
        let closing = {
            let manager = manager.clone();
            thread::spawn(move || manager.close().unwrap())
        };
        if let Ok(tensor) = make(&manager) {
            drop(tensor);
        }
        assert_eq!(closing.join().unwrap().memory.reserved.bytes, 0);
        assert_eq!(device.balance(), (1, 1));
    });
}

/// What would make room is on its way to the driver by another thread's trim: the request waits for that (L20).
#[test]
fn a_request_against_a_trim_that_makes_its_room() {
    explore(|| {
        let device = Device::default();
        let options = ManagerOptions::builder().budget(3 * BYTES).trim(TrimPolicy::Never).build();
        let manager = Manager::open_with(device.backend(), options).unwrap();
        drop(manager.tensor::<u8>(2 * BYTES + 1).unwrap());
        let trimming = {
            let manager = manager.clone();
            thread::spawn(move || _ = manager.trim().unwrap())
        };
        drop(make(&manager));
        trimming.join().unwrap();
        assert!(manager.close().unwrap().is_clean());
        let (allocated, freed) = device.balance();
        assert_eq!(allocated, freed);
    });
}
