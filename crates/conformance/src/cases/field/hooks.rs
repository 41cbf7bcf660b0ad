//! Cases C6, C8, C9 and C11: how often hooks run, in which order, on which thread, and that none stops another.
//!
//! Not here: hooks at every kind of end (`ends.rs`), callbacks that are asked for memory (`pressure.rs`).

use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::Arc;

use parking_lot::Mutex;
use tenure_core::{
    BoxError, CleanupContext, CleanupErrorKind, Error, Hook, ManagedScope, Manager, Outcome, RunError,
    Tensor, hook, op,
};

use super::support::{
    Count, MIB, Order, Yield, assert_given_back, case, cleanup_failure, poll_once, settled, untrimmed,
};
use crate::bed::{Bed, Rig};
use crate::case::Case;
use crate::instrument::CallKind;

pub(super) const CASES: &[Case] = &[
    case("field/c06_one_trim_for_the_chain", &["L12", "L16", "L21"], c06_one_trim_for_the_chain),
    case("field/c08_a_body_succeeds", &["L13"], c08_a_body_succeeds),
    case("field/c08_b_body_fails", &["L13"], c08_b_body_fails),
    case("field/c08_c_body_panics", &["L13"], c08_c_body_panics),
    case("field/c09_order_of_cleanup", &["L16", "L10", "L11"], c09_order_of_cleanup),
    case("field/c11_hooks_run_on_no_driver_thread", &["L15", "L11"], c11_hooks_run_on_no_driver_thread),
    case("field/c11_a_hook_may_do_anything", &["L15", "L10"], c11_a_hook_may_do_anything),
    case("field/c11_async_hooks_end_before_finish", &["L16", "L18"], c11_async_hooks_end_before_finish),
];

/// A hundred steps of three kinds register the same trim with the chain: it runs once, at the end, and the steps reuse
/// each other's memory until then. Two keys are two hooks, even of the same code (chaiNNer-org/chaiNNer#2852).
fn c06_one_trim_for_the_chain(bed: &Bed) {
    const STEPS: u64 = 100;
    let Rig { manager, probe } = bed.open_with(untrimmed());
    let (trims, twins, steps) = (Count::default(), Count::default(), Count::default());
    let trim = || {
        let (trims, steps) = (trims.clone(), steps.clone());
        let hook = hook::after_release("trim", move |context| {
            trims.add();
            assert_eq!(steps.get() % STEPS, 0, "after the last execution");
            context.manager()?.trim()?;
            Ok(())
        });
        hook.key("trim")
    };
    let chain = manager.scope("chain").unwrap();
    for step in 0..STEPS {
        let node = chain.scope(["load", "scale", "save"][step as usize % 3]).unwrap();
        node.register_on(&chain, trim()).unwrap();
        node.register_on(&chain, twins.once("first twin").key("first twin")).unwrap();
        node.register_on(&chain, twins.once("second twin").key("second twin")).unwrap();
        node.register(steps.each("step")).unwrap();
        let tensor = node.tensor::<u8>(MIB).unwrap();
        node.evaluate([op::fill(tensor.view(0..64).unwrap(), 1)]).unwrap().wait().unwrap();
        node.finish_blocking().unwrap();
    }
    assert_eq!((trims.get(), twins.get(), steps.get()), (0, 0, STEPS));
    assert_eq!(probe.calls(CallKind::Free), 0, "no step gives memory back to the driver");
    assert_eq!((manager.memory().trims, manager.memory().cache_hits), (0, STEPS - 1));

    let report = chain.finish_blocking().unwrap();
    let rows: Vec<_> = report.hooks.iter().map(|row| (&*row.label, row.runs)).collect();
    assert_eq!(rows, [("trim", 1), ("first twin", 1), ("second twin", 1)], "in order of registration");
    assert_eq!((trims.get(), twins.get()), (1, 2));
    assert_eq!((manager.memory().trims, probe.calls(CallKind::Free)), (1, 1));
    assert_eq!(manager.memory().reserved.bytes, 0);

    // The key is the scope's: in the next one the hook is new.
    let next = manager.scope("next chain").unwrap();
    next.register(trim()).unwrap();
    next.register(trim()).unwrap();
    assert_eq!(next.finish_blocking().unwrap().hook("trim").unwrap().runs, 1);
    assert_eq!(trims.get(), 2);
    assert_given_back(&manager);
}

/// Registers four hooks, of which the second fails and the third panics; as closures or as futures.
fn register_four(scope: &ManagedScope, order: &Order, are_async: bool) {
    for label in ["h1", "h2", "h3", "h4"] {
        let order = order.clone();
        let run = move |_: &CleanupContext| -> Result<(), BoxError> {
            order.note(label);
            match label {
                "h2" => Err("h2's error".into()),
                "h3" => panic!("h3's panic"),
                _ => Ok(()),
            }
        };
        let hook: Hook = if are_async {
            hook::future(label, move |context| async move {
                Yield::default().await;
                run(&context)
            })
        } else {
            hook::once(label, run)
        };
        scope.register(hook).unwrap();
    }
}

