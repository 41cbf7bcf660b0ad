//! Cases C10, C12, C13 and C16: memory that runs out, errors that must hold nothing, and a driver that fails while
//! the stack unwinds.
//!
//! Not here: what the pool does before it gives up (`allocator.rs`).

use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::Arc;
use std::sync::mpsc;

use parking_lot::Mutex;
use tenure_core::{
    BackendErrorKind, BoxError, Error, ManagedScope, Manager, ManagerOptions, OutOfMemory,
    OutOfMemoryRequest, Tensor, TrimPolicy, op,
};

use super::support::{Count, MIB, WATCHDOG, assert_given_back, case, settled};
use crate::bed::{Bed, Rig};
use crate::case::Case;
use crate::instrument::{CallKind, Limits, ObjectKind};

pub(super) const CASES: &[Case] = &[
    case("field/c10_a_callback_drops_a_tensor", &["L15", "L20"], c10_a_callback_drops_a_tensor),
    case("field/c10_b_callback_allocates", &["L15", "L20"], c10_b_callback_allocates),
    case("field/c10_c_callback_runs_out_itself", &["L15", "L20"], c10_c_callback_runs_out_itself),
    case("field/c10_d_callback_fails", &["L15", "L20"], c10_d_callback_fails),
    case("field/c10_e_callback_panics", &["L15", "L20"], c10_e_callback_panics),
    case("field/c10_f_others_go_on_meanwhile", &["L15", "L20"], c10_f_others_go_on_meanwhile),
    case("field/c12_errors_hold_no_tensors", &["L20", "L19"], c12_errors_hold_no_tensors),
    case("field/c12_a_failed_run_gives_back", &["L13", "L16", "L19"], c12_a_failed_run_gives_back),
    case("field/c13_a_body_panics_and_frees_fail", &["L13", "L19"], c13_a_body_panics_and_frees_fail),
    case("field/c13_drops_while_unwinding", &["L17", "L13"], c13_drops_while_unwinding),
    case("field/c16_a_failed_tensor_fails_there", &["L20", "L19"], c16_a_failed_tensor_fails_there),
];

const BUDGET: u64 = 64 * MIB;

/// A manager with a budget of 64 MiB, 60 of which are in tensors that its callback can give up.
struct Spillable {
    manager: Manager,
    tensors: Arc<Mutex<Vec<Tensor<u8>>>>,
    calls: Count,
    /// The callback's way to the manager. Emptied at the end: a manager does not hold itself.
    reach: Arc<Mutex<Option<Manager>>>,
}

impl Spillable {
    /// `answer` gets the request, the tensors that it may give up, and the manager.
    fn new(
        bed: &Bed,
        answer: impl Fn(&OutOfMemoryRequest, &mut Vec<Tensor<u8>>, &Manager) -> Result<(), BoxError>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        let tensors = Arc::new(Mutex::new(Vec::new()));
        let reach = Arc::new(Mutex::new(None::<Manager>));
        let calls = Count::default();
        let callback = {
            let (tensors, reach, calls) = (tensors.clone(), reach.clone(), calls.clone());
            move |request: &OutOfMemoryRequest| {
                calls.add();
                let manager = reach.lock().clone().expect("the case has not ended");
                // Taken out, so that no lock of the case's own is held either.
                let mut spill = std::mem::take(&mut *tensors.lock());
                let answered = answer(request, &mut spill, &manager);
                *tensors.lock() = spill;
                answered
            }
        };
        let options = ManagerOptions::builder()
            .budget(BUDGET)
            .trim(TrimPolicy::Never)
            .on_out_of_memory(Arc::new(callback))
            .build();
        let manager = bed.open_with(options).manager;
        *reach.lock() = Some(manager.clone());
        *tensors.lock() = (0..4).map(|_| manager.tensor::<u8>(15 * MIB).unwrap()).collect();
        Spillable { manager, tensors, calls, reach }
    }

    fn ask(&self) -> Result<Tensor<u8>, Error> {
        self.manager.tensor::<u8>(16 * MIB)
    }

    fn end(self) {
        self.tensors.lock().clear();
        assert_given_back(&self.manager);
        *self.reach.lock() = None;
    }
}

