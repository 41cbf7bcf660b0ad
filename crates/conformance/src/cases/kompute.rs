//! Cases after Kompute's own tests: what its managers, sequences and tensors promise, with the right behaviour where it crashed.
//!
//! Not here: sequences in general (`sequences.rs`).

use crate::case::Case;

/// The cases of this topic.
pub const CASES: &[Case] = &[];
