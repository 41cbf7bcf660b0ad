//! Async hooks: one after the other, polled where the finish is polled, woken from anywhere (L10, L16, L18).
//!
//! Not here: finishes that are dropped or left alone (`finishes.rs`), managers without threads
//! (`scopes/threadless.rs`).

use std::sync::mpsc;

use tenure_core::{hook, op};

use super::support::{
    Latch, Order, Signal, Yield, assert_given_back, case, fill, number, poll_once, receive,
};
use crate::bed::{Bed, Rig};
use crate::case::{Case, FIRST};

pub(super) const CASES: &[Case] = &[
    case("hooks/async_hooks_run_one_at_a_time", &["L10", "L16"], async_hooks_run_one_at_a_time),
    case("hooks/hooks_run_where_finish_is_polled", &["L16", "L18"], hooks_run_where_finish_is_polled),
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
            threads.spawn(move || {
                for (expected, signal) in signals.into_iter().enumerate() {
                    assert_eq!(receive(&reached), expected);
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

/// A custom execution hook that is pending keeps neither results nor other scopes back; the scope's next hooks wait
/// for it.
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
