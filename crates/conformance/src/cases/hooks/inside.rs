//! What hooks may do: register, evaluate, allocate, open and finish scopes, drop what they hold (L10, L15, L16).
//!
//! Not here: waiting (`waiting.rs`), and doing all of it at once under load (`locks.rs`).

use std::sync::Arc;
use std::sync::mpsc;

use parking_lot::Mutex;
use tenure_core::{Error, Outcome, Period, ScopeRef, ScopeState, TensorOptions, hook, op};

use super::support::{
    Custom, MIB, Order, WATCHDOG, assert_given_back, case, fill, number, receive, runs, work,
};
use crate::bed::{Bed, Rig};
use crate::case::Case;

pub(super) const CASES: &[Case] = &[
    case("hooks/a_hook_registers_hooks", &["L10", "L16"], a_hook_registers_hooks),
    case("hooks/every_kind_of_hook_registers", &["L10"], every_kind_of_hook_registers),
    case(
        "hooks/an_execution_hook_registers_while_the_scope_is_open",
        &["L10", "L11"],
        an_execution_hook_registers,
    ),
    case("hooks/hooks_that_register_hooks_end", &["L10", "L11"], hooks_that_register_hooks_end),
    case("hooks/a_hook_evaluates", &["L16", "L11"], a_hook_evaluates),
    case("hooks/a_hook_evaluates_after_cancel", &["L16", "L11"], a_hook_evaluates_after_cancel),
    case("hooks/a_hook_allocates", &["L16", "L19"], a_hook_allocates),
    case("hooks/a_hook_promotes", &["L2", "L16"], a_hook_promotes),
    case("hooks/a_hook_opens_scopes", &["L10", "L16"], a_hook_opens_scopes),
    case("hooks/a_hook_finishes_a_child", &["L10", "L15"], a_hook_finishes_a_child),
    case("hooks/a_hook_drops_the_last_manager", &["L15", "L6"], a_hook_drops_the_last_manager),
    case("hooks/a_hook_drops_its_own_scopes_handle", &["L15", "L17"], a_hook_drops_its_own_scope),
    case("hooks/a_hook_sees_what_it_runs_for", &["L11", "L16"], a_hook_sees_what_it_runs_for),
];

/// Hooks that a hook registers go on top and run next, in reverse; execution hooks of its own apply to what it
/// submits afterwards, `AfterRelease` hooks run in their turn, also when an `AfterRelease` hook registers.
fn a_hook_registers_hooks(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let scope = manager.scope("s").unwrap();
    let noted = order.clone();
    let hook = hook::after_release("after", move |context| {
        noted.note("after");
        context.register(noted.after("after by after"))?;
        context.register(noted.once("once by after"))?;
        Ok(())
    });
    scope.register(hook).unwrap();
    scope.register(order.once("bottom")).unwrap();
    let noted = order.clone();
    let hook = hook::once("registers", move |context| {
        noted.note("registers");
        context.register(noted.once("second"))?;
        context.register(noted.each("each"))?;
        context.register(noted.after("after by once"))?;
        let nested = noted.clone();
        let first = hook::once("first", move |context| {
            nested.note("first");
            context.register(nested.once("next"))?;
            work(&context.scope());
            Ok(())
        });
        context.register(first)?;
        assert_eq!(noted.seen(), ["registers"], "registering runs nothing");
        Ok(())
    });
    scope.register(hook).unwrap();
    let report = scope.finish_blocking().unwrap();
    let expected = [
        "registers",
        "first",
        "each #1",
        "next",
        "second",
        "bottom",
        "after by once",
        "after",
        "once by after",
        "after by after",
    ];
    assert_eq!(order.seen(), expected);
    assert_eq!(report.hooks.len(), 10);
    assert!(report.hooks.iter().all(|row| row.runs == 1), "{report}");
}

