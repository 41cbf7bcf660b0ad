//! Cases about graphs over device memory: nodes whose payloads hold tensors (L24, L25, L26).
//!
//! Not here: graphs that hold no tensors; those are tests of core.

use crate::case::Case;

/// The cases of this topic.
pub const CASES: &[Case] = &[];
