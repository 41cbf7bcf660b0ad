//! One stack per scope: behaviours of ECMAScript's DisposableStack and AsyncDisposableStack (test262) and of CPython's
//! ExitStack (TestBaseExitStack), restated (L10, L13, L17).
//!
//! `use`, `adopt` and `defer` are `adopt` and `register` here. Two things differ on purpose: the earliest error is the
//! primary one, and a second finish at the same time awaits the same outcome.

use std::sync::Arc;

use parking_lot::Mutex;
use tenure_core::{
    CleanupContext, CleanupErrorKind, Error, Hook, ManagedScope, Manager, Outcome, RunError, ScopeState, hook,
};

use crate::bed::Bed;
use crate::case::Case;

/// The cases of this topic.
pub const CASES: &[Case] = &[
    case("stack/disposes_in_reverse_order", &["L10"], disposes_in_reverse_order),
    case("stack/does_not_reinvoke_when_disposed", &["L10", "L11"], does_not_reinvoke),
    case("stack/a_lone_error_comes_back_as_it_is", &["L13"], a_lone_error_as_it_is),
    case("stack/several_errors_are_kept_in_run_order", &["L13"], several_errors_in_run_order),
    case("stack/the_bodys_error_is_first", &["L13"], the_bodys_error_is_first),
    case("stack/an_error_in_body_and_disposal", &["L13"], an_error_in_body_and_disposal),
    case("stack/mixed_sync_and_async", &["L10", "L13"], mixed_sync_and_async),
    case("stack/mixed_sync_and_async_that_fail", &["L10", "L13"], mixed_that_fail),
    case("stack/adopt_gives_the_value_to_its_release", &["L10"], adopt_gives_the_value),
    case("stack/adopted_values_of_any_type_in_order", &["L10"], adopted_values_in_order),
    case("stack/registering_after_dispose_is_refused", &["L10"], registering_after_dispose),
    case("stack/an_adopted_value_comes_back_when_refused", &["L10"], an_adopted_value_comes_back),
    case("stack/move_does_not_dispose", &["L17"], move_does_not_dispose),
    case("stack/move_leaves_the_old_one_disposed", &["L17"], move_leaves_the_old_one_disposed),
    case("stack/moved_entries_are_disposed_by_the_new_one", &["L17", "L10"], moved_entries_are_disposed),
    case("stack/re_entry_pushes_on_top", &["L10"], re_entry_pushes_on_top),
    case(
        "stack/an_initializer_that_fails_disposes_the_earlier_ones",
        &["L10", "L13"],
        an_initializer_that_fails,
    ),
    case("stack/an_empty_stack_disposes", &["L10"], an_empty_stack_disposes),
    case("stack/state_is_disposed_after", &["L10"], state_is_disposed_after),
    case("stack/a_panic_is_an_error_like_another", &["L13"], a_panic_is_an_error),
    case("stack/exit_stack_callbacks_see_how_it_ended", &["L10", "L16"], callbacks_see_how_it_ended),
    case("stack/exit_stack_body_panic_goes_on", &["L13", "L17"], a_body_panic_goes_on),
    case("stack/exit_stack_nested_stacks_unwind_inside_out", &["L10"], nested_stacks_unwind),
    case("stack/exit_stack_a_thousand_callbacks", &["L10"], a_thousand_callbacks),
];

const fn case(id: &'static str, rules: &'static [&'static str], run: fn(&Bed)) -> Case {
    Case { id, rules, requires: &[], run }
}

/// What ran, in order.
#[derive(Default)]
struct Trace {
    seen: Arc<Mutex<Vec<String>>>,
    /// Kept open until the case ends; not by what hooks capture.
    _manager: Option<Manager>,
}

impl Clone for Trace {
    fn clone(&self) -> Self {
        Trace { seen: self.seen.clone(), _manager: None }
    }
}

impl Trace {
    fn note(&self, text: impl Into<String>) {
        self.seen.lock().push(text.into());
    }

    fn is(&self, expected: &[&str]) {
        assert_eq!(*self.seen.lock(), expected);
    }

    fn hook(&self, name: &'static str) -> Hook {
        let trace = self.clone();
        hook::once(name, move |_| {
            trace.note(name);
            Ok(())
        })
    }

    fn failing(&self, name: &'static str) -> Hook {
        let trace = self.clone();
        hook::once(name, move |_| {
            trace.note(name);
            Err(Box::new(Named(name)))
        })
    }

    fn future(&self, name: &'static str, fails: bool) -> Hook {
        let trace = self.clone();
        hook::future(name, move |_| async move {
            trace.note(format!("{name} begins"));
            yield_once().await;
            trace.note(format!("{name} ends"));
            if fails { Err(Named(name).into()) } else { Ok(()) }
        })
    }
}

/// An error that is told from others by name.
#[derive(Debug, PartialEq)]
struct Named(&'static str);

impl std::fmt::Display for Named {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Named {}

/// Pending once, and woken at once.
async fn yield_once() {
    let mut yielded = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut yielded, true) {
            return std::task::Poll::Ready(());
        }
        context.waker().wake_by_ref();
        std::task::Poll::Pending
    })
    .await;
}

