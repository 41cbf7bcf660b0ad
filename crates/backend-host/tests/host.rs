//! What the host backend alone shows: queues that are threads, kernels that are closures, memory with a limit.

use std::sync::mpsc;
use std::sync::{Arc, Mutex};

use tenure_backend_host::{HostBackend, HostOptions};
use tenure_core::{
    Access, BackendErrorKind, Error, KernelSource, Manager, ManagerOptions, QueueId, ScopeOptions, op,
};

fn open(options: HostOptions) -> Manager {
    Manager::open_with(HostBackend::with_options(options), ManagerOptions::default()).expect("host opens")
}

fn on_queue(queue: u32) -> ScopeOptions {
    ScopeOptions::builder().label(format!("on queue {queue}")).queue(QueueId(queue)).build()
}

#[test]
fn evaluating_returns_at_once_and_queues_do_not_wait_for_each_other() {
    let manager = open(HostOptions::default());
    let (go, gone) = mpsc::channel::<()>();
    let gone = Mutex::new(gone);
    let blocks = KernelSource::new("blocks", &[Access::Write]).host(move |arguments| {
        gone.lock().expect("one at a time").recv().expect("told to go");
        arguments.write::<u32>(0).fill(1);
    });
    let blocks = manager.kernel(&blocks).expect("host form");
    let slow = manager.scope_with(on_queue(0)).expect("open");
    let fast = manager.scope_with(on_queue(1)).expect("open");
    let held = slow.tensor::<u32>(4).expect("room");
    let other = fast.tensor::<u32>(4).expect("room");
    let blocked = slow.evaluate([op::dispatch(&blocks).bind(&held)]).expect("submitted");
    // The first queue is stuck; the second is not.
    fast.evaluate([op::fill(&other, 2)]).expect("submitted").wait().expect("it runs");
    assert_eq!(other.read().expect("live"), [2; 4]);
    go.send(()).expect("the kernel listens");
    blocked.wait().expect("it runs");
    assert_eq!(held.read().expect("live"), [1; 4]);
}

#[test]
fn a_use_on_another_queue_waits_for_the_write() {
    let manager = open(HostOptions::default());
    let (go, gone) = mpsc::channel::<()>();
    let gone = Mutex::new(gone);
    let writes = KernelSource::new("writes", &[Access::Write]).host(move |arguments| {
        gone.lock().expect("one at a time").recv().expect("told to go");
        arguments.write::<u32>(0).fill(7);
    });
    let writes = manager.kernel(&writes).expect("host form");
    let shared = manager.tensor::<u32>(4).expect("room");
    let copy = manager.tensor::<u32>(4).expect("room");
    let first = manager.scope_with(on_queue(0)).expect("open");
    let second = manager.scope_with(on_queue(1)).expect("open");
    first.evaluate([op::dispatch(&writes).bind(&shared)]).expect("submitted");
    let reading = second.evaluate([op::copy(&shared, &copy)]).expect("submitted");
    go.send(()).expect("the kernel listens");
    reading.wait().expect("it runs");
    assert_eq!(copy.read().expect("live"), [7; 4]);
}

#[test]
fn one_queue_runs_in_order() {
    let manager = open(HostOptions::builder().queues(1).build());
    let order = Arc::new(Mutex::new(Vec::new()));
    let scope = manager.scope("s").expect("open");
    let mut last = None;
    for number in 0..100 {
        let seen = order.clone();
        let note = KernelSource::new("note", &[]).host(move |_| seen.lock().expect("fine").push(number));
        let note = manager.kernel(&note).expect("host form");
        last = Some(scope.evaluate([op::dispatch(&note)]).expect("submitted"));
    }
    last.expect("a hundred").wait().expect("it runs");
    assert_eq!(*order.lock().expect("fine"), (0..100).collect::<Vec<_>>());
}

#[test]
fn a_kernel_that_panics_or_fails_fails_its_execution_only() {
    let manager = open(HostOptions::default());
    let scope = manager.scope("s").expect("open");
    let tensor = scope.tensor_from("data", &[1_u32; 4]).expect("room");
    let panics = KernelSource::new("panics", &[]).host(|_| panic!("with {} values", 3));
    let fails = KernelSource::new("fails", &[]).host_fallible(|_| Err("no such mode".into()));
    for (source, message) in [(panics, "with 3 values"), (fails, "no such mode")] {
        let kernel = manager.kernel(&source).expect("host form");
        let sequence = scope.sequence().expect("open");
        sequence.record(op::dispatch(&kernel)).expect("fits").record(op::fill(&tensor, 9)).expect("fits");
        let error = sequence.run().expect_err("the kernel fails");
        let Error::Execution { cause, .. } = &error else { panic!("{error:?}") };
        assert_eq!(cause.kind, BackendErrorKind::Execution);
        let text = error.to_string();
        assert!(text.contains(message) && text.contains(source.label()), "{text}");
    }
    assert_eq!(tensor.read().expect("live"), [1; 4], "the rest of a failed recording is not run");
    scope.evaluate([op::fill(&tensor, 2)]).expect("submitted").wait().expect("the queue goes on");
    assert_eq!(tensor.read().expect("live"), [2; 4]);
}

