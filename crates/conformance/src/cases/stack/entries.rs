//! What goes onto the stack, where, and in which order it comes off (L10).
//!
//! Not here: entries that fail (`errors.rs`).

use std::sync::Arc;

use tenure_core::{Error, ManagedScope, ScopeRef, SequenceState, hook, op};

use crate::bed::{Bed, Rig};
use crate::case::Case;
use crate::cases::hooks::support::{Count, OnDrop, Order, assert_given_back, case, fill, runs, work};
use crate::instrument::CallKind;

pub(super) const CASES: &[Case] = &[
    case("stack/an_empty_stack_finishes", &["L10"], an_empty_stack_finishes),
    case("stack/entries_of_all_kinds_run_in_reverse", &["L10"], entries_of_all_kinds_run_in_reverse),
    case("stack/a_hook_goes_on_top", &["L10"], a_hook_goes_on_top),
    case("stack/an_adopted_value_goes_on_top", &["L10"], an_adopted_value_goes_on_top),
    case("stack/a_child_goes_on_top", &["L10"], a_child_goes_on_top),
    case("stack/a_sequence_is_an_entry", &["L10", "L5"], a_sequence_is_an_entry),
    case("stack/a_destroyed_sequence_is_no_entry", &["L10", "L8"], a_destroyed_sequence_is_no_entry),
    case("stack/release_gets_the_value_itself", &["L10"], release_gets_the_value_itself),
    case("stack/any_value_can_be_adopted", &["L10"], any_value_can_be_adopted),
    case(
        "stack/an_adopted_value_is_dropped_by_its_release_alone",
        &["L10", "L11"],
        dropped_by_its_release_alone,
    ),
    case("stack/adopting_runs_nothing", &["L10", "L11"], adopting_runs_nothing),
    case("stack/each_registration_has_its_own_id", &["L12"], each_registration_has_its_own_id),
    case("stack/acquired_before_it_is_adopted", &["L10"], acquired_before_it_is_adopted),
    case("stack/sync_and_async_entries_run_one_at_a_time", &["L10", "L16"], sync_and_async_entries),
    case("stack/what_an_entry_adds_runs_next", &["L10"], what_an_entry_adds_runs_next),
    case("stack/a_tall_stack_costs_no_depth", &["L10", "L11"], a_tall_stack_costs_no_depth),
];

/// After CPython's `test_no_resources`: nothing in, nothing done, no error.
fn an_empty_stack_finishes(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    for _ in 0..3 {
        let report = manager.scope("empty").unwrap().finish_blocking().unwrap();
        assert!(report.hooks.is_empty() && report.errors.is_empty());
    }
    manager.run("empty", |_| Ok::<(), Error>(())).unwrap();
    assert_given_back(&manager);
}

/// After test262's `dispose/disposes-resources-in-reverse-order` and CPython's `test_callback`: hooks, adopted values
/// and children, with what they captured, last in first out.
fn entries_of_all_kinds_run_in_reverse(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let scope = manager.scope("s").unwrap();
    scope.register(order.once("1 hook")).unwrap();
    order.adopt(&scope, "2 adopted");
    let third = scope.scope("third").unwrap();
    third.register(order.once("3 child")).unwrap();
    scope.register(order.future("4 async")).unwrap();
    scope.sequence().unwrap();
    order.adopt(&scope, "5 adopted");
    let sixth = scope.scope("sixth").unwrap();
    order.adopt(&sixth, "6 child");
    scope.register(order.once("7 hook")).unwrap();
    scope.finish_blocking().unwrap();
    let expected = [
        "7 hook",
        "6 child",
        "5 adopted",
        "4 async begins",
        "4 async ends",
        "3 child",
        "2 adopted",
        "1 hook",
    ];
    assert_eq!(order.seen(), expected);
}

/// After test262's `defer/puts-onDispose-on-top-of-stack`.
fn a_hook_goes_on_top(bed: &Bed) {
    on_top(bed, |scope, order| {
        scope.register(order.once("new")).unwrap();
    });
}

/// After test262's `adopt/puts-value-onDispose-on-top-of-stack`.
fn an_adopted_value_goes_on_top(bed: &Bed) {
    on_top(bed, |scope, order| order.adopt(scope, "new"));
}

