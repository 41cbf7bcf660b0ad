//! Async hooks and finishes that are awaited: who goes on when a future is dropped, or left alone (L18, L10, L13).
//!
//! Not here: managers without threads (`scopes/threadless.rs`).

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::task::{Context, Poll, Wake, Waker};

use tenure_core::{Error, Finish, ManagedScope, Manager, Outcome, ScopeState, hook, op};

use super::support::{
    Latch, Order, Signal, Yield, all_errors, assert_given_back, case, cleanup_failure, culprits, fill,
    number, poll_once, receive, work,
};
use crate::bed::{Bed, Rig};
use crate::case::{Case, FIRST};

pub(super) const CASES: &[Case] = &[
    case("hooks/async_hooks_run_one_at_a_time", &["L10", "L16"], async_hooks_run_one_at_a_time),
    case("hooks/hooks_run_where_finish_is_polled", &["L16", "L18"], hooks_run_where_finish_is_polled),
    case("hooks/a_dropped_finish_goes_on_elsewhere", &["L18", "L11"], a_dropped_finish_goes_on),
    case("hooks/a_finish_dropped_before_its_work_is_done", &["L18", "L11", "L4"], a_finish_dropped_early),
    case("hooks/errors_after_a_dropped_finish_are_kept", &["L18", "L13"], errors_after_a_dropped_finish),
    case("hooks/one_of_two_finishes_is_dropped", &["L18", "L10"], one_of_two_finishes_is_dropped),
    case(
        "hooks/one_of_two_finishes_is_never_polled_again",
        &["L18", "L10"],
        one_of_two_is_never_polled_again,
    ),
    case("hooks/a_finish_wakes_whoever_polled_it_last", &["L18"], a_finish_wakes_whoever_polled_last),
    case("hooks/a_hook_future_is_woken_from_any_thread", &["L18"], a_hook_future_is_woken_from_any_thread),
    case("hooks/an_async_hook_awaits_the_device", &["L16", "L18"], an_async_hook_awaits_the_device),
    case(
        "hooks/an_async_hook_of_an_execution_holds_up_nothing",
        &["L7", "L11"],
        an_async_hook_of_an_execution,
    ),
    case("hooks/a_dropped_execution_future_changes_nothing", &["L18", "L11"], a_dropped_execution_future),
];

/// Async hooks that are pending several times do not overlap each other or sync ones.
fn async_hooks_run_one_at_a_time(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    for blocking in [true, false] {
        let order = Order::default();
        let scope = manager.scope("s").unwrap();
        scope.register(order.future("first")).unwrap();
        scope.register(order.once("sync")).unwrap();
        scope.register(order.future("second")).unwrap();
        if blocking { scope.finish_blocking() } else { pollster::block_on(scope.finish()) }.unwrap();
        assert_eq!(order.seen(), ["second begins", "second ends", "sync", "first begins", "first ends"]);
    }
}

/// Hooks run on the thread that polls the finish, an async one wherever it is polled next.
fn hooks_run_where_finish_is_polled(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let scope = manager.scope("s").unwrap();
    let (sender, seen) = mpsc::channel();
    let hook = hook::future("async", move |_| async move {
        sender.send(std::thread::current().id())?;
        Yield::default().await;
        sender.send(std::thread::current().id())?;
        Ok(())
    });
    scope.register(hook).unwrap();
    let mut finish = scope.finish();
    assert!(poll_once(&mut finish).is_pending());
    let elsewhere = std::thread::scope(|threads| {
        let poller = threads.spawn(|| {
            assert!(poll_once(&mut finish).is_ready());
            std::thread::current().id()
        });
        poller.join().unwrap()
    });
    assert_eq!([receive(&seen), receive(&seen)], [std::thread::current().id(), elsewhere]);
}

/// A scope with three hooks on its stack, the middle one async and pending until the signal, and one after the release.
struct Half {
    scope: ManagedScope,
    order: Order,
    signal: Signal,
    /// Where the hooks ran.
    threads: mpsc::Receiver<std::thread::ThreadId>,
}

