//! Scenarios of C27: a process ends while statics or locals of its main thread hold a manager, live tensors, cached
//! memory, an unfinished scope with hooks, and work in flight (rapidsai/rmm#2367).
//!
//! L11 excepts process exit: hooks need not run. The process must end as it was asked to, at once and in silence.

use std::cell::RefCell;
use std::process::ExitCode;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use tenure_backend_host::HostBackend;
use tenure_conformance::instrument::Instrumented;
use tenure_conformance::{CallKind, CallSet, Probe};
use tenure_core::{
    Execution, ManagedScope, ManagedSequence, Manager, ManagerOptions, ReadFuture, Tensor, TrimPolicy, hook,
    op,
};

use crate::ffi;
use crate::scenario::{Ends, LIMIT_SECONDS, Scenario};

pub(crate) const SCENARIOS: &[Scenario] = &[
    ends("exit::static_then_return", static_then_return, 3),
    ends("exit::static_then_exit", static_then_exit, 4),
    panics("exit::static_then_panic", static_then_panic),
    ends("exit::static_then_signal", static_then_signal, 5),
    Scenario {
        name: "exit::static_then_killed",
        run: static_then_killed,
        ends: Ends::Signal(libc::SIGTERM),
        says: "",
    },
    ends("exit::local_then_return", local_then_return, 3),
    ends("exit::local_then_exit", local_then_exit, 4),
    panics("exit::local_then_panic", local_then_panic),
    ends("exit::local_then_signal", local_then_signal, 5),
    ends("exit::local_without_threads", local_without_threads, 3),
    ends("exit::while_others_wait", while_others_wait, 4),
    ends("exit::while_a_hook_runs", while_a_hook_runs, 4),
    ends("exit::nothing_is_called_at_exit", nothing_is_called_at_exit, 0),
    ends("exit::closed_before", closed_before, 0),
];

const fn ends(name: &'static str, run: fn() -> ExitCode, code: i32) -> Scenario {
    Scenario { name, run, ends: Ends::Code(code), says: "" }
}

const fn panics(name: &'static str, run: fn() -> ExitCode) -> Scenario {
    Scenario { name, run, ends: Ends::Code(101), says: "the main function panics" }
}

/// Handles of every kind.
struct Held {
    manager: Manager,
    scope: ManagedScope,
    tensors: Vec<Tensor<u32>>,
    sequence: ManagedSequence,
    execution: Execution,
    read: ReadFuture<u32>,
}

/// What a program may hold when it ends. The work in flight never completes if it is held back.
fn everything(options: ManagerOptions, is_held_back: bool) -> (Held, Probe) {
    let backend = Instrumented::new(HostBackend::new());
    let probe = backend.probe();
    let manager = Manager::open_with(backend, options).unwrap();
    drop(manager.tensor::<u8>(1 << 20).unwrap());
    assert!(manager.memory().cached.bytes > 0);
    let scope = manager.scope("unfinished").unwrap();
    scope.register(hook::once("once", |_| Ok(()))).unwrap();
    scope.register(hook::each("each", |_| Ok(()))).unwrap();
    let tensors: Vec<_> = vec![
        scope.tensor_from("scope's", &[1; 64]).unwrap(),
        manager.tensor_from("manager's", &[2; 64]).unwrap(),
    ];
    let sequence = scope.named("fill").unwrap();
    sequence.record(op::fill(&tensors[0], 3)).unwrap();
    sequence.run().unwrap();
    if is_held_back {
        probe.hold();
    }
    let execution = sequence.evaluate().unwrap();
    let read = tensors[0].read_async();
    (Held { manager, scope, tensors, sequence, execution, read }, probe)
}

fn options() -> ManagerOptions {
    ManagerOptions::builder().trim(TrimPolicy::Never).build()
}

static KEPT: OnceLock<Held> = OnceLock::new();

thread_local! {
    static LOCAL: RefCell<Option<Held>> = const { RefCell::new(None) };
}

fn keep_in_static() {
    let held = KEPT.get_or_init(|| everything(options(), true).0);
    assert_eq!(held.tensors.len(), 2);
}

/// The main thread's locals are destroyed when the process exits.
fn keep_in_local() {
    LOCAL.set(Some(everything(options(), true).0));
}

fn static_then_return() -> ExitCode {
    keep_in_static();
    ExitCode::from(3)
}

fn static_then_exit() -> ExitCode {
    keep_in_static();
    std::process::exit(4)
}

