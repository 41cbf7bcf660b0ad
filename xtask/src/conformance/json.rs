//! `--json FILE`: the run as data.
//!
//! Not here: the lines that a conformance process prints (`protocol.rs`).

use serde::Serialize;

use super::protocol::Case;
use super::record::{Presence, Record};

/// The file's contents: one object with the backends in the order of the run.
pub fn render(records: &[Record]) -> String {
    let run = Run { backends: records.iter().map(Entry::of).collect() };
    // Plain data with text keys: there is nothing that could not be written.
    let mut text = serde_json::to_string_pretty(&run).unwrap_or_default();
    text.push('\n');
    text
}

#[derive(Serialize)]
struct Run<'a> {
    backends: Vec<Entry<'a>>,
}

#[derive(Serialize)]
struct Entry<'a> {
    name: &'a str,
    device: Option<&'a str>,
    software: bool,
    available: bool,
    reason: Option<&'a str>,
    passed: usize,
    failed: usize,
    skipped: usize,
    cases: &'a [Case],
}

impl<'a> Entry<'a> {
    fn of(record: &'a Record) -> Entry<'a> {
        let tally = record.tally();
        let (software, reason) = match &record.presence {
            Presence::Present(device) => (device.software, None),
            Presence::Unavailable(reason) => (false, Some(reason.as_str())),
            Presence::Broken => (false, record.cases.first().and_then(|case| case.reason.as_deref())),
        };
        Entry {
            name: record.backend.name,
            device: record.device(),
            software,
            available: matches!(record.presence, Presence::Present(_)),
            reason,
            passed: tally.passed,
            failed: tally.failed,
            skipped: tally.skipped,
            cases: &record.cases,
        }
    }
}