fn half(manager: &Manager, fails: bool) -> Half {
    let (order, signal) = (Order::default(), Signal::default());
    let (sender, threads) = mpsc::channel();
    let scope = manager.scope("s").unwrap();
    let tell = sender.clone();
    let last = hook::after_release("last", move |_| {
        let _ = tell.send(std::thread::current().id());
        Ok(())
    });
    scope.register(last).unwrap();
    scope.register(if fails { order.failing("below") } else { order.once("below") }).unwrap();
    let (noted, wait) = (order.clone(), signal.clone());
    let hook = hook::future("waits", move |context| async move {
        noted.note("waits begins");
        wait.wait().await;
        noted.note("waits ends");
        assert!(context.outcome().is_some());
        let _ = sender.send(std::thread::current().id());
        Ok(())
    });
    scope.register(hook).unwrap();
    scope.register(order.once("above")).unwrap();
    Half { scope, order, signal, threads }
}

const WHOLE: [&str; 4] = ["above", "waits begins", "waits ends", "below"];

/// Dropping a finish in the middle of an async hook moves that hook and the rest of the stack to the cleanup thread;
/// nothing runs twice, and the outcome stays what was asked for.
fn a_dropped_finish_goes_on(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let Half { scope, order, signal, threads } = half(&manager, false);
    let mut finish = scope.finish();
    assert!(poll_once(&mut finish).is_pending());
    drop(finish);
    assert_eq!(order.seen(), WHOLE[..2]);
    assert_eq!(scope.state(), ScopeState::Finishing);
    signal.set();
    let ran_on = [receive(&threads), receive(&threads)];
    assert!(ran_on[0] == ran_on[1] && ran_on[0] != std::thread::current().id());
    assert_eq!(order.seen(), WHOLE);
    let state = tenure_core::ScopeRef::clone(&scope);
    drop(scope);
    assert!(manager.close().unwrap().is_clean());
    assert_eq!(state.state(), ScopeState::Finished(Outcome::Completed));
}

/// A finish that is dropped while executions run: it has begun, and ends without anybody's help. So does one whose scope
/// is dropped besides.
fn a_finish_dropped_early(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    for drops_scope in [false, true] {
        let Half { scope, order, signal, threads } = half(&manager, false);
        scope.register(order.each("each")).unwrap();
        signal.set();
        probe.hold();
        work(&scope);
        let mut finish = scope.finish();
        assert!(poll_once(&mut finish).is_pending());
        drop(finish);
        let mut scope = Some(scope);
        if drops_scope {
            drop(scope.take());
        }
        assert_eq!(order.seen().len(), 0);
        probe.release_all();
        receive(&threads);
        receive(&threads);
        assert_eq!(order.seen()[0], "each #1");
        assert_eq!(order.seen()[1..], WHOLE);
        drop(scope);
    }
    assert!(manager.close().unwrap().is_clean());
}

/// Errors of hooks that ran after the last finish was dropped have no reader: the manager keeps them, as it does those of
/// a dropped scope.
fn errors_after_a_dropped_finish(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    for drops_scope in [false, true] {
        let Half { scope, order, signal, threads } = half(&manager, true);
        let mut finish = scope.finish();
        assert!(poll_once(&mut finish).is_pending());
        drop(finish);
        let mut scope = Some(scope);
        if drops_scope {
            drop(scope.take());
        }
        signal.set();
        receive(&threads);
        receive(&threads);
        // The cleanup thread does one scope after the other: when this one's hook runs, the first one is over.
        let (sender, next) = mpsc::channel();
        let tells = manager.scope("next").unwrap();
        tells.register(hook::once("tells", move |_| Ok(sender.send(())?))).unwrap();
        drop(tells);
        receive(&next);
        let errors = manager.take_errors();
        let [Error::Cleanup(failure)] = &errors[..] else { panic!("one failed scope, not {errors:?}") };
        assert_eq!(culprits(all_errors(failure)), ["below"]);
        assert_eq!(
            (order.seen(), failure.report.outcome),
            (WHOLE.map(str::to_owned).to_vec(), Outcome::Completed)
        );
        assert!(manager.take_errors().is_empty());
        drop(scope);
    }
    assert!(manager.close().unwrap().is_clean());
}

