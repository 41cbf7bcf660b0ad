//! What goes wrong: no driver, errors that stay, a driver that fails at odd places.
//!
//! Not here: graphs that fail half-way (`graphs.rs`).

use std::sync::atomic::{AtomicBool, Ordering};

use tenure_backend_cuda::{CudaBackend, CudaOptions};
use tenure_core::{BackendErrorKind, Error, Outcome, QueueId, op};

use crate::ffi::{Gate, calls, inject, is_idle, live};
use crate::support::{alone, alone_with, backend, in_child, increment, manager, wild};

/// Without a driver opening is an error that says what to do, and no panic.
#[test]
fn without_a_driver_there_is_an_error_with_a_fix() {
    in_child("faults::without_a_driver_there_is_an_error_with_a_fix", &[("LD_LIBRARY_PATH", "")], || {
        let missing = CudaOptions::builder().library("/nowhere/libsoftcuda.so").build();
        let error = CudaBackend::with_options(&missing).unwrap_err();
        assert_eq!(error.kind, BackendErrorKind::Unavailable);
        assert!(error.message.contains("/nowhere/libsoftcuda.so"), "{error}");
        match CudaBackend::new() {
            Ok(backend) => println!("there is a driver: {backend:?}"),
            Err(error) => {
                assert_eq!(error.kind, BackendErrorKind::Unavailable);
                assert!(error.message.contains("install NVIDIA's driver"), "{error}");
            }
        }
    });
}

/// A driver without devices, and a device that is not there.
#[test]
fn without_a_device_there_is_an_error_with_a_fix() {
    alone_with("faults::without_a_device_there_is_an_error_with_a_fix", &[("SOFTCUDA_DEVICES", "0")], || {
        let error = CudaBackend::new().unwrap_err();
        assert_eq!(error.kind, BackendErrorKind::Unavailable);
        assert!(error.message.contains("install NVIDIA's driver"), "{error}");
    });
}

/// A kernel writes where nothing is. Every wait ends with the cause, nothing is destroyed, closing succeeds; no backend opens
/// in this process any more, and a new process is as good as new (L23).
#[test]
fn an_error_that_stays_ends_cuda_in_the_process_and_no_other() {
    let quiet = [("SOFTCUDA_QUIET", "1")];
    let test = "faults::an_error_that_stays_ends_cuda_in_the_process_and_no_other";
    alone_with(test, &quiet, || {
        let manager = manager();
        let scope = manager.scope("s").unwrap();
        let kernel = manager.kernel(&wild()).unwrap();
        let tensor = scope.tensor_from("t", &[1_u32; 64]).unwrap();
        let blocks = live("memory");
        let execution = scope.evaluate([op::dispatch(&kernel).bind(&tensor)]).unwrap();
        let error = execution.wait().unwrap_err();
        let Error::DeviceLost { cause, restart } = &error else { panic!("{error:?}") };
        assert!(restart);
        assert!(cause.message.contains("700") && cause.message.contains("must restart"), "{cause}");
        assert!(error.to_string().contains("restart"), "{error}");
        assert!(tensor.read().unwrap_err().is_device_lost());
        let report = scope.finish_blocking();
        let Err(Error::Cleanup(failure)) = report else { panic!("{report:?}") };
        assert_eq!(failure.report.outcome, Outcome::DeviceLost);
        drop((execution, scope, kernel, tensor));
        let report = manager.close().unwrap();
        assert_eq!(report.memory.allocations, report.memory.frees + report.memory.abandoned);
        drop(manager);
        assert_eq!(live("memory"), blocks, "what there is, is abandoned");

        let again = CudaBackend::new().unwrap_err();
        assert_eq!(again.kind, BackendErrorKind::DeviceLost);
        assert!(again.message.contains("must restart"), "{again}");
    });
    alone("faults::a_new_process_is_as_good_as_new", a_new_process);
}

fn a_new_process() {
    let manager = manager();
    let tensor = manager.tensor_from("t", &[5_u32; 4]).unwrap();
    assert_eq!(tensor.read().unwrap(), [5; 4]);
    drop(tensor);
    assert!(manager.close().unwrap().is_clean());
}

#[test]
fn a_new_process_is_as_good_as_new() {
    alone("faults::a_new_process_is_as_good_as_new", a_new_process);
}

/// The codes that a lost device may come as, at whatever call: each is a loss, for ever and with the first cause.
#[test]
fn every_code_of_a_loss_is_one() {
    const TEST: &str = "faults::every_code_of_a_loss_is_one";
    for code in ["46", "214", "700", "716", "717", "718", "719", "999"] {
        alone_with(TEST, &[("SOFTCUDA_QUIET", "1"), ("TENURE_CUDA_CODE", code)], || {
            let code = std::env::var("TENURE_CUDA_CODE").unwrap().parse().unwrap();
            let manager = manager();
            let scope = manager.scope("s").unwrap();
            let tensor = scope.tensor_from("t", &[1_u32; 64]).unwrap();
            inject("cuMemsetD32Async", 1, code);
            let error = scope.evaluate([op::fill(&tensor, 2_u32)]).map(|_| ()).unwrap_err();
            assert!(error.is_device_lost(), "{code}: {error}");
            let first = error.to_string();
            assert!(first.contains(&code.to_string()), "{first}");
            assert_eq!(tensor.read().unwrap_err().to_string(), first);
            drop((scope, tensor));
            manager.close().unwrap();
        });
        // In the child that was all.
        if std::env::var_os("TENURE_CUDA_CODE").is_some() {
            return;
        }
    }
}

