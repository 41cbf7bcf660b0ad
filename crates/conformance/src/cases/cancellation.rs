//! Cases about cancelling: scopes, futures that are dropped, deadlines (L16, L18).
//!
//! Not here: a device that is lost (`loss.rs`).

use crate::case::Case;

/// The cases of this topic.
pub const CASES: &[Case] = &[];