/// All four ran, last registered first, and both faults are told in run order.
fn assert_both_told<'a>(order: &Order, errors: impl IntoIterator<Item = &'a tenure_core::CleanupError>) {
    assert_eq!(order.seen(), ["h4", "h3", "h2", "h1"]);
    let errors: Vec<_> = errors
        .into_iter()
        .map(|error| (error.hook.as_deref().unwrap(), error.kind, error.source.to_string()))
        .collect();
    assert_eq!(
        errors,
        [
            ("h3", CleanupErrorKind::Panicked, "h3's panic".to_owned()),
            ("h2", CleanupErrorKind::Failed, "h2's error".to_owned()),
        ]
    );
}

/// After the faults the manager goes on.
fn assert_works(manager: &Manager) {
    let (values, report) = manager
        .run("next", |scope| -> Result<Vec<u32>, Error> {
            let tensor = scope.tensor::<u32>(64)?;
            scope.evaluate([op::fill(&tensor, 5)])?.wait()?;
            tensor.read()
        })
        .unwrap();
    assert_eq!((values, report.outcome), (vec![5; 64], Outcome::Completed));
    assert_given_back(manager);
}

/// Hooks fail and panic under a body that succeeded (golang/go#41355).
fn c08_a_body_succeeds(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    for are_async in [false, true] {
        let order = Order::default();
        let scope = manager.scope("s").unwrap();
        register_four(&scope, &order, are_async);
        let failure = cleanup_failure(scope.finish_blocking());
        assert_both_told(&order, std::iter::once(&failure.primary).chain(&failure.others));
        assert_eq!(failure.report.outcome, Outcome::Completed);
    }
    assert_works(&manager);
}

/// The body failed: its error is the one that comes back, the hooks' are in the report.
fn c08_b_body_fails(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    for are_async in [false, true] {
        let order = Order::default();
        let result = manager.run("s", |scope| -> Result<(), &'static str> {
            register_four(scope, &order, are_async);
            Err("e0")
        });
        let RunError::Body { error, report } = result.unwrap_err() else { panic!("the body failed") };
        assert_eq!(error, "e0");
        assert_both_told(&order, &report.unwrap().errors);
    }
    assert_works(&manager);
}

/// The body panicked: its payload goes on unwinding, and the hooks' errors are kept by the manager.
fn c08_c_body_panics(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    for are_async in [false, true] {
        let order = Order::default();
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _ = manager.run("s", |scope| -> Result<(), Error> {
                register_four(scope, &order, are_async);
                panic_any("p0")
            });
        }));
        assert_eq!(panicked.unwrap_err().downcast_ref(), Some(&"p0"));
        let errors = manager.take_errors();
        let [Error::Cleanup(failure)] = &errors[..] else { panic!("one failed scope, not {errors:?}") };
        assert_both_told(&order, std::iter::once(&failure.primary).chain(&failure.others));
        assert_eq!(failure.report.outcome, Outcome::Panicked);
    }
    assert_works(&manager);
}

/// Completion, execution hooks, scope hooks with the tensors still there, release, then the hooks that clear and trim:
/// these find everything cached, and give it all back. A shared cache is emptied for all who share it
/// (yolain/ComfyUI-Easy-Use#982).
fn c09_order_of_cleanup(bed: &Bed) {
    let Rig { manager, probe } = bed.open_with(untrimmed());
    let cache = Arc::new(Mutex::new(vec![manager.tensor::<u8>(MIB).unwrap()]));
    let scope = manager.scope("s").unwrap();
    let order = Order::default();
    let busy = scope.tensor::<u8>(MIB).unwrap();
    let idle = scope.tensor::<u8>(MIB).unwrap();

    let seen = order.clone();
    scope
        .register(hook::after_release("trim", move |context| {
            let manager = context.manager()?;
            let memory = manager.memory();
            assert_eq!((memory.live.bytes, memory.retired.bytes, memory.cached.bytes), (0, 0, 3 * MIB));
            assert_eq!(manager.trim()?.blocks, 3);
            assert_eq!(manager.memory().reserved.bytes, 0);
            seen.note("trim");
            Ok(())
        }))
        .unwrap();
    let (seen, shared) = (order.clone(), cache.clone());
    scope
        .register(hook::after_release("clear", move |_| {
            shared.lock().clear();
            seen.note("clear");
            Ok(())
        }))
        .unwrap();
    for label in ["first", "second"] {
        let (seen, tensors) = (order.clone(), [busy.clone(), idle.clone()]);
        scope
            .register(hook::once(label, move |context| {
                assert!(tensors.iter().all(Tensor::is_live), "hooks may still use the scope's tensors");
                assert_eq!(context.manager()?.memory().live.bytes, 3 * MIB);
                seen.note(label);
                Ok(())
            }))
            .unwrap();
    }
    let seen = order.clone();
    scope
        .register(hook::each("each", move |context| {
            assert!(context.execution().is_some_and(|execution| execution.result.is_ok()));
            seen.note("each");
            Ok(())
        }))
        .unwrap();

    probe.hold();
    scope.evaluate([op::fill(busy.view(0..64).unwrap(), 1)]).unwrap();
    let mut finish = scope.finish();
    assert!(poll_once(&mut finish).is_pending());
    assert!(order.seen().is_empty(), "no hook runs before the last submission has completed");
    probe.release_all();
    let report = pollster::block_on(finish).unwrap();
    assert_eq!(order.seen(), ["each", "second", "first", "clear", "trim"]);
    assert_eq!((report.released_tensors, report.released_bytes), (2, 2 * MIB));
    assert!(cache.lock().is_empty(), "the other owner sees the same cache");
    drop((busy, idle));
    assert_given_back(&manager);
}