/// Two finishes await the same scope and one is dropped in the middle, whichever: the other gets the result, and the
/// manager keeps no error of it.
fn one_of_two_finishes_is_dropped(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    for drops_first in [false, true] {
        let Half { scope, order, signal, threads } = half(&manager, true);
        let (mut first, mut second) = (scope.finish(), scope.finish());
        assert!(poll_once(&mut first).is_pending());
        assert!(poll_once(&mut second).is_pending());
        let rest = if drops_first { keep(second, first) } else { keep(first, second) };
        signal.set();
        let failure = cleanup_failure(pollster::block_on(rest));
        assert_eq!(culprits(all_errors(&failure)), ["below"]);
        assert_eq!(order.seen(), WHOLE);
        receive(&threads);
        receive(&threads);
    }
    assert!(manager.take_errors().is_empty());
    assert!(manager.close().unwrap().is_clean());
}

fn keep(kept: Finish, dropped: Finish) -> Finish {
    drop(dropped);
    kept
}

/// Of two finishes one has begun, is inside the async hook, and is never polled again, nor dropped: it holds the other
/// one up in nothing.
fn one_of_two_is_never_polled_again(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let Half { scope, order, signal, .. } = half(&manager, false);
    let mut idle = scope.finish();
    assert!(poll_once(&mut idle).is_pending());
    std::thread::scope(|threads| {
        let blocking = threads.spawn(|| scope.finish_blocking());
        let awaiting = threads.spawn(|| pollster::block_on(scope.finish()));
        signal.set();
        for finished in [blocking, awaiting] {
            match finished.join().unwrap() {
                Ok(report) => assert_eq!(report.outcome, Outcome::Completed),
                // It came when the other was done.
                Err(Error::ScopeFinished { .. }) => {}
                Err(other) => panic!("{other}"),
            }
        }
    });
    assert_eq!(order.seen(), WHOLE);
    assert!(matches!(poll_once(&mut idle), Poll::Ready(Ok(_))), "the result is there for it too");
    drop((idle, scope));
    assert_given_back(&manager);
}

/// A waker that counts.
#[derive(Default)]
struct Wakes(AtomicU64);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A finish that moves from task to task wakes the task that polled it last, when its hook is woken.
fn a_finish_wakes_whoever_polled_last(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let Half { scope, order, signal, .. } = half(&manager, false);
    let tasks = [Arc::new(Wakes::default()), Arc::new(Wakes::default())];
    let mut finish = scope.finish();
    for task in &tasks {
        let waker = Waker::from(task.clone());
        assert!(Pin::new(&mut finish).poll(&mut Context::from_waker(&waker)).is_pending());
    }
    signal.set();
    assert!(tasks[1].0.load(Ordering::SeqCst) >= 1, "the last task was woken");
    assert_eq!(order.seen(), WHOLE[..2], "waking runs no hook");
    let report = pollster::block_on(finish).unwrap();
    assert_eq!((order.seen().len(), report.hooks.len()), (4, 4));
}

/// A hook's future is woken by threads that know nothing of tenure, a hundred times.
fn a_hook_future_is_woken_from_any_thread(bed: &Bed) {
    const WAKES: usize = 100;
    let Rig { manager, .. } = bed.open();
    for blocking in [true, false] {
        let signals: Vec<_> = (0..WAKES).map(|_| Signal::default()).collect();
        let (sender, reached) = mpsc::channel();
        let scope = manager.scope("s").unwrap();
        let waits = signals.clone();
        let hook = hook::future("waits", move |_| async move {
            for (at, signal) in waits.iter().enumerate() {
                sender.send(at)?;
                signal.wait().await;
            }
            Ok(())
        });
        scope.register(hook).unwrap();
        std::thread::scope(|threads| {
            let signals = &signals;
            threads.spawn(move || {
                for (expected, signal) in signals.iter().enumerate() {
                    assert_eq!(receive(&reached), expected);
                    let signal = signal.clone();
                    threads.spawn(move || signal.set());
                }
            });
            let finished =
                if blocking { scope.finish_blocking() } else { pollster::block_on(scope.finish()) };
            assert_eq!(finished.unwrap().hooks[0].runs, 1);
        });
    }
}

