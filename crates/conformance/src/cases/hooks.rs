//! Cases about cleanup hooks: periods, keys, classes, errors, panics, and what they may do (L11 to L16).
//!
//! Not here: the order among other entries of the stack (`stack.rs`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tenure_core::{hook, op};

use crate::bed::Bed;
use crate::case::Case;

/// The cases of this topic.
pub const CASES: &[Case] = &[Case {
    id: "hooks/each_runs_once_an_execution",
    rules: &["L11"],
    requires: &[],
    run: each_runs_once_an_execution,
}];

/// An execution hook runs once for each execution, a scope hook once for the scope.
fn each_runs_once_an_execution(bed: &Bed) {
    let manager = bed.open().manager;
    let scope = manager.scope("counts").unwrap();
    let tensor = scope.tensor::<u32>(16).unwrap();
    let executions = Arc::new(AtomicU32::new(0));
    let finishes = Arc::new(AtomicU32::new(0));
    let (each, once) = (executions.clone(), finishes.clone());
    scope
        .register(hook::each("each", move |_| {
            each.fetch_add(1, Ordering::SeqCst);
            Ok(())
        }))
        .unwrap();
    scope
        .register(hook::once("once", move |_| {
            once.fetch_add(1, Ordering::SeqCst);
            Ok(())
        }))
        .unwrap();
    for value in 0..3 {
        scope.evaluate([op::fill(&tensor, value)]).unwrap().wait().unwrap();
    }
    let report = scope.finish_blocking().unwrap();
    assert_eq!((executions.load(Ordering::SeqCst), finishes.load(Ordering::SeqCst)), (3, 1));
    assert_eq!(report.executions, 3);
}