/// After test262's `use/puts-value-on-top-of-stack`.
fn a_child_goes_on_top(bed: &Bed) {
    on_top(bed, |scope, order| {
        let child = scope.scope("child").unwrap();
        child.register(order.once("new")).unwrap();
        std::mem::forget(child);
    });
}

/// What `add` adds runs before everything older, of any kind, and after what is added later.
fn on_top(bed: &Bed, add: fn(&ScopeRef, &Order)) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let scope = manager.scope("s").unwrap();
    scope.register(order.once("old hook")).unwrap();
    order.adopt(&scope, "old adopted");
    let old = scope.scope("old").unwrap();
    old.register(order.once("old child")).unwrap();
    add(&scope, &order);
    scope.register(order.once("newest")).unwrap();
    scope.finish_blocking().unwrap();
    assert_eq!(order.seen(), ["newest", "new", "old child", "old adopted", "old hook"]);
}

/// A sequence is destroyed in its turn: entries above find it, those below find it stale.
fn a_sequence_is_an_entry(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let scope = manager.scope("s").unwrap();
    let tensor = scope.tensor::<u32>(64).unwrap();
    let below = order.clone();
    let (named, anonymous) = (std::sync::OnceLock::new(), std::sync::OnceLock::new());
    let sequences = Arc::new((named, anonymous));
    let seen = sequences.clone();
    let hook = hook::once("below", move |context| {
        let (named, anonymous): &(std::sync::OnceLock<_>, std::sync::OnceLock<_>) = &seen;
        for sequence in [named, anonymous].map(|slot| slot.get().expect("set below")) {
            let sequence: &tenure_core::ManagedSequence = sequence;
            assert!(matches!(sequence.evaluate(), Err(Error::Stale { .. })));
        }
        assert!(matches!(context.scope().find("named"), Err(Error::UnknownName { .. })));
        below.note("below");
        Ok(())
    });
    scope.register(hook).unwrap();
    let named = scope.named("named").unwrap();
    named.record(op::fill(&tensor, 1)).unwrap();
    let anonymous = scope.sequence().unwrap();
    anonymous.record(op::fill(&tensor, 2)).unwrap();
    assert!(sequences.0.set(named.clone()).is_ok() && sequences.1.set(anonymous.clone()).is_ok());
    let above = order.clone();
    let hook = hook::once("above", move |context| {
        context.scope().find("named")?.run()?;
        anonymous.run()?;
        above.note("above");
        Ok(())
    });
    scope.register(hook).unwrap();
    let report = scope.finish_blocking().unwrap();
    assert_eq!((order.seen(), report.executions), (vec!["above".into(), "below".into()], 2));
    drop((named, sequences, tensor));
    assert_given_back(&manager);
}

/// A sequence that was destroyed or replaced is gone from the stack; its successor is an entry where it was made.
fn a_destroyed_sequence_is_no_entry(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let scope = manager.scope("s").unwrap();
    let tensor = scope.tensor::<u32>(64).unwrap();
    let first = scope.named("name").unwrap();
    first.record(op::fill(&tensor, 1)).unwrap();
    first.run().unwrap();
    let second = scope.replace("name").unwrap();
    second.record(op::fill(&tensor, 2)).unwrap();
    second.run().unwrap();
    second.destroy().unwrap();
    assert!(matches!(first.evaluate(), Err(Error::Stale { .. })));
    assert_eq!((scope.named_sequences().len(), second.state()), (0, SequenceState::Finished));
    let made = probe.lifetimes(crate::instrument::ObjectKind::Sequence);
    assert_eq!(made.made, made.given_back, "both went when they were destroyed");
    let hook = hook::once("last", move |context| {
        let third = context.scope().named("name")?;
        third.record(op::fill(&tensor, 3))?;
        third.run()?;
        Ok(())
    });
    scope.register(hook).unwrap();
    assert_eq!(scope.finish_blocking().unwrap().executions, 3);
    assert_given_back(&manager);
}

