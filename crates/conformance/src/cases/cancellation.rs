//! Cases about ending early: cancelled scopes, dropped futures, deadlines of a finish (L16, L17, L18).
//!
//! Not here: hooks that outlive a deadline (`hooks.rs`).

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tenure_core::{Error, Outcome, RunError, ScopeOptions, SequenceState, hook, op};

use crate::bed::{Bed, Rig};
use crate::case::Case;
use crate::instrument::CallKind;

/// The cases of this topic.
pub const CASES: &[Case] = &[
    case(
        "cancellation/submitted_work_completes_and_the_rest_never_starts",
        &["L16"],
        submitted_work_completes,
    ),
    case("cancellation/children_are_cancelled_too", &["L16"], children_are_cancelled),
    case("cancellation/a_child_of_a_cancelled_scope_is_born_cancelled", &["L16"], a_late_child_is_cancelled),
    case("cancellation/twice_is_once", &["L16"], twice_is_once),
    case("cancellation/hooks_run_and_may_evaluate", &["L11", "L16"], hooks_run_and_may_evaluate),
    case("cancellation/a_failing_body_stays_first", &["L13", "L16"], a_failing_body_stays_first),
    case("cancellation/after_the_end_is_nothing", &["L16"], after_the_end_is_nothing),
    case("cancellation/ten_scopes_one_canceller", &["L4", "L16"], ten_scopes_one_canceller),
    case("cancellation/a_dropped_execution_runs_on", &["L18"], a_dropped_execution_runs_on),
    case("cancellation/a_dropped_read_holds_nothing", &["L18"], a_dropped_read_holds_nothing),
    case("cancellation/a_dropped_finish_goes_on", &["L18", "L11"], a_dropped_finish_goes_on),
    case("cancellation/a_finish_that_is_never_polled_does_nothing", &["L18"], a_finish_never_polled),
    case("cancellation/a_half_polled_finish_holds_nobody_up", &["L10", "L18"], a_half_polled_finish),
    case(
        "cancellation/a_finish_past_its_deadline_is_timed_out",
        &["L16", "L4", "L11"],
        a_finish_past_its_deadline,
    ),
];

