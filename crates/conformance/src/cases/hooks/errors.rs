//! Errors of hooks and of executions: all are told, the earliest first, with everything that is known (L13, L14).
//!
//! Not here: panics (`panics.rs`), deadlines (`deadlines.rs`) and the body's own error (`scopes/running.rs`).

use std::error::Error as _;

use tenure_core::{
    BackendErrorKind, CleanupErrorKind, Error, HookClass, Outcome, Period, ResourceKind, hook,
};

use super::support::{
    Custom, Fault, Order, all_errors, assert_given_back, assert_works, case, case_with, cleanup_failure,
    culprits, fill, work,
};
use crate::bed::{Bed, Rig};
use crate::case::{Case, Requirement};
use crate::instrument::CallKind;
use crate::kernels::groups_for;

pub(super) const CASES: &[Case] = &[
    case("hooks/a_lone_error_comes_back_as_it_is", &["L13"], a_lone_error),
    case("hooks/errors_come_in_run_order_with_all_that_is_known", &["L13"], errors_come_in_run_order),
    case("hooks/an_error_stops_nothing", &["L13", "L11"], an_error_stops_nothing),
    case("hooks/an_unseen_failed_execution_is_an_error", &["L13", "L7"], an_unseen_failed_execution),
    case("hooks/a_failed_execution_comes_before_its_hooks", &["L13"], a_failed_execution_comes_first),
    case_with(
        "hooks/a_kernel_that_fails_is_told_by_finish",
        &["L13", "L11"],
        &[Requirement::HostKernels],
        a_kernel_that_fails,
    ),
    case("hooks/an_error_of_tenures_own_is_found", &["L13", "L3"], an_error_of_tenures_own),
    case("hooks/a_loss_between_hooks_skips_device_hooks", &["L14", "L13", "L11"], a_loss_between_hooks),
];

/// One hook fails: its error is the cleanup's error, of its own type, with no word added to its own.
fn a_lone_error(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let scope = manager.scope("s").unwrap();
    scope.register(order.once("fine")).unwrap();
    scope.register(order.failing("fails")).unwrap();
    let error = scope.finish_blocking().unwrap_err();
    assert_eq!(error.find::<Fault>(), Some(&Fault("fails")));
    let failure = cleanup_failure(Err(error));
    assert_eq!(failure.primary.source.downcast_ref(), Some(&Fault("fails")));
    assert_eq!(failure.source().and_then(|source| source.downcast_ref()), Some(&Fault("fails")));
    assert_eq!(failure.primary.source().and_then(|source| source.downcast_ref()), Some(&Fault("fails")));
    assert_eq!((failure.others.len(), failure.report.error_count), (0, 1));
    assert_eq!(failure.to_string(), "hook `fails` failed in scope `s`: fails");
    assert_eq!(order.seen(), ["fails", "fine"]);
}

/// An execution's hook, a child's, an adopted value's release, a scope hook, an async one and one after the release
/// all fail: the errors come in run order, each with hook, scope, sequence, execution and source.
fn errors_come_in_run_order(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let scope = manager.scope("outer").unwrap();
    scope.register(hook::after_release("after", |_| Err(Fault("after").into()))).unwrap();
    scope.register(hook::future("async", |_| async { Err(Fault("async").into()) })).unwrap();
    scope.adopt("adopted", Fault("adopted"), |value, _| Err(value.into())).unwrap();
    let child = scope.scope("inner").unwrap();
    child.register(hook::once("once", |_| Err(Fault("inner").into()))).unwrap();
    let each = |context: &tenure_core::CleanupContext| {
        let number = super::support::number(context);
        if number == 2 { Err(Fault("each").into()) } else { Ok(()) }
    };
    scope.register(hook::each("each", each)).unwrap();
    let tensor = scope.tensor::<u32>(64).unwrap();
    fill(&scope, &tensor, 1);
    let named = scope.named("second").unwrap();
    named.record(tenure_core::op::fill(&tensor, 2)).unwrap();
    named.evaluate().unwrap();
    fill(&scope, &tensor, 3);
    let failure = cleanup_failure(scope.finish_blocking());
    let errors: Vec<_> = all_errors(&failure)
        .into_iter()
        .map(|error| {
            let source = error.source.downcast_ref::<Fault>().unwrap().0;
            let place = (error.sequence.as_deref(), error.execution);
            (error.hook.as_deref().unwrap(), &*error.scope, place, source, error.kind)
        })
        .collect();
    let failed = CleanupErrorKind::Failed;
    let expected = [
        ("each", "outer", (Some("second"), Some(2)), "each", failed),
        ("once", "inner", (None, None), "inner", failed),
        ("adopted", "outer", (None, None), "adopted", failed),
        ("async", "outer", (None, None), "async", failed),
        ("after", "outer", (None, None), "after", failed),
    ];
    assert_eq!(errors, expected);
    assert_eq!(failure.to_string(), format!("{} (and 4 more)", failure.primary));
    let text = "hook `each` failed in scope `outer` (sequence `second`, execution 2): each";
    assert_eq!(failure.primary.to_string(), text);
    drop((tensor, named));
    assert_given_back(&manager);
}

