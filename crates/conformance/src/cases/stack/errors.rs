//! Entries and bodies that fail: which error comes first, and that none is swallowed (L13).
//!
//! Not here: what an error carries (`hooks/errors.rs`).

use std::error::Error as StdError;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};

use tenure_core::{BackendErrorKind, CleanupContext, CleanupErrorKind, Error, ManagedScope, RunError, hook};

use crate::bed::{Bed, Rig};
use crate::case::Case;
use crate::cases::hooks::support::{
    Fault, Order, Yield, all_errors, assert_given_back, case, cleanup_failure, culprits,
};
use crate::instrument::CallKind;

pub(super) const CASES: &[Case] = &[
    case("stack/one_error_comes_as_it_is", &["L13"], one_error_comes_as_it_is),
    case("stack/of_many_errors_the_earliest_is_primary", &["L13"], of_many_errors_the_earliest),
    case("stack/the_bodys_error_is_before_its_entries", &["L13"], the_bodys_error_is_first),
    case(
        "stack/an_initializer_that_fails_releases_what_is_there",
        &["L13", "L10"],
        an_initializer_that_fails,
    ),
    case("stack/a_resource_that_cannot_be_made_is_no_entry", &["L13", "L19"], a_resource_that_cannot_be_made),
    case("stack/sync_and_async_entries_that_fail", &["L13", "L10"], sync_and_async_entries_that_fail),
    case("stack/entries_know_how_the_body_ended", &["L16", "L17"], entries_know_how_the_body_ended),
    case("stack/no_entry_suppresses_the_bodys_error", &["L13"], no_entry_suppresses_the_bodys_error),
    case("stack/no_entry_suppresses_another_entrys_error", &["L13"], no_entry_suppresses_an_entrys_error),
    case("stack/an_error_keeps_its_own_causes", &["L13"], an_error_keeps_its_own_causes),
    case("stack/a_panic_goes_on_past_failing_entries", &["L13", "L17"], a_panic_goes_on),
];

/// After test262's `dispose/throws-error-as-is-if-only-one-error-during-disposal`.
fn one_error_comes_as_it_is(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let scope = manager.scope("s").unwrap();
    scope.register(order.once("below")).unwrap();
    scope.adopt("fails", Fault("as it is"), |value, _| Err(value.into())).unwrap();
    order.adopt(&scope, "above");
    let error = scope.finish_blocking().unwrap_err();
    assert_eq!(error.find::<Fault>(), Some(&Fault("as it is")));
    let failure = cleanup_failure(Err(error));
    assert!(failure.others.is_empty());
    assert_eq!(failure.primary.source.downcast_ref(), Some(&Fault("as it is")));
    assert_eq!(order.seen(), ["above", "below"]);
}

/// After test262's `dispose/throws-suppressederror-if-multiple-errors-during-disposal`, where the last error
/// suppresses those before it: here the first one that happened is the primary one, and the others follow as they
/// came.
fn of_many_errors_the_earliest(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let scope = manager.scope("s").unwrap();
    for label in ["third", "second", "first"] {
        scope.register(order.failing(label)).unwrap();
    }
    let failure = cleanup_failure(scope.finish_blocking());
    assert_eq!(failure.primary.source.downcast_ref(), Some(&Fault("first")));
    assert_eq!(culprits(&failure.others), ["second", "third"]);
    assert_eq!(culprits(&failure.report.errors), ["first", "second", "third"]);
    assert_eq!(order.seen(), ["first", "second", "third"]);
}

/// After test262's `await-using-throws-suppressed-error-from-try-and-disposal`: the body's error is not behind those
/// of its entries but before them, blocking or not.
fn the_bodys_error_is_first(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let prepare = |scope: &ManagedScope| {
        scope.register(order.failing("second")).unwrap();
        scope.register(order.failing("first")).unwrap();
    };
    let blocking = manager.run("s", |scope| {
        prepare(scope);
        Err::<(), _>(Fault("body"))
    });
    let awaited = pollster::block_on(manager.run_async("s", |scope| {
        prepare(&scope);
        async move { Err::<(), _>(Fault("body")) }
    }));
    for failed in [blocking, awaited] {
        let RunError::Body { error, report } = failed.unwrap_err() else { panic!("the body failed") };
        assert_eq!(error, Fault("body"));
        assert_eq!(culprits(&report.unwrap().errors), ["first", "second"]);
    }
}

