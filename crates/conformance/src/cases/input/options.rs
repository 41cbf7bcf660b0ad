//! Cases about options that contradict each other or the device (L16, L21).
//!
//! Not here: what options do when they are right.

use std::time::Duration;

use tenure_core::{Error, ManagerOptions, QueueId, ScopeOptions, TrimPolicy, hook};

use crate::bed::{Bed, Rig};
use crate::cases::ownership::support::{Count, Snapshot, assert_given_back, assert_names, untrimmed};
use crate::instrument::Limits;

#[track_caller]
fn assert_invalid(error: &Error, expected: &str) {
    match error {
        Error::InvalidOption { option, .. } => assert_eq!(*option, expected),
        other => panic!("`{expected}` cannot be: {other}"),
    }
    assert_names(error, &[expected]);
}

/// Deadlines without threads that could keep them, and marks in the wrong order: no manager is opened, and the error
/// names the option.
pub(super) fn options_that_contradict(bed: &Bed) {
    const SECOND: Duration = Duration::from_secs(1);
    let wrong = [
        (ManagerOptions::builder().threads(false).hook_deadline(SECOND).build(), "hook_deadline"),
        (ManagerOptions::builder().threads(false).finish_deadline(SECOND).build(), "finish_deadline"),
        (ManagerOptions::builder().threads(false).hook_deadline(Duration::ZERO).build(), "hook_deadline"),
        (ManagerOptions::builder().trim(TrimPolicy::Watermark { high: 1, low: 2 }).build(), "trim"),
        (ManagerOptions::builder().trim(TrimPolicy::Watermark { high: 0, low: u64::MAX }).build(), "trim"),
    ];
    for (options, name) in wrong {
        let answer = bed.try_open(Limits::default(), options);
        assert_invalid(&answer.expect_err("the options contradict each other"), name);
    }
    // Each of them alone is fine.
    let fine = [
        ManagerOptions::builder().hook_deadline(SECOND).finish_deadline(SECOND).build(),
        ManagerOptions::builder().threads(false).trim(TrimPolicy::Watermark { high: 2, low: 2 }).build(),
    ];
    for options in fine {
        let manager = bed.try_open(Limits::default(), options).unwrap().manager;
        assert!(manager.close().unwrap().is_clean());
    }
}

/// Scopes on queues that the device does not have, and deadlines where there are no threads: no scope is opened, a hook
/// is handed back, and what is there goes on.
pub(super) fn scope_options_that_cannot_be(bed: &Bed) {
    const SECOND: Duration = Duration::from_secs(1);
    let rig = bed.open_with(ManagerOptions::builder().threads(false).trim(TrimPolicy::Never).build());
    let scope = rig.manager.scope("parent").unwrap();
    let queues = rig.manager.capabilities().queues;
    let before = Snapshot::of(&rig);
    let wrong = [
        (ScopeOptions::builder().queue(QueueId(queues)).build(), "queue"),
        (ScopeOptions::builder().queue(QueueId(u32::MAX)).build(), "queue"),
        (ScopeOptions::builder().hook_deadline(SECOND).build(), "deadline"),
        (ScopeOptions::builder().finish_deadline(SECOND).build(), "deadline"),
    ];
    for (options, name) in wrong {
        assert_invalid(&rig.manager.scope_with(options.clone()).unwrap_err(), name);
        assert_invalid(&scope.scope_with(options).unwrap_err(), name);
    }
    let once = Count::default();
    let rejected = scope.register(once.once("late").deadline(SECOND)).unwrap_err();
    assert_invalid(&rejected.error, "deadline");
    assert_eq!((rejected.value.label(), once.get()), ("late", 0));
    before.assert_unchanged(&rig);
    scope.register(hook::once("in time", |_| Ok(()))).unwrap();
    let last = ScopeOptions::builder().queue(QueueId(queues - 1)).build();
    scope.scope_with(last).unwrap().finish_blocking().unwrap();
    let report = scope.finish_blocking().unwrap();
    assert_eq!((report.hooks.len(), report.hooks[0].runs), (1, 1));
    assert_given_back(&rig.manager);
    assert!(rig.manager.close().unwrap().is_clean());

    // With threads a hook may have a deadline of its own.
    let Rig { manager, .. } = bed.open_with(untrimmed());
    let scope = manager.scope("s").unwrap();
    scope.register(once.once("in time").deadline(Duration::from_secs(60))).unwrap();
    scope.finish_blocking().unwrap();
    assert_eq!(once.get(), 1);
    assert_given_back(&manager);
}
