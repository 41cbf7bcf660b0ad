//! The lines that a conformance process prints: one JSON object a line, as the conformance package's
//! `report.rs` writes them.
//!
//! Not here: what the lines add up to (`runner.rs`).

use serde::{Deserialize, Serialize};

/// One line.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The backend is open and the suite begins.
    Start {
        /// The backend's name.
        name: String,
        /// The device, as its driver names it.
        device: String,
        /// True for a device emulated on the CPU.
        software: bool,
        /// How many cases will be reported.
        total: usize,
    },
    /// A case begins.
    Running {
        /// Its id.
        id: String,
        /// The rules that it cites, joined by commas.
        #[serde(default)]
        rule: String,
    },
    /// A case ended.
    Case(Case),
    /// The suite ended.
    End {
        /// Cases that passed.
        passed: usize,
        /// Cases that failed.
        failed: usize,
        /// Cases that were skipped.
        skipped: usize,
    },
    /// The backend cannot run on this machine; nothing follows.
    Unavailable {
        /// What is missing.
        reason: String,
    },
    /// A line of a newer suite, which says nothing that a verdict depends on.
    #[serde(other)]
    Other,
}

/// The result of one case.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Case {
    /// Unique in the suite.
    pub id: String,
    /// The rules that it cites, joined by commas.
    pub rule: String,
    /// How it ended.
    pub status: Status,
    /// Why it failed or was skipped.
    #[serde(default)]
    pub reason: Option<String>,
    /// How long it took.
    #[serde(default)]
    pub ms: f64,
}

/// How a case ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// All that it asserts holds.
    Passed,
    /// Something that it asserts does not hold.
    Failed,
    /// It did not run, for a reason.
    Skipped,
    /// It failed as a known defect says that it does.
    ExpectedFailure,
}

impl Case {
    /// The rules that the case cites, one by one.
    pub fn rules(&self) -> impl Iterator<Item = &str> {
        self.rule.split(',').map(str::trim).filter(|rule| !rule.is_empty())
    }

    /// The reason, or an empty text.
    pub fn reason(&self) -> &str {
        self.reason.as_deref().unwrap_or_default()
    }
}

/// Reads one line. `None` for what is no event: other output of the process.
pub fn parse(line: &str) -> Option<Event> {
    serde_json::from_str(line.trim()).ok()
}
