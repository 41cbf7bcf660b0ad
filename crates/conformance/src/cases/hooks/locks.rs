//! No lock of tenure's is held while user code runs: from hooks, destructors, callbacks and wakers every public call
//! works, while another thread uses the same manager all the time (L15).
//!
//! Not here: the waits that are refused (`waiting.rs`).

use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc;
use std::task::{Context, Wake, Waker};

use parking_lot::Mutex;
use tenure_core::{
    Error, ManagedScope, Manager, ManagerOptions, Outcome, ScopeRef, ScopeState, Tensor, TrimPolicy, hook,
};

use super::calls::{Hammer, every_call};
use super::support::{Count, Custom, MIB, OnDrop, Order, assert_given_back, case, fill, receive, tell, work};
use crate::bed::{Bed, Rig};
use crate::case::Case;

pub(super) const CASES: &[Case] = &[
    case("hooks/every_call_works_inside_hooks", &["L15"], inside_hooks),
    case(
        "hooks/every_call_works_inside_hooks_of_a_dropped_scope",
        &["L15", "L17"],
        inside_hooks_of_a_dropped_scope,
    ),
    case("hooks/every_call_works_while_captures_are_dropped", &["L15"], while_captures_are_dropped),
    case(
        "hooks/every_call_works_while_a_duplicate_is_dropped",
        &["L15", "L12"],
        while_a_duplicate_is_dropped,
    ),
    case("hooks/every_call_works_inside_the_out_of_memory_callback", &["L15", "L20"], inside_the_callback),
    case("hooks/every_call_works_inside_a_waker", &["L15", "L18"], inside_a_waker),
    case("hooks/hooks_of_two_threads_use_each_others_scopes", &["L15"], hooks_of_two_threads),
];

/// A scope with a hook of each kind that makes every call, and the number of those hooks.
fn with_every_hook(manager: &Manager, calls: &Count) -> (ManagedScope, u64) {
    let scope = manager.scope("s").unwrap();
    let call = {
        let calls = calls.clone();
        move |context: &tenure_core::CleanupContext| {
            every_call(&context.manager()?, &context.scope());
            calls.add();
            Ok(())
        }
    };
    scope.register(hook::after_release("after", call.clone())).unwrap();
    scope.register(hook::once("once", call.clone())).unwrap();
    let run = call.clone();
    let later = hook::future("async", move |context| async move {
        super::support::Yield::default().await;
        run(&context)
    });
    scope.register(later).unwrap();
    scope.register(hook::custom(Custom::new("custom", tenure_core::Period::Scope, call.clone()))).unwrap();
    let run = call.clone();
    scope.adopt("adopted", (), move |(), context| run(context)).unwrap();
    let mut first = Some(call);
    let each = hook::each("each", move |context| first.take().map_or(Ok(()), |run| run(context)));
    scope.register(each).unwrap();
    work(&scope);
    (scope, 6)
}

/// From hooks of every kind, on the thread that finishes.
fn inside_hooks(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let hammer = Hammer::new(&manager);
    let calls = Count::default();
    let (scope, hooks) = with_every_hook(&manager, &calls);
    scope.finish_blocking().unwrap();
    assert_eq!(calls.get(), hooks);
    drop(hammer);
    assert_given_back(&manager);
}

/// From hooks of every kind, on the cleanup thread.
fn inside_hooks_of_a_dropped_scope(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let hammer = Hammer::new(&manager);
    let calls = Count::default();
    let (sender, over) = mpsc::channel();
    let (scope, hooks) = with_every_hook(&manager, &calls);
    let value = OnDrop(move || tell(&sender, ()));
    let keeps = hook::each("keeps", move |_| {
        let _ = &value;
        Ok(())
    });
    scope.register(keeps).unwrap();
    drop(scope);
    receive(&over);
    assert_eq!(calls.get(), hooks);
    drop(hammer);
    let report = manager.close().unwrap();
    assert!(report.is_clean(), "{report}");
}

/// A value that makes every call when it is dropped.
fn caller(manager: &Manager, scope: &ScopeRef, calls: &Count) -> OnDrop<impl FnMut() + Send + 'static> {
    let (manager, scope, calls) = (manager.clone(), scope.clone(), calls.clone());
    OnDrop(move || {
        every_call(&manager, &scope);
        calls.add();
    })
}