/// After test262's `adopt/adds-value-onDispose` and `use/adds-value`: the release is called once, with the very
/// value.
fn release_gets_the_value_itself(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let calls = Count::default();
    let scope = manager.scope("s").unwrap();
    let value = Arc::new(5_u8);
    let (same, called) = (value.clone(), calls.clone());
    let release = move |value: Arc<u8>, context: &tenure_core::CleanupContext| {
        called.add();
        assert!(Arc::ptr_eq(&value, &same));
        assert_eq!(context.scope().label(), "s");
        Ok(())
    };
    scope.adopt("value", value.clone(), release).unwrap();
    assert_eq!((Arc::strong_count(&value), calls.get()), (3, 0));
    let report = scope.finish_blocking().unwrap();
    assert_eq!((Arc::strong_count(&value), calls.get()), (1, 1));
    assert_eq!(runs(&report), [("value", 1)]);
}

/// After test262's `adopt/allows-any-value` and `use/allows-null-value`: nothing, numbers, text, boxes, tensors and
/// scopes.
fn any_value_can_be_adopted(bed: &Bed) {
    fn adopt<V: Send + PartialEq + std::fmt::Debug + 'static>(
        scope: &ScopeRef,
        order: &Order,
        value: V,
        same: V,
    ) {
        let order = order.clone();
        let release = move |value: V, _: &tenure_core::CleanupContext| {
            assert_eq!(value, same);
            order.note(format!("{value:?}"));
            Ok(())
        };
        scope.adopt("value", value, release).unwrap();
    }
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let scope = manager.scope("s").unwrap();
    adopt(&scope, &order, (), ());
    adopt(&scope, &order, None::<u8>, None);
    adopt(&scope, &order, 7_u64, 7);
    adopt(&scope, &order, "text".to_owned(), "text".to_owned());
    adopt(&scope, &order, Box::new([1_u8; 3]), Box::new([1_u8; 3]));
    let tensor = manager.tensor_from("adopted", &[1_u32; 64]).unwrap();
    let (noted, kept) = (order.clone(), tensor.clone());
    let release = move |tensor: tenure_core::Tensor<u32>, _: &tenure_core::CleanupContext| {
        noted.note(format!("{:?}", tensor.read()?[0]));
        Ok(tensor.destroy()?)
    };
    scope.adopt("tensor", tensor, release).unwrap();
    let noted = order.clone();
    let release = move |inner: ManagedScope, _: &tenure_core::CleanupContext| {
        noted.note(format!("{} executions", inner.finish_blocking()?.executions));
        Ok(())
    };
    let inner = manager.scope("adopted").unwrap();
    work(&inner);
    scope.adopt("scope", inner, release).unwrap();
    assert_eq!(scope.finish_blocking().unwrap().hooks.len(), 7);
    assert_eq!(order.seen(), ["1 executions", "1", "[1, 1, 1]", "\"text\"", "7", "None", "()"]);
    assert!(!kept.is_live());
    drop(kept);
    assert_given_back(&manager);
}

/// An adopted value is dropped once, where its release lets it go: not by the scope, and not before.
fn dropped_by_its_release_alone(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let scope = manager.scope("s").unwrap();
    scope.register(order.once("below")).unwrap();
    for label in ["dropped", "leaked"] {
        let (noted, released) = (order.clone(), order.clone());
        let value = OnDrop(move || noted.note("gone"));
        let release = move |value, _: &tenure_core::CleanupContext| {
            released.note(label);
            if label == "leaked" {
                std::mem::forget(value)
            } else {
                drop(value)
            }
            released.note("released");
            Ok(())
        };
        scope.adopt(label, value, release).unwrap();
    }
    scope.finish_blocking().unwrap();
    drop(scope);
    assert_eq!(order.seen(), ["leaked", "released", "dropped", "gone", "released", "below"]);
}

/// After test262's `defer/returns-undefined` and CPython's `test_push`: adding is adding and no more, however many.
fn adopting_runs_nothing(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let order = Order::default();
    let scope = manager.scope("s").unwrap();
    {
        let _no_calls = probe.forbid_calls_here();
        for _ in 0..100 {
            scope.register(order.once("once")).unwrap();
            scope.register(order.each("each")).unwrap();
            scope.register(order.after("after")).unwrap();
            order.adopt(&scope, "adopted");
            scope.sequence().unwrap();
        }
        assert_eq!(order.seen().len(), 0);
    }
    scope.finish_blocking().unwrap();
    assert_eq!(order.seen().len(), 300);
    assert_eq!(probe.calls(CallKind::OpenScope | CallKind::Submit), 0);
}

