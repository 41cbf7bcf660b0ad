//! Cases about scopes: finishing, outcomes, nesting, abandoning, forgetting and moving out (L10, L16, L17, L21).
//!
//! Not here: the order of what one scope holds (`stack/`), hooks (`hooks/`) and cancelling (`cancellation.rs`).

mod ending;
mod finishing;
mod moving;
mod nesting;
mod orphans;
mod refusing;
mod reports;
mod running;
mod threadless;

use super::hooks::support::{count, joined};
use crate::case::Case;

const PARTS: &[&[Case]] = &[
    finishing::CASES,
    refusing::CASES,
    reports::CASES,
    running::CASES,
    ending::CASES,
    nesting::CASES,
    moving::CASES,
    threadless::CASES,
    orphans::CASES,
];

const COUNT: usize = count(PARTS);

/// The cases of this topic.
pub const CASES: &[Case] = &joined::<COUNT>(PARTS);