/// An async hook, a custom one, the release of an adopted value and an execution hook of a finishing scope register
/// too.
fn every_kind_of_hook_registers(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let scope = manager.scope("s").unwrap();
    let noted = order.clone();
    let hook = hook::future("async", move |context| async move {
        super::support::Yield::default().await;
        noted.note("async");
        context.register(noted.once("by async"))?;
        Ok(())
    });
    scope.register(hook).unwrap();
    let noted = order.clone();
    let custom = Custom::new("custom", Period::Scope, move |context: &tenure_core::CleanupContext| {
        noted.note("custom");
        context.register(noted.once("by custom"))?;
        Ok(())
    });
    scope.register(hook::custom(custom)).unwrap();
    let noted = order.clone();
    let release = move |label: &'static str, context: &tenure_core::CleanupContext| {
        noted.note("adopted");
        context.scope().adopt("again", label, move |label, _| {
            noted.note(label);
            Ok(())
        })?;
        Ok(())
    };
    scope.adopt("adopted", "by adopted", release).unwrap();
    let noted = order.clone();
    let hook = hook::each("each", move |context| {
        noted.note("each");
        context.register(noted.once("by each"))?;
        Ok(())
    });
    scope.register(hook).unwrap();
    work(&scope);
    scope.finish_blocking().unwrap();
    let expected = ["each", "by each", "adopted", "by adopted", "custom", "by custom", "async", "by async"];
    assert_eq!(order.seen(), expected);
}

/// A hook that runs while its scope is open adds to the scope as anybody does.
fn an_execution_hook_registers(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let scope = manager.scope("s").unwrap();
    scope.register(order.once("old")).unwrap();
    let noted = order.clone();
    let (sender, ran) = mpsc::channel();
    let hook = hook::each("registers", move |context| {
        assert_eq!((context.outcome(), context.scope().state()), (None, ScopeState::Open));
        context.register(noted.once("new"))?;
        if number(context) == 1 {
            context.register(noted.each("each"))?;
        }
        Ok(sender.send(number(context))?)
    });
    scope.register(hook).unwrap();
    work(&scope);
    assert_eq!((receive(&ran), order.seen().len()), (1, 0));
    work(&scope);
    assert_eq!((receive(&ran), order.seen()), (2, vec!["each #2".into()]));
    let report = scope.finish_blocking().unwrap();
    assert_eq!(order.seen(), ["each #2", "new", "new", "old"]);
    assert_eq!(report.hooks.len(), 5);
}

/// A thousand hooks, each registered by the one before it, run in a loop and not in one another.
fn hooks_that_register_hooks_end(bed: &Bed) {
    const HOOKS: u64 = 1_000;
    fn chain(left: u64, order: Order) -> tenure_core::Hook {
        hook::once("chain", move |context| {
            if left.is_multiple_of(250) {
                order.note(format!("{left}"));
            }
            if left > 0 {
                context.register(chain(left - 1, order.clone()))?;
            }
            Ok(())
        })
    }
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let scope = manager.scope("s").unwrap();
    scope.register(order.once("bottom")).unwrap();
    scope.register(chain(HOOKS, order.clone())).unwrap();
    let report = scope.finish_blocking().unwrap();
    assert_eq!(order.seen(), ["1000", "750", "500", "250", "0", "bottom"]);
    assert_eq!(report.hooks.len(), HOOKS as usize + 2);
}

/// A scope hook evaluates a named sequence that is older than it, makes new ones, reads results: what it submits
/// counts, and has its hooks.
fn a_hook_evaluates(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let scope = manager.scope("s").unwrap();
    let tensor = scope.tensor_from("data", &[1_u32; 64]).unwrap();
    let old = scope.named("old").unwrap();
    old.record(op::fill(&tensor, 2)).unwrap();
    let (noted, used) = (order.clone(), tensor.clone());
    let hook = hook::once("evaluates", move |context| {
        let scope = context.scope();
        scope.find("old")?.run()?;
        assert_eq!(used.read()?, [2; 64]);
        let (read, values) = op::download(&used);
        let new = scope.named("new")?;
        new.record(op::fill(&used, 3))?.record(read)?;
        new.run()?;
        assert_eq!(values.get()?, [3; 64]);
        fill(&scope, &used, 4).wait()?;
        used.write(&[5; 64])?;
        assert_eq!(used.read()?, [5; 64]);
        noted.note("evaluates");
        Ok(())
    });
    scope.register(hook).unwrap();
    scope.register(order.each("each")).unwrap();
    fill(&scope, &tensor, 9);
    let report = scope.finish_blocking().unwrap();
    assert_eq!(order.seen(), ["each #1", "evaluates", "each #2", "each #3", "each #4"]);
    assert_eq!((report.executions, report.released_tensors), (4, 1));
    drop((tensor, old));
    assert_given_back(&manager);
}

