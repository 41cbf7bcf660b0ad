//! Cases about a driver that fails: every call in turn, with every kind of error, at every step of several lives
//! (L11, L13, L19, L23).
//!
//! A life is a small program that uses one part of tenure. Each is run again and again with the k-th driver call
//! failing, until no call is left to fail. Not here: running out of memory by size (`memory.rs`), and what a loss
//! means in detail (`loss.rs`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tenure_core::{
    BackendError, BackendErrorKind, CleanupContext, CloseReport, Error, Hook, ManagedScope, Manager,
    RunError, hook, op,
};

use crate::bed::{Bed, Rig};
use crate::case::{Case, Requirement};
use crate::instrument::{CallKind, CallSet};
use crate::kernels::groups_for;

/// The cases of this topic.
pub const CASES: &[Case] = &[
    case("faults/evaluate_and_read_under_every_fault", evaluate_and_read_under_every_fault),
    case("faults/record_once_evaluate_often_under_every_fault", record_once_under_every_fault),
    case("faults/nested_scopes_under_every_fault", nested_scopes_under_every_fault),
    case("faults/named_sequences_under_every_fault", named_sequences_under_every_fault),
    case("faults/dropped_scopes_under_every_fault", dropped_scopes_under_every_fault),
    case("faults/cancelled_scope_under_every_fault", cancelled_scope_under_every_fault),
    case("faults/moved_scope_under_every_fault", moved_scope_under_every_fault),
    case("faults/failing_body_under_every_fault", failing_body_under_every_fault),
    case("faults/many_sizes_under_every_fault", many_sizes_under_every_fault),
    Case {
        id: "faults/kernels_under_every_fault",
        rules: RULES,
        requires: &[Requirement::Kernels],
        run: kernels_under_every_fault,
    },
    Case {
        id: "faults/a_wait_that_fails_is_tried_again",
        rules: &["L13"],
        requires: &[],
        run: a_wait_that_fails_is_tried_again,
    },
    Case {
        id: "faults/a_refused_submission_submits_nothing",
        rules: &["L3", "L7", "L11"],
        requires: &[],
        run: a_refused_submission_submits_nothing,
    },
    Case {
        id: "faults/a_failed_free_is_told_and_stops_nothing",
        rules: &["L13", "L19"],
        requires: &[],
        run: a_failed_free_is_told_and_stops_nothing,
    },
    Case {
        id: "faults/a_shutdown_that_fails_is_in_the_close_report",
        rules: &["L13", "L28"],
        requires: &[],
        run: a_shutdown_that_fails_is_in_the_close_report,
    },
];

const RULES: &[&str] = &["L11", "L13", "L19"];

const fn case(id: &'static str, run: fn(&Bed)) -> Case {
    Case { id, rules: RULES, requires: &[], run }
}

/// Every kind of error that a backend can answer.
const KINDS: [BackendErrorKind; 7] = [
    BackendErrorKind::OutOfMemory,
    BackendErrorKind::DeviceLost,
    BackendErrorKind::Unavailable,
    BackendErrorKind::Unsupported,
    BackendErrorKind::Compile,
    BackendErrorKind::Execution,
    BackendErrorKind::Driver,
];

/// How often hooks were registered and have run.
#[derive(Clone, Default)]
struct Hooks {
    registered: Arc<AtomicU64>,
    run: Arc<AtomicU64>,
}

impl Hooks {
    fn count(&self) -> impl FnOnce(&CleanupContext) -> Result<(), tenure_core::BoxError> + Send + 'static {
        let run = self.run.clone();
        move |_| {
            run.fetch_add(1, Ordering::SeqCst);
            Ok(())
        }
    }

    /// Registers a scope hook and an `AfterRelease` hook that count their runs.
    fn register(&self, scope: &ManagedScope) -> Result<(), Error> {
        for hook in [hook::once("scope", self.count()), hook::after_release("after", self.count())] {
            self.registered.fetch_add(1, Ordering::SeqCst);
            let hook: Hook = hook;
            scope.register(hook)?;
        }
        Ok(())
    }
}

