//! Cases about the stack of a scope: what others know of disposable stacks and exit stacks, restated for scopes (L10,
//! L13, L16, L17).
//!
//! The behaviours come from the tests of ECMAScript's `DisposableStack`, `AsyncDisposableStack` and `using`, and of
//! Python's `ExitStack`; each case names its source. To `use` and `adopt` is to adopt or to open a child, to `defer`
//! is to register. tenure differs on purpose in three things: the earliest error is the primary one, a second finish
//! at the same time awaits the same outcome, and a finish after the end is an error. Not here: what else scopes do
//! (`scopes/`).

mod entries;
mod errors;
mod moving;
mod state;

use super::hooks::support::{count, joined};
use crate::case::Case;

const PARTS: &[&[Case]] = &[entries::CASES, state::CASES, errors::CASES, moving::CASES];

const COUNT: usize = count(PARTS);

/// The cases of this topic.
pub const CASES: &[Case] = &joined::<COUNT>(PARTS);
