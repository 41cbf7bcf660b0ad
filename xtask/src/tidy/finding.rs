//! What a check found and where.
//!
//! Not here: the checks.

use std::fmt;

/// A place that breaks a rule, or comes near it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// From the root of the repository, with `/`.
    pub path: String,
    /// The first line is 1.
    pub line: usize,
    /// The name of the check.
    pub check: &'static str,
    /// What is wrong.
    pub text: String,
    /// Whether it fails the run.
    pub weight: Weight,
}

/// Whether a finding fails the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// It does.
    Error,
    /// It is only shown.
    Warning,
}

impl Finding {
    /// A finding that fails the run.
    pub fn error(
        check: &'static str,
        path: impl Into<String>,
        line: usize,
        text: impl Into<String>,
    ) -> Finding {
        Finding { path: path.into(), line, check, text: text.into(), weight: Weight::Error }
    }

    /// A finding that is only shown.
    pub fn warning(
        check: &'static str,
        path: impl Into<String>,
        line: usize,
        text: impl Into<String>,
    ) -> Finding {
        Finding { weight: Weight::Warning, ..Finding::error(check, path, line, text) }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {} [{}]", self.path, self.line, self.text, self.check)
    }
}
