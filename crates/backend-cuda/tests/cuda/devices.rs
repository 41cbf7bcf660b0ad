//! Several devices in one process, a manager each: they do not know of each other.
//!
//! Not here: contexts of engines (`contexts.rs`).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tenure_backend_cuda::{CudaBackend, CudaMemory, CudaOptions};
use tenure_core::{BackendErrorKind, Error, ExecutionStatus, Kernel, Manager, QueueId, Tensor, op};

use crate::ffi::{
    EngineContext, Gate, adopt, current_context, delay, device_of, live, set_current_context, violations,
};
use crate::support::{alone_with, backend_of, increment, manager_on, wild};

/// Runs a test in a process of its own, on a driver in software with two devices.
fn on_two(test: &str, body: impl FnOnce()) {
    alone_with(&format!("devices::{test}"), &[("SOFTCUDA_DEVICES", "2")], body);
}

/// A manager on each device, and what is used of it.
struct Side {
    manager: Manager,
    kernel: Kernel,
    ordinal: i32,
}

fn sides() -> [Side; 2] {
    [0, 1].map(|index| {
        let manager = manager_on(backend_of(index));
        let kernel = manager.kernel(&increment()).unwrap();
        let ordinal = manager.backend::<CudaBackend>().unwrap().ordinal();
        assert_eq!(ordinal, index as i32);
        Side { manager, kernel, ordinal }
    })
}

impl Side {
    fn address(&self, tensor: &Tensor<u32>) -> u64 {
        let address = |native: tenure_core::NativeTensor<'_, CudaBackend>| {
            native.block.map(|block| block.address() + native.offset)
        };
        tensor.native::<CudaBackend, _>(address).unwrap().expect("it is not empty")
    }

    /// Everything that a manager is asked for, with numbers of its own.
    fn work(&self, round: u32) {
        let begin = round * 2 + self.ordinal as u32 * 1_000_000;
        let before = current_context();
        let scope = self.manager.scope("s").unwrap();
        let tensor = scope.tensor_from("t", &[begin; 300]).unwrap();
        assert_eq!(device_of(self.address(&tensor)), self.ordinal);
        let sequence = scope.named("twice").unwrap();
        let dispatch = op::dispatch(&self.kernel).bind(&tensor).groups([5, 1, 1]);
        let (read, download) = op::download(&tensor);
        sequence.record(dispatch).unwrap().record(read).unwrap();
        for evaluation in 1..=3 {
            sequence.evaluate().unwrap().wait().unwrap();
            assert_eq!(download.get().unwrap(), [begin + evaluation; 300]);
        }
        assert_eq!(tensor.read().unwrap(), [begin + 3; 300]);
        scope.finish_blocking().unwrap();
        if round % 4 == 3 {
            self.manager.trim().unwrap();
        }
        assert_eq!(current_context(), before, "what was current is so again");
    }

    fn close(self) {
        drop(self.kernel);
        assert!(self.manager.close().unwrap().is_clean());
    }
}

fn end(sides: [Side; 2]) {
    sides.into_iter().for_each(Side::close);
    assert_eq!(
        ["contexts", "streams", "events", "modules", "executables", "memory", "host"].map(live),
        [0; 7]
    );
    assert_eq!(violations(), 0);
}

/// One thread calls the one and the other, with no context current, and with one of the wrong device.
#[test]
fn one_thread_works_on_both() {
    on_two("one_thread_works_on_both", || {
        let sides = sides();
        for round in 0..12 {
            // None, that of the first device, that of the second.
            set_current_context(match round % 3 {
                0 => 0,
                at => {
                    let backend = sides[at as usize - 1].manager.backend::<CudaBackend>().unwrap();
                    backend.context().expose_provenance()
                }
            });
            sides.iter().for_each(|side| side.work(round));
        }
        set_current_context(0);
        end(sides);
    });
}

/// Two executions in flight, one on each device, recorded, submitted and waited for in turns by one thread.
#[test]
fn calls_of_both_alternate() {
    on_two("calls_of_both_alternate", || {
        let sides = sides();
        delay(3);
        let scopes = sides.each_ref().map(|side| side.manager.scope("s").unwrap());
        let tensors = scopes.each_ref().map(|scope| scope.tensor::<u32>(200).unwrap());
        let sequences = scopes.each_ref().map(|scope| scope.sequence().unwrap());
        for (at, tensor) in tensors.iter().enumerate() {
            sequences[at].record(op::fill(tensor, 10 + at as u32)).unwrap();
        }
        for (at, tensor) in tensors.iter().enumerate() {
            let dispatch = op::dispatch(&sides[at].kernel).bind(tensor).groups([4, 1, 1]);
            sequences[at].record(dispatch).unwrap();
        }
        for _ in 0..4 {
            let running = sequences.each_ref().map(|sequence| sequence.evaluate().unwrap());
            for execution in running.iter().rev() {
                execution.wait().unwrap();
            }
        }
        let contents = tensors.each_ref().map(|tensor| tensor.read().unwrap());
        assert_eq!(contents, [vec![11; 200], vec![12; 200]]);
        for scope in &scopes {
            scope.finish_blocking().unwrap();
        }
        drop((scopes, tensors, sequences));
        end(sides);
    });
}

