//! Queues as streams, and their events.
//!
//! Not here: contexts of engines (`contexts.rs`).

use tenure_backend_cuda::CudaBackend;
use tenure_core::{ExecutionStatus, ManagedScope, Manager, QueueId, ScopeOptions, op};

use crate::ffi::{Gate, calls, delay, live, violations};
use crate::support::{alone, increment, manager};

const FIRST: QueueId = QueueId(0);
const SECOND: QueueId = QueueId(1);

fn on_queue(manager: &Manager, queue: QueueId) -> ManagedScope {
    manager.scope_with(ScopeOptions::builder().label("s").queue(queue).build()).unwrap()
}

/// Tensors are written on one queue, changed on the other and let go of at once, while work takes its time: the results are
/// right, and the driver sees no use before an allocation, after a free, or without an order.
#[test]
fn memory_is_used_and_freed_across_streams() {
    alone("streams::memory_is_used_and_freed_across_streams", || {
        let manager = manager();
        delay(7);
        let kernel = manager.kernel(&increment()).unwrap();
        let scopes = [FIRST, SECOND].map(|queue| on_queue(&manager, queue));
        for round in 0..40_u32 {
            let tensor = manager.tensor::<u32>(1000).unwrap();
            let (one, other) = (&scopes[round as usize % 2], &scopes[(round as usize + 1) % 2]);
            let written = one.evaluate([op::fill(&tensor, round)]).unwrap();
            let dispatch = op::dispatch(&kernel).bind(&tensor).groups([16, 1, 1]);
            let changed = other.evaluate([dispatch.clone(), dispatch]).unwrap();
            if round % 4 == 0 {
                assert_eq!(tensor.read().unwrap(), [round + 2; 1000]);
            }
            drop((tensor, written, changed));
            if round % 8 == 7 {
                manager.trim().unwrap();
            }
        }
        scopes.iter().for_each(|scope| drop(scope.finish_blocking().unwrap()));
        drop((scopes, kernel));
        assert!(manager.close().unwrap().is_clean());
        drop(manager);
        assert_eq!(violations(), 0);
    });
}

/// A queue that waits for another one does so on the device: submitting returns, and nothing runs before its turn.
#[test]
fn a_queue_waits_for_another_on_the_device() {
    alone("streams::a_queue_waits_for_another_on_the_device", || {
        let manager = manager();
        let backend = manager.backend::<CudaBackend>().unwrap();
        let [one, other] = [FIRST, SECOND].map(|queue| on_queue(&manager, queue));
        let tensor = manager.tensor_from("t", &[1_u32; 64]).unwrap();
        let gate = Gate::close(backend.stream(FIRST));
        let first = one.evaluate([op::fill(&tensor, 5_u32)]).unwrap();
        let (read, download) = op::download(&tensor);
        let second = other.evaluate([read]).unwrap();
        assert_eq!([first.status(), second.status()], [ExecutionStatus::Running; 2]);
        drop(gate);
        second.wait().unwrap();
        first.wait().unwrap();
        assert_eq!(download.get().unwrap(), [5; 64]);
        for scope in [&one, &other] {
            scope.finish_blocking().unwrap();
        }
        drop((one, other, tensor, first, second));
        assert!(manager.close().unwrap().is_clean());
        drop(manager);
    });
}

/// Events go round: thousands of submissions need as many as are in flight at a time, and none is left.
#[test]
fn events_are_used_again() {
    alone("streams::events_are_used_again", || {
        let manager = manager();
        let (before, made_before) = (live("events"), calls("cuEventCreate"));
        let scope = manager.scope("s").unwrap();
        let tensor = scope.tensor_from("t", &[0_u32; 16]).unwrap();
        for round in 0..2_000_u32 {
            scope.evaluate([op::fill(&tensor, round)]).unwrap().wait().unwrap();
        }
        assert_eq!(tensor.read().unwrap(), [1999; 16]);
        let made = live("events") - before;
        // One a submission in flight, one that the watcher has not taken back yet, two of the ring for transfers.
        assert!(made <= 4, "{made} events for one submission at a time");
        let created = calls("cuEventCreate") - made_before;
        assert!(created <= 4, "{created} events were made");
        scope.finish_blocking().unwrap();
        drop((scope, tensor));
        assert!(manager.close().unwrap().is_clean());
        drop(manager);
        assert_eq!(live("events"), 0);
    });
}

/// What was submitted ends before the backend is gone, and everything is destroyed.
#[test]
fn closing_waits_for_work_in_flight() {
    alone("streams::closing_waits_for_work_in_flight", || {
        let manager = manager();
        delay(11);
        let scope = manager.scope("s").unwrap();
        let tensor = manager.tensor::<u32>(100_000).unwrap();
        for value in 0..50_u32 {
            drop(scope.evaluate([op::fill(&tensor, value)]).unwrap());
        }
        drop((tensor, scope));
        manager.close().unwrap();
        drop(manager);
        assert_eq!(["contexts", "streams", "events", "pools", "memory"].map(live), [0; 5]);
    });
}