#[track_caller]
fn out_of_memory<T>(result: Result<T, Error>) -> Arc<OutOfMemory> {
    match result {
        Err(Error::OutOfMemory(error)) => error,
        Err(error) => panic!("memory should have run out, not: {error}"),
        Ok(_) => panic!("memory should have run out"),
    }
}

/// The callback drops a tensor: the request succeeds, after one retry (NVIDIA/cudf-spark-jni#1122, for all of C10).
fn c10_a_callback_drops_a_tensor(bed: &Bed) {
    let spillable = Spillable::new(bed, |request, tensors, _| {
        assert_eq!((request.requested, request.memory.live.bytes), (16 * MIB, 60 * MIB));
        tensors.pop();
        Ok(())
    });
    let tensor = spillable.ask().unwrap();
    let memory = settled(&spillable.manager);
    assert_eq!((spillable.calls.get(), memory.retries, memory.failed_allocations), (1, 1, 0));
    assert_eq!(memory.live.bytes, 61 * MIB);
    drop(tensor);
    spillable.end();
}

/// The callback makes a tensor of its own besides.
fn c10_b_callback_allocates(bed: &Bed) {
    let spillable = Spillable::new(bed, |_, tensors, manager| {
        tensors.pop();
        let scratch = manager.tensor_from("scratch", &[1_u8; 1024])?;
        assert_eq!(scratch.read()?, [1; 1024]);
        Ok(())
    });
    let tensor = spillable.ask().unwrap();
    assert_eq!(spillable.calls.get(), 1);
    drop(tensor);
    spillable.end();
}

/// The callback asks for the same itself: it is not called for its own request, which fails; then the outer request
/// decides by what there is.
fn c10_c_callback_runs_out_itself(bed: &Bed) {
    for gives_up in [false, true] {
        let spillable = Spillable::new(bed, move |_, tensors, manager| {
            let inner = out_of_memory(manager.tensor::<u8>(16 * MIB));
            assert_eq!((inner.requested, inner.live), (16 * MIB, 60 * MIB));
            if gives_up {
                tensors.pop();
            }
            Ok(())
        });
        match spillable.ask() {
            Ok(tensor) => {
                assert!(gives_up, "there is no room");
                drop(tensor);
            }
            Err(Error::OutOfMemory(error)) => {
                assert!(!gives_up, "there is room: {error}");
                assert!(error.callback.is_none());
            }
            Err(error) => panic!("{error}"),
        }
        assert_eq!(spillable.calls.get(), 1);
        assert_eq!(spillable.manager.memory().failed_allocations, 2 - u64::from(gives_up));
        spillable.end();
    }
}

/// The callback fails: the error has the figures and the callback's error.
fn c10_d_callback_fails(bed: &Bed) {
    let spillable = Spillable::new(bed, |_, _, _| Err("the disk is full".into()));
    let error = out_of_memory(spillable.ask());
    assert_eq!((error.requested, error.live, error.cached), (16 * MIB, 60 * MIB, 0));
    assert_eq!(error.budget, Some(BUDGET));
    assert_eq!(error.callback.as_ref().unwrap().to_string(), "the disk is full");
    assert!(error.to_string().contains("the disk is full"), "{error}");
    assert_eq!(spillable.calls.get(), 1);
    spillable.end();
}

/// The callback panics: the panic reaches the one who asked, and the manager goes on.
fn c10_e_callback_panics(bed: &Bed) {
    let spillable = Spillable::new(bed, |_, _, _| panic_any(10_u8));
    let panicked = catch_unwind(AssertUnwindSafe(|| spillable.ask().map(drop)));
    assert_eq!(panicked.unwrap_err().downcast_ref(), Some(&10_u8));
    // The tensors that the callback had taken went with the panic: there is room.
    assert_eq!(settled(&spillable.manager).live.bytes, 0);
    let tensor = spillable.ask().unwrap();
    assert_eq!((spillable.calls.get(), spillable.manager.memory().failed_allocations), (1, 1));
    drop(tensor);
    spillable.end();
}