/// Execution hooks run on the thread that waits or finishes, or on the cleanup thread: never on one of the driver's, and
/// never on the timeline thread (ml-explore/mlx#2099).
fn c11_hooks_run_on_no_driver_thread(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let here = std::thread::current().id();
    let runs = Count::default();
    for _ in 0..10 {
        let scope = manager.scope("s").unwrap();
        let seen = runs.clone();
        scope
            .register(hook::each("each", move |_| {
                let thread = std::thread::current();
                let is_ours = thread.id() == here || thread.name() == Some("tenure-cleanup");
                assert!(is_ours, "a hook ran on thread {:?}", thread.name());
                seen.add();
                Ok(())
            }))
            .unwrap();
        let tensor = scope.tensor::<u32>(64).unwrap();
        for at in 0..10 {
            let execution = scope.evaluate([op::fill(&tensor, at)]).unwrap();
            if at % 3 == 0 {
                execution.wait().unwrap();
            }
        }
        let report = scope.finish_blocking().unwrap();
        assert_eq!(report.hooks[0].runs, 10);
    }
    assert_eq!(runs.get(), 100);
    assert_given_back(&manager);
}

/// An execution hook drops the last handle of a tensor, makes another, evaluates and waits, while another thread makes
/// and drops tensors all the time.
fn c11_a_hook_may_do_anything(bed: &Bed) {
    const ROUNDS: u64 = 20;
    let Rig { manager, .. } = bed.open();
    let (runs, inner_runs) = (Count::default(), Count::default());
    std::thread::scope(|threads| {
        threads.spawn(|| {
            for _ in 0..5000 {
                drop(manager.tensor::<u8>(1024).unwrap());
            }
        });
        for round in 0..ROUNDS {
            let scope = manager.scope("s").unwrap();
            let mut last = Some(manager.tensor::<u8>(MIB).unwrap());
            let (seen, inner_seen) = (runs.clone(), inner_runs.clone());
            scope
                .register(hook::each("each", move |context| {
                    seen.add();
                    // It runs again for the execution that it makes itself.
                    let Some(tensor) = last.take() else { return Ok(()) };
                    drop(tensor);
                    let manager = context.manager()?;
                    let other = manager.tensor::<u32>(64)?;
                    context.scope().evaluate([op::fill(&other, 1)])?.wait()?;
                    let inner = manager.scope("inner")?;
                    inner.register(inner_seen.once("inner")).map_err(Error::from)?;
                    inner.evaluate([op::fill(&other, 2)])?;
                    inner.finish_blocking()?;
                    assert_eq!(other.read()?, [2; 64]);
                    Ok(())
                }))
                .unwrap();
            let used = scope.tensor::<u32>(64).unwrap();
            let execution = scope.evaluate([op::fill(&used, 1)]).unwrap();
            if round % 2 == 0 {
                execution.wait().unwrap();
            }
            let report = scope.finish_blocking().unwrap();
            assert_eq!((report.executions, report.hooks[0].runs), (2, 2));
        }
    });
    assert_eq!((runs.get(), inner_runs.get()), (2 * ROUNDS, ROUNDS));
    assert_eq!(settled(&manager).tensors, 0);
    assert_given_back(&manager);
}

/// An async hook that is pending for a while has ended when finish returns, blocking or not.
fn c11_async_hooks_end_before_finish(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    for blocking in [true, false] {
        let order = Order::default();
        let scope = manager.scope("s").unwrap();
        let seen = order.clone();
        scope
            .register(hook::future("async", move |context| async move {
                for _ in 0..10 {
                    Yield::default().await;
                }
                let tensor = context.scope().tensor_from("late", &[1_u32; 64])?;
                assert_eq!(tensor.read_async().await?, [1; 64]);
                seen.note("async");
                Ok(())
            }))
            .unwrap();
        if blocking {
            scope.finish_blocking().unwrap();
        } else {
            pollster::block_on(scope.finish()).unwrap();
        }
        assert_eq!(order.seen(), ["async"]);
    }
    assert_given_back(&manager);
}