/// After test262's `using/initializer-disposed-if-subsequent-initializer-throws`: the third resource cannot be had,
/// the first two are released, in reverse, and the fourth was never asked for.
fn an_initializer_that_fails(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let acquire = |scope: &ManagedScope, label: &'static str| -> Result<(), Fault> {
        if label == "third" {
            return Err(Fault("third"));
        }
        order.note(format!("{label} acquired"));
        order.adopt(scope, label);
        Ok(())
    };
    let failed = manager.run("s", |scope| {
        for label in ["first", "second", "third", "fourth"] {
            acquire(scope, label)?;
        }
        Ok(())
    });
    assert_eq!(failed.unwrap_err().body(), Some(Fault("third")));
    assert_eq!(order.seen(), ["first acquired", "second acquired", "second", "first"]);
}

/// The same with tenure's own resources: a tensor for which the driver has no memory, a kernel's first arena that
/// cannot be opened, a submission that is refused. What was made before is released, and nothing of the failed one is
/// left.
fn a_resource_that_cannot_be_made(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    for call in [CallKind::Allocate, CallKind::OpenScope, CallKind::OpenSequence, CallKind::Submit] {
        let order = Order::default();
        probe.fail_nth(call, 1, BackendErrorKind::Driver);
        let failed = manager.run("s", |scope| -> Result<(), Error> {
            order.adopt(scope, "first");
            let tensor = scope.tensor::<u32>(64)?;
            scope.evaluate([tenure_core::op::fill(&tensor, 1)])?;
            unreachable!("one of these calls fails");
        });
        let failed = failed.unwrap_err();
        let report = failed.report().unwrap();
        assert_eq!((report.executions, report.error_count), (0, 0), "{call}");
        assert!(matches!(failed.body(), Some(Error::Backend(_))), "{call}");
        assert_eq!(order.seen(), ["first"]);
        assert_given_back(&manager);
    }
}

/// After test262's `await-using-mixed-sync-throws` and `-mixed-async-throws`: an error on either side stops neither.
fn sync_and_async_entries_that_fail(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let failing = |label: &'static str| {
        let order = order.clone();
        hook::future(label, move |_| async move {
            order.note(label);
            Yield::default().await;
            Err(Fault(label).into())
        })
    };
    let scope = manager.scope("s").unwrap();
    scope.register(failing("async last")).unwrap();
    scope.register(order.failing("sync last")).unwrap();
    scope.register(order.future("async fine")).unwrap();
    scope.register(order.once("sync fine")).unwrap();
    scope.register(order.failing("sync first")).unwrap();
    scope.register(failing("async first")).unwrap();
    let failure = cleanup_failure(pollster::block_on(scope.finish()));
    let expected = ["async first", "sync first", "sync last", "async last"];
    assert_eq!(culprits(all_errors(&failure)), expected);
    let all = [
        "async first",
        "sync first",
        "sync fine",
        "async fine begins",
        "async fine ends",
        "sync last",
        "async last",
    ];
    assert_eq!(order.seen(), all);
}

/// After CPython's `test_push`, whose exit functions get the body's exception: entries see how the scope ends, and an
/// entry that fails changes nothing of that for those below.
fn entries_know_how_the_body_ended(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let prepare = |scope: &ManagedScope| {
        scope.register(order.outcome("below")).unwrap();
        scope.register(order.failing("fails")).unwrap();
        let noted = order.clone();
        let release = move |(), context: &CleanupContext| {
            noted.note(format!("adopted {:?}", context.outcome()));
            Ok(())
        };
        scope.adopt("adopted", (), release).unwrap();
    };
    let expect = |outcome: &str| {
        let seen = order.seen();
        assert_eq!(
            seen[seen.len() - 3..],
            [format!("adopted Some({outcome})"), "fails".into(), format!("below {outcome}")]
        );
    };
    let ended = manager.run("s", |scope| {
        prepare(scope);
        Ok::<(), Fault>(())
    });
    assert!(matches!(ended, Err(RunError::Scope(Error::Cleanup(_)))));
    expect("Completed");
    let ended = manager.run("s", |scope| {
        prepare(scope);
        Err::<(), _>(Fault("body"))
    });
    assert!(matches!(ended, Err(RunError::Body { .. })));
    expect("Failed");
    let ended = catch_unwind(AssertUnwindSafe(|| {
        let _ = manager.run("s", |scope| -> Result<(), Fault> {
            prepare(scope);
            panic_any(Fault("body"))
        });
    }));
    assert!(ended.is_err());
    expect("Panicked");
}