/// From destructors of what hooks captured: of hooks that have run, that never run, that failed, and of adopted
/// values.
fn while_captures_are_dropped(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let hammer = Hammer::new(&manager);
    let calls = Count::default();
    let scope = manager.scope("s").unwrap();
    let value = || caller(&manager, &scope, &calls);
    let (once, each, idle, after, async_value, custom, failed) =
        (value(), value(), value(), value(), value(), value(), value());
    let hook = hook::once("once", move |_| {
        drop(once);
        Ok(())
    });
    scope.register(hook).unwrap();
    let hook = hook::after_release("after", move |_| {
        drop(after);
        Ok(())
    });
    scope.register(hook).unwrap();
    let hook = hook::each("each", move |_| {
        let _ = &each;
        Ok(())
    });
    scope.register(hook).unwrap();
    let hook = hook::future("async", move |_| async move {
        drop(async_value);
        Ok(())
    });
    scope.register(hook).unwrap();
    let custom = Custom::new("custom", tenure_core::Period::Scope, move |_: &tenure_core::CleanupContext| {
        let _ = &custom;
        Ok(())
    });
    scope.register(hook::custom(custom)).unwrap();
    scope.adopt("adopted", value(), |_, _| Ok(())).unwrap();
    let hook = hook::once("fails", move |_| {
        let _ = &failed;
        Err("a hook's error".into())
    });
    scope.register(hook).unwrap();
    work(&scope);
    // An execution hook that has no execution.
    let hook = hook::each("idle", move |_| {
        let _ = &idle;
        panic!("nothing was submitted after it")
    });
    scope.register(hook).unwrap();
    scope.finish_blocking().unwrap_err();
    assert_eq!(calls.get(), 8);
    let refused = scope.adopt("refused", value(), |_, _| Ok(())).unwrap_err();
    drop(refused);
    assert_eq!((calls.get(), scope.state()), (9, ScopeState::Finished(Outcome::Completed)));
    drop(hammer);
    drop(scope);
    assert_given_back(&manager);
}

/// From the destructor of a keyed hook that is there already, which goes while it is offered.
fn while_a_duplicate_is_dropped(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let hammer = Hammer::new(&manager);
    let (order, calls) = (Order::default(), Count::default());
    let scope = manager.scope("s").unwrap();
    for round in 0..4 {
        let value = Mutex::new(None);
        *value.lock() = (round > 0).then(|| caller(&manager, &scope, &calls));
        let noted = order.clone();
        let hook = hook::once("keyed", move |_| {
            assert!(value.lock().is_none());
            noted.note("keyed");
            Ok(())
        });
        let before = calls.get();
        scope.register(hook.key("k")).unwrap();
        assert_eq!(calls.get() - before, u64::from(round > 0), "it goes at once");
    }
    scope.finish_blocking().unwrap();
    assert_eq!((order.seen().len(), calls.get()), (1, 3));
    drop(hammer);
    assert_given_back(&manager);
}

/// From the callback that is asked for memory, in the middle of making a tensor.
fn inside_the_callback(bed: &Bed) {
    let reach = Arc::new(Mutex::new(None::<(Manager, ScopeRef)>));
    let spill = Arc::new(Mutex::new(None::<Tensor<u8>>));
    let calls = Count::default();
    let (way, spilled, counted) = (reach.clone(), spill.clone(), calls.clone());
    let callback = move |request: &tenure_core::OutOfMemoryRequest| {
        if request.requested != 8 * MIB {
            // Asked for by the other thread.
            return Ok(());
        }
        let (manager, scope) = way.lock().clone().expect("the case has not ended");
        every_call(&manager, &scope);
        assert!(matches!(manager.close(), Err(Error::WouldDeadlock { .. })));
        counted.add();
        let spilled = spilled.lock().take();
        drop(spilled);
        Ok(())
    };
    let options = ManagerOptions::builder()
        .budget(24 * MIB)
        .trim(TrimPolicy::Never)
        .on_out_of_memory(Arc::new(callback))
        .build();
    let Rig { manager, .. } = bed.open_with(options);
    let scope = manager.scope("s").unwrap();
    *reach.lock() = Some((manager.clone(), ScopeRef::clone(&scope)));
    let hammer = Hammer::new(&manager);
    for asks_scope in [false, true] {
        *spill.lock() = Some(manager.tensor::<u8>(18 * MIB).unwrap());
        let before = calls.get();
        let tensor = if asks_scope { scope.tensor::<u8>(8 * MIB) } else { manager.tensor::<u8>(8 * MIB) };
        drop(tensor.unwrap());
        assert_eq!(calls.get() - before, 1);
    }
    drop(hammer);
    scope.finish_blocking().unwrap();
    *reach.lock() = None;
    assert_given_back(&manager);
}

