//! Cancellation, part 3: futures that are dropped, and a finish that is out of time (L18, L16).
//!
//! Not here: reads under a report from the field (`field/in_flight.rs`).

use std::sync::mpsc;
use std::task::Poll;
use std::time::Duration;

use tenure_core::{Error, Outcome, ScopeOptions, ScopeState, hook, op};

use crate::bed::{Bed, Rig};
use crate::case::Case;
use crate::cases::hooks::support::{
    DRIVER_WORK, MIB, OnDrop, Order, Signal, WATCHDOG, case, poll_once, receive, threadless,
};
use crate::cases::sequences::settled;
use crate::instrument::{CallKind, ObjectKind};

pub(super) const CASES: &[Case] = &[
    case("cancellation/a_dropped_execution_runs_on", &["L18"], a_dropped_execution_runs_on),
    case("cancellation/waits_dropped_by_the_hundred", &["L18"], waits_dropped_by_the_hundred),
    case("cancellation/a_dropped_read_holds_nothing", &["L18"], a_dropped_read_holds_nothing),
    case("cancellation/a_dropped_finish_goes_on", &["L18", "L11"], a_dropped_finish_goes_on),
    case("cancellation/a_dropped_finish_waits_for_the_device", &["L18", "L4"], a_dropped_finish_waits),
    case("cancellation/a_dropped_finish_can_be_taken_up", &["L18", "L10"], a_dropped_finish_is_taken_up),
    case("cancellation/a_dropped_finish_without_threads", &["L18"], a_dropped_finish_without_threads),
    case("cancellation/a_dropped_finish_with_its_manager", &["L18", "L6"], a_dropped_finish_with_its_manager),
    case("cancellation/a_finish_that_is_never_polled_does_nothing", &["L18"], a_finish_never_polled),
    case("cancellation/a_half_polled_finish_holds_nobody_up", &["L10", "L18"], a_half_polled_finish),
    case(
        "cancellation/a_finish_past_its_deadline_is_timed_out",
        &["L16", "L4", "L11"],
        a_finish_past_its_deadline,
    ),
];

/// Dropping the future of an execution, polled or not, cancels the wait only.
fn a_dropped_execution_runs_on(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let scope = manager.scope("s").unwrap();
    let tensor = scope.tensor::<u32>(4).unwrap();
    probe.hold();
    let mut polled = scope.evaluate([op::fill(&tensor, 5)]).unwrap();
    assert!(poll_once(&mut polled).is_pending());
    {
        let _no_driver_call = probe.forbid_calls_here();
        drop(polled);
    }
    drop(scope.evaluate([op::fill(tensor.view(0..1).unwrap(), 6)]).unwrap());
    assert_eq!(probe.lifetimes(ObjectKind::Sequence).given_back, 0);
    probe.release_all();
    assert_eq!(tensor.read().unwrap(), [6, 5, 5, 5]);
    assert_eq!(scope.finish_blocking().unwrap().executions, 2);
}

/// A hundred waits of one execution, polled and dropped: the one that is kept is woken.
fn waits_dropped_by_the_hundred(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let scope = manager.scope("s").unwrap();
    let tensor = scope.tensor::<u32>(4).unwrap();
    probe.hold();
    let mut kept = scope.evaluate([op::fill(&tensor, 5)]).unwrap();
    assert!(poll_once(&mut kept).is_pending());
    for _ in 0..100 {
        assert!(poll_once(&mut kept.clone()).is_pending());
    }
    std::thread::scope(|threads| {
        let waiting = threads.spawn(|| pollster::block_on(kept));
        probe.release_all();
        waiting.join().unwrap().unwrap();
    });
    assert_eq!(tensor.read().unwrap(), [5; 4]);
}

/// A read that is dropped half-way gives its hold on the tensor back; the memory waits for the device.
fn a_dropped_read_holds_nothing(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let scope = manager.scope("s").unwrap();
    let tensor = manager.tensor::<u8>(MIB).unwrap();
    probe.hold();
    let execution = scope.evaluate([op::fill(&tensor, 5)]).unwrap();
    {
        let mut read = tensor.read_async();
        drop(tensor);
        assert!(poll_once(&mut read).is_pending());
        assert_eq!(manager.memory().tensors, 1);
    }
    assert_eq!(probe.calls(CallKind::Free), 0);
    probe.release_all();
    execution.wait().unwrap();
    let memory = settled(&manager);
    assert_eq!((memory.tensors, memory.live.bytes, memory.retired.bytes), (0, 0, 0));
}

/// A finish that is dropped while a hook is pending: the hook and the rest go on, once each.
fn a_dropped_finish_goes_on(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let scope = manager.scope("s").unwrap();
    let (tell, told) = mpsc::channel();
    let also_tell = tell.clone();
    scope.register(hook::once("last", move |_| Ok(also_tell.send("last")?))).unwrap();
    let signal = Signal::default();
    let set = signal.wait();
    let (captured, gone) = mpsc::channel::<()>();
    scope
        .register(hook::future("pending", move |_| async move {
            set.await;
            drop(captured);
            Ok(tell.send("pending")?)
        }))
        .unwrap();
    let mut finish = scope.finish();
    assert!(poll_once(&mut finish).is_pending());
    drop(finish);
    assert_eq!(scope.state(), ScopeState::Finishing);
    signal.set();
    assert_eq!(receive(&told), "pending");
    assert_eq!(receive(&told), "last");
    assert!(told.recv().is_err(), "each hook once, and what they captured is gone");
    assert!(gone.recv().is_err());
}

