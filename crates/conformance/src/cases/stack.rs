//! Cases about the stack of a scope: reverse order, exactly once, adopting, moving, errors that follow each other (L10, L13). They restate what test262 asks of `DisposableStack` and CPython of `ExitStack`, with our differences: the earliest error is primary.
//!
//! Not here: the outcome of the scope as a whole (`scopes.rs`).

use crate::case::Case;

/// The cases of this topic.
pub const CASES: &[Case] = &[];
