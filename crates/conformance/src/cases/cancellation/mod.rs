//! Cases about ending early: cancelled scopes, dropped futures, deadlines of a finish (L16, L17, L18).
//!
//! Not here: hooks that outlive a deadline (`hooks/`), and what a dropped scope does (`scopes/`).

mod cancelling;
mod ffi;
mod futures;
mod racing;
mod wakers;

use super::hooks::support::{count, joined};
use crate::case::Case;

const PARTS: &[&[Case]] = &[cancelling::CASES, racing::CASES, futures::CASES, wakers::CASES];

const COUNT: usize = count(PARTS);

/// The cases of this topic.
pub const CASES: &[Case] = &joined::<COUNT>(PARTS);
