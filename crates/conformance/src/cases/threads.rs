//! Cases about many threads on one manager: scopes, drops, allocation and closing at the same time (L15, L25).
//!
//! Not here: models of all interleavings, which are tests of core.

use crate::case::Case;

/// The cases of this topic.
pub const CASES: &[Case] = &[];