/// Runs `life` with the k-th call failing, for every k and every kind of error.
fn sweep(bed: &Bed, life: impl Fn(&Manager, &Hooks) -> Result<(), Error>) {
    for kind in KINDS {
        for k in 1.. {
            let rig = bed.open();
            let hooks = Hooks::default();
            rig.probe.fail_nth(CallSet::REPEATABLE, k, kind);
            let result = life(&rig.manager, &hooks);
            let unheard = rig.manager.take_errors();
            let closed = rig.manager.close().unwrap();
            let registered = hooks.registered.load(Ordering::SeqCst);
            let run = hooks.run.load(Ordering::SeqCst);
            let call = rig.probe.last_fault();
            assert_eq!(run, registered, "{kind} at call {k} ({call:?}): hooks run, hooks registered");
            assert_eq!(closed.memory.reserved.bytes, 0, "{kind} at call {k} ({call:?})");
            if rig.probe.faults_hit() == 0 {
                result.unwrap();
                assert!(k > 5, "only {k} calls were seen");
                break;
            }
            assert_told(&rig, kind, &result, &unheard, &closed);
        }
    }
}

/// Calls that are made once more where they ran out of memory (L20).
const RETRIED: CallSet = CallSet::of(&[
    CallKind::Allocate,
    CallKind::WriteBlock,
    CallKind::ReadBlock,
    CallKind::Compile,
    CallKind::OpenScope,
    CallKind::OpenSequence,
    CallKind::Record,
    CallKind::Submit,
    CallKind::ResetSequence,
]);

/// The failure is told somewhere, with its kind: by the call, by finish, or by the close report. One that core
/// recovers from by itself is not: what ran out of memory once is tried again (L20).
fn assert_told(
    rig: &Rig,
    kind: BackendErrorKind,
    result: &Result<(), Error>,
    unheard: &[Error],
    closed: &CloseReport,
) {
    let call = rig.probe.last_fault().unwrap();
    if kind == BackendErrorKind::OutOfMemory && RETRIED.contains(call) {
        assert!(result.is_ok(), "{result:?}");
        assert_eq!(closed.memory.retries, 1);
        return;
    }
    let told = result.as_ref().err().into_iter().chain(unheard).chain(&closed.errors);
    let texts: Vec<String> = told.clone().map(|error| format!("{error:?}")).collect();
    let named = told.into_iter().any(|error| match error {
        Error::Cleanup(failure) => std::iter::once(&failure.primary)
            .chain(&failure.others)
            .any(|error| is_of_kind(&*error.source, kind)),
        error => is_of_kind(error, kind),
    });
    assert!(named, "{kind} in {call} was lost; told: {texts:?}");
}