/// Two threads, each on both devices in turns, in opposite order.
#[test]
fn two_threads_work_on_both() {
    on_two("two_threads_work_on_both", || {
        let sides = sides();
        delay(5);
        std::thread::scope(|threads| {
            for turn in 0..2 {
                let sides = &sides;
                threads.spawn(move || {
                    for round in 0..20 {
                        sides[(round as usize + turn) % 2].work(round);
                    }
                });
            }
        });
        end(sides);
    });
}

/// A thread that has a context of the one device current lets go of what is of the other, while that is in use and after.
#[test]
fn memory_is_freed_on_a_thread_of_the_other_device() {
    on_two("memory_is_freed_on_a_thread_of_the_other_device", || {
        let sides = sides();
        for at in [0, 1] {
            let (side, other) = (&sides[at], &sides[1 - at]);
            let backend = side.manager.backend::<CudaBackend>().unwrap();
            let tensor = side.manager.tensor_from("t", &vec![1_u32; 1 << 20]).unwrap();
            let gate = Gate::close(backend.stream(QueueId(0)));
            let scope = side.manager.scope("s").unwrap();
            let execution = scope.evaluate([op::fill(&tensor, 2_u32)]).unwrap();
            let current = other.manager.backend::<CudaBackend>().unwrap().context().expose_provenance();
            std::thread::scope(|threads| {
                threads.spawn(|| {
                    set_current_context(current);
                    other.work(1);
                    drop((tensor, scope));
                    assert_eq!(execution.status(), ExecutionStatus::Running);
                    drop(gate);
                    execution.wait().unwrap();
                    side.manager.wait_idle().unwrap();
                    assert!(side.manager.trim().unwrap().bytes >= 4 << 20);
                    assert_eq!(current_context(), current);
                });
            });
            assert_eq!(side.manager.memory().live.bytes, 0);
        }
        end(sides);
    });
}

/// One manager closes, with work in flight on the other: that one does not wait for it, and goes on.
#[test]
fn one_closes_while_the_other_goes_on() {
    on_two("one_closes_while_the_other_goes_on", || {
        for closing in [0, 1] {
            let mut sides = sides().map(Some);
            let (first, second) = (sides[closing].take().unwrap(), sides[1 - closing].take().unwrap());
            let backend = second.manager.backend::<CudaBackend>().unwrap();
            let scope = second.manager.scope("s").unwrap();
            let tensor = scope.tensor_from("t", &[1_u32; 64]).unwrap();
            let gate = Gate::close(backend.stream(QueueId(0)));
            let execution = scope.evaluate([op::dispatch(&second.kernel).bind(&tensor)]).unwrap();
            first.work(2);
            first.close();
            assert_eq!(execution.status(), ExecutionStatus::Running);
            drop(gate);
            execution.wait().unwrap();
            assert_eq!(tensor.read().unwrap(), [2; 64]);
            scope.finish_blocking().unwrap();
            drop((scope, tensor, execution));
            second.work(3);
            second.close();
            assert_eq!(live(""), 0);
        }
    });
}

/// Two managers on one device share its context, which stays until the last of them is gone.
#[test]
fn two_managers_on_one_device_share_its_context() {
    on_two("two_managers_on_one_device_share_its_context", || {
        let open = || {
            let manager = manager_on(backend_of(1));
            let kernel = manager.kernel(&increment()).unwrap();
            Side { manager, kernel, ordinal: 1 }
        };
        let (first, second) = (open(), open());
        let context = |side: &Side| side.manager.backend::<CudaBackend>().unwrap().context();
        assert_eq!(context(&first), context(&second));
        for round in 0..4 {
            first.work(round);
            second.work(round);
        }
        first.close();
        second.work(5);
        second.close();
        assert_eq!((live(""), violations()), (0, 0));
    });
}

