//! Cases from public reports of users of other frameworks, restated: symptom, cause, and the right behaviour. Each names its report.
//!
//! Not here: reports that fit another topic and stand there.

use crate::case::Case;

/// The cases of this topic.
pub const CASES: &[Case] = &[];