#[test]
fn a_kernel_that_asks_for_what_was_not_bound_says_so() {
    let manager = open(HostOptions::default());
    let scope = manager.scope("s").expect("open");
    let tensor = scope.tensor::<u8>(6).expect("room");
    let wrong: [(&str, KernelSource); 4] = [
        (
            "binding 0 was declared Read and is written",
            kernel(&[Access::Read], |arguments| {
                arguments.write::<u8>(0);
            }),
        ),
        (
            "binding 1, the dispatch has 1",
            kernel(&[Access::Write], |arguments| {
                arguments.read::<u8>(1);
            }),
        ),
        (
            "binding 0 as u32",
            kernel(&[Access::Write], |arguments| {
                arguments.write::<u32>(0);
            }),
        ),
        (
            "wants 4 bytes of parameters, the dispatch passed 0",
            kernel(&[Access::Write], |arguments| {
                arguments.parameters::<u32>();
            }),
        ),
    ];
    for (message, source) in wrong {
        let kernel = manager.kernel(&source).expect("host form");
        let dispatch = op::dispatch(&kernel).bind(&tensor);
        let error = scope.evaluate([dispatch]).expect("submitted").wait().expect_err("it is wrong");
        assert!(error.to_string().contains(message), "{error}");
    }
}

fn kernel(
    bindings: &[Access],
    run: impl Fn(&mut tenure_core::HostArguments<'_>) + Send + Sync + 'static,
) -> KernelSource {
    KernelSource::new("wrong", bindings).host(run)
}

#[test]
fn every_scalar_type_is_aligned_whole_and_in_views() {
    fn check<T: tenure_core::Element + PartialEq + std::fmt::Debug>(manager: &Manager, value: T) {
        let scope = manager.scope("s").expect("open");
        let set = KernelSource::new("set", &[Access::Read, Access::Write]).host(|arguments| {
            let ([from], [to]) = arguments.slices::<T, 1, 1>([0], [1]);
            to.copy_from_slice(from);
        });
        let set = manager.kernel(&set).expect("host form");
        let from = scope.tensor_from("from", &[value; 7]).expect("room");
        let to = scope.tensor::<T>(9).expect("room");
        let view = to.view(1..8).expect("inside");
        scope
            .evaluate([op::dispatch(&set).bind(&from).bind(&view)])
            .expect("submitted")
            .wait()
            .expect("aligned");
        assert_eq!(view.read().expect("live"), [value; 7]);
    }
    let manager = open(HostOptions::default());
    check(&manager, 1_u8);
    check(&manager, 1_i16);
    check(&manager, 1.5_f32);
    check(&manager, 1.5_f64);
    check(&manager, 1_u128);
    check(&manager, [1_u8, 2, 3]);
}

#[test]
fn empty_tensors_bind_to_any_type() {
    let manager = open(HostOptions::default());
    let scope = manager.scope("s").expect("open");
    let kernel = KernelSource::new("counts", &[Access::Read, Access::ReadWrite]).host(|arguments| {
        assert!(arguments.read::<f64>(0).is_empty());
        assert!(arguments.write::<u128>(1).is_empty());
    });
    let kernel = manager.kernel(&kernel).expect("host form");
    let reads = scope.tensor::<f64>(0).expect("no room needed");
    let writes = scope.tensor::<u128>(0).expect("no room needed");
    scope
        .evaluate([op::dispatch(&kernel).bind(&reads).bind(&writes)])
        .expect("submitted")
        .wait()
        .expect("it runs");
}

#[test]
fn the_memory_limit_is_the_drivers_word() {
    let manager = open(HostOptions::builder().memory_limit(4 << 20).build());
    let held = manager.tensor::<u8>(3 << 20).expect("room");
    let error = manager.tensor::<u8>(2 << 20).expect_err("no room");
    let Error::OutOfMemory(error) = error else { panic!("{error:?}") };
    assert_eq!(error.driver.as_ref().map(|driver| driver.kind), Some(BackendErrorKind::OutOfMemory));
    assert_eq!(&*error.largest[0].label, "tensor");
    let figures = manager.driver_memory().expect("host has figures");
    assert_eq!((figures.used, figures.budget), (3 << 20, Some(4 << 20)));
    drop(held);
    manager.tensor::<u8>(4 << 20).expect("room, once what is cached went back");
}

#[test]
fn a_kernel_with_no_host_form_is_unsupported_by_name() {
    let manager = open(HostOptions::default());
    let error = manager.kernel(&KernelSource::new("elsewhere", &[])).expect_err("no form");
    let Error::Backend(error) = error else { panic!("{error:?}") };
    assert_eq!(error.kind, BackendErrorKind::Unsupported);
    assert!(error.to_string().contains("`elsewhere`"), "{error}");
}

#[test]
fn closing_waits_for_what_was_submitted() {
    let manager = open(HostOptions::default());
    let scope = manager.scope("s").expect("open");
    let tensor = scope.tensor::<u64>(1 << 16).expect("room");
    let executions: Vec<_> =
        (0..50).map(|value| scope.evaluate([op::fill(&tensor, value)]).expect("submitted")).collect();
    manager.close().expect("not inside a hook");
    assert!(executions.iter().all(|execution| execution.wait().is_ok()));
}

#[test]
fn a_download_has_what_the_tensor_held_at_its_turn() {
    let manager = open(HostOptions::default());
    let scope = manager.scope("s").expect("open");
    let tensor = scope.tensor_from("data", &[1_u32, 2, 3]).expect("room");
    let (read, download) = op::download(&tensor);
    assert!(matches!(download.get(), Err(Error::NotReady { .. })));
    scope.evaluate([read, op::fill(&tensor, 9)]).expect("submitted").wait().expect("it runs");
    assert_eq!(download.get().expect("it ran"), [1, 2, 3]);
    assert_eq!(tensor.read().expect("live"), [9; 3]);
}

#[test]
fn a_download_after_a_failed_kernel_is_not_delivered() {
    let manager = open(HostOptions::default());
    let scope = manager.scope("s").expect("open");
    let tensor = scope.tensor::<u32>(4).expect("room");
    let fails = KernelSource::new("fails", &[]).host_fallible(|_| Err("no such mode".into()));
    let fails = manager.kernel(&fails).expect("host form");
    let (read, download) = op::download(&tensor);
    let execution = scope.evaluate([op::dispatch(&fails).into(), read]).expect("submitted");
    execution.wait().expect_err("the kernel fails");
    assert!(matches!(download.get(), Err(Error::NotReady { .. })));
}

#[test]
fn a_backend_may_leave_out_cut_blocks_and_repeated_recordings() {
    let options = HostOptions::builder().sub_allocation(false).reusable_recordings(false).build();
    let manager = open(options);
    let (first, second) = (manager.tensor::<u32>(4).expect("room"), manager.tensor::<u32>(4).expect("room"));
    assert_eq!(manager.memory().live.blocks, 2, "each tensor has a block of its own");
    let add = KernelSource::new("add", &[Access::Read, Access::ReadWrite]).host(|arguments| {
        let ([from], [to]) = arguments.slices::<u32, 1, 1>([0], [1]);
        to.iter_mut().zip(from).for_each(|(to, from)| *to += *from);
    });
    let add = manager.kernel(&add).expect("host form");
    let scope = manager.scope("s").expect("open");
    let sequence = scope.sequence().expect("open");
    sequence.record(op::fill(&first, 3)).expect("fits");
    sequence.record(op::dispatch(&add).bind(&first).bind(&second)).expect("fits");
    second.write(&[0; 4]).expect("live");
    for evaluation in 1..=3 {
        sequence.run().expect("it runs");
        assert_eq!(second.read().expect("live"), [3 * evaluation; 4]);
    }
}

#[test]
fn bindings_that_are_only_read_may_overlap() {
    let manager = open(HostOptions::default());
    let scope = manager.scope("s").expect("open");
    let data = scope.tensor_from("data", &[1_u32, 2, 3, 4]).expect("room");
    let sum = scope.tensor::<u32>(3).expect("room");
    let pairs = KernelSource::new("pairs", &[Access::Read, Access::Read, Access::Write]).host(|arguments| {
        let ([left, right], [sum]) = arguments.slices::<u32, 2, 1>([0, 1], [2]);
        for (at, sum) in sum.iter_mut().enumerate() {
            *sum = left[at] + right[at];
        }
    });
    let pairs = manager.kernel(&pairs).expect("host form");
    let (left, right) = (data.view(0..3).expect("inside"), data.view(1..4).expect("inside"));
    let dispatch = op::dispatch(&pairs).bind(&left).bind(&right).bind(&sum);
    scope.evaluate([dispatch]).expect("submitted").wait().expect("it runs");
    assert_eq!(sum.read().expect("live"), [3, 5, 7]);
}
