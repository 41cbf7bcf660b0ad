//! Cases about sequences: states, names, recording, evaluating and evaluating again (L5, L7, L8, L9).
//!
//! Not here: what sequences of one scope have to do with its end (`scopes.rs`).

use std::time::Duration;

use tenure_core::{Error, SequenceState, op};

use crate::bed::Bed;
use crate::case::Case;

/// The cases of this topic.
pub const CASES: &[Case] = &[Case {
    id: "sequences/timeout_leaves_it_running",
    rules: &["L7"],
    requires: &[],
    run: timeout_leaves_it_running,
}];

/// A wait that times out changes nothing: the sequence runs on, and its result is right.
fn timeout_leaves_it_running(bed: &Bed) {
    let rig = bed.open();
    let scope = rig.manager.scope("timeouts").unwrap();
    let tensor = scope.tensor::<u32>(64).unwrap();
    let sequence = scope.named("fills").unwrap();
    sequence.record(op::fill(&tensor, 3)).unwrap();
    rig.probe.hold();
    let execution = sequence.evaluate().unwrap();
    let waited = execution.wait_timeout(Duration::from_millis(1));
    assert!(matches!(waited, Err(Error::TimedOut { .. })), "{waited:?}");
    assert_eq!(sequence.state(), SequenceState::Running);
    assert!(matches!(sequence.evaluate(), Err(Error::Busy { .. })));
    rig.probe.release_all();
    execution.wait().unwrap();
    assert_eq!(sequence.state(), SequenceState::Finished);
    assert_eq!(tensor.read().unwrap(), [3; 64]);
    scope.finish_blocking().unwrap();
}