/// What a cancelled scope's body may not start any more, its hooks may.
fn a_hook_evaluates_after_cancel(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let scope = manager.scope("s").unwrap();
    let tensor = scope.tensor_from("data", &[1_u32; 64]).unwrap();
    let (noted, used) = (order.clone(), tensor.clone());
    let hook = hook::once("saves", move |context| {
        context.scope().evaluate([op::fill(&used, 6)])?.wait()?;
        assert_eq!(used.read()?, [6; 64]);
        noted.note("saves");
        Ok(())
    });
    scope.register(hook).unwrap();
    scope.cancel();
    assert!(matches!(scope.evaluate([op::fill(&tensor, 2)]), Err(Error::Cancelled { .. })));
    let report = scope.finish_blocking().unwrap();
    assert_eq!((report.outcome, report.executions, order.seen().len()), (Outcome::Cancelled, 1, 1));
}

/// Tensors that hooks make in their scope are its local tensors: released with the others, counted in the peak.
fn a_hook_allocates(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let scope = manager.scope("s").unwrap();
    let kept = Arc::new(Mutex::new(Vec::new()));
    let keep = kept.clone();
    let hook = hook::once("allocates", move |context| {
        let mine = context.scope().tensor::<u8>(2 * MIB)?;
        let managers = context
            .manager()?
            .tensor_with::<u8>(TensorOptions::builder().shape([MIB]).label("kept").build())?;
        assert_eq!(context.scope().live_bytes(), 3 * MIB);
        keep.lock().extend([mine, managers]);
        Ok(())
    });
    scope.register(hook).unwrap();
    let first = scope.tensor::<u8>(MIB).unwrap();
    let report = scope.finish_blocking().unwrap();
    assert_eq!((report.released_tensors, report.released_bytes, report.peak_bytes), (2, 3 * MIB, 3 * MIB));
    let live: Vec<_> = kept.lock().iter().map(|tensor| tensor.is_live()).collect();
    assert_eq!((first.is_live(), live), (false, vec![false, true]));
    assert_eq!(manager.memory().live.bytes, MIB);
    drop((kept, first));
    assert_given_back(&manager);
}

/// A hook saves a tensor from its scope's end: to the parent, or to the manager.
fn a_hook_promotes(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let outer = manager.scope("outer").unwrap();
    let inner = outer.scope("inner").unwrap();
    let (up, out, stays) = (
        inner.tensor::<u8>(MIB).unwrap(),
        inner.tensor::<u8>(MIB).unwrap(),
        inner.tensor::<u8>(MIB).unwrap(),
    );
    let saved = (up.clone(), out.clone());
    let hook = hook::once("saves", move |_| {
        saved.0.promote()?;
        saved.1.promote_to_manager()?;
        Ok(())
    });
    inner.register(hook).unwrap();
    assert_eq!(inner.finish_blocking().unwrap().released_bytes, MIB);
    assert_eq!((outer.live_bytes(), manager.memory().live.bytes), (MIB, 2 * MIB));
    assert_eq!(outer.finish_blocking().unwrap().released_bytes, MIB);
    assert_eq!([&up, &out, &stays].map(|tensor| tensor.is_live()), [false, true, false]);
    drop((up, out, stays));
    assert_given_back(&manager);
}

/// A hook opens child scopes: one it finishes, one it drops, one it forgets, which is finished as the next entry. A
/// root scope that it opens is its own business.
fn a_hook_opens_scopes(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let scope = manager.scope("s").unwrap();
    scope.register(order.once("bottom")).unwrap();
    let noted = order.clone();
    let hook = hook::once("opens", move |context| {
        let forgotten = context.scope().scope("forgotten")?;
        forgotten.register(noted.outcome("forgotten"))?;
        work(&forgotten);
        std::mem::forget(forgotten);
        let finished = context.scope().scope("finished")?;
        finished.register(noted.outcome("finished"))?;
        assert_eq!(finished.finish_blocking()?.outcome, Outcome::Completed);
        let root = context.manager()?.scope("root")?;
        root.register(noted.outcome("root"))?;
        work(&root);
        root.finish_with::<_, Error>(Ok(())).map_err(|error| error.to_string())?;
        noted.note("opens");
        Ok(())
    });
    scope.register(hook).unwrap();
    scope.finish_blocking().unwrap();
    let expected = ["finished Completed", "root Completed", "opens", "forgotten Completed", "bottom"];
    assert_eq!(order.seen(), expected);
    assert_given_back(&manager);
}