/// While the callback runs, another thread makes and drops tensors: no lock is held.
fn c10_f_others_go_on_meanwhile(bed: &Bed) {
    let (ask, asked) = mpsc::channel();
    let (reply, replied) = mpsc::channel();
    let replied = Mutex::new(replied);
    let spillable = Spillable::new(bed, move |_, tensors, _| {
        ask.send(()).unwrap();
        replied.lock().recv_timeout(WATCHDOG).expect("the other thread makes progress");
        tensors.pop();
        Ok(())
    });
    std::thread::scope(|threads| {
        let manager = &spillable.manager;
        threads.spawn(move || {
            asked.recv_timeout(WATCHDOG).unwrap();
            for _ in 0..100 {
                drop(manager.tensor::<u8>(MIB).unwrap());
            }
            manager.trim().unwrap();
            reply.send(()).unwrap();
        });
        drop(spillable.ask().unwrap());
    });
    assert_eq!(spillable.calls.get(), 1);
    spillable.end();
}

/// Makes `count` tensors of 8 MiB, all at once.
fn run_of(manager: &Manager, count: usize) -> Result<(), Error> {
    let tensors: Result<Vec<_>, _> = (0..count).map(|_| manager.tensor::<u8>(8 * MIB)).collect();
    tensors.map(drop)
}

/// A run that ran out of memory, and whose error is kept, holds no memory: half the run fits
/// (pytorch/pytorch#27600). With a budget, and with a driver that has no more.
fn c12_errors_hold_no_tensors(bed: &Bed) {
    let by_budget = ManagerOptions::builder().budget(BUDGET).build();
    let by_driver = Limits { capacity_bytes: Some(BUDGET), ..Limits::default() };
    for (limits, options) in [(Limits::default(), by_budget), (by_driver, ManagerOptions::default())] {
        let Rig { manager, .. } = bed.open_limited(limits, options);
        let kept = manager.tensor_from("kept", &[3_u8; 1024]).unwrap();
        let before = settled(&manager).live;
        let error = out_of_memory(run_of(&manager, 9));
        assert_eq!(error.requested, 8 * MIB);
        assert!(error.live >= 7 * 8 * MIB, "{error}");
        assert_eq!(&*error.largest[0].label, "tensor");
        assert_eq!(settled(&manager).live, before, "the error is held, its tensors are not");
        run_of(&manager, 4).unwrap();
        assert_eq!(kept.read().unwrap(), [3; 1024]);
        drop(kept);
        assert_given_back(&manager);
        drop(error);
    }
}

/// A run of ten steps that fails in the fifth gives its intermediate tensors back at once and keeps its input.
fn c12_a_failed_run_gives_back(bed: &Bed) {
    fn steps(scope: &ManagedScope, input: &Tensor<u8>) -> Result<(), Error> {
        let mut results = vec![input.clone()];
        for step in 0..10 {
            let next = scope.tensor::<u8>(if step == 4 { 60 * MIB } else { MIB })?;
            scope.evaluate([op::copy(&results[step], &next)])?;
            results.push(next);
        }
        Ok(())
    }
    let Rig { manager, .. } = bed.open_with(ManagerOptions::builder().budget(BUDGET).build());
    let input = manager.tensor::<u8>(MIB).unwrap();
    let result = manager.run("run", |scope| steps(scope, &input));
    let error = result.unwrap_err();
    let report = error.report().unwrap().clone();
    let memory = settled(&manager);
    assert_eq!((memory.live.bytes, memory.retired.bytes, memory.tensors), (MIB, 0, 1));
    assert_eq!((report.executions, report.peak_bytes), (4, 4 * MIB));
    assert!(matches!(error.body(), Some(Error::OutOfMemory(_))));
    drop(input);
    assert_given_back(&manager);
}

