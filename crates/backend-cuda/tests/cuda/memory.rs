//! Device memory and pinned memory.
//!
//! Not here: memory that is used on two queues (`streams.rs`).

use tenure_backend_cuda::CudaBackend;
use tenure_core::{Error, QueueId, op};

use crate::ffi::{Gate, calls, inject, live, violations};
use crate::support::{alone, alone_with, increment, manager};

/// The device has no room while memory is cached: it is trimmed, and the allocation succeeds. With nothing to trim the error
/// says so (L20).
#[test]
fn out_of_memory_trims_and_tries_again() {
    alone_with("memory::out_of_memory_trims_and_tries_again", &[("SOFTCUDA_MEMORY", "64M")], || {
        let manager = manager();
        let first = manager.tensor::<u8>(40 << 20).unwrap();
        drop(first);
        let trims = calls("cuMemPoolTrimTo");
        assert_eq!(manager.memory().cached.bytes, 40 << 20);
        let second = manager.tensor::<u8>(50 << 20).unwrap();
        assert!(calls("cuMemPoolTrimTo") > trims);
        let error = manager.tensor::<u8>(40 << 20).map(|_| ()).unwrap_err();
        assert!(matches!(error, Error::OutOfMemory(_)), "{error}");
        drop(second);
        let third = manager.tensor::<u8>(40 << 20).unwrap();
        drop(third);
        assert!(manager.close().unwrap().is_clean());
        drop(manager);
    });
}

/// Room that only the driver is short of, for once: the second attempt gets it.
#[test]
fn an_allocation_that_fails_once_is_tried_again() {
    alone("memory::an_allocation_that_fails_once_is_tried_again", || {
        let manager = manager();
        inject("cuMemAllocFromPoolAsync", 1, 2);
        let tensor = manager.tensor_from("t", &[1_u32; 64]).unwrap();
        assert_eq!(tensor.read().unwrap(), [1; 64]);
        drop(tensor);
        assert!(manager.close().unwrap().is_clean());
        drop(manager);
    });
}

/// There is no pinned memory to be had while some is kept idle: it goes back first. With none kept core tries again (L20).
#[test]
fn pinned_memory_that_is_idle_makes_room() {
    alone("memory::pinned_memory_that_is_idle_makes_room", || {
        let manager = manager();
        let scope = manager.scope("s").unwrap();
        let tensor = scope.tensor::<u8>(4 << 20).unwrap();
        let upload = |bytes: usize| op::upload(tensor.view(0..bytes as u64).unwrap(), &vec![7_u8; bytes]);
        scope.evaluate([upload(1 << 20)]).unwrap().wait().unwrap();
        manager.wait_idle().unwrap();
        assert_eq!(live("host"), 1, "it is kept");
        inject("cuMemHostAlloc", 1, 2);
        scope.evaluate([upload(2 << 20)]).unwrap().wait().unwrap();
        assert_eq!(live("host"), 1, "the one went for the other");
        manager.wait_idle().unwrap();
        manager.trim().unwrap();
        assert_eq!(live("host"), 0);
        inject("cuMemHostAlloc", 1, 2);
        scope.evaluate([upload(3 << 20)]).unwrap().wait().unwrap();
        assert_eq!(tensor.read().unwrap()[..3 << 20], vec![7; 3 << 20]);
        scope.finish_blocking().unwrap();
        drop((scope, tensor));
        assert!(manager.close().unwrap().is_clean());
        drop(manager);
        assert_eq!((live("host"), violations()), (0, 0));
    });
}

