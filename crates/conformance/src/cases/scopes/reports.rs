//! [`ScopeReport`](tenure_core::ScopeReport): what it says, and that it stays small (L13, L16).
//!
//! Not here: the errors themselves (`hooks/errors.rs`).

use std::time::Duration;

use tenure_core::{BackendErrorKind, Execution, ManagedScope, Outcome, Period, TensorOptions, hook, op};

use crate::bed::{Bed, Rig};
use crate::case::Case;
use crate::cases::hooks::support::{
    Count, Fault, MIB, all_errors, assert_given_back, case, cleanup_failure, number, work,
};
use crate::instrument::CallKind;

pub(super) const CASES: &[Case] = &[
    case("scopes/the_report_says_what_was_done", &["L16"], the_report_says_what_was_done),
    case("scopes/a_report_has_one_row_a_registration", &["L16", "L11"], one_row_a_registration),
    case("scopes/a_report_keeps_the_first_errors_and_counts_all", &["L16", "L13"], the_first_errors_are_kept),
    case("scopes/failures_that_were_seen_hide_no_other", &["L13", "L16"], seen_failures_hide_no_other),
    case("scopes/a_report_counts_every_failed_execution", &["L13", "L16"], every_failed_execution_is_counted),
    case("scopes/a_report_can_be_kept_for_ever", &["L16", "L6"], a_report_can_be_kept),
];

/// Makes an execution that fails on the device.
fn failing(rig: &Rig, scope: &ManagedScope) -> Execution {
    rig.probe.fail_nth(CallKind::Collect, 1, BackendErrorKind::Driver);
    let execution = work(scope);
    rig.manager.wait_idle().unwrap();
    execution
}

/// Many failures that somebody waited for, and then one that nobody saw: that one is the finish's error.
fn seen_failures_hide_no_other(bed: &Bed) {
    let rig = bed.open();
    let scope = rig.manager.scope("s").unwrap();
    for _ in 0..100 {
        assert!(failing(&rig, &scope).wait().is_err());
    }
    drop(failing(&rig, &scope));
    let failure = cleanup_failure(scope.finish_blocking());
    assert_eq!((failure.report.error_count, failure.primary.execution), (1, Some(101)));
    assert!(failure.others.is_empty());
    rig.probe.clear_faults();
    assert_given_back(&rig.manager);
}

/// A hundred failures that nobody saw: the first are kept, and all are counted.
fn every_failed_execution_is_counted(bed: &Bed) {
    let rig = bed.open();
    let scope = rig.manager.scope("s").unwrap();
    for _ in 0..100 {
        drop(failing(&rig, &scope));
    }
    let failure = cleanup_failure(scope.finish_blocking());
    assert_eq!((failure.report.error_count, failure.others.len()), (100, 63));
    assert_eq!(failure.primary.execution, Some(1));
    rig.probe.clear_faults();
    assert_given_back(&rig.manager);
}

/// Label, outcome, executions, hooks with their figures, tensors released and promoted, peak and time.
fn the_report_says_what_was_done(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let scope = manager.scope("report me").unwrap();
    let tensor = |label: &str, mib: u64| {
        scope.tensor_with::<u8>(TensorOptions::builder().shape([mib * MIB]).label(label).build()).unwrap()
    };
    let kept = tensor("kept", 1);
    let promoted = tensor("promoted", 2);
    drop(tensor("dropped", 4));
    let late = tensor("destroyed", 1);
    late.destroy().unwrap();
    promoted.promote().unwrap();
    scope.register(hook::each("each", |_| Ok(())).key("k")).unwrap();
    scope.register(hook::once("once", |_| Ok(()))).unwrap();
    scope.register(hook::once("fails", |_| Err(Fault("once").into()))).unwrap();
    scope.register(hook::after_release("after", |_| Ok(()))).unwrap();
    scope.adopt("adopted", 1, |_, _| Ok(())).unwrap();
    for _ in 0..3 {
        scope.evaluate([op::fill(kept.view(0..64).unwrap(), 1)]).unwrap().wait().unwrap();
    }
    assert_eq!(scope.live_bytes(), MIB);
    let failure = cleanup_failure(scope.finish_blocking());
    let report = &failure.report;
    assert_eq!((&*report.scope, report.outcome, report.executions), ("report me", Outcome::Completed, 3));
    let rows: Vec<_> = report
        .hooks
        .iter()
        .map(|row| (&*row.label, row.key.as_deref(), row.period, row.runs, row.failed, row.skipped))
        .collect();
    let expected = [
        ("each", Some("k"), Period::Execution, 3, 0, 0),
        ("once", None, Period::Scope, 1, 0, 0),
        ("fails", None, Period::Scope, 1, 1, 0),
        ("after", None, Period::AfterRelease, 1, 0, 0),
        ("adopted", None, Period::Scope, 1, 0, 0),
    ];
    assert_eq!(rows, expected);
    for row in &report.hooks {
        assert!(row.longest <= row.total, "{row:?}");
        assert!(row.runs > 1 || row.longest == row.total, "{row:?}");
    }
    assert_eq!((report.released_tensors, report.released_bytes), (1, MIB));
    assert_eq!(report.peak_bytes, 7 * MIB, "kept, promoted and dropped were local at one time");
    assert_eq!((report.errors.len(), report.error_count), (1, 1));
    assert!(report.duration > Duration::ZERO);
    assert!(report.hook("fails").is_some() && report.hook("nobody").is_none());
    assert!(promoted.is_live() && !kept.is_live());
    drop((promoted, kept, late));
    assert_given_back(&manager);
}