fn open(bed: &Bed) -> (ManagedScope, Trace) {
    let manager = bed.open().manager;
    let scope = manager.scope("stack").unwrap();
    (scope, Trace { _manager: Some(manager), ..Trace::default() })
}

fn names(error: &Error) -> Vec<&'static str> {
    let Error::Cleanup(failure) = error else { panic!("{error:?}") };
    std::iter::once(&failure.primary)
        .chain(&failure.others)
        .map(|error| error.source.downcast_ref::<Named>().expect("one of ours").0)
        .collect()
}

/// disposes-resources-in-reverse-order.
fn disposes_in_reverse_order(bed: &Bed) {
    let (scope, trace) = open(bed);
    for name in ["a", "b", "c"] {
        scope.register(trace.hook(name)).unwrap();
    }
    scope.finish_blocking().unwrap();
    trace.is(&["c", "b", "a"]);
}

/// does-not-reinvoke-disposers-if-already-disposed: a second dispose runs nothing; ours says that it is over.
fn does_not_reinvoke(bed: &Bed) {
    let (scope, trace) = open(bed);
    scope.register(trace.hook("a")).unwrap();
    scope.finish_blocking().unwrap();
    let error = scope.finish_blocking().unwrap_err();
    assert!(matches!(error, Error::ScopeFinished { outcome: Outcome::Completed, .. }), "{error}");
    drop(scope);
    trace.is(&["a"]);
}

/// throws-error-as-is-if-only-one-error-during-disposal.
fn a_lone_error_as_it_is(bed: &Bed) {
    let (scope, trace) = open(bed);
    scope.register(trace.hook("a")).unwrap();
    scope.register(trace.failing("b")).unwrap();
    scope.register(trace.hook("c")).unwrap();
    let error = scope.finish_blocking().unwrap_err();
    trace.is(&["c", "b", "a"]);
    assert_eq!(error.find::<Named>(), Some(&Named("b")));
    let Error::Cleanup(failure) = &error else { panic!("{error:?}") };
    assert!(failure.others.is_empty());
    assert_eq!(failure.to_string(), failure.primary.to_string(), "no wrapping in its text either");
}

/// throws-suppressederror-if-multiple-errors-during-disposal, with the earliest as the primary one.
fn several_errors_in_run_order(bed: &Bed) {
    let (scope, trace) = open(bed);
    for name in ["a", "b", "c"] {
        scope.register(trace.failing(name)).unwrap();
    }
    let error = scope.finish_blocking().unwrap_err();
    trace.is(&["c", "b", "a"]);
    assert_eq!(names(&error), ["c", "b", "a"]);
    assert!(error.to_string().ends_with("(and 2 more)"), "{error}");
}

/// A body that throws, with disposers that do not: its error as it is.
fn the_bodys_error_is_first(bed: &Bed) {
    let (scope, trace) = open(bed);
    scope.register(trace.hook("a")).unwrap();
    let error = scope.finish_with::<(), _>(Err(Named("body"))).unwrap_err();
    trace.is(&["a"]);
    assert_eq!(error.report().unwrap().error_count, 0);
    assert_eq!(error.body(), Some(Named("body")));
}

/// await-using-throws-suppressed-error-from-try-and-disposal.
fn an_error_in_body_and_disposal(bed: &Bed) {
    let (scope, trace) = open(bed);
    scope.register(trace.failing("a")).unwrap();
    scope.register(trace.failing("b")).unwrap();
    let error = scope.finish_with::<(), _>(Err(Named("body"))).unwrap_err();
    let RunError::Body { error, report } = error else { panic!("{error:?}") };
    assert_eq!(error, Named("body"));
    let hooks: Vec<_> = report.unwrap().errors.iter().map(|error| error.hook.clone().unwrap()).collect();
    assert_eq!(hooks.iter().map(|hook| &**hook).collect::<Vec<_>>(), ["b", "a"]);
}

