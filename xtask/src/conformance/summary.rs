//! What a run ends with: the table of rules by backends, the totals, and the reasons behind every result that
//! is not a plain pass.
//!
//! Not here: files (`json.rs`, `junit.rs`).

use std::fmt::Write;

use super::protocol::{Case, Status};
use super::record::{Presence, Record, Tally};
use crate::rules::{self, RULES};
use crate::terminal::{bold, indented, red, seconds, table, yellow};

/// The whole summary, ready to print.
pub fn render(records: &[Record], required: &[&str]) -> String {
    let mut text = String::new();
    if records.iter().any(|record| !record.cases.is_empty()) {
        let _ = writeln!(text, "\n{}", rules_by_backends(records));
        text.push_str(
            "A case that cites several rules counts in the row of each. The totals count it once.\n",
        );
    }
    let _ = writeln!(text, "\n{}", totals(records));
    section(&mut text, records, Status::Skipped, &yellow("skipped"));
    section(&mut text, records, Status::ExpectedFailure, &yellow("failed as expected"));
    section(&mut text, records, Status::Failed, &red("FAILED"));
    unavailable(&mut text, records, required);
    text
}

/// Rows are the contract's rules, columns the backends that ran.
fn rules_by_backends(records: &[Record]) -> String {
    let ran: Vec<&Record> = records.iter().filter(|record| !record.cases.is_empty()).collect();
    let mut header = vec!["rule".to_owned(), String::new()];
    header.extend(ran.iter().map(|record| {
        let mut lines = vec![record.backend.name];
        lines.extend(record.device());
        lines.push(record.kind());
        lines.join("\n")
    }));
    let mut table = table(header.iter().map(String::as_str));
    for rule in &RULES {
        let mut row = vec![rule.id.to_owned(), rule.title.to_owned()];
        row.extend(ran.iter().map(|record| cell(record.cases.iter().filter(|case| cites(case, rule.id)))));
        table.add_row(row);
    }
    // Failures of the process itself, and numbers that the contract does not have, must not get lost.
    if ran.iter().any(|record| record.cases.iter().any(is_homeless)) {
        let mut row = vec!["-".to_owned(), "no rule".to_owned()];
        row.extend(ran.iter().map(|record| cell(record.cases.iter().filter(|case| is_homeless(case)))));
        table.add_row(row);
    }
    table.to_string()
}

fn totals(records: &[Record]) -> String {
    let mut table = table(["backend", "device", "kind", "passed", "failed", "skipped", "time"]);
    for record in records {
        let tally = record.tally();
        let skipped = match tally.expected_failures {
            0 => tally.skipped.to_string(),
            more => format!("{}, and {more} failed as expected", tally.skipped),
        };
        table.add_row([
            record.backend.name.to_owned(),
            record.device().unwrap_or("-").to_owned(),
            record.kind().to_owned(),
            tally.passed.to_string(),
            tally.failed.to_string(),
            skipped,
            seconds(record.time),
        ]);
    }
    table.to_string()
}

/// `12 ok`, `1 FAILED of 12`, `10 ok, 2 skipped`, or `-` where no case cites the rule.
fn cell<'a>(cases: impl Iterator<Item = &'a Case>) -> String {
    let tally = Tally::of(cases);
    if tally.failed > 0 {
        return format!("{} FAILED of {}", tally.failed, tally.total());
    }
    let parts =
        [(tally.passed, "ok"), (tally.skipped, "skipped"), (tally.expected_failures, "failed as expected")];
    let parts: Vec<_> =
        parts.iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!("{count} {word}")).collect();
    if parts.is_empty() { "-".to_owned() } else { parts.join(", ") }
}

fn cites(case: &Case, id: &str) -> bool {
    case.rules().any(|rule| rule == id)
}

fn is_homeless(case: &Case) -> bool {
    !case.rules().any(|rule| rules::index_of(rule).is_some())
}

/// All cases of one status with their reasons.
fn section(text: &mut String, records: &[Record], status: Status, heading: &str) {
    if records.iter().all(|record| record.cases_that(status).next().is_none()) {
        return;
    }
    let _ = writeln!(text, "\n{}", bold(heading));
    for record in records {
        for case in record.cases_that(status) {
            let rule = if case.rule.is_empty() { String::new() } else { format!(" [{}]", case.rule) };
            let _ = writeln!(text, "  {}: {}{rule}", record.backend.name, case.id);
            let reason = if case.reason().is_empty() { "no reason given" } else { case.reason() };
            text.push_str(&indented(reason, 6));
        }
    }
}

fn unavailable(text: &mut String, records: &[Record], required: &[&str]) {
    let mut heading = Some(format!("\n{}\n", bold(&yellow("unavailable"))));
    for record in records {
        if let Presence::Unavailable(reason) = &record.presence {
            text.push_str(&heading.take().unwrap_or_default());
            let name = record.backend.name;
            let note = if required.contains(&name) { red(" (required)") } else { String::new() };
            let _ = writeln!(text, "  {name}{note}");
            text.push_str(&indented(reason, 6));
            text.push_str(&indented(&format!("needs: {}", record.backend.needs), 6));
            text.push_str(&indented(&format!("fix: {}", record.backend.fix), 6));
        }
    }
}