/// Tensors have all of the device's memory, in use or cached: dispatches run all the same, in a stream and as graphs.
#[test]
fn a_full_device_runs_dispatches_with_parameters() {
    let test = "memory::a_full_device_runs_dispatches_with_parameters";
    alone_with(test, &[("SOFTCUDA_MEMORY", "64M")], || {
        let manager = manager();
        let scope = manager.scope("s").unwrap();
        let kernel = manager.kernel(&increment()).unwrap();
        let tensor = manager.tensor_from("t", &[1_u32; 64]).unwrap();
        let mut all = Vec::new();
        let error = loop {
            match manager.tensor::<u8>(2 << 20) {
                Ok(tensor) => all.push(tensor),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, Error::OutOfMemory(_)), "{error}");
        let copies = calls("cuMemcpyHtoDAsync_v2");
        for in_use in [true, false] {
            // Its lengths are parameters of the backend's own.
            let sequence = scope.sequence().unwrap();
            sequence.record(op::dispatch(&kernel).bind(&tensor)).unwrap();
            for _ in 0..3 {
                sequence.evaluate().unwrap().wait().unwrap();
            }
            assert_eq!(tensor.read().unwrap(), [if in_use { 4 } else { 7 }; 64]);
            drop(sequence);
            all.clear();
            assert!(manager.memory().cached.bytes >= 32 << 20);
        }
        assert_eq!(calls("cuMemcpyHtoDAsync_v2"), copies, "there was no room to copy them to");
        scope.finish_blocking().unwrap();
        drop((scope, kernel, tensor));
        assert!(manager.close().unwrap().is_clean());
        drop(manager);
        assert_eq!((live(""), violations()), (0, 0));
    });
}

/// Trimming gives the pool's memory and pinned memory back to the system, and closing all the rest.
#[test]
fn trimming_gives_everything_back() {
    alone("memory::trimming_gives_everything_back", || {
        let manager = manager();
        let before = manager.driver_memory().unwrap().used;
        let scope = manager.scope("s").unwrap();
        let tensor = scope.tensor_from("t", &vec![1_u8; 8 << 20]).unwrap();
        scope.evaluate([op::upload(&tensor, &vec![2_u8; 8 << 20])]).unwrap().wait().unwrap();
        assert_eq!(tensor.read().unwrap(), vec![2; 8 << 20]);
        assert!(manager.driver_memory().unwrap().used >= before + (8 << 20));
        assert!(live("host") > 0);
        drop((tensor, scope));
        manager.wait_idle().unwrap();
        assert!(manager.trim().unwrap().bytes >= 8 << 20);
        assert_eq!(live("host"), 0);
        assert_eq!(manager.driver_memory().unwrap().used, before);
        assert!(manager.close().unwrap().is_clean());
        drop(manager);
        assert_eq!((live("memory"), live("pools"), live("contexts")), (0, 0, 0));
    });
}

/// Pinned memory that a copy reads or writes stays until the copy has ended, whatever is dropped and trimmed meanwhile.
#[test]
fn pinned_memory_stays_until_the_copy_has_ended() {
    alone("memory::pinned_memory_stays_until_the_copy_has_ended", || {
        const BYTES: usize = 2 << 20;
        let manager = manager();
        let tensor = manager.tensor_from("t", &vec![0_u8; BYTES]).unwrap();
        manager.trim().unwrap();
        assert_eq!(live("host"), 0);
        let scope = manager.scope("s").unwrap();
        let gate = Gate::close(manager.backend::<CudaBackend>().unwrap().stream(QueueId(0)));
        let (read, download) = op::download(&tensor);
        let execution = scope.evaluate([op::upload(&tensor, &vec![7_u8; BYTES]), read]).unwrap();
        assert_eq!(live("host"), 2);
        drop(scope);
        manager.trim().unwrap();
        assert_eq!(live("host"), 2, "the copies are in flight");
        drop(gate);
        execution.wait().unwrap();
        assert_eq!(download.get().unwrap(), vec![7; BYTES]);
        drop((execution, tensor));
        manager.wait_idle().unwrap();
        assert!(manager.close().unwrap().is_clean());
        drop(manager);
        assert_eq!((live("host"), violations()), (0, 0));
    });
}