/// Every hook fails, in every period: all of them run, for every execution, and the manager goes on.
fn an_error_stops_nothing(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let scope = manager.scope("s").unwrap();
    for label in ["first", "second"] {
        let noted = order.clone();
        let hook = hook::each(label, move |context| {
            noted.note(format!("{label} #{}", super::support::number(context)));
            Err(Fault(label).into())
        });
        scope.register(hook).unwrap();
        let noted = order.clone();
        let hook = hook::after_release(label, move |_| {
            noted.note(format!("{label} after"));
            Err(Fault(label).into())
        });
        scope.register(hook).unwrap();
        scope.register(order.failing(label)).unwrap();
    }
    work(&scope);
    work(&scope);
    let failure = cleanup_failure(scope.finish_blocking());
    let expected =
        ["second #1", "first #1", "second #2", "first #2", "second", "first", "second after", "first after"];
    assert_eq!(order.seen(), expected);
    assert_eq!(failure.report.error_count, 8);
    assert!(failure.report.hooks.iter().all(|row| row.runs == row.failed && row.skipped == 0));
    assert_works(&manager);
}

/// A failure on the device that nobody has looked at is told by finish, with its sequence and number; one that
/// somebody has seen is not told again. Both make the scope `Failed`.
fn an_unseen_failed_execution(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let scope = manager.scope("unseen").unwrap();
    let tensor = scope.tensor::<u32>(64).unwrap();
    let named = scope.named("fills").unwrap();
    named.record(tenure_core::op::fill(&tensor, 1)).unwrap();
    named.run().unwrap();
    probe.fail_nth(CallKind::Collect, 1, BackendErrorKind::Driver);
    named.evaluate().unwrap();
    let failure = cleanup_failure(scope.finish_blocking());
    let primary = &failure.primary;
    assert_eq!((failure.report.error_count, primary.kind), (1, CleanupErrorKind::Execution));
    let place = (primary.hook.as_deref(), &*primary.scope, primary.sequence.as_deref(), primary.execution);
    assert_eq!(place, (None, "unseen", Some("fills"), Some(2)));
    assert!(matches!(primary.source.downcast_ref(), Some(Error::Execution { execution: 2, .. })));
    assert_eq!(failure.report.outcome, Outcome::Failed);

    let scope = manager.scope("seen").unwrap();
    let tensor = scope.tensor::<u32>(64).unwrap();
    for awaited in [true, false] {
        probe.fail_nth(CallKind::Collect, 1, BackendErrorKind::Driver);
        let execution = fill(&scope, &tensor, 1);
        let seen = if awaited { pollster::block_on(execution) } else { execution.wait() };
        assert!(matches!(seen, Err(Error::Execution { .. })), "{seen:?}");
    }
    let report = scope.finish_blocking().unwrap();
    assert_eq!((report.outcome, report.error_count), (Outcome::Failed, 0));
    drop((tensor, named));
    assert_given_back(&manager);
}

/// An execution fails, then its hook: the failure on the device is the earlier one, and so the primary error. A
/// second failure comes after the first one's hook.
fn a_failed_execution_comes_first(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let scope = manager.scope("s").unwrap();
    scope.register(hook::each("each", |_| Err(Fault("each").into()))).unwrap();
    let tensor = scope.tensor::<u32>(64).unwrap();
    probe.hold();
    fill(&scope, &tensor, 1);
    fill(&scope, &tensor, 2);
    probe.fail_nth(CallKind::Collect, 1, BackendErrorKind::Driver);
    probe.release_all();
    let failure = cleanup_failure(scope.finish_blocking());
    let errors: Vec<_> =
        all_errors(&failure).into_iter().map(|error| (error.hook.as_deref(), error.execution)).collect();
    assert_eq!(errors, [(None, Some(1)), (Some("each"), Some(1)), (Some("each"), Some(2))]);
    assert_eq!(failure.primary.kind, CleanupErrorKind::Execution);
    drop(tensor);
    assert_given_back(&manager);
}