/// await-using-mixed-sync: one at a time, in reverse, each to its end.
fn mixed_sync_and_async(bed: &Bed) {
    let (scope, trace) = open(bed);
    scope.register(trace.hook("a")).unwrap();
    scope.register(trace.future("b", false)).unwrap();
    scope.register(trace.hook("c")).unwrap();
    scope.register(trace.future("d", false)).unwrap();
    pollster::block_on(scope.finish()).unwrap();
    trace.is(&["d begins", "d ends", "c", "b begins", "b ends", "a"]);
}

/// await-using-mixed-sync-throws and -mixed-async-throws.
fn mixed_that_fail(bed: &Bed) {
    let (scope, trace) = open(bed);
    scope.register(trace.failing("a")).unwrap();
    scope.register(trace.future("b", true)).unwrap();
    scope.register(trace.hook("c")).unwrap();
    let error = pollster::block_on(scope.finish()).unwrap_err();
    trace.is(&["c", "b begins", "b ends", "a"]);
    assert_eq!(names(&error), ["b", "a"]);
}

/// adopt: the value goes to its disposer, once.
fn adopt_gives_the_value(bed: &Bed) {
    let (scope, trace) = open(bed);
    let seen = trace.clone();
    scope
        .adopt("file", String::from("handle 7"), move |value, context: &CleanupContext| {
            seen.note(format!("{value} in {}", context.scope().label()));
            Ok(())
        })
        .unwrap();
    scope.finish_blocking().unwrap();
    trace.is(&["handle 7 in stack"]);
}

/// adopt and defer share one stack.
fn adopted_values_in_order(bed: &Bed) {
    let (scope, trace) = open(bed);
    let (first, last) = (trace.clone(), trace.clone());
    scope
        .adopt("number", 1_u64, move |value, _| {
            first.note(format!("number {value}"));
            Ok(())
        })
        .unwrap();
    scope.register(trace.hook("between")).unwrap();
    scope
        .adopt("vector", vec![1, 2], move |value, _| {
            last.note(format!("vector {value:?}"));
            Ok(())
        })
        .unwrap();
    scope.finish_blocking().unwrap();
    trace.is(&["vector [1, 2]", "between", "number 1"]);
}

/// use, adopt, defer: throws-if-disposed; ours hands the hook back.
fn registering_after_dispose(bed: &Bed) {
    let (scope, trace) = open(bed);
    scope.finish_blocking().unwrap();
    let rejected = scope.register(trace.hook("late")).unwrap_err();
    assert!(matches!(rejected.error, Error::ScopeFinished { .. }), "{}", rejected.error);
    assert_eq!(rejected.value.label(), "late");
    trace.is(&[]);
}

/// A refused value is not lost, and not released.
fn an_adopted_value_comes_back(bed: &Bed) {
    let (scope, _trace) = open(bed);
    scope.finish_blocking().unwrap();
    let rejected = scope.adopt("file", vec![1, 2, 3], |_, _| panic!("released")).unwrap_err();
    assert_eq!(rejected.value, [1, 2, 3]);
}

/// move: does-not-dispose-resources.
fn move_does_not_dispose(bed: &Bed) {
    let (scope, trace) = open(bed);
    scope.register(trace.hook("a")).unwrap();
    let moved = scope.move_out().unwrap();
    drop(scope);
    trace.is(&[]);
    assert_eq!(moved.state(), ScopeState::Open);
    moved.finish_blocking().unwrap();
    trace.is(&["a"]);
}

/// move: sets-state-to-disposed.
fn move_leaves_the_old_one_disposed(bed: &Bed) {
    let (scope, _trace) = open(bed);
    let _moved = scope.move_out().unwrap();
    assert!(matches!(scope.finish_blocking(), Err(Error::ScopeMoved { .. })));
    assert!(matches!(scope.move_out(), Err(Error::ScopeMoved { .. })));
}

/// move: returns-new-stack-that-contains-moved-resources, -that-is-still-pending.
fn moved_entries_are_disposed(bed: &Bed) {
    let manager = bed.open().manager;
    let trace = Trace::default();
    let outer = manager.scope("outer").unwrap();
    let inner = outer.scope("inner").unwrap();
    inner.register(trace.hook("a")).unwrap();
    let moved = inner.move_out().unwrap();
    moved.register(trace.hook("b")).unwrap();
    outer.finish_blocking().unwrap();
    trace.is(&[]);
    moved.finish_blocking().unwrap();
    trace.is(&["b", "a"]);
}

/// disposable-stack-re-entry: what a disposer registers goes on top, and runs next.
fn re_entry_pushes_on_top(bed: &Bed) {
    let (scope, trace) = open(bed);
    scope.register(trace.hook("a")).unwrap();
    let inner = trace.clone();
    scope
        .register(hook::once("b", move |context| {
            inner.note("b");
            context.register(inner.hook("from b"))?;
            Ok(())
        }))
        .unwrap();
    scope.finish_blocking().unwrap();
    trace.is(&["b", "from b", "a"]);
}

