//! Hooks that panic, and panics in what hooks drop: an error like another, and nothing stops (L11, L13).
//!
//! Not here: panics of a scope's body (`scopes/running.rs`).

use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::mpsc;

use tenure_core::{CleanupErrorKind, Error, ManagedScope, Period, ScopeReport, hook};

use super::support::{
    Bomb, Custom, Fault, OnDrop, Order, Yield, all_errors, assert_works, case, cleanup_failure, culprits,
    number, receive, runs, work,
};
use crate::bed::{Bed, Rig};
use crate::case::Case;

pub(super) const CASES: &[Case] = &[
    case("hooks/a_panic_stops_nothing", &["L13", "L11"], a_panic_stops_nothing),
    case("hooks/a_panics_message_is_kept", &["L13"], a_panics_message_is_kept),
    case("hooks/a_panic_in_an_async_hook", &["L13"], a_panic_in_an_async_hook),
    case("hooks/an_execution_hook_that_panics_runs_again", &["L11", "L13"], an_execution_hook_that_panics),
    case("hooks/a_custom_hook_that_panics_runs_again", &["L11", "L13"], a_custom_hook_that_panics),
    case("hooks/a_payload_that_panics_when_dropped", &["L13"], a_payload_that_panics),
    case("hooks/a_payload_that_panics_again_and_again", &["L13"], a_payload_that_panics_again),
    case("hooks/a_captured_value_that_panics_when_dropped", &["L13", "L11"], a_captured_value_that_panics),
    case("hooks/a_captured_value_that_panics_again_and_again", &["L13"], a_captured_value_that_panics_again),
    case("hooks/a_duplicate_that_panics_when_dropped", &["L12", "L15"], a_duplicate_that_panics),
    case("hooks/a_panic_on_the_cleanup_thread", &["L13", "L17"], a_panic_on_the_cleanup_thread),
];

/// Hooks of every kind panic: each is an error with its kind, all others run, once, and the manager works on.
fn a_panic_stops_nothing(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let scope = manager.scope("s").unwrap();
    let noted = order.clone();
    let hook = hook::after_release("after", move |_| {
        noted.note("after");
        panic!("after")
    });
    scope.register(hook).unwrap();
    scope.register(order.after("after above")).unwrap();
    scope.register(order.once("below")).unwrap();
    scope.register(order.panicking("once")).unwrap();
    scope.adopt("adopted", (), |(), _| panic!("adopted")).unwrap();
    let noted = order.clone();
    let hook = hook::each("each", move |context| {
        noted.note(format!("each #{}", number(context)));
        panic!("each")
    });
    scope.register(hook).unwrap();
    let child = scope.scope("child").unwrap();
    child.register(order.panicking("in a child")).unwrap();
    work(&scope);
    let failure = cleanup_failure(scope.finish_blocking());
    assert_eq!(order.seen(), ["each #1", "in a child", "once", "below", "after above", "after"]);
    let errors = all_errors(&failure);
    assert_eq!(culprits(errors.iter().copied()), ["each", "in a child", "adopted", "once", "after"]);
    assert!(errors.iter().all(|error| error.kind == CleanupErrorKind::Panicked));
    assert_eq!(errors[0].execution, Some(1));
    let text = "hook `each` panicked in scope `s` (sequence `anonymous`, execution 1): each";
    assert_eq!(errors[0].to_string(), text);
    assert!(failure.report.hooks.iter().all(|row| row.runs == 1));
    assert_works(&manager);
}

/// A payload of text is the error's text; another payload is none, and is told as such.
fn a_panics_message_is_kept(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let scope = manager.scope("s").unwrap();
    scope.register(hook::once("other", |_| panic_any(Fault("no text")))).unwrap();
    scope.register(hook::once("string", |context| panic!("string in {}", context.scope().label()))).unwrap();
    scope.register(hook::once("str", |_| panic!("str"))).unwrap();
    let failure = cleanup_failure(scope.finish_blocking());
    let texts: Vec<_> = all_errors(&failure).iter().map(|error| error.source.to_string()).collect();
    assert_eq!(texts[..2], ["str", "string in s"]);
    assert!(!texts[2].is_empty());
    assert_works(&manager);
}

