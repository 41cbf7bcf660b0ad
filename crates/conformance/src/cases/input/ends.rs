//! Cases about scopes that are finished, used or moved once too often (L10, L16, L17).
//!
//! Not here: two finishes at the same time (`stack`, `threads.rs`).

use tenure_core::{Error, Outcome, RunError, ScopeState, hook, op};

use crate::bed::Bed;
use crate::cases::ownership::support::{Count, Snapshot, assert_given_back, assert_names, untrimmed};

#[track_caller]
fn assert_finished<T: std::fmt::Debug>(answer: Result<T, Error>, expected: Outcome) {
    match answer {
        Err(Error::ScopeFinished { scope, outcome }) => assert_eq!((&*scope, outcome), ("job", expected)),
        other => panic!("the scope has finished: {other:?}"),
    }
}

/// A second finish, in each of its forms, says that the scope has finished and how, runs no hook and changes no
/// outcome.
pub(super) fn finished_twice(bed: &Bed) {
    for expected in [Outcome::Completed, Outcome::Cancelled, Outcome::Failed] {
        let rig = bed.open_with(untrimmed());
        let scope = rig.manager.scope("job").unwrap();
        let once = Count::default();
        scope.register(once.once("once")).unwrap();
        let body = if expected == Outcome::Failed { Err("the body's") } else { Ok(()) };
        if expected == Outcome::Cancelled {
            scope.cancel();
        }
        match scope.finish_with(body) {
            Ok(((), report)) => assert_eq!(report.outcome, expected),
            Err(error) => assert_eq!(error.report().unwrap().outcome, expected),
        }
        let before = Snapshot::of(&rig);
        assert_finished(scope.finish_blocking(), expected);
        assert_finished(pollster::block_on(scope.finish()), expected);
        match scope.finish_with(Ok::<_, String>(5)) {
            Err(RunError::Scope(error)) => {
                assert_names(&error, &["job", &expected.to_string()]);
                assert_finished::<()>(Err(error), expected);
            }
            other => panic!("the scope has finished: {other:?}"),
        }
        // A body's error is not lost to the refusal.
        match pollster::block_on(scope.finish_with_async(Err::<(), _>("late"))) {
            Err(RunError::Body { error, report }) => assert_eq!((error, report.is_none()), ("late", true)),
            other => panic!("the body has failed: {other:?}"),
        }
        assert_eq!((scope.state(), once.get()), (ScopeState::Finished(expected), 1));
        before.assert_unchanged(&rig);
        drop(scope);
        assert_given_back(&rig.manager);
        let report = rig.manager.close().unwrap();
        assert!(report.is_clean(), "{report}");
    }
}

/// Everything that a finished scope could be asked for is refused by name, what was handed over is handed back, and
/// nothing is made.
pub(super) fn used_after_its_finish(bed: &Bed) {
    let rig = bed.open_with(untrimmed());
    let outer = rig.manager.scope("outer").unwrap();
    let scope = outer.scope("job").unwrap();
    let tensor = rig.manager.tensor_from("row", &[1_u32; 64]).unwrap();
    scope.finish_blocking().unwrap();
    let before = Snapshot::of(&rig);
    let done = Outcome::Completed;
    assert_finished(scope.tensor::<u32>(64), done);
    assert_finished(scope.tensor::<u32>(0), done);
    assert_finished(scope.tensor_from("late", &[1_u8]), done);
    assert_finished(scope.scope("late"), done);
    assert_finished(scope.sequence(), done);
    assert_finished(scope.named("late"), done);
    assert_finished(scope.replace("late"), done);
    assert_finished(scope.evaluate([op::fill(&tensor, 2)]), done);
    assert_finished(scope.move_out(), done);
    let rejected = scope.register(hook::once("late", |_| Ok(()))).unwrap_err();
    assert_eq!(rejected.value.label(), "late");
    assert_finished::<()>(Err(rejected.error), done);
    let rejected = scope.register_on(&scope, hook::each("late", |_| Ok(()))).unwrap_err();
    assert_finished::<()>(Err(rejected.error), done);
    let rejected = scope.adopt("late", String::from("mine"), |_, _| Ok(())).unwrap_err();
    assert_eq!(rejected.value, "mine");
    assert_finished::<()>(Err(rejected.error), done);
    assert!(matches!(scope.find("late"), Err(Error::UnknownName { .. })));
    assert!(matches!(scope.destroy("late"), Err(Error::UnknownName { .. })));
    scope.cancel();
    assert_eq!((scope.clear(), scope.clear_anonymous(), scope.live_bytes()), (0, 0, 0));
    assert_eq!(scope.state(), ScopeState::Finished(done));
    before.assert_unchanged(&rig);
    assert_eq!(tensor.read().unwrap(), [1; 64]);
    assert_eq!(outer.finish_blocking().unwrap().outcome, done, "cancelling what is over cancels nobody");
    drop(tensor);
    assert_given_back(&rig.manager);
}

/// A handle whose entries were moved out finishes nothing and moves nothing more; the scope is at the new handle.
pub(super) fn moved_twice(bed: &Bed) {
    let rig = bed.open_with(untrimmed());
    let outer = rig.manager.scope("outer").unwrap();
    let scope = outer.scope("job").unwrap();
    let once = Count::default();
    scope.register(once.once("once")).unwrap();
    let moved = scope.move_out().unwrap();
    let answers = [
        scope.finish_blocking().map(drop),
        pollster::block_on(scope.finish()).map(drop),
        scope.move_out().map(drop),
    ];
    for answer in answers {
        let error = answer.unwrap_err();
        assert!(matches!(&error, Error::ScopeMoved { scope } if &**scope == "job"), "{error}");
        assert_names(&error, &["job"]);
    }
    assert_eq!((scope.state(), once.get()), (ScopeState::Open, 0));
    drop(scope);
    outer.finish_blocking().unwrap();
    assert_eq!((moved.state(), once.get()), (ScopeState::Open, 0));
    moved.finish_blocking().unwrap();
    assert_eq!(once.get(), 1);
    assert_given_back(&rig.manager);
}
