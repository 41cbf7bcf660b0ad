//! Cases about wrong input: sizes, shapes, ranges, foreign and stale handles. Every one is an error before any driver call (L3, L22).
//!
//! Not here: faults of the driver (`faults.rs`).

use crate::case::Case;

/// The cases of this topic.
pub const CASES: &[Case] = &[];
