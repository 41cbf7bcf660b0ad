//! Scopes with a body: `finish_with`, `Manager::run` and `Manager::run_async` on every exit (L13, L16, L17).
//!
//! Not here: scopes that nobody finishes (`ending.rs`).

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::pin::pin;
use std::sync::mpsc;
use std::task::{Context, Waker};

use tenure_core::{Error, ManagedScope, Outcome, RunError, ScopeRef, ScopeState, hook};

use crate::bed::{Bed, Rig};
use crate::case::Case;
use crate::cases::hooks::support::{
    Fault, Order, Signal, all_errors, assert_given_back, case, cleanup_failure, culprits, receive, work,
};

pub(super) const CASES: &[Case] = &[
    case(
        "scopes/finish_with_keeps_the_bodys_error_first",
        &["L13", "L16"],
        finish_with_keeps_the_bodys_error,
    ),
    case("scopes/run_succeeds", &["L16"], run_succeeds),
    case("scopes/run_fails", &["L13", "L16"], run_fails),
    case("scopes/run_panics", &["L13", "L17", "L16"], run_panics),
    case("scopes/run_on_a_closed_manager_is_refused", &["L6"], run_on_a_closed_manager),
    case("scopes/a_body_may_finish_its_own_scope", &["L10", "L16"], a_body_finishes_its_scope),
    case("scopes/run_async_succeeds_and_fails", &["L13", "L16"], run_async_succeeds_and_fails),
    case("scopes/run_async_panics", &["L17", "L16"], run_async_panics),
    case("scopes/run_async_dropped_is_abandoned", &["L17", "L18"], run_async_dropped),
];

/// The body's error comes back as it is; the hooks' errors, however early, are in the report. A body that succeeded
/// under failing hooks is a failed scope, without its value.
fn finish_with_keeps_the_bodys_error(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let prepare = |order: &Order| {
        let scope = manager.scope("s").unwrap();
        scope.register(order.failing("second")).unwrap();
        scope.register(order.panicking("first")).unwrap();
        scope
    };
    let order = Order::default();
    let RunError::Body { error, report } =
        prepare(&order).finish_with::<(), _>(Err(Fault("body"))).unwrap_err()
    else {
        panic!("the body failed")
    };
    let report = report.unwrap();
    assert_eq!((error, report.outcome, report.error_count), (Fault("body"), Outcome::Failed, 2));
    assert_eq!(culprits(&report.errors), ["first", "second"]);

    let awaited = pollster::block_on(prepare(&order).finish_with_async::<(), _>(Err(Fault("body"))));
    let awaited = awaited.unwrap_err();
    assert_eq!(awaited.to_string(), "body");
    assert_eq!(awaited.report().unwrap().error_count, 2);

    let RunError::Scope(error) = prepare(&order).finish_with::<_, Fault>(Ok(5)).unwrap_err() else {
        panic!("the body succeeded")
    };
    let failure = cleanup_failure(Err(error));
    assert_eq!(culprits(all_errors(&failure)), ["first", "second"]);
    assert_eq!(failure.report.outcome, Outcome::Completed);
    assert_eq!(order.seen().len(), 6);
    assert_given_back(&manager);
}

/// A body that succeeds gives its value and the report.
fn run_succeeds(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let (value, report) = manager
        .run("job", |scope| -> Result<_, Error> {
            scope.register(order.outcome("once"))?;
            let tensor = scope.tensor_from("data", &[2_u32; 64])?;
            assert_eq!(scope.state(), ScopeState::Open);
            tensor.read()
        })
        .unwrap();
    assert_eq!((value, &*report.scope, report.outcome), (vec![2; 64], "job", Outcome::Completed));
    assert_eq!(order.seen(), ["once Completed"]);
    assert_given_back(&manager);
}

/// A body that fails, here by `?` with an execution in flight: its error, the outcome, and everything given back.
fn run_fails(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let result = manager.run("job", |scope| -> Result<(), Error> {
        scope.register(order.outcome("once"))?;
        work(scope);
        scope.tensor_from("wrong", &[1_u32; 4])?.write(&[1; 5])
    });
    let error = result.unwrap_err();
    let report = error.report().unwrap();
    assert_eq!((report.outcome, report.executions, report.error_count), (Outcome::Failed, 1, 0));
    assert!(matches!(error.body(), Some(Error::Length { expected: 4, actual: 5, .. })));
    assert_eq!(order.seen(), ["once Failed"]);
    assert_given_back(&manager);
}