fn static_then_panic() -> ExitCode {
    keep_in_static();
    panic!("the main function panics")
}

/// A handler of SIGTERM that tells the main function to exit, as servers have it.
fn exit_by_signal() -> ! {
    let pipe = ffi::catch(libc::SIGTERM);
    ffi::raise(libc::SIGTERM);
    ffi::wait_for_signal(pipe);
    std::process::exit(5)
}

fn static_then_signal() -> ExitCode {
    keep_in_static();
    exit_by_signal()
}

fn static_then_killed() -> ExitCode {
    keep_in_static();
    ffi::raise(libc::SIGTERM);
    ExitCode::FAILURE
}

fn local_then_return() -> ExitCode {
    keep_in_local();
    ExitCode::from(3)
}

fn local_then_exit() -> ExitCode {
    keep_in_local();
    std::process::exit(4)
}

fn local_then_panic() -> ExitCode {
    keep_in_local();
    panic!("the main function panics")
}

fn local_then_signal() -> ExitCode {
    keep_in_local();
    exit_by_signal()
}

/// Without threads of tenure's, the drop of the last manager handle is what closes it: here while the main thread's
/// locals are destroyed. Its work completes, for nobody else could end it.
fn local_without_threads() -> ExitCode {
    let options = ManagerOptions::builder().threads(false).build();
    LOCAL.set(Some(everything(options, false).0));
    ExitCode::from(3)
}

/// Threads wait for work that never completes, for a finish and for a close, when the process exits.
fn while_others_wait() -> ExitCode {
    let (Held { manager, scope, execution, read, .. }, probe) = everything(options(), true);
    let closing = manager.clone();
    std::thread::spawn(move || execution.wait());
    std::thread::spawn(move || read.wait());
    std::thread::spawn(move || scope.finish_blocking());
    std::thread::spawn(move || closing.close());
    // The execution, the read and the timeline thread are at the device.
    assert!(probe.wait_calls(CallKind::WaitAny, 3, Duration::from_secs(u64::from(LIMIT_SECONDS))));
    std::process::exit(4)
}

/// A hook of an abandoned scope runs on the cleanup thread, and does not return, when the process exits.
fn while_a_hook_runs() -> ExitCode {
    let (held, probe) = everything(options(), true);
    let (send, receive) = mpsc::channel();
    let (never, for_ever) = mpsc::channel::<()>();
    held.scope
        .register(hook::once("for ever", move |_| {
            send.send(())?;
            for_ever.recv()?;
            Ok(())
        }))
        .unwrap();
    drop(held);
    probe.release_all();
    receive.recv().unwrap();
    std::mem::forget(never);
    std::process::exit(4)
}

static PROBE: OnceLock<Probe> = OnceLock::new();
static CALLS: AtomicU64 = AtomicU64::new(0);

fn calls_so_far() -> u64 {
    PROBE.get().map_or(0, |probe| probe.calls(CallSet::ALL))
}

extern "C" fn first_at_exit() {
    CALLS.store(calls_so_far(), Ordering::SeqCst);
}

extern "C" fn last_at_exit() {
    if CALLS.load(Ordering::SeqCst) != calls_so_far() {
        ffi::leave(1);
    }
}

/// From the first handler of exit to the last no driver call is made: tenure has nothing of its own that runs then.
/// Without threads, so that nothing else is at work.
fn nothing_is_called_at_exit() -> ExitCode {
    ffi::at_exit(last_at_exit);
    let options = ManagerOptions::builder().threads(false).build();
    let (held, probe) = everything(options, true);
    assert!(PROBE.set(probe).is_ok());
    assert!(KEPT.set(held).is_ok());
    ffi::at_exit(first_at_exit);
    assert!(calls_so_far() > 0);
    ExitCode::SUCCESS
}

/// An explicit close before the exit: nothing is held, and the report says so.
fn closed_before() -> ExitCode {
    static MANAGER: OnceLock<Manager> = OnceLock::new();
    let (Held { manager, scope, tensors, sequence, execution, read }, _) = everything(options(), false);
    let manager = MANAGER.get_or_init(|| manager);
    execution.wait().unwrap();
    assert_eq!(read.wait().unwrap(), [3; 64]);
    scope.finish_blocking().unwrap();
    drop((scope, tensors, sequence));
    let report = manager.close().unwrap();
    assert!(report.is_clean(), "{report}");
    assert_eq!(report.memory.reserved.bytes, 0);
    assert_eq!(report.memory.allocations, report.memory.frees);
    ExitCode::SUCCESS
}
