//! Uploads and downloads on the host backend copy once (counted in its one copy helper).

#![cfg(feature = "host")]

use tenure::host::HostBackend;
use tenure::{Manager, ManagerOptions, op};

const MIB: u64 = 1 << 20;

fn open() -> Manager {
    Manager::open_with(HostBackend::new(), ManagerOptions::default()).expect("host opens")
}

fn copied(manager: &Manager) -> u64 {
    manager.backend::<HostBackend>().expect("the backend is host").copied_bytes()
}

#[test]
fn an_upload_of_64_mib_copies_once() {
    let manager = open();
    let data = vec![7_u8; 64 << 20];
    let tensor = manager.tensor_from("data", &data).expect("there is room");
    assert_eq!(copied(&manager), 64 * MIB);
    let mut back = vec![0_u8; 64 << 20];
    tensor.read_into(&mut back).expect("it is live");
    assert_eq!(copied(&manager), 128 * MIB);
    assert_eq!(back, data);
}

#[test]
fn a_recorded_upload_copies_once_per_evaluation_and_a_fill_not_at_all() {
    let manager = open();
    let scope = manager.scope("s").expect("open");
    let tensor = scope.tensor::<u8>(MIB).expect("there is room");
    let sequence = scope.sequence().expect("open");
    sequence.record(op::upload(&tensor, &vec![1; 1 << 20])).expect("it fits");
    for evaluation in 1..=3 {
        sequence.run().expect("it runs");
        assert_eq!(copied(&manager), evaluation * MIB);
    }
    sequence.reset().expect("it is not running");
    sequence.record(op::fill(&tensor, 2)).expect("it fits");
    sequence.run().expect("it runs");
    assert_eq!(copied(&manager), 3 * MIB);
}