/// The body panics while every free fails: one panic comes out, its own; each block was given to the driver once, and
/// the failures are counted and told (chelsea0x3b/cudarc#277).
fn c13_a_body_panics_and_frees_fail(bed: &Bed) {
    const TENSORS: u64 = 3;
    let Rig { manager, probe } = bed.open();
    let hooks = Count::default();
    probe.fail_always(CallKind::Free, BackendErrorKind::Driver);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _ = manager.run("s", |scope| -> Result<(), Error> {
            scope.register(hooks.once("once"))?;
            let tensors: Result<Vec<_>, _> = (0..TENSORS).map(|_| scope.tensor::<u8>(MIB)).collect();
            for tensor in &tensors? {
                scope.evaluate([op::fill(tensor.view(0..64)?, 1)])?;
            }
            panic_any(13_u8)
        });
    }));
    assert_eq!(panicked.unwrap_err().downcast_ref(), Some(&13_u8));
    assert_eq!(hooks.get(), 1);
    assert_eq!(probe.calls(CallKind::Free), TENSORS, "each block once");
    assert_eq!(manager.memory().teardown_errors, TENSORS);
    let errors = manager.take_errors();
    assert_eq!(errors.len() as u64, TENSORS);
    assert!(errors.iter().all(|error| matches!(error, Error::Backend(error) if error.operation == "free")));
    assert!(manager.take_errors().is_empty());
    probe.clear_faults();
    assert_works(&manager);
}

/// Handles of all kinds are dropped by unwinding, with work in flight and frees that fail.
fn c13_drops_while_unwinding(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let hooks = Count::default();
    probe.fail_always(CallKind::Free, BackendErrorKind::Driver);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let scope = manager.scope("s").unwrap();
        scope.register(hooks.once("once")).unwrap();
        let tensor = scope.tensor::<u8>(MIB).unwrap();
        let owned = manager.tensor::<u8>(MIB).unwrap();
        let sequence = scope.named("fill").unwrap();
        sequence.record(op::fill(tensor.view(0..64).unwrap(), 1)).unwrap();
        probe.hold();
        let _execution = sequence.evaluate().unwrap();
        let _read = owned.read_async();
        panic_any(13_u8)
    }));
    assert_eq!(panicked.unwrap_err().downcast_ref(), Some(&13_u8));
    probe.release_all();
    let report = manager.close().unwrap();
    assert_eq!(hooks.get(), 1);
    let blocks = probe.lifetimes(ObjectKind::Block).made;
    assert_eq!((probe.calls(CallKind::Free), report.memory.teardown_errors), (blocks, blocks));
    assert_eq!(report.errors.len() as u64, blocks);
}

/// A tensor that cannot be had is no tensor: the error comes from making it, is the same when asked again, and leaves no
/// trace (tracel-ai/cubecl#1401).
fn c16_a_failed_tensor_fails_there(bed: &Bed) {
    let Rig { manager, probe } = bed.open_with(ManagerOptions::builder().budget(BUDGET).build());
    let scope = manager.scope("s").unwrap();
    let before = settled(&manager);
    for attempt in 1..=3 {
        let error = out_of_memory(scope.tensor::<u8>(100 * MIB));
        assert_eq!((error.requested, error.live, error.budget), (100 * MIB, 0, Some(BUDGET)));
        let memory = settled(&manager);
        assert_eq!((memory.live, memory.reserved, memory.tensors), (before.live, before.reserved, 0));
        assert_eq!(memory.failed_allocations, attempt);
    }
    assert_eq!(probe.calls(CallKind::Allocate), 0, "what passes the budget is not asked of the driver");
    // Any other error of the driver's comes back as what it is, from the same place.
    probe.fail_nth(CallKind::Allocate, 1, BackendErrorKind::Driver);
    match scope.tensor::<u8>(MIB) {
        Err(Error::Backend(error)) => assert_eq!(error.kind, BackendErrorKind::Driver),
        other => panic!("the driver refused: {other:?}"),
    }
    assert_eq!(scope.live_bytes(), 0);
    scope.finish_blocking().unwrap();
    assert_works(&manager);
}

/// The manager goes on: work is done and everything given back.
fn assert_works(manager: &Manager) {
    manager
        .run("next", |scope| -> Result<(), Error> {
            let tensor = scope.tensor::<u32>(64)?;
            scope.evaluate([op::fill(&tensor, 5)])?.wait()?;
            assert_eq!(tensor.read()?, [5; 64]);
            Ok(())
        })
        .unwrap();
    assert_given_back(manager);
}