/// What belongs to the other device is refused before it reaches the driver, by a name for each.
#[test]
fn what_is_of_another_device_is_refused() {
    on_two("what_is_of_another_device_is_refused", || {
        let [one, other] = sides();
        let scope = one.manager.scope("s").unwrap();
        let [own, foreign] =
            [&one, &other].map(|side| side.manager.tensor_from("matrix", &[7_u32; 64]).unwrap());
        for operation in [
            op::copy(&foreign, &own),
            op::copy(&own, &foreign),
            op::fill(&foreign, 1_u32),
            op::dispatch(&one.kernel).bind(&foreign).into(),
            op::dispatch(&other.kernel).bind(&own).into(),
        ] {
            let error = scope.evaluate([operation]).map(|_| ()).unwrap_err();
            assert!(matches!(error, Error::ForeignManager { .. }), "{error}");
        }
        // Between devices everything goes through the host.
        own.write(&foreign.read().unwrap()).unwrap();
        assert_eq!(own.read().unwrap(), [7; 64]);
        scope.finish_blocking().unwrap();

        let released = Arc::new(AtomicBool::new(false));
        let memory = CudaMemory { address: other.address(&foreign), bytes: 256 };
        let error = adopt(&one.manager, memory, 64, &released).map(|_| ()).unwrap_err();
        let Error::Backend(error) = error else { panic!("{error}") };
        assert_eq!(error.kind, BackendErrorKind::Unsupported);
        assert!(error.message.contains("of device 1, and the manager of device 0"), "{error}");
        one.manager.wait_idle().unwrap();
        drop((scope, own, foreign));
        one.close();
        other.close();
        assert!(released.load(Ordering::Acquire), "the engine has its memory back");
        assert_eq!((live(""), violations()), (0, 0));
    });
}

/// An engine embeds one manager in a context of each device: each works on that device, whatever is current.
#[test]
fn an_engines_contexts_are_each_on_its_device() {
    on_two("an_engines_contexts_are_each_on_its_device", || {
        drop(backend_of(0));
        let engines = [0, 1].map(EngineContext::on);
        let sides = engines.each_ref().map(|engine| {
            let manager = manager_on(engine.embed(Arc::new(())).unwrap());
            let kernel = manager.kernel(&increment()).unwrap();
            let ordinal = manager.backend::<CudaBackend>().unwrap().ordinal();
            Side { manager, kernel, ordinal }
        });
        assert_eq!(sides.each_ref().map(|side| side.ordinal), [0, 1]);
        for round in 0..4 {
            sides.iter().for_each(|side| side.work(round));
        }
        sides.into_iter().for_each(Side::close);
        assert_eq!((live("contexts"), live("streams"), live("memory")), (2, 0, 0));
        engines.iter().for_each(EngineContext::destroy);
        assert_eq!(violations(), 0);
    });
}

/// An error that stays ends CUDA for the process: the other device's wait ends too, and its manager closes.
#[test]
fn an_error_that_stays_ends_all_devices() {
    let variables = [("SOFTCUDA_DEVICES", "2"), ("SOFTCUDA_QUIET", "1")];
    alone_with("devices::an_error_that_stays_ends_all_devices", &variables, || {
        let [one, other] = sides();
        let bad = one.manager.kernel(&wild()).unwrap();
        let tensors = [&one, &other].map(|side| side.manager.tensor_from("t", &[1_u32; 64]).unwrap());
        let scopes = [&one, &other].map(|side| side.manager.scope("s").unwrap());
        let gate = Gate::close(other.manager.backend::<CudaBackend>().unwrap().stream(QueueId(0)));
        let waiting = scopes[1].evaluate([op::fill(&tensors[1], 2_u32)]).unwrap();
        let error = scopes[0].evaluate([op::dispatch(&bad).bind(&tensors[0])]).unwrap().wait().unwrap_err();
        assert!(error.is_device_lost(), "{error}");
        drop(gate);
        let error = waiting.wait().unwrap_err();
        assert!(error.is_device_lost() && error.to_string().contains("restart"), "{error}");
        assert!(tensors[1].read().unwrap_err().is_device_lost());
        drop((bad, tensors, scopes, waiting));
        for side in [one, other] {
            drop(side.kernel);
            side.manager.close().unwrap();
        }
        let error = CudaBackend::with_options(&CudaOptions::builder().index(1).build()).unwrap_err();
        assert_eq!(error.kind, BackendErrorKind::DeviceLost);
    });
}

/// A device that is not there is an error that says what is.
#[test]
fn an_index_beyond_the_devices_says_what_there_is() {
    on_two("an_index_beyond_the_devices_says_what_there_is", || {
        let options = CudaOptions::builder().device("softcuda").index(2).build();
        let error = CudaBackend::with_options(&options).unwrap_err();
        assert_eq!(error.kind, BackendErrorKind::Unavailable);
        assert!(error.message.contains("has 2 devices") && error.message.contains("not NVIDIA"), "{error}");
    });
}
