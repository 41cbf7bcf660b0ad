//! Cases about scopes: nesting, finishing, outcomes, abandoning, forgetting and moving out (L10, L16, L17).
//!
//! Not here: the order of what one scope holds (`stack.rs`) and hooks (`hooks.rs`).

use crate::case::Case;

/// The cases of this topic.
pub const CASES: &[Case] = &[];