/// Twenty thousand executions with two hooks, one of which fails each time: two rows, 64 errors, and a count. This is
/// about bounded growth, hence the loop.
fn one_row_a_registration(bed: &Bed) {
    const EXECUTIONS: u64 = 20_000;
    let Rig { manager, .. } = bed.open();
    let scope = manager.scope("many").unwrap();
    let runs = Count::default();
    let seen = runs.clone();
    let counts = hook::each("counts", move |context| {
        seen.add();
        assert_eq!(number(context), seen.get(), "in order, none left out");
        Ok(())
    });
    scope.register(counts).unwrap();
    scope.register(hook::each("fails", |_| Err(Fault("each").into()))).unwrap();
    let tensor = scope.tensor::<u32>(1).unwrap();
    let sequence = scope.sequence().unwrap();
    sequence.record(op::fill(&tensor, 1)).unwrap();
    for _ in 0..EXECUTIONS {
        sequence.run().unwrap();
    }
    let failure = cleanup_failure(scope.finish_blocking());
    let report = &failure.report;
    let rows: Vec<_> = report.hooks.iter().map(|row| (&*row.label, row.runs, row.failed)).collect();
    assert_eq!(rows, [("counts", EXECUTIONS, 0), ("fails", EXECUTIONS, EXECUTIONS)]);
    assert_eq!((report.executions, runs.get()), (EXECUTIONS, EXECUTIONS));
    assert_eq!((report.errors.len(), report.error_count), (64, EXECUTIONS));
    let numbers: Vec<_> = report.errors.iter().map(|error| error.execution.unwrap()).collect();
    assert_eq!(numbers, (1..=64).collect::<Vec<_>>());
    assert!(report.to_string().ends_with("  and 19936 more errors\n"), "{report}");
    drop((sequence, tensor));
    assert_given_back(&manager);
}

/// A hundred scope hooks fail, and all run: the first 64 errors in run order, and the number of all.
fn the_first_errors_are_kept(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let scope = manager.scope("s").unwrap();
    let runs = Count::default();
    for at in 0..100 {
        let runs = runs.clone();
        let hook = hook::once(format!("hook {at}"), move |_| {
            runs.add();
            Err(Fault("hook").into())
        });
        scope.register(hook).unwrap();
    }
    let failure = cleanup_failure(scope.finish_blocking());
    assert_eq!((runs.get(), failure.report.hooks.len()), (100, 100));
    let labels: Vec<_> = all_errors(&failure).iter().map(|error| error.hook.as_deref().unwrap()).collect();
    let expected: Vec<_> = (36..100).rev().map(|at| format!("hook {at}")).collect();
    assert_eq!(labels, expected, "the last registered failed first");
    assert_eq!((failure.report.errors.len(), failure.report.error_count), (64, 100));
    assert!(failure.to_string().ends_with("(and 99 more)"), "{failure}");
}

/// A report and an error own nothing of the device: they read the same when everything is gone.
fn a_report_can_be_kept(bed: &Bed) {
    let Rig { manager, .. } = bed.open();
    let scope = manager.scope("s").unwrap();
    scope.register(hook::once("fails", |_| Err(Fault("kept").into()))).unwrap();
    work(&scope);
    let result = scope.finish_blocking();
    drop(scope);
    assert_given_back(&manager);
    let closed = manager.close().unwrap();
    assert!(closed.is_clean(), "{closed}");
    drop(manager);
    let failure = cleanup_failure(result);
    assert_eq!((failure.report.executions, failure.report.released_bytes), (1, 0));
    assert_eq!(failure.primary.source.downcast_ref(), Some(&Fault("kept")));
}
