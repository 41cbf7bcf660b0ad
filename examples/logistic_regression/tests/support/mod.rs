//! What the tests of the training share: a run on a backend, and how near results have to be.
//!
//! Not here: tests.

use logistic_regression::model::Samples;
use logistic_regression::training::{Trained, Training, train};
use tenure::ScopeReport;

/// How far parameters and losses may be off after some thousand steps. A step of descent has errors of single precision,
/// some 1e-7 on the host; WGSL allows an exponential to be off by a few 1e-6 of its value.
pub const TOLERANCE: f64 = 1e-4;

/// Asserts that a value is within [`TOLERANCE`] of what it should be.
#[track_caller]
pub fn assert_near(what: &str, actual: f32, expected: f64) {
    let error = (f64::from(actual) - expected).abs();
    assert!(error <= TOLERANCE, "{what} is {actual} instead of {expected}: off by {error:e}");
}

/// Trains on a backend, and sees that everything was given back.
pub fn trained(backend: &str, samples: &Samples, training: Training) -> (Trained, ScopeReport) {
    let manager = tenure::open(backend).unwrap();
    let ended = manager.run("training", |scope| train(scope, samples, training, |_| ()));
    let ended = ended.unwrap_or_else(|error| panic!("{error}"));
    let memory = manager.memory();
    assert_eq!((memory.live.bytes, memory.retired.bytes, memory.cached.bytes), (0, 0, 0));
    let closed = manager.close().unwrap();
    assert!(closed.is_clean(), "{closed}");
    assert_eq!(closed.memory.allocations, closed.memory.frees);
    ended
}