/// A body that panics: the scope is finished as panicked before the panic goes on, with the same payload; a scope
/// that the body had open goes first.
fn run_panics(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let mut seen = None;
    let payload = catch_unwind(AssertUnwindSafe(|| {
        let _ = manager.run("job", |scope| -> Result<(), Error> {
            seen = Some(ScopeRef::clone(scope));
            scope.register(order.outcome("outer"))?;
            let child = scope.scope("child")?;
            child.register(order.outcome("child"))?;
            work(&child);
            panic_any(Fault("payload"))
        });
    }));
    assert_eq!(payload.unwrap_err().downcast_ref(), Some(&Fault("payload")));
    assert_eq!(order.seen(), ["child Panicked", "outer Panicked"]);
    assert_eq!(seen.unwrap().state(), ScopeState::Finished(Outcome::Panicked));
    assert!(manager.take_errors().is_empty());
    assert_given_back(&manager);
}

/// There is no scope to run in: the body is not called.
fn run_on_a_closed_manager(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    manager.close().unwrap();
    let refused = manager.run("job", |_| -> Result<(), Error> { panic!("the body ran") });
    assert!(matches!(refused, Err(RunError::Scope(Error::Closed { .. }))), "{refused:?}");
    let refused = pollster::block_on(
        manager.run_async("job", |_| async { panic!("the body ran") as Result<(), Error> }),
    );
    assert!(matches!(refused, Err(RunError::Scope(Error::Closed { .. }))), "{refused:?}");
}

/// A body that finishes its own scope has done so: `run` says that it has finished, and keeps the body's error if
/// there is one.
fn a_body_finishes_its_scope(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let body = |scope: &ManagedScope| -> Result<(), Error> {
        scope.register(order.once("once"))?;
        assert_eq!(scope.finish_blocking()?.hooks[0].runs, 1);
        Ok(())
    };
    let late = manager.run("job", body);
    assert!(matches!(late, Err(RunError::Scope(Error::ScopeFinished { .. }))), "{late:?}");
    let late = manager.run("job", |scope| {
        body(scope).unwrap();
        Err::<(), _>(Fault("body"))
    });
    assert!(matches!(late, Err(RunError::Body { error: Fault("body"), report: None })), "{late:?}");
    assert_eq!(order.seen(), ["once", "once"]);
}

/// The async body awaits its work; its value or error comes back with the report.
fn run_async_succeeds_and_fails(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let run = |fails: bool| {
        let order = order.clone();
        pollster::block_on(manager.run_async("job", |scope| async move {
            scope.register(order.outcome("once")).unwrap();
            let tensor = scope.tensor_from("data", &[3_u32; 64]).unwrap();
            work(&scope).await.unwrap();
            let values = tensor.read_async().await.unwrap();
            if fails { Err(Fault("body")) } else { Ok(values) }
        }))
    };
    let (values, report) = run(false).unwrap();
    assert_eq!((values, report.outcome, report.executions), (vec![3; 64], Outcome::Completed, 1));
    let RunError::Body { error, report } = run(true).unwrap_err() else { panic!("the body failed") };
    let report = report.unwrap();
    assert_eq!((error, report.outcome, report.released_tensors), (Fault("body"), Outcome::Failed, 0));
    assert_eq!(order.seen(), ["once Completed", "once Failed"]);
    assert_given_back(&manager);
}

/// An async body that panics: the panic goes on, and the scope is finished as panicked by the cleanup thread.
fn run_async_panics(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let (sender, ended) = mpsc::channel();
    let payload = catch_unwind(AssertUnwindSafe(|| {
        let _ = pollster::block_on(manager.run_async("job", |scope| async move {
            let hook = hook::once("once", move |context| {
                sender.send((context.outcome(), std::thread::current().id()))?;
                Ok(())
            });
            scope.register(hook).unwrap();
            work(&scope).await.unwrap();
            panic_any(Fault("payload")) as Result<(), Error>
        }));
    }));
    assert_eq!(payload.unwrap_err().downcast_ref(), Some(&Fault("payload")));
    let (outcome, thread) = receive(&ended);
    assert_eq!(outcome, Some(Outcome::Panicked));
    assert_ne!(thread, std::thread::current().id());
    assert!(manager.close().unwrap().is_clean());
}

/// A run that is dropped while its body waits is abandoned: the hooks run, and what the body held goes.
fn run_async_dropped(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let (sender, ended) = mpsc::channel();
    let never = Signal::default();
    {
        let mut run = pin!(manager.run_async("job", |scope| async {
            let scope = scope;
            let hook = hook::once("once", move |context| {
                sender.send(context.outcome())?;
                Ok(())
            });
            scope.register(hook).unwrap();
            let held = scope.tensor::<u32>(64).unwrap();
            never.wait().await;
            drop(held);
            Ok::<(), Error>(())
        }));
        assert!(run.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        assert!(ended.try_recv().is_err());
    }
    assert_eq!(receive(&ended), Some(Outcome::Abandoned));
    let report = manager.close().unwrap();
    assert_eq!((report.leaks.len(), report.unfinished_scopes.len(), report.errors.len()), (0, 0, 0));
}