const fn case(id: &'static str, rules: &'static [&'static str], run: fn(&Bed)) -> Case {
    Case { id, rules, requires: &[], run }
}

/// What was submitted completes with its result; what was not is `Cancelled`, and reaches no driver.
fn submitted_work_completes(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let scope = manager.scope("s").unwrap();
    let tensor = scope.tensor_from("data", &[1_u32; 64]).unwrap();
    let [first, second] = [scope.named("first").unwrap(), scope.named("second").unwrap()];
    first.record(op::fill(&tensor, 2)).unwrap();
    second.record(op::fill(&tensor, 3)).unwrap();
    probe.hold();
    let execution = first.evaluate().unwrap();
    scope.cancel();
    assert!(scope.is_cancelled());
    assert_eq!((first.state(), second.state()), (SequenceState::Running, SequenceState::Cancelled));
    assert!(matches!(second.evaluate(), Err(Error::Cancelled { .. })));
    assert!(matches!(second.record(op::fill(&tensor, 4)), Err(Error::Cancelled { .. })));
    probe.release_all();
    execution.wait().unwrap();
    assert!(matches!(first.evaluate(), Err(Error::Cancelled { .. })));
    assert_eq!(tensor.read().unwrap(), [2; 64]);
    assert_eq!(probe.calls(CallKind::Submit), 1);
    let report = scope.finish_blocking().unwrap();
    assert_eq!((report.outcome, report.executions), (Outcome::Cancelled, 1));
}

/// Cancelling reaches every scope below, not the one above.
fn children_are_cancelled(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let outer = manager.scope("outer").unwrap();
    let middle = outer.scope("middle").unwrap();
    let inner = middle.scope("inner").unwrap();
    middle.cancel();
    assert_eq!((outer.is_cancelled(), middle.is_cancelled(), inner.is_cancelled()), (false, true, true));
    assert_eq!(inner.finish_blocking().unwrap().outcome, Outcome::Cancelled);
    assert_eq!(middle.finish_blocking().unwrap().outcome, Outcome::Cancelled);
    assert_eq!(outer.finish_blocking().unwrap().outcome, Outcome::Completed);
}

/// A scope that is opened under a cancelled one starts nothing either.
fn a_late_child_is_cancelled(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let outer = manager.scope("outer").unwrap();
    outer.cancel();
    let inner = outer.scope("inner").unwrap();
    let tensor = inner.tensor::<u32>(4).unwrap();
    assert!(matches!(inner.evaluate([op::fill(&tensor, 1)]), Err(Error::Cancelled { .. })));
    outer.finish_blocking().unwrap();
}

/// A second cancel changes nothing.
fn twice_is_once(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let log = manager.record_events();
    let scope = manager.scope("s").unwrap();
    scope.cancel();
    scope.cancel();
    assert_eq!(scope.finish_blocking().unwrap().outcome, Outcome::Cancelled);
    assert_eq!(log.contract_text().matches("cancelled").count(), 1);
}

/// Hooks of a cancelled scope run, know the outcome, and may still use the device: cleanup was not cancelled.
fn hooks_run_and_may_evaluate(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let scope = manager.scope("s").unwrap();
    let tensor = scope.tensor_from("data", &[1_u32; 4]).unwrap();
    let target = manager.tensor::<u32>(4).unwrap();
    let copy = (tensor.clone(), target.clone());
    scope
        .register(hook::once("copies", move |context| {
            assert_eq!(context.outcome(), Some(Outcome::Cancelled));
            Ok(context.scope().evaluate([op::copy(&copy.0, &copy.1)])?.wait()?)
        }))
        .unwrap();
    scope.cancel();
    assert_eq!(scope.finish_blocking().unwrap().outcome, Outcome::Cancelled);
    assert_eq!(target.read().unwrap(), [1; 4]);
}

/// The body's error comes back as it is; the outcome says that it was cancelled.
fn a_failing_body_stays_first(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let result = manager.run("s", |scope| -> Result<(), String> {
        scope.cancel();
        Err("stopped at step 3".to_owned())
    });
    let Err(RunError::Body { error, report }) = result else { panic!("{result:?}") };
    assert_eq!(error, "stopped at step 3");
    assert_eq!(report.unwrap().outcome, Outcome::Cancelled);
}

/// Cancelling a finished scope does not change how it ended.
fn after_the_end_is_nothing(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let scope = manager.scope("s").unwrap();
    scope.finish_blocking().unwrap();
    scope.cancel();
    let error = scope.finish_blocking().unwrap_err();
    assert!(matches!(error, Error::ScopeFinished { outcome: Outcome::Completed, .. }), "{error}");
}

/// Ten threads work in scopes of their own while another cancels some of them: the others' results are right, and
/// nothing is left.
fn ten_scopes_one_canceller(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    for round in 0..10_usize {
        let scopes: Vec<_> = (0..10).map(|at| manager.scope(format!("scope {at}")).unwrap()).collect();
        std::thread::scope(|threads| {
            let workers: Vec<_> = scopes
                .iter()
                .map(|scope| {
                    threads.spawn(move || {
                        let tensor = scope.tensor_from("data", &[0_u32; 16]).unwrap();
                        for value in 1..=20_u32 {
                            match scope.evaluate([op::fill(&tensor, value)]) {
                                Ok(execution) => execution.wait().unwrap(),
                                Err(Error::Cancelled { .. }) => return false,
                                Err(error) => panic!("{error}"),
                            }
                        }
                        assert_eq!(tensor.read().unwrap(), [20; 16]);
                        true
                    })
                })
                .collect();
            let victims: Vec<usize> = (0..3).map(|at| (round * 3 + at * 7) % 10).collect();
            for victim in &victims {
                scopes[*victim].cancel();
            }
            for (at, worker) in workers.into_iter().enumerate() {
                let done = worker.join().unwrap();
                assert!(done || victims.contains(&at), "scope {at} was not cancelled");
            }
        });
        for scope in scopes {
            let report = scope.finish_blocking().unwrap();
            assert_eq!(report.outcome == Outcome::Cancelled, scope.is_cancelled());
        }
        let memory = manager.memory();
        assert_eq!((memory.live.bytes, memory.retired.bytes), (0, 0));
    }
}

fn poll_once<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Dropping the future of an execution, polled or not, cancels the wait only.
fn a_dropped_execution_runs_on(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let scope = manager.scope("s").unwrap();
    let tensor = scope.tensor::<u32>(4).unwrap();
    probe.hold();
    {
        let execution = pin!(scope.evaluate([op::fill(&tensor, 5)]).unwrap());
        assert!(poll_once(execution).is_pending());
    }
    probe.release_all();
    assert_eq!(tensor.read().unwrap(), [5; 4]);
    assert_eq!(scope.finish_blocking().unwrap().executions, 1);
}

/// A read that is dropped half-way gives its hold on the tensor back; the memory waits for the device.
fn a_dropped_read_holds_nothing(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let scope = manager.scope("s").unwrap();
    let tensor = manager.tensor::<u8>(1 << 20).unwrap();
    probe.hold();
    let execution = scope.evaluate([op::fill(&tensor, 5)]).unwrap();
    {
        let read = pin!(tensor.read_async());
        drop(tensor);
        assert!(poll_once(read).is_pending());
        assert_eq!(manager.memory().tensors, 1);
    }
    probe.release_all();
    execution.wait().unwrap();
    assert_eq!((manager.memory().tensors, manager.memory().live.bytes), (0, 0));
}

/// A finish that is dropped while a hook is pending: the hook and the rest go on, once each.
fn a_dropped_finish_goes_on(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let scope = manager.scope("s").unwrap();
    let (done, last) = std::sync::mpsc::channel();
    let told = done.clone();
    scope.register(hook::once("last", move |_| Ok(told.send("last")?))).unwrap();
    let (resume, resumed) = std::sync::mpsc::channel::<()>();
    let gate = std::sync::Arc::new(Gate::default());
    let inside = gate.clone();
    scope
        .register(hook::future("pending", move |_| async move {
            inside.wait().await;
            drop(resumed);
            Ok(done.send("pending")?)
        }))
        .unwrap();
    {
        let finish = pin!(scope.finish());
        assert!(poll_once(finish).is_pending());
    }
    gate.open();
    assert_eq!(last.recv().unwrap(), "pending");
    assert_eq!(last.recv().unwrap(), "last");
    assert!(last.recv().is_err(), "each hook once, and what they captured is gone");
    assert!(resume.send(()).is_err());
}

/// A future that is opened by hand.
#[derive(Default)]
struct Gate {
    state: parking_lot::Mutex<(bool, Option<Waker>)>,
}

impl Gate {
    fn open(&self) {
        let waker = {
            let mut state = self.state.lock();
            state.0 = true;
            state.1.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn wait(&self) -> impl Future<Output = ()> + '_ {
        std::future::poll_fn(|context| {
            let mut state = self.state.lock();
            if state.0 {
                return Poll::Ready(());
            }
            state.1 = Some(context.waker().clone());
            Poll::Pending
        })
    }
}

/// A finish that is made and dropped without a poll has not begun.
fn a_finish_never_polled(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let scope = manager.scope("s").unwrap();
    drop(scope.finish());
    assert_eq!(scope.state(), tenure_core::ScopeState::Open);
    scope.register(hook::once("still open", |_| Ok(()))).unwrap();
    assert_eq!(scope.finish_blocking().unwrap().hooks[0].runs, 1);
}

/// A finish that was polled once and is kept, neither polled again nor dropped: another finish of the scope, and that of
/// its parent, go on without it.
fn a_half_polled_finish(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let outer = manager.scope("outer").unwrap();
    let inner = outer.scope("inner").unwrap();
    let tensor = inner.tensor::<u32>(4).unwrap();
    probe.hold();
    inner.evaluate([op::fill(&tensor, 1)]).unwrap();
    let mut kept = pin!(inner.finish());
    assert!(poll_once(kept.as_mut()).is_pending());
    probe.release_all();
    assert_eq!(outer.finish_blocking().unwrap().outcome, Outcome::Completed);
    // It gets the outcome all the same.
    let Poll::Ready(Ok(report)) = poll_once(kept.as_mut()) else { panic!("it has finished") };
    assert_eq!(report.executions, 1);
}

/// Work that does not come back: finishing waits as long as it was told, then ends as timed out. The memory stays until
/// the device is done, and the execution's hook runs then, once.
fn a_finish_past_its_deadline(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let options = ScopeOptions::builder().label("s").finish_deadline(Duration::from_millis(5)).build();
    let scope = manager.scope_with(options).unwrap();
    let tensor = scope.tensor::<u8>(1 << 20).unwrap();
    let (told, hooks) = std::sync::mpsc::channel();
    scope.register(hook::each("each", move |context| Ok(told.send(context.execution().is_some())?))).unwrap();
    probe.hold();
    let execution = scope.evaluate([op::fill(&tensor, 1)]).unwrap();
    let report = scope.finish_blocking().unwrap();
    assert_eq!(report.outcome, Outcome::TimedOut);
    assert!(hooks.try_recv().is_err(), "its execution has not retired");
    assert!(!tensor.is_live());
    assert_eq!((manager.memory().live.bytes, manager.memory().retired.bytes), (0, 1 << 20));
    probe.release_all();
    execution.wait().unwrap();
    assert_eq!(hooks.recv(), Ok(true));
    assert!(hooks.recv().is_err(), "once");
}
