//! Contexts: of engines, gone too early, and current on other threads.
//!
//! Not here: streams (`streams.rs`).

use std::sync::Arc;

use tenure_core::{Error, QueueId, ScopeOptions, op};

use crate::ffi::{EngineContext, current_context, delay, live};
use crate::support::{alone, alone_with, backend, increment, manager, manager_on};

/// The backend works in an engine's context: it leaves what is current as it was, destroys what it made and nothing else,
/// and lets go of what keeps the context at the end.
#[test]
fn an_engines_context_is_shared_and_stays() {
    alone("contexts::an_engines_context_is_shared_and_stays", || {
        // Initialises the driver, as the engine has.
        drop(backend());
        let engine = EngineContext::new();
        assert_eq!(current_context(), engine.0);
        let kept = Arc::new(());
        let manager = manager_on(engine.embed(kept.clone()).unwrap());
        assert_eq!(Arc::strong_count(&kept), 2);
        let scope = manager.scope("s").unwrap();
        let kernel = manager.kernel(&increment()).unwrap();
        let tensor = scope.tensor_from("t", &[1_u32; 64]).unwrap();
        for _ in 0..3 {
            scope.evaluate([op::dispatch(&kernel).bind(&tensor)]).unwrap().wait().unwrap();
        }
        assert_eq!(tensor.read().unwrap(), [4; 64]);
        assert_eq!(current_context(), engine.0);
        scope.finish_blocking().unwrap();
        drop((scope, kernel, tensor));
        assert!(manager.close().unwrap().is_clean());
        drop(manager);
        assert_eq!(Arc::strong_count(&kept), 1, "what keeps the context is let go of");
        assert_eq!(live("contexts"), 1, "the engine's context is there");
        assert_eq!(["streams", "events", "modules", "memory", "host", "pools"].map(live), [0; 6]);
        engine.destroy();
    });
}

/// What keeps the engine's context is let go of when the manager has closed, whatever handles are still there, and at once where a
/// context cannot be used.
#[test]
fn what_keeps_a_context_is_held_as_long_as_it_is_needed() {
    alone("contexts::what_keeps_a_context_is_held_as_long_as_it_is_needed", || {
        drop(backend());
        let engine = EngineContext::new();
        let kept = Arc::new(());
        let manager = manager_on(engine.embed(kept.clone()).unwrap());
        let scope = manager.scope("s").unwrap();
        let kernel = manager.kernel(&increment()).unwrap();
        let tensor = manager.tensor_from("t", &[1_u32; 64]).unwrap();
        let sequence = scope.named("twice").unwrap();
        sequence.record(op::dispatch(&kernel).bind(&tensor)).unwrap();
        for _ in 0..2 {
            sequence.evaluate().unwrap().wait().unwrap();
        }
        assert_eq!(Arc::strong_count(&kept), 2);
        manager.close().unwrap();
        assert_eq!(Arc::strong_count(&kept), 1, "everything native is gone");
        assert_eq!(
            ["streams", "events", "modules", "executables", "memory", "host", "pools"].map(live),
            [0; 7]
        );
        assert!(matches!(tensor.read().unwrap_err(), Error::Stale { .. }));
        drop((scope, kernel, tensor, sequence, manager));

        engine.destroy();
        let error = engine.embed(kept.clone()).map(|_| ()).unwrap_err();
        assert!(error.message.contains("201") || error.message.contains("709"), "{error}");
        assert_eq!(Arc::strong_count(&kept), 1);
        assert_eq!(live(""), 0);
        // The driver calls that no harm, and so does a backend of the process's own.
        drop(manager_on(backend()).tensor_from("t", &[1_u32]).unwrap());
    });
}