fn is_of_kind(error: &(dyn std::error::Error + 'static), kind: BackendErrorKind) -> bool {
    let error = error.downcast_ref::<Error>().and_then(Error::find::<BackendError>);
    error.is_some_and(|error| error.kind == kind)
}

/// Upload, evaluate, wait, read, finish.
fn evaluate_and_read_under_every_fault(bed: &Bed) {
    sweep(bed, |manager, hooks| {
        let scope = manager.scope("life")?;
        hooks.register(&scope)?;
        let tensor = scope.tensor_from("data", &[1u32; 64])?;
        scope.evaluate([op::fill(&tensor, 2)])?.wait()?;
        tensor.read()?;
        scope.finish_blocking()?;
        Ok(())
    });
}

/// One recording, evaluated three times, changed, and evaluated again.
fn record_once_under_every_fault(bed: &Bed) {
    sweep(bed, |manager, hooks| {
        let scope = manager.scope("life")?;
        hooks.register(&scope)?;
        let tensor = scope.tensor::<u32>(1 << 18)?;
        let (download, values) = op::download(&tensor);
        let sequence = scope.sequence()?;
        sequence.record(op::fill(&tensor, 3))?;
        for _ in 0..3 {
            sequence.run()?;
        }
        sequence.record(download)?.run()?;
        assert_eq!(values.get()?[7], 3);
        scope.finish_blocking()?;
        Ok(())
    });
}

/// Three scopes in each other, hooks on all, work in all.
fn nested_scopes_under_every_fault(bed: &Bed) {
    sweep(bed, |manager, hooks| {
        let outer = manager.scope("outer")?;
        hooks.register(&outer)?;
        let middle = outer.scope("middle")?;
        hooks.register(&middle)?;
        let inner = middle.scope("inner")?;
        hooks.register(&inner)?;
        let tensor = inner.tensor::<u32>(64)?;
        tensor.promote()?;
        for scope in [&inner, &middle, &outer] {
            scope.evaluate([op::fill(&tensor, 4)])?.wait()?;
        }
        inner.finish_blocking()?;
        outer.finish_blocking()?;
        Ok(())
    });
}

/// Named sequences: replaced, destroyed, reset and cleared.
fn named_sequences_under_every_fault(bed: &Bed) {
    sweep(bed, |manager, hooks| {
        let scope = manager.scope("life")?;
        hooks.register(&scope)?;
        let tensor = scope.tensor::<u32>(64)?;
        scope.named("a")?.record(op::fill(&tensor, 1))?.run()?;
        let replaced = scope.replace("a")?;
        replaced.record(op::fill(&tensor, 2))?.run()?;
        replaced.reset()?;
        replaced.record(op::fill(&tensor, 3))?.run()?;
        scope.named("b")?.record(op::fill(&tensor, 4))?.run()?;
        scope.destroy("b")?;
        scope.clear();
        scope.finish_blocking()?;
        Ok(())
    });
}

/// Scopes that are dropped with work in flight: the cleanup thread finishes them.
fn dropped_scopes_under_every_fault(bed: &Bed) {
    sweep(bed, |manager, hooks| {
        for _ in 0..2 {
            let scope = manager.scope("life")?;
            hooks.register(&scope)?;
            let tensor = scope.tensor::<u32>(64)?;
            scope.evaluate([op::fill(&tensor, 1)])?.wait()?;
        }
        Ok(())
    });
}

/// A cancelled scope: what was submitted completes.
fn cancelled_scope_under_every_fault(bed: &Bed) {
    sweep(bed, |manager, hooks| {
        let scope = manager.scope("life")?;
        hooks.register(&scope)?;
        let tensor = scope.tensor::<u32>(64)?;
        let execution = scope.evaluate([op::fill(&tensor, 1)])?;
        scope.cancel();
        execution.wait()?;
        assert!(matches!(
            scope.evaluate([op::fill(&tensor, 2)]),
            Err(Error::Cancelled { .. } | Error::DeviceLost { .. })
        ));
        scope.finish_blocking()?;
        Ok(())
    });
}

/// A scope whose work moves to another handle.
fn moved_scope_under_every_fault(bed: &Bed) {
    sweep(bed, |manager, hooks| {
        let outer = manager.scope("outer")?;
        let inner = outer.scope("inner")?;
        hooks.register(&inner)?;
        let tensor = inner.tensor::<u32>(64)?;
        let execution = inner.evaluate([op::fill(&tensor, 1)])?;
        let moved = inner.move_out()?;
        outer.finish_blocking()?;
        execution.wait()?;
        moved.finish_blocking()?;
        Ok(())
    });
}

/// A body that fails: its error is first, whatever the driver says.
fn failing_body_under_every_fault(bed: &Bed) {
    sweep(bed, |manager, hooks| {
        let mut driver = None;
        let result = manager.run("life", |scope| -> Result<(), String> {
            let work = || {
                hooks.register(scope)?;
                let tensor = scope.tensor::<u32>(64)?;
                scope.evaluate([op::fill(&tensor, 1)])?.wait()
            };
            driver = work().err();
            Err("the body's own".to_owned())
        });
        match result {
            Err(RunError::Body { error, report }) => {
                assert_eq!(error, "the body's own");
                let report = report.unwrap();
                assert!(report.error_count <= 1, "{report}");
                match (driver, report.errors.first()) {
                    (Some(error), _) => Err(error),
                    (None, Some(error)) => Err(error.source.downcast_ref::<Error>().unwrap().clone()),
                    (None, None) => Ok(()),
                }
            }
            other => panic!("the body's error is first, not {other:?}"),
        }
    });
}

/// Tensors of many sizes, dropped and made again, trimmed in between.
fn many_sizes_under_every_fault(bed: &Bed) {
    sweep(bed, |manager, hooks| {
        let scope = manager.scope("life")?;
        hooks.register(&scope)?;
        for _ in 0..2 {
            let mut tensors = Vec::new();
            for shift in [0, 6, 12, 18, 19] {
                tensors.push(scope.tensor::<u32>(1 << shift)?);
            }
            let fills: Vec<_> = tensors.iter().map(|tensor| op::fill(tensor, 9)).collect();
            scope.evaluate(fills)?.wait()?;
            tensors.truncate(2);
            manager.trim()?;
        }
        scope.finish_blocking()?;
        Ok(())
    });
}

/// Two kernels over shared tensors.
fn kernels_under_every_fault(bed: &Bed) {
    sweep(bed, |manager, hooks| {
        let scope = manager.scope("life")?;
        hooks.register(&scope)?;
        let iota = manager.kernel(&bed.kernels().iota)?;
        let increment = manager.kernel(&bed.kernels().increment)?;
        let tensor = scope.tensor::<u32>(1000)?;
        let groups = groups_for(1000);
        scope
            .evaluate([
                op::dispatch(&iota).bind(&tensor).groups(groups),
                op::dispatch(&increment).bind(&tensor).groups(groups),
            ])?
            .wait()?;
        drop(iota);
        assert_eq!(tensor.read()?[999], 1000);
        scope.finish_blocking()?;
        Ok(())
    });
}

/// Waiting and asking for completion fail for a while: the execution completes all the same, and the driver's error
/// is kept for whoever asks.
fn a_wait_that_fails_is_tried_again(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let scope = manager.scope("s").unwrap();
    let tensor = scope.tensor::<u32>(64).unwrap();
    probe.hold();
    let execution = scope.evaluate([op::fill(&tensor, 1)]).unwrap();
    probe.fail_nth(CallKind::WaitAny | CallKind::Completed, 1, BackendErrorKind::Driver);
    probe.release_all();
    execution.wait().unwrap();
    scope.finish_blocking().unwrap();
    let report = manager.close().unwrap();
    assert_eq!(probe.faults_hit(), 1);
    assert!(report.leaks.is_empty());
}

/// A submission that the driver refuses leaves the sequence as it was, counts no execution and runs no hook; the next
/// one succeeds.
fn a_refused_submission_submits_nothing(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let scope = manager.scope("s").unwrap();
    let runs = Arc::new(AtomicU64::new(0));
    let seen = runs.clone();
    scope
        .register(hook::each("each", move |_| {
            seen.fetch_add(1, Ordering::SeqCst);
            Ok(())
        }))
        .unwrap();
    let tensor = scope.tensor_from("data", &[5u32; 64]).unwrap();
    let sequence = scope.named("fill").unwrap();
    sequence.record(op::fill(&tensor, 6)).unwrap();
    let before = sequence.state();
    probe.fail_nth(CallKind::Submit, 1, BackendErrorKind::Driver);
    let error = sequence.evaluate().unwrap_err();
    assert!(matches!(&error, Error::Backend(error) if error.kind == BackendErrorKind::Driver), "{error}");
    assert_eq!(sequence.state(), before);
    assert_eq!(tensor.read().unwrap(), [5; 64]);
    sequence.run().unwrap();
    assert_eq!(tensor.read().unwrap(), [6; 64]);
    let report = scope.finish_blocking().unwrap();
    assert_eq!(report.executions, 1);
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

/// A free that fails is counted and told, and the frees after it happen.
fn a_failed_free_is_told_and_stops_nothing(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    let tensors: Vec<_> = (0..3).map(|_| manager.tensor::<u8>(4 << 20).unwrap()).collect();
    drop(tensors);
    probe.fail_nth(CallKind::Free, 1, BackendErrorKind::Driver);
    let report = manager.trim().unwrap();
    assert_eq!(report.blocks, 3);
    assert_eq!(probe.calls(CallKind::Free), 3);
    assert_eq!(manager.memory().teardown_errors, 1);
    assert_eq!(manager.memory().reserved.bytes, 0);
    let errors = manager.take_errors();
    assert_eq!(errors.len(), 1);
    assert!(manager.take_errors().is_empty(), "taken once");
    assert!(manager.close().unwrap().errors.is_empty());
}

/// The last call of all fails: closing succeeds and says so.
fn a_shutdown_that_fails_is_in_the_close_report(bed: &Bed) {
    let Rig { manager, probe } = bed.open();
    probe.fail_nth(CallKind::Shutdown, 1, BackendErrorKind::Driver);
    let report = manager.close().unwrap();
    assert_eq!(report.errors.len(), 1, "{report}");
    assert!(!report.is_clean());
}