/// An async hook panics before, at and after the point where it was pending.
fn a_panic_in_an_async_hook(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let scope = manager.scope("s").unwrap();
    scope.register(order.once("last")).unwrap();
    scope.register(hook::future("when made", |_| -> std::future::Ready<_> { panic!("made") })).unwrap();
    scope.register(hook::future("at once", |_| async { panic!("at once") })).unwrap();
    let late = hook::future("late", |_| async {
        Yield::default().await;
        panic!("late")
    });
    scope.register(late).unwrap();
    scope.register(order.future("first")).unwrap();
    let failure = cleanup_failure(pollster::block_on(scope.finish()));
    assert_eq!(culprits(all_errors(&failure)), ["late", "at once", "when made"]);
    assert_eq!(order.seen(), ["first begins", "first ends", "last"]);
    assert_works(&manager);
}

/// An execution hook that panics or fails for one execution runs for the next one.
fn an_execution_hook_that_panics(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let scope = manager.scope("s").unwrap();
    let noted = order.clone();
    let hook = hook::each("each", move |context| {
        noted.note(format!("each #{}", number(context)));
        match number(context) {
            1 => panic!("first"),
            2 => Err(Fault("second").into()),
            _ => Ok(()),
        }
    });
    scope.register(hook).unwrap();
    for _ in 0..4 {
        work(&scope).wait().unwrap();
    }
    let failure = cleanup_failure(scope.finish_blocking());
    assert_eq!(order.seen(), ["each #1", "each #2", "each #3", "each #4"]);
    let row = &failure.report.hooks[0];
    assert_eq!((row.runs, row.failed, row.skipped), (4, 2, 0));
    let kinds: Vec<_> =
        all_errors(&failure).iter().map(|error| (error.execution.unwrap(), error.kind)).collect();
    assert_eq!(kinds, [(1, CleanupErrorKind::Panicked), (2, CleanupErrorKind::Failed)]);
}

/// The same for a hook that is an implementation of the trait: its panic in one run takes no later run away.
fn a_custom_hook_that_panics(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let scope = manager.scope("s").unwrap();
    let noted = order.clone();
    let custom = Custom::new("each", Period::Execution, move |context: &tenure_core::CleanupContext| {
        noted.note(format!("each #{}", number(context)));
        assert_ne!(number(context), 1, "the first run panics");
        Ok(())
    });
    scope.register(hook::custom(custom)).unwrap();
    for _ in 0..3 {
        work(&scope).wait().unwrap();
    }
    let failure = cleanup_failure(scope.finish_blocking());
    assert_eq!(order.seen(), ["each #1", "each #2", "each #3"]);
    let row = &failure.report.hooks[0];
    assert_eq!((row.runs, row.failed, row.skipped), (3, 1, 0));
}

/// The payload of a panic panics itself when it is dropped: the next hook runs all the same.
fn a_payload_that_panics(bed: &Bed) {
    panic_with_bombs(bed, 1);
}

/// And so on: the payload of the payload's panic, and that one's, panic when they are dropped.
fn a_payload_that_panics_again(bed: &Bed) {
    panic_with_bombs(bed, 3);
}

fn panic_with_bombs(bed: &Bed, depth: u32) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let scope = manager.scope("s").unwrap();
    scope.register(hook::after_release("after", move |_| panic_any(Bomb { depth }))).unwrap();
    scope.register(order.once("last")).unwrap();
    scope.register(hook::once("once", move |_| panic_any(Bomb { depth }))).unwrap();
    let late = hook::future("async", move |_| async move {
        Yield::default().await;
        panic_any(Bomb { depth })
    });
    scope.register(late).unwrap();
    scope.register(hook::each("each", move |_| panic_any(Bomb { depth }))).unwrap();
    scope.register(order.each("each above")).unwrap();
    work(&scope);
    let failure = cleanup_failure(finish_without_a_panic(&scope));
    assert_eq!(culprits(all_errors(&failure)), ["each", "async", "once", "after"]);
    assert_eq!(order.seen(), ["each above #1", "last"]);
    assert_works(&manager);
}