/// After test262's `use/returns-value` and CPython's `test_callback`, which give back what was handed in: tenure
/// gives an id, one for each registration, in rising order of adding.
fn each_registration_has_its_own_id(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let scope = manager.scope("s").unwrap();
    let mut ids: Vec<_> = (0..10).map(|_| scope.register(order.once("once")).unwrap()).collect();
    ids.push(scope.register(order.each("each")).unwrap());
    ids.push(scope.register(order.after("after")).unwrap());
    let distinct: std::collections::HashSet<_> = ids.iter().collect();
    assert_eq!(distinct.len(), 12);
    scope.finish_blocking().unwrap();
}

/// After CPython's `test_enter_context`: what is acquired and then put on the stack is released before older entries,
/// and the body's own steps come in between.
fn acquired_before_it_is_adopted(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    manager
        .run("s", |scope| -> Result<(), Error> {
            scope.register(order.once("4 registered first"))?;
            order.note("1 acquired");
            order.adopt(scope, "3 released");
            order.note("2 body");
            Ok(())
        })
        .unwrap();
    assert_eq!(order.seen(), ["1 acquired", "2 body", "3 released", "4 registered first"]);
}

/// After test262's `AsyncDisposableStack` `use/adds-sync-disposable-value` and `use/adds-async-disposable-value`, and
/// CPython's `test_async_callback`: both kinds on one stack, in strict order, also when the work in an entry is the
/// device's.
fn sync_and_async_entries(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    for blocking in [true, false] {
        let order = Order::default();
        let scope = manager.scope("s").unwrap();
        let tensor = scope.tensor::<u32>(64).unwrap();
        scope.register(order.once("sync 1")).unwrap();
        let (noted, used) = (order.clone(), tensor.clone());
        let device = hook::future("device", move |context| async move {
            noted.note("device begins");
            fill(&context.scope(), &used, 3).await?;
            noted.note(format!("device ends with {}", used.read_async().await?[0]));
            Ok(())
        });
        scope.register(device).unwrap();
        order.adopt(&scope, "sync 2");
        scope.register(order.future("async")).unwrap();
        scope.register(order.once("sync 3")).unwrap();
        if blocking { scope.finish_blocking() } else { pollster::block_on(scope.finish()) }.unwrap();
        let expected = [
            "sync 3",
            "async begins",
            "async ends",
            "sync 2",
            "device begins",
            "device ends with 3",
            "sync 1",
        ];
        assert_eq!(order.seen(), expected);
        drop(tensor);
    }
    assert_given_back(&manager);
}

/// Unlike a disposable stack, which refuses what a disposer adds, and an exit stack, which has no such rule: it goes
/// on top and runs next.
fn what_an_entry_adds_runs_next(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let scope = manager.scope("s").unwrap();
    scope.register(order.once("old")).unwrap();
    let noted = order.clone();
    let release = move |(), context: &tenure_core::CleanupContext| {
        let scope = context.scope();
        noted.adopt(&scope, "added 1");
        let child = scope.scope("child")?;
        child.register(noted.once("added 2"))?;
        std::mem::forget(child);
        scope.register(noted.once("added 3"))?;
        noted.note("adds");
        Ok(())
    };
    scope.adopt("adds", (), release).unwrap();
    scope.finish_blocking().unwrap();
    assert_eq!(order.seen(), ["adds", "added 3", "added 2", "added 1", "old"]);
}

/// After CPython's `test_excessive_nesting`: a hundred thousand entries come off in a loop, on a small stack. This is
/// about size, hence the number.
fn a_tall_stack_costs_no_depth(bed: &Bed) {
    const ENTRIES: u64 = 100_000;
    let Rig { manager, .. } = bed.open();
    let owned = manager.clone();
    let tall = move || {
        let scope = owned.scope("tall").unwrap();
        let left = Count::default();
        for at in 0..ENTRIES {
            let left = left.clone();
            let hook = hook::once("entry", move |_| {
                left.add();
                assert_eq!(left.get() + at, ENTRIES, "in reverse");
                Ok(())
            });
            scope.register(hook).unwrap();
        }
        let report = scope.finish_blocking().unwrap();
        assert_eq!((report.hooks.len() as u64, left.get()), (ENTRIES, ENTRIES));
    };
    let thread = std::thread::Builder::new().stack_size(128 << 10).spawn(tall).unwrap();
    thread.join().unwrap();
    assert_given_back(&manager);
}