/// The engine destroys its context while work is in flight and somebody waits: every wait ends, and says that the device is lost.
#[test]
fn a_context_that_is_destroyed_under_work_in_flight_ends_every_wait() {
    let test = "contexts::a_context_that_is_destroyed_under_work_in_flight_ends_every_wait";
    alone_with(test, &[("SOFTCUDA_QUIET", "1")], || {
        drop(backend());
        for round in 1..=8_u64 {
            let engine = EngineContext::new();
            let manager = manager_on(engine.embed(Arc::new(())).unwrap());
            delay(round);
            let scopes = [QueueId(0), QueueId(1)].map(|queue| {
                let options = ScopeOptions::builder().label("s").queue(queue).build();
                manager.scope_with(options).unwrap()
            });
            let tensor = manager.tensor_from("t", &vec![1_u32; 1 << 16]).unwrap();
            // Each waits for the one before, on the device.
            let in_flight: Vec<_> =
                (0..40).map(|at| scopes[at % 2].evaluate([op::fill(&tensor, at as u32)]).unwrap()).collect();
            std::thread::scope(|threads| {
                let last = &in_flight[in_flight.len() - 1];
                let waiting = threads.spawn(move || last.wait());
                engine.destroy();
                // By luck all was done before.
                if let Err(error) = waiting.join().unwrap() {
                    assert!(error.is_device_lost(), "{error}");
                }
            });
            for execution in &in_flight {
                if let Err(error) = execution.wait() {
                    assert!(error.is_device_lost(), "{error}");
                }
            }
            assert!(tensor.read().unwrap_err().is_device_lost());
            drop((scopes, tensor, in_flight));
            manager.close().unwrap();
        }
    });
}

/// A thread with another context, or with none, drops and trims: everything is freed, and its context is what it was.
#[test]
fn memory_is_freed_on_a_foreign_thread() {
    alone("contexts::memory_is_freed_on_a_foreign_thread", || {
        let manager = manager();
        let engine = EngineContext::new();
        for other in [false, true] {
            let scope = manager.scope("s").unwrap();
            let kernel = manager.kernel(&increment()).unwrap();
            let tensor = manager.tensor_from("t", &vec![1_u32; 1 << 20]).unwrap();
            scope.evaluate([op::dispatch(&kernel).bind(&tensor)]).unwrap().wait().unwrap();
            let manager = manager.clone();
            let work = move || {
                let before = current_context();
                drop((scope, kernel, tensor));
                assert!(manager.trim().unwrap().bytes >= 4 << 20);
                assert_eq!(current_context(), before);
                before
            };
            if other {
                assert_eq!(work(), engine.0);
            } else {
                assert_eq!(std::thread::spawn(work).join().unwrap(), 0, "a new thread has none");
            }
            assert_eq!(live("host"), 0);
        }
        assert!(manager.close().unwrap().is_clean());
        drop(manager);
        engine.destroy();
    });
}

/// The engine destroys its context under everything: the next use says that the device is lost, handles drop and the manager
/// closes without a word, and the process can go on with another context.
#[test]
fn a_context_that_is_destroyed_under_handles_is_a_loss() {
    let quiet = [("SOFTCUDA_QUIET", "1")];
    alone_with("contexts::a_context_that_is_destroyed_under_handles_is_a_loss", &quiet, || {
        drop(backend());
        let engine = EngineContext::new();
        let manager = manager_on(engine.embed(Arc::new(())).unwrap());
        let scope = manager.scope("s").unwrap();
        let kernel = manager.kernel(&increment()).unwrap();
        let tensor = scope.tensor_from("t", &[1_u32; 64]).unwrap();
        let sequence = scope.sequence().unwrap();
        sequence.record(op::dispatch(&kernel).bind(&tensor)).unwrap();
        for _ in 0..2 {
            sequence.evaluate().unwrap().wait().unwrap();
        }
        engine.destroy();
        let error = sequence.evaluate().map(|_| ()).unwrap_err();
        assert!(error.is_device_lost(), "{error}");
        let Error::DeviceLost { cause, .. } = &error else { panic!("{error:?}") };
        assert!(!cause.message.contains("must restart"), "{cause}");
        assert!(tensor.read().unwrap_err().is_device_lost());
        drop((sequence, scope, kernel, tensor));
        manager.close().unwrap();
        drop(manager);

        let again = manager_on(backend());
        let tensor = again.tensor_from("t", &[5_u32; 4]).unwrap();
        assert_eq!(tensor.read().unwrap(), [5; 4]);
    });
}