/// A finish that is dropped while the device is at work: nothing is given back before it is done, then all of it is.
fn a_dropped_finish_waits(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let scope = manager.scope("s").unwrap();
    let (tell, told) = mpsc::channel();
    scope.register(hook::once("once", move |context| Ok(tell.send(context.outcome())?))).unwrap();
    let tensor = scope.tensor::<u8>(MIB).unwrap();
    probe.hold();
    drop(scope.evaluate([op::fill(&tensor, 1)]).unwrap());
    let mut finish = scope.finish();
    assert!(poll_once(&mut finish).is_pending());
    {
        let _no_driver_work = probe.forbid_here(DRIVER_WORK);
        drop(finish);
        drop(scope);
    }
    assert!(told.try_recv().is_err(), "its execution has not retired");
    assert!(tensor.is_live());
    assert_eq!(probe.calls(CallKind::Free | CallKind::Recycle), 0);
    probe.release_all();
    assert_eq!(receive(&told), Some(Outcome::Completed), "it was finished, not abandoned");
    assert!(told.recv().is_err(), "once");
    manager.close().unwrap();
    assert!(!tensor.is_live());
}

/// After one finish was dropped another awaits the end and gets the report; hooks that have run do not run again.
fn a_dropped_finish_is_taken_up(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let scope = manager.scope("s").unwrap();
    let signal = Signal::default();
    let set = signal.wait();
    scope.register(order.once("last")).unwrap();
    scope
        .register(hook::future("pending", move |_| async move {
            set.await;
            Ok(())
        }))
        .unwrap();
    scope.register(order.once("first")).unwrap();
    for _ in 0..3 {
        let mut finish = scope.finish();
        assert!(poll_once(&mut finish).is_pending());
        assert_eq!(order.seen(), ["first"]);
    }
    let mut kept = scope.finish();
    assert!(poll_once(&mut kept).is_pending());
    signal.set();
    let report = pollster::block_on(kept).unwrap();
    assert_eq!(order.seen(), ["first", "last"]);
    assert_eq!(report.hooks.iter().map(|row| row.runs).collect::<Vec<_>>(), [1, 1, 1]);
}

/// Without tenure's threads what a dropped finish left goes to the next poll.
fn a_dropped_finish_without_threads(bed: &Bed) {
    let Rig { manager, probe } = bed.open_with(threadless());
    let order = Order::default();
    let scope = manager.scope("s").unwrap();
    scope.register(order.once("once")).unwrap();
    let tensor = scope.tensor::<u32>(4).unwrap();
    probe.hold();
    drop(scope.evaluate([op::fill(&tensor, 1)]).unwrap());
    probe.settle();
    let mut finish = scope.finish();
    assert!(poll_once(&mut finish).is_pending());
    drop(finish);
    manager.poll().unwrap();
    assert!(order.seen().is_empty(), "the device is not done");
    probe.release_all();
    manager.poll().unwrap();
    assert_eq!(order.seen(), ["once"]);
    assert_eq!(scope.state(), ScopeState::Finished(Outcome::Completed));
}

/// The manager goes with the dropped finish, in flight: hooks run and the device is shut down, in the background.
fn a_dropped_finish_with_its_manager(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let scope = manager.scope("s").unwrap();
    let (tell, told) = mpsc::channel();
    let gone = OnDrop(move || tell.send("captured value").unwrap());
    scope
        .register(hook::once("once", move |_| {
            drop(gone);
            Ok(())
        }))
        .unwrap();
    let tensor = scope.tensor::<u32>(4).unwrap();
    probe.hold();
    let execution = scope.evaluate([op::fill(&tensor, 1)]).unwrap();
    let mut finish = scope.finish();
    assert!(poll_once(&mut finish).is_pending());
    drop((finish, manager, scope, tensor));
    assert!(!probe.is_shut_down());
    probe.release_all();
    assert_eq!(receive(&told), "captured value");
    assert!(told.recv().is_err());
    execution.wait().unwrap();
    assert!(probe.wait_shutdown(WATCHDOG));
}

/// A finish that is made and dropped without a poll has not begun.
fn a_finish_never_polled(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let scope = manager.scope("s").unwrap();
    drop(scope.finish());
    assert_eq!(scope.state(), ScopeState::Open);
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
    let mut kept = inner.finish();
    assert!(poll_once(&mut kept).is_pending());
    probe.release_all();
    assert_eq!(outer.finish_blocking().unwrap().outcome, Outcome::Completed);
    // It gets the outcome all the same.
    let Poll::Ready(Ok(report)) = poll_once(&mut kept) else { panic!("it has finished") };
    assert_eq!(report.executions, 1);
}

/// Work that does not come back: finishing waits as long as it was told, then ends as timed out. The memory stays until
/// the device is done, and the execution's hook runs then, once.
fn a_finish_past_its_deadline(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let options = ScopeOptions::builder().label("s").finish_deadline(Duration::from_millis(5)).build();
    let scope = manager.scope_with(options).unwrap();
    let tensor = scope.tensor::<u8>(MIB).unwrap();
    let (tell, told) = mpsc::channel();
    scope.register(hook::each("each", move |context| Ok(tell.send(context.execution().is_some())?))).unwrap();
    probe.hold();
    let execution = scope.evaluate([op::fill(&tensor, 1)]).unwrap();
    let report = scope.finish_blocking().unwrap();
    assert_eq!(report.outcome, Outcome::TimedOut);
    assert!(told.try_recv().is_err(), "its execution has not retired");
    assert!(matches!(tensor.read(), Err(Error::Stale { .. })));
    assert_eq!((manager.memory().live.bytes, manager.memory().retired.bytes), (0, MIB));
    probe.release_all();
    execution.wait().unwrap();
    assert!(receive(&told));
    assert!(told.recv().is_err(), "once");
}