/// initializer-disposed-if-subsequent-initializer-throws.
fn an_initializer_that_fails(bed: &Bed) {
    let manager = bed.open().manager;
    let trace = Trace::default();
    let result = manager.run("stack", |scope| -> Result<(), Error> {
        scope.register(trace.hook("first"))?;
        scope.tensor::<u64>(u64::MAX)?;
        scope.register(trace.hook("never"))?;
        Ok(())
    });
    assert!(matches!(result, Err(RunError::Body { error: Error::SizeOverflow { .. }, .. })), "{result:?}");
    trace.is(&["first"]);
}

/// Nothing registered is nothing to run.
fn an_empty_stack_disposes(bed: &Bed) {
    let (scope, _trace) = open(bed);
    let report = scope.finish_blocking().unwrap();
    assert!(report.hooks.is_empty());
}

/// dispose: sets-state-to-disposed.
fn state_is_disposed_after(bed: &Bed) {
    let (scope, _trace) = open(bed);
    assert_eq!(scope.state(), ScopeState::Open);
    let observer = (*scope).clone();
    scope
        .register(hook::once("looks", move |_| {
            assert_eq!(observer.state(), ScopeState::Finishing);
            Ok(())
        }))
        .unwrap();
    scope.finish_blocking().unwrap();
    assert_eq!(scope.state(), ScopeState::Finished(Outcome::Completed));
}

/// A disposer that panics is reported with its message, and stops no other.
fn a_panic_is_an_error(bed: &Bed) {
    let (scope, trace) = open(bed);
    scope.register(trace.hook("a")).unwrap();
    scope.register(hook::once("b", |_| panic!("out of order: {}", 7))).unwrap();
    scope.register(trace.hook("c")).unwrap();
    let error = scope.finish_blocking().unwrap_err();
    trace.is(&["c", "a"]);
    let Error::Cleanup(failure) = error else { panic!("{error:?}") };
    assert_eq!(failure.primary.kind, CleanupErrorKind::Panicked);
    assert_eq!(failure.primary.source.to_string(), "out of order: 7");
}

/// ExitStack: callbacks are told how the block ended.
fn callbacks_see_how_it_ended(bed: &Bed) {
    for (result, expected) in [(Ok(()), Outcome::Completed), (Err(Named("body")), Outcome::Failed)] {
        let (scope, _trace) = open(bed);
        scope
            .register(hook::once("looks", move |context| {
                assert_eq!(context.outcome(), Some(expected));
                Ok(())
            }))
            .unwrap();
        let _ = scope.finish_with(result);
    }
}

/// ExitStack: an exception in the body goes on after the callbacks ran.
fn a_body_panic_goes_on(bed: &Bed) {
    let manager = bed.open().manager;
    let trace = Trace::default();
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        manager.run("stack", |scope| -> Result<(), Error> {
            scope.register(trace.failing("a"))?;
            scope.register(trace.hook("b"))?;
            std::panic::panic_any(42_u8)
        })
    }));
    assert_eq!(caught.unwrap_err().downcast_ref(), Some(&42_u8));
    trace.is(&["b", "a"]);
    assert_eq!(names(&manager.take_errors()[0]), ["a"], "the hook's error is not lost");
}

/// ExitStack: stacks in stacks unwind from the inside out.
fn nested_stacks_unwind(bed: &Bed) {
    let manager = bed.open().manager;
    let trace = Trace::default();
    let outer = manager.scope("outer").unwrap();
    outer.register(trace.hook("outer first")).unwrap();
    let inner = outer.scope("inner").unwrap();
    inner.register(trace.hook("inner")).unwrap();
    outer.register(trace.hook("outer last")).unwrap();
    outer.finish_blocking().unwrap();
    trace.is(&["outer last", "inner", "outer first"]);
}

/// ExitStack: many callbacks, no recursion.
fn a_thousand_callbacks(bed: &Bed) {
    let (scope, trace) = open(bed);
    for number in 0..1000 {
        let trace = trace.clone();
        scope
            .register(hook::once("count", move |_| {
                trace.note(number.to_string());
                Ok(())
            }))
            .unwrap();
    }
    let report = scope.finish_blocking().unwrap();
    assert_eq!(report.hooks.len(), 1000);
    let order: Vec<String> = (0..1000).rev().map(|number| number.to_string()).collect();
    assert_eq!(*trace.seen.lock(), order);
}
