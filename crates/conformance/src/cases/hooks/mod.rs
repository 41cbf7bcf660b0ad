//! Cases about cleanup hooks: periods, keys, classes, errors, panics, deadlines, and what they may do (L11 to L18).
//!
//! Not here: the order among other entries of the stack (`stack/`), and how scopes end (`scopes/`).

mod calls;
mod captures;
mod deadlines;
mod errors;
mod finishes;
mod futures;
mod gadgets;
mod handover;
mod inside;
mod late;
mod locks;
mod panics;
mod periods;
mod serving;
pub(super) mod support;
mod waiting;

use self::support::{count, joined};
use crate::case::Case;

const PARTS: &[&[Case]] = &[
    periods::CASES,
    errors::CASES,
    panics::CASES,
    captures::CASES,
    inside::CASES,
    waiting::CASES,
    serving::CASES,
    futures::CASES,
    finishes::CASES,
    deadlines::CASES,
    late::CASES,
    handover::CASES,
    locks::CASES,
];

const COUNT: usize = count(PARTS);

/// The cases of this topic.
pub const CASES: &[Case] = &joined::<COUNT>(PARTS);