/// A hook finishes an older child of its own scope, which is then no entry any more; its siblings stay.
fn a_hook_finishes_a_child(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let scope = manager.scope("s").unwrap();
    let first = scope.scope("first").unwrap();
    first.register(order.once("first")).unwrap();
    let second = scope.scope("second").unwrap();
    second.register(order.once("second")).unwrap();
    let noted = order.clone();
    let hook = hook::once("finishes", move |_| {
        assert_eq!(first.finish_blocking()?.hooks.len(), 1);
        noted.note("finishes");
        assert!(matches!(first.finish_blocking(), Err(Error::ScopeFinished { .. })));
        Ok(())
    });
    scope.register(hook).unwrap();
    scope.finish_blocking().unwrap();
    assert_eq!(order.seen(), ["first", "finishes", "second"]);
    assert_given_back(&manager);
}

/// An execution hook drops the last handle of the manager while its scope is open: the scope is abandoned in the
/// background, each hook runs once, and the device ends.
fn a_hook_drops_the_last_manager(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let order = Order::default();
    let scope = manager.scope("s").unwrap();
    scope.register(order.once("once")).unwrap();
    let noted = order.clone();
    let mut owned = Some(manager.clone());
    let hook = hook::each("drops", move |context| {
        drop(owned.take());
        assert!(context.manager().is_err(), "that was the last one");
        // Inside a hook the scope still works.
        let tensor = context.scope().tensor_from("late", &[3_u32; 64])?;
        assert_eq!(tensor.read()?, [3; 64]);
        noted.note("drops");
        Ok(())
    });
    scope.register(hook).unwrap();
    let execution = {
        probe.hold();
        let execution = work(&scope);
        drop(manager);
        probe.release_all();
        execution
    };
    execution.wait().unwrap();
    assert!(probe.wait_shutdown(WATCHDOG));
    assert_eq!(order.seen(), ["drops", "once"]);
    assert_eq!(scope.state(), ScopeState::Finished(Outcome::Abandoned));
}

/// A hook holds the last handle of its own scope, by accident, and drops it while the scope is finishing or open.
fn a_hook_drops_its_own_scope(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let (sender, over) = mpsc::channel();
    let slot = Arc::new(Mutex::new(None));
    let scope = manager.scope("s").unwrap();
    scope.register(hook::after_release("tells", move |_| Ok(sender.send(())?))).unwrap();
    scope.register(order.outcome("once")).unwrap();
    let (noted, handle) = (order.clone(), slot.clone());
    let hook = hook::each("drops", move |context| {
        let own: Option<tenure_core::ManagedScope> = handle.lock().take();
        drop(own);
        noted.note(format!("drops #{}", number(context)));
        Ok(())
    });
    scope.register(hook).unwrap();
    let state = ScopeRef::clone(&scope);
    let execution = work(&scope);
    *slot.lock() = Some(scope);
    execution.wait().unwrap();
    // The cleanup thread may have been first: then the handle is still there, and goes here.
    drop(slot.lock().take());
    receive(&over);
    assert_eq!(order.seen(), ["drops #1", "once Abandoned"]);
    manager.close().unwrap();
    assert_eq!(state.state(), ScopeState::Finished(Outcome::Abandoned));
}

/// The context tells scope, manager, outcome and execution; a scope hook has no execution, an execution hook of an
/// open scope no outcome.
fn a_hook_sees_what_it_runs_for(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let scope = manager.scope("s").unwrap();
    let id = scope.id();
    let (sender, seen) = mpsc::channel();
    let tell = sender.clone();
    let hook = hook::each("each", move |context| {
        let execution =
            context.execution().map(|execution| (execution.number, execution.sequence.to_string()));
        assert_eq!((context.scope().id(), context.manager()?.label()), (id, "manager"));
        Ok(tell.send((execution, context.outcome()))?)
    });
    scope.register(hook).unwrap();
    let tell = sender.clone();
    scope.register(hook::once("once", move |context| Ok(tell.send((None, context.outcome()))?))).unwrap();
    let tensor = scope.tensor::<u32>(64).unwrap();
    let named = scope.named("named").unwrap();
    named.record(op::fill(&tensor, 1)).unwrap();
    named.run().unwrap();
    assert_eq!(receive(&seen), (Some((1, "named".to_owned())), None));
    named.evaluate().unwrap();
    let report = scope.finish_with::<(), _>(Err("body")).unwrap_err();
    assert_eq!(runs(report.report().unwrap()), [("each", 2), ("once", 1)]);
    let second = receive(&seen);
    assert_eq!(second.0, Some((2, "named".to_owned())));
    assert_eq!(receive(&seen), (None, Some(Outcome::Failed)));
}
