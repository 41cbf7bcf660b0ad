//! Cases about many threads on one manager (L1, L2, L4, L6, L7, L8, L10, L15, L16, L19).
//!
//! Each case is a race of real threads: whoever comes first, what each call answers and what is left has to be right. Not
//! here: interleavings one by one, which are modelled in core's own tests, and cancelling (`cancellation/`).

mod racing;
mod random;
mod scopes;
mod working;

use super::hooks::support::{count, joined};
use crate::case::Case;

const PARTS: &[&[Case]] = &[working::CASES, racing::CASES, scopes::CASES, random::CASES];

const COUNT: usize = count(PARTS);

/// The cases of this topic.
pub const CASES: &[Case] = &joined::<COUNT>(PARTS);