/// After CPython's `test_exit_suppress` and `test_body_exception_suppress`, turned round: there an exit function can
/// swallow the body's exception; here no entry can, whatever it answers.
fn no_entry_suppresses_the_bodys_error(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let failed = manager.run("s", |scope| {
        scope.register(order.once("fine")).unwrap();
        scope.adopt("takes it all", (), |(), _| Ok(())).unwrap();
        Err::<(), _>(Fault("body"))
    });
    assert_eq!(failed.unwrap_err().body(), Some(Fault("body")));
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _ = manager.run("s", |scope| -> Result<(), Fault> {
            scope.register(order.once("fine")).unwrap();
            panic_any(Fault("payload"))
        });
    }));
    assert_eq!(panicked.unwrap_err().downcast_ref(), Some(&Fault("payload")));
    assert_eq!(order.seen(), ["fine", "fine"]);
}

/// After CPython's `test_exit_exception_chaining_suppress` and `test_exit_exception_non_suppressing`, the former
/// turned round: entries that succeed after one that failed leave its error as it is.
fn no_entry_suppresses_an_entrys_error(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let scope = manager.scope("s").unwrap();
    scope.register(order.once("fine below")).unwrap();
    scope.register(order.failing("second")).unwrap();
    scope.register(order.once("fine between")).unwrap();
    scope.register(order.failing("first")).unwrap();
    scope.register(order.once("fine above")).unwrap();
    let failure = cleanup_failure(scope.finish_blocking());
    assert_eq!(culprits(all_errors(&failure)), ["first", "second"]);
    assert_eq!(order.seen(), ["fine above", "first", "fine between", "second", "fine below"]);
}

/// An error with a cause.
#[derive(Debug)]
struct Outer(Fault);

impl fmt::Display for Outer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("outer")
    }
}

impl StdError for Outer {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&self.0)
    }
}

/// After CPython's `test_exit_exception_with_existing_context`: errors that have causes of their own keep them, and
/// are not chained to one another.
fn an_error_keeps_its_own_causes(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let scope = manager.scope("s").unwrap();
    for cause in ["second's", "first's"] {
        scope.register(hook::once("fails", move |_| Err(Outer(Fault(cause)).into()))).unwrap();
    }
    let failure = cleanup_failure(scope.finish_blocking());
    let causes: Vec<_> = all_errors(&failure)
        .into_iter()
        .map(|error| {
            let outer = error.source.downcast_ref::<Outer>().expect("as the hook gave it");
            let cause = outer.source().and_then(|cause| cause.downcast_ref::<Fault>()).expect("its cause");
            assert!(cause.source().is_none(), "no error is put behind another's");
            cause.0
        })
        .collect();
    assert_eq!(causes, ["first's", "second's"]);
    assert_eq!(Error::Cleanup(failure).find::<Fault>(), Some(&Fault("first's")));
}

/// After CPython's `test_exit_raise`: the body's panic goes on, past entries that fail and panic themselves; their
/// errors are kept.
fn a_panic_goes_on(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _ = manager.run("s", |scope| -> Result<(), Fault> {
            scope.register(order.panicking("second")).unwrap();
            scope.register(order.failing("first")).unwrap();
            panic_any(Fault("payload"))
        });
    }));
    assert_eq!(panicked.unwrap_err().downcast_ref(), Some(&Fault("payload")));
    let errors = manager.take_errors();
    let [Error::Cleanup(failure)] = &errors[..] else { panic!("one failed scope, not {errors:?}") };
    assert_eq!(culprits(all_errors(failure)), ["first", "second"]);
    assert_eq!(failure.others[0].kind, CleanupErrorKind::Panicked);
    assert_eq!(order.seen(), ["first", "second"]);
}
