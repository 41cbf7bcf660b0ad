//! Wakers: one a waiter, cloned, woken and dropped with no lock held, and free to call anything (L15, L18).
//!
//! Not here: futures that are dropped (`futures.rs`).

use std::pin::Pin;
use std::sync::mpsc;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, Waker};

use parking_lot::Mutex;
use tenure_core::{Error, Execution, ExecutionStatus, Outcome};

use super::ffi::{Curious, curious};
use crate::bed::{Bed, Rig};
use crate::case::Case;
use crate::cases::hooks::support::{Signal, assert_given_back, case, receive, tell, work};

pub(super) const CASES: &[Case] = &[
    case("cancellation/a_waiter_has_one_waker", &["L18"], a_waiter_has_one_waker),
    case("cancellation/wakers_are_cloned_without_a_lock", &["L15"], wakers_are_cloned_without_a_lock),
    case("cancellation/a_waker_may_finish_a_scope", &["L15"], a_waker_may_finish_a_scope),
    case("cancellation/a_waker_cannot_close", &["L15", "L6"], a_waker_cannot_close),
];

/// Does nothing when woken; whoever makes it can see how long it lives.
struct Idle;

impl Wake for Idle {
    fn wake(self: Arc<Self>) {}
}

/// Polls with a waker of its own. Where that is still held it can be upgraded.
fn poll_anew<F: Future + Unpin>(future: &mut F) -> Weak<Idle> {
    let idle = Arc::new(Idle);
    let weak = Arc::downgrade(&idle);
    let waker = Waker::from(idle);
    assert!(Pin::new(future).poll(&mut Context::from_waker(&waker)).is_pending());
    weak
}

fn alive(wakers: &[Weak<Idle>]) -> usize {
    wakers.iter().filter(|waker| waker.strong_count() > 0).count()
}

/// An execution, a finish and a read are polled a thousand times, each time with another waker: one is kept of each, and
/// none once the future is dropped.
fn a_waiter_has_one_waker(bed: &Bed) {
    const POLLS: usize = 1_000;
    let Rig { manager, probe } = bed.open();
    let scope = manager.scope("s").unwrap();
    let tensor = manager.tensor_from("data", &[1_u32; 64]).unwrap();
    probe.hold();
    let mut execution = crate::cases::hooks::support::fill(&scope, &tensor, 2);
    let mut read = tensor.read_async();
    let wakers: Vec<_> = (0..POLLS).map(|_| poll_anew(&mut execution)).collect();
    assert_eq!(alive(&wakers), 1);
    let reads: Vec<_> = (0..POLLS).map(|_| poll_anew(&mut read)).collect();
    assert_eq!(alive(&reads), 1);
    let mut finish = scope.finish();
    let finishes: Vec<_> = (0..POLLS).map(|_| poll_anew(&mut finish)).collect();
    assert_eq!(alive(&finishes), 1);
    // Each handle waits by itself.
    let mut again = execution.clone();
    let more = poll_anew(&mut again);
    drop((execution, read, finish));
    assert_eq!((alive(&wakers), alive(&reads), alive(&finishes), more.strong_count()), (0, 0, 0, 1));
    drop(again);
    assert_eq!(more.strong_count(), 0);
    probe.release_all();
    // The finish that was dropped goes on: it is awaited, or over.
    let _ = scope.finish_blocking();
    drop((scope, tensor));
    assert!(manager.close().unwrap().is_clean());
}

/// A waker whose every function asks for the execution's status: none of them runs under its lock.
fn wakers_are_cloned_without_a_lock(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let scope = manager.scope("s").unwrap();
    probe.hold();
    let mut execution = work(&scope);
    let shared = Arc::new(Curious::new(execution.clone()));
    for _ in 0..3 {
        let waker = curious(&shared);
        assert!(Pin::new(&mut execution).poll(&mut Context::from_waker(&waker)).is_pending());
        let mut finish = scope.finish();
        assert!(Pin::new(&mut finish).poll(&mut Context::from_waker(&waker)).is_pending());
    }
    probe.release_all();
    execution.wait().unwrap();
    let _ = scope.finish_blocking();
    shared.execution.lock().take();
    let looks = shared.looks.lock();
    assert!(looks.len() >= 6 && looks.contains(&ExecutionStatus::Running), "{looks:?}");
    drop(execution);
    assert!(manager.close().unwrap().is_clean());
}

/// Calls a closure when it is woken, once.
struct Calls<F>(Mutex<Option<F>>);

impl<F: FnOnce() + Send> Wake for Calls<F> {
    fn wake(self: Arc<Self>) {
        let call = self.0.lock().take();
        if let Some(call) = call {
            call();
        }
    }
}

/// Polls `execution` once with a waker that calls `call`, and drops it.
fn call_when_woken(mut execution: Execution, call: impl FnOnce() + Send + 'static) -> Execution {
    let waker = Waker::from(Arc::new(Calls(Mutex::new(Some(call)))));
    match Pin::new(&mut execution).poll(&mut Context::from_waker(&waker)) {
        Poll::Pending => execution,
        Poll::Ready(result) => panic!("the execution is held: {result:?}"),
    }
}

/// A waker, on whatever thread, finishes a scope with work in flight.
fn a_waker_may_finish_a_scope(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let scope = manager.scope("s").unwrap();
    let other = manager.scope("other").unwrap();
    probe.hold();
    let execution = work(&scope);
    work(&other);
    let (sender, outcomes) = mpsc::channel();
    let (began, begun) = mpsc::channel();
    let execution = call_when_woken(execution, move || {
        tell(&began, ());
        tell(&sender, other.finish_blocking().map(|report| report.outcome));
    });
    probe.release_one(crate::case::FIRST);
    receive(&begun);
    probe.release_all();
    assert_eq!(receive(&outcomes).unwrap(), Outcome::Completed);
    drop(execution);
    scope.finish_blocking().unwrap();
    assert_given_back(&manager);
}

/// A waker that closes the manager is refused where that would wait for its own thread; the manager can be closed
/// afterwards.
fn a_waker_cannot_close(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let scope = manager.scope("s").unwrap();
    let signal = Signal::default();
    probe.hold();
    let (sender, answers) = mpsc::channel();
    let (own, done) = (manager.clone(), signal.clone());
    let execution = call_when_woken(work(&scope), move || {
        tell(&sender, own.close().map(|report| report.is_clean()));
        drop(own);
        done.set();
    });
    probe.release_all();
    // Whoever notices first wakes: the timeline thread, which is refused, or nobody of tenure's.
    let answer = receive(&answers);
    assert!(matches!(answer, Err(Error::WouldDeadlock { .. }) | Ok(_)), "{answer:?}");
    pollster::block_on(signal.wait());
    drop(execution);
    let _ = scope.finish_blocking();
    assert!(manager.close().is_ok());
}