/// A waker that makes the calls that do not wait.
struct Caller {
    manager: Manager,
    scope: ScopeRef,
    number: usize,
    woken: mpsc::Sender<usize>,
}

impl Wake for Caller {
    fn wake(self: Arc<Self>) {
        let tensor = self.manager.tensor::<u32>(64).unwrap();
        let memory = self.manager.memory();
        assert!(memory.tensors > 0);
        self.manager.trim().unwrap();
        self.manager.poll().unwrap();
        let other = self.manager.scope("other").unwrap();
        other.register(hook::each("each", |_| Ok(()))).unwrap();
        let execution = fill(&other, &tensor, 1);
        assert!(execution.number() == 1 && self.scope.id() > 0);
        assert_ne!(self.scope.state(), ScopeState::Open);
        tell(&self.woken, self.number);
    }
}

/// From a waker that tenure wakes: of an execution, a read, and a finish.
fn inside_a_waker(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let signal = super::support::Signal::default();
    let scope = manager.scope("s").unwrap();
    let tensor = manager.tensor::<u32>(64).unwrap();
    let wait = signal.clone();
    let hook = hook::future("waits", move |_| async move {
        wait.wait().await;
        Ok(())
    });
    scope.register(hook).unwrap();
    probe.hold();
    let mut execution = fill(&scope, &tensor, 1);
    let mut read = tensor.read_async();
    let mut finish = scope.finish();
    let (woken, wakes) = mpsc::channel();
    let wakers = [0, 1, 2].map(|number| {
        let (manager, scope, woken) = (manager.clone(), ScopeRef::clone(&scope), woken.clone());
        Waker::from(Arc::new(Caller { manager, scope, number, woken }))
    });
    assert!(Pin::new(&mut execution).poll(&mut Context::from_waker(&wakers[0])).is_pending());
    assert!(Pin::new(&mut read).poll(&mut Context::from_waker(&wakers[1])).is_pending());
    assert!(Pin::new(&mut finish).poll(&mut Context::from_waker(&wakers[2])).is_pending());
    let hammer = Hammer::new(&manager);
    probe.release_all();
    execution.wait().unwrap();
    assert_eq!(pollster::block_on(read).unwrap(), [1; 64]);
    signal.set();
    pollster::block_on(finish).unwrap();
    let mut missing = std::collections::HashSet::from([0, 1, 2]);
    while !missing.is_empty() {
        missing.remove(&receive(&wakes));
    }
    drop((hammer, execution, tensor, wakers, scope));
    // What the wakers submitted may still run.
    assert!(manager.close().unwrap().errors.is_empty());
}

/// Two threads are inside hooks of two scopes at the same time, and each uses the other's scope.
fn hooks_of_two_threads(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let both = Arc::new(std::sync::Barrier::new(2));
    let a = manager.scope("a").unwrap();
    let b = manager.scope("b").unwrap();
    let (meet, other) = (both.clone(), ScopeRef::clone(&b));
    let hook = hook::once("a's", move |context| {
        meet.wait();
        // `b` is open: it takes everything.
        other.register(hook::once("by a", |_| Ok(())))?;
        work(&other).wait()?;
        every_call(&context.manager()?, &context.scope());
        meet.wait();
        Ok(())
    });
    a.register(hook).unwrap();
    let (meet, other) = (both.clone(), ScopeRef::clone(&a));
    let hook = hook::each("b's", move |context| {
        if super::support::number(context) > 1 {
            return Ok(());
        }
        meet.wait();
        // `a` is finishing on another thread: it takes nothing, and answers at once.
        assert!(matches!(
            other.register(hook::once("by b", |_| Ok(()))).unwrap_err().error,
            Error::ScopeFinishing { .. }
        ));
        assert!(matches!(other.tensor::<u32>(1), Err(Error::ScopeFinishing { .. })));
        every_call(&context.manager()?, &context.scope());
        meet.wait();
        Ok(())
    });
    b.register(hook).unwrap();
    std::thread::scope(|threads| {
        let finish = threads.spawn(|| a.finish_blocking());
        work(&b).wait().unwrap();
        finish.join().unwrap().unwrap();
    });
    b.finish_blocking().unwrap();
    assert_given_back(&manager);
}