/// The thread that watches a queue cannot begin: nobody would ever tell what completes, so that is a loss, and no wait hangs.
#[test]
fn a_queue_that_nobody_can_watch_is_lost() {
    alone_with("faults::a_queue_that_nobody_can_watch_is_lost", &[("SOFTCUDA_QUIET", "1")], || {
        let manager = manager();
        let scope = manager.scope("s").unwrap();
        let tensor = scope.tensor::<u32>(64).unwrap();
        let sequence = scope.sequence().unwrap();
        sequence.record(op::fill(&tensor, 1_u32)).unwrap();
        let kernel = manager.kernel(&increment()).unwrap();
        // The calls of the thread that evaluates: one for each operation that is encoded, one for submitting.
        inject("cuCtxPushCurrent_v2", 3, 1);
        let error = sequence.evaluate().and_then(|execution| execution.wait()).unwrap_err();
        assert!(error.is_device_lost() && error.to_string().contains("events are lost"), "{error}");
        assert!(!error.to_string().contains("restart"), "{error}");
        drop((sequence, scope, tensor, kernel));
        manager.close().unwrap();
        drop(manager);
        let again = self::manager();
        assert_eq!(again.tensor_from("t", &[5_u32; 4]).unwrap().read().unwrap(), [5; 4]);
    });
}

/// The driver fails half-way through a submission: it is told, what was in the stream by then has ended, and the next
/// submission works.
#[test]
fn a_submission_that_fails_half_way_leaves_nothing_in_flight() {
    alone("faults::a_submission_that_fails_half_way_leaves_nothing_in_flight", || {
        let manager = manager();
        let scope = manager.scope("s").unwrap();
        let kernel = manager.kernel(&increment()).unwrap();
        let tensor = scope.tensor_from("t", &[1_u32; 64]).unwrap();
        for (function, call) in [
            ("cuMemcpyHtoDAsync_v2", 1),
            ("cuLaunchKernel", 2),
            ("cuEventRecord", 1),
            ("cuCtxPushCurrent_v2", 1),
        ] {
            scope.evaluate([op::fill(&tensor, 1_u32)]).unwrap().wait().unwrap();
            let dispatch = || op::dispatch(&kernel).bind(&tensor);
            let sequence = scope.sequence().unwrap();
            sequence.record(dispatch()).unwrap().record(dispatch()).unwrap();
            inject(function, call, 1);
            let error = sequence.evaluate().map(|_| ()).unwrap_err();
            match error {
                Error::Backend(error) => assert_eq!(error.kind, BackendErrorKind::Driver, "{function}"),
                other => panic!("{function}: {other}"),
            }
            scope.evaluate([op::fill(&tensor, 1_u32)]).unwrap().wait().unwrap();
            sequence.evaluate().unwrap().wait().unwrap();
            assert_eq!(tensor.read().unwrap(), [3; 64], "{function}");
        }
        scope.finish_blocking().unwrap();
        drop((scope, kernel, tensor));
        assert!(manager.close().unwrap().is_clean());
        drop(manager);
    });
}

/// What such a submission has put into the stream has ended when it returns: nothing that it names is in use any more.
#[test]
fn a_submission_that_fails_half_way_waits_for_what_it_has_begun() {
    alone("faults::a_submission_that_fails_half_way_waits_for_what_it_has_begun", || {
        let manager = manager();
        let scope = manager.scope("s").unwrap();
        let kernel = manager.kernel(&increment()).unwrap();
        let tensor = scope.tensor_from("t", &[1_u32; 64]).unwrap();
        let backend = manager.backend::<CudaBackend>().unwrap();
        let gate = Gate::close(backend.stream(QueueId(0)));
        let waits = calls("cuStreamSynchronize");
        let returned = AtomicBool::new(false);
        std::thread::scope(|threads| {
            threads.spawn(|| {
                // The work goes on once somebody waits for it, or nobody does.
                while calls("cuStreamSynchronize") == waits && !returned.load(Ordering::Acquire) {
                    std::thread::yield_now();
                }
                drop(gate);
            });
            inject("cuLaunchKernel", 2, 1);
            let dispatch = || op::dispatch(&kernel).bind(&tensor);
            scope.evaluate([dispatch(), dispatch()]).map(|_| ()).unwrap_err();
            let idle = is_idle(backend.stream(QueueId(0)));
            returned.store(true, Ordering::Release);
            assert!(idle, "what was begun has ended");
        });
        scope.finish_blocking().unwrap();
        drop((scope, kernel, tensor));
        assert!(manager.close().unwrap().is_clean());
        drop(manager);
    });
}

/// Opening fails at each of its calls: nothing is left, and the next attempt works.
#[test]
fn opening_that_fails_half_way_leaves_nothing() {
    alone("faults::opening_that_fails_half_way_leaves_nothing", || {
        drop(backend());
        for (function, call) in [
            ("cuDeviceGetCount", 1),
            ("cuDevicePrimaryCtxRetain", 1),
            ("cuStreamCreate", 1),
            ("cuStreamCreate", 4),
            ("cuMemPoolCreate", 1),
            ("cuMemPoolSetAttribute", 1),
            ("cuMemAllocFromPoolAsync", 1),
        ] {
            inject(function, call, 2);
            let error = CudaBackend::new().unwrap_err();
            assert!(error.message.contains("(2)"), "{function}: {error}");
            assert_eq!(["contexts", "streams", "pools", "memory"].map(live), [0; 4], "{function}");
            drop(backend());
        }
    });
}