/// An async hook submits, awaits the device, reads back asynchronously, and finishes a child by awaiting it.
fn an_async_hook_awaits_the_device(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let order = Order::default();
    let (sender, submitted) = mpsc::channel();
    let scope = manager.scope("s").unwrap();
    let tensor = scope.tensor_from("data", &[1_u32; 64]).unwrap();
    scope.register(order.each("each")).unwrap();
    let (noted, used) = (order.clone(), tensor.clone());
    let hook = hook::future("async", move |context| async move {
        let execution = context.scope().evaluate([op::fill(&used, 5)])?;
        sender.send(())?;
        execution.await?;
        assert_eq!(used.read_async().await?, [5; 64]);
        let child = context.scope().scope("child")?;
        child.evaluate([op::fill(&used, 6)])?.await?;
        assert_eq!(child.finish().await?.executions, 1);
        assert_eq!(used.read_async().await?, [6; 64]);
        noted.note("async");
        Ok(())
    });
    scope.register(hook).unwrap();
    probe.hold();
    let mut finish = scope.finish();
    assert!(poll_once(&mut finish).is_pending());
    receive(&submitted);
    assert_eq!(order.seen().len(), 0);
    probe.release_all();
    let report = pollster::block_on(finish).unwrap();
    assert_eq!((order.seen(), report.executions), (vec!["async".into(), "each #1".into()], 1));
    drop(tensor);
    assert_given_back(&manager);
}

/// A custom execution hook that is pending keeps neither results nor other scopes back; the scope's next hooks wait for
/// it.
fn an_async_hook_of_an_execution(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let (signal, latch) = (Signal::default(), Latch::default());
    let scope = manager.scope("s").unwrap();
    scope.register(hook::custom(Pending { order: order.clone(), signal: signal.clone() })).unwrap();
    let tensor = scope.tensor::<u32>(64).unwrap();
    let executions: Vec<_> = (1..=3).map(|value| fill(&scope, &tensor, value)).collect();
    for execution in &executions {
        pollster::block_on(execution.clone()).unwrap();
        execution.wait().unwrap();
    }
    assert_eq!(tensor.read().unwrap(), [3; 64]);
    let other = manager.scope("other").unwrap();
    let (noted, open) = (order.clone(), latch.clone());
    let hook = hook::once("other's", move |_| {
        noted.note("other's");
        open.open();
        Ok(())
    });
    other.register(hook).unwrap();
    // The cleanup thread may be inside the pending hook: it serves this scope meanwhile.
    drop(other);
    latch.wait();
    assert_eq!(order.seen().last().map(String::as_str), Some("other's"));
    signal.set();
    let report = scope.finish_blocking().unwrap();
    assert_eq!(report.hooks[0].runs, 3);
    let mut notes = order.seen();
    notes.retain(|note| note != "other's");
    assert_eq!(
        notes,
        [
            "each #1 begins",
            "each #1 ends",
            "each #2 begins",
            "each #2 ends",
            "each #3 begins",
            "each #3 ends"
        ]
    );
    drop(tensor);
    assert!(manager.close().unwrap().is_clean());
}

/// An execution hook that waits for a signal.
struct Pending {
    order: Order,
    signal: Signal,
}

#[async_trait::async_trait]
impl tenure_core::CleanupHook for Pending {
    fn label(&self) -> &str {
        "each"
    }

    fn period(&self) -> tenure_core::Period {
        tenure_core::Period::Execution
    }

    fn class(&self) -> tenure_core::HookClass {
        tenure_core::HookClass::Host
    }

    async fn run(&mut self, context: &tenure_core::CleanupContext) -> Result<(), tenure_core::BoxError> {
        self.order.note(format!("each #{} begins", number(context)));
        self.signal.wait().await;
        self.order.note(format!("each #{} ends", number(context)));
        Ok(())
    }
}

/// Futures of executions that are dropped, polled or not, leave work and hooks as they are.
fn a_dropped_execution_future(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let order = Order::default();
    let scope = manager.scope("s").unwrap();
    scope.register(order.each("each")).unwrap();
    let tensor = scope.tensor::<u32>(64).unwrap();
    probe.hold();
    drop(fill(&scope, &tensor, 1));
    let mut polled = fill(&scope, &tensor, 2);
    assert!(poll_once(&mut polled).is_pending());
    drop(polled);
    assert_eq!(probe.held(FIRST), [1, 2]);
    probe.release_all();
    assert_eq!(scope.finish_blocking().unwrap().executions, 2);
    assert_eq!(order.seen(), ["each #1", "each #2"]);
    drop(tensor);
    assert_given_back(&manager);
}