/// A kernel fails in an execution that nobody waits for: finish tells it, after its hooks have run.
fn a_kernel_that_fails(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let order = Order::default();
    let kernel = manager.kernel(&bed.kernels().fail).unwrap();
    let scope = manager.scope("s").unwrap();
    scope.register(order.each("each")).unwrap();
    scope.register(order.outcome("once")).unwrap();
    let tensor = scope.tensor::<u32>(64).unwrap();
    let dispatch = tenure_core::op::dispatch(&kernel).bind(&tensor).groups(groups_for(64));
    scope.evaluate([dispatch]).unwrap();
    let failure = cleanup_failure(scope.finish_blocking());
    assert_eq!(order.seen(), ["each #1", "once Failed"]);
    assert_eq!((failure.primary.kind, failure.report.error_count), (CleanupErrorKind::Execution, 1));
    drop((tensor, kernel));
    assert_works(&manager);
}

/// A hook hands an error of tenure's on by `?`: it is found with its kind in the cleanup's error.
fn an_error_of_tenures_own(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let scope = manager.scope("s").unwrap();
    let tensor = manager.tensor_from("gone", &[1_u32; 64]).unwrap();
    tensor.destroy().unwrap();
    scope.register(hook::once("reads", move |_| Ok(tensor.read().map(drop)?))).unwrap();
    let failure = cleanup_failure(scope.finish_blocking());
    match failure.primary.source.downcast_ref() {
        Some(Error::Stale { kind: ResourceKind::Tensor, label, .. }) => assert_eq!(&**label, "gone"),
        other => panic!("{other:?}"),
    }
    let found = Error::Cleanup(failure);
    let known = found.find::<tenure_core::CleanupError>().expect("with all that is known of it");
    assert_eq!((known.kind, known.hook.as_deref()), (CleanupErrorKind::Failed, Some("reads")));
    assert!(matches!(found.find::<Error>(), Some(Error::Cleanup(_))), "outermost first");
}

/// The device is lost by a hook in the middle of the stack: the device hooks before it ran, those after it are
/// skipped, host hooks and adopted values go on, and the loss is one error, before what it causes.
fn a_loss_between_hooks(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let order = Order::default();
    let scope = manager.scope("s").unwrap();
    let tensor = scope.tensor::<u32>(64).unwrap();
    scope.register(order.after("device after").device()).unwrap();
    scope.register(order.after("host after")).unwrap();
    let noted = order.clone();
    let used = tensor.clone();
    let hook = hook::once("uses the device", move |context| {
        noted.note("uses the device");
        context.scope().evaluate([tenure_core::op::fill(&used, 1)])?.wait()?;
        Ok(())
    });
    scope.register(hook).unwrap();
    order.adopt(&scope, "adopted");
    let noted = order.clone();
    let mut custom = Custom::new("custom device", Period::Scope, move |_: &tenure_core::CleanupContext| {
        noted.note("custom device");
        Ok(())
    });
    custom.class = HookClass::Device;
    scope.register(hook::custom(custom)).unwrap();
    scope.register(order.once("device below").device()).unwrap();
    let noted = order.clone();
    let hook = hook::once("loses", move |context| {
        noted.note("loses");
        probe.lose_device();
        context.manager()?.notify_lost("the driver said so");
        Ok(())
    });
    scope.register(hook).unwrap();
    scope.register(order.once("device above").device()).unwrap();
    let failure = cleanup_failure(scope.finish_blocking());
    let expected = ["device above", "loses", "adopted", "uses the device", "host after"];
    assert_eq!(order.seen(), expected);
    let skipped: Vec<_> = failure
        .report
        .hooks
        .iter()
        .filter(|row| row.skipped > 0)
        .map(|row| (&*row.label, row.runs, row.skipped))
        .collect();
    assert_eq!(skipped, [("device after", 0, 1), ("custom device", 0, 1), ("device below", 0, 1)]);
    assert_eq!(failure.report.outcome, Outcome::DeviceLost);
    let errors = all_errors(&failure);
    assert_eq!(errors[0].kind, CleanupErrorKind::DeviceLost);
    assert_eq!(culprits(errors[1..].iter().copied()), ["uses the device"]);
    drop(tensor);
}