/// What hooks captured panics when it is dropped: with the run of those that run once, at the end for those that run
/// each time, and with the value that an adopted entry ignores. All others run and are dropped.
fn a_captured_value_that_panics(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let scope = manager.scope("s").unwrap();
    let witness = |label: &'static str| {
        let order = order.clone();
        let value = OnDrop(move || order.note(label));
        hook::each(label, move |_| {
            let _ = &value;
            Ok(())
        })
    };
    scope.register(witness("first dropped")).unwrap();
    scope.register(keeps(Bomb { depth: 1 })).unwrap();
    let bomb = Bomb { depth: 1 };
    let custom = Custom::new("custom", Period::Scope, move |_: &tenure_core::CleanupContext| {
        let _ = &bomb;
        Ok(())
    });
    scope.register(hook::custom(custom)).unwrap();
    scope.register(order.once("below")).unwrap();
    scope.adopt("adopted", Bomb { depth: 1 }, |_, _| Ok(())).unwrap();
    let bomb = Bomb { depth: 1 };
    let later = hook::future("async", move |_| async move {
        Yield::default().await;
        drop(bomb);
        Ok(())
    });
    scope.register(later).unwrap();
    let bomb = Bomb { depth: 1 };
    let once = hook::once("once", move |_| {
        let _ = &bomb;
        Ok(())
    });
    scope.register(once).unwrap();
    scope.register(order.once("above")).unwrap();
    scope.register(witness("last dropped")).unwrap();
    work(&scope);
    let failure = cleanup_failure(finish_without_a_panic(&scope));
    assert_eq!(order.seen(), ["above", "below", "first dropped", "last dropped"]);
    assert!(failure.report.hooks.iter().all(|row| row.runs == 1), "{}", failure.report);
    // Where the drop is part of the run, its panic is the run's.
    let told = culprits(all_errors(&failure));
    for label in ["once", "async", "adopted"] {
        assert!(told.contains(&label), "{label}: {told:?}");
    }
    assert_works(&manager);
}

/// An execution hook that keeps a value until it is dropped.
fn keeps(bomb: Bomb) -> tenure_core::Hook {
    hook::each("keeps", move |_| {
        let _ = &bomb;
        Ok(())
    })
}

/// The same with a value whose panic's payload panics in turn.
fn a_captured_value_that_panics_again(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let scope = manager.scope("s").unwrap();
    scope.register(keeps(Bomb { depth: 3 })).unwrap();
    let noted = order.clone();
    let value = OnDrop(move || noted.note("dropped"));
    let witness = hook::each("witness", move |_| {
        let _ = &value;
        Ok(())
    });
    scope.register(witness).unwrap();
    work(&scope);
    let report = finish_without_a_panic(&scope).unwrap();
    assert_eq!(runs(&report), [("keeps", 1), ("witness", 1)]);
    assert_eq!(order.seen(), ["dropped"]);
    assert_works(&manager);
}

#[track_caller]
fn finish_without_a_panic(scope: &ManagedScope) -> Result<ScopeReport, Error> {
    match catch_unwind(AssertUnwindSafe(|| scope.finish_blocking())) {
        Ok(finished) => finished,
        Err(payload) => {
            // Its destructor may panic too, and this thread is about to unwind.
            std::mem::forget(payload);
            panic!("a panic came out of finish")
        }
    }
}

/// A second hook of a key is dropped by the call that offers it: its panic is that caller's, and harms no scope.
fn a_duplicate_that_panics(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let scope = manager.scope("s").unwrap();
    scope.register(order.once("first").key("k")).unwrap();
    let bomb = Bomb { depth: 1 };
    let duplicate = hook::once("second", move |_| {
        let _ = &bomb;
        Ok(())
    });
    let panicked = catch_unwind(AssertUnwindSafe(|| scope.register(duplicate.key("k"))));
    assert!(panicked.is_err());
    scope.register(order.once("after that")).unwrap();
    let report = scope.finish_blocking().unwrap();
    assert_eq!(runs(&report), [("first", 1), ("after that", 1)]);
    assert_eq!(order.seen(), ["after that", "first"]);
    assert_works(&manager);
}

/// Hooks of dropped scopes panic on the cleanup thread, which goes on with the next scope, on the same thread.
fn a_panic_on_the_cleanup_thread(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let (sender, seen) = mpsc::channel();
    for _ in 0..3 {
        let scope = manager.scope("s").unwrap();
        let tell = sender.clone();
        let hook = hook::after_release("tells", move |_| Ok(tell.send(std::thread::current().id())?));
        scope.register(hook).unwrap();
        scope.register(hook::once("panics", |_| panic_any(Bomb { depth: 1 }))).unwrap();
        work(&scope);
        drop(scope);
    }
    let threads: Vec<_> = (0..3).map(|_| receive(&seen)).collect();
    assert!(threads.iter().all(|thread| *thread == threads[0] && *thread != std::thread::current().id()));
    let report = manager.close().unwrap();
    assert_eq!(report.errors.len(), 3, "{report}");
}
