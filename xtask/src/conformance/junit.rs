//! `--junit FILE`: the run as JUnit XML, for CI systems that show it.
//!
//! Not here: any rule of what counts as a failure. The records have it already.

use std::fmt::Write;

use super::protocol::{Case, Status};
use super::record::{Presence, Record};

/// The file's contents: one `testsuite` for each backend. An unavailable backend is a suite with one case,
/// skipped, or failed where it is in `required`.
pub fn render(records: &[Record], required: &[&str]) -> String {
    let suites: Vec<Suite<'_>> = records.iter().map(|record| Suite::of(record, required)).collect();
    let sum = |of: fn(&Suite<'_>) -> usize| suites.iter().map(of).sum::<usize>();
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let _ = writeln!(
        xml,
        "<testsuites name=\"conformance\" tests=\"{}\" failures=\"{}\" errors=\"0\" time=\"{:.3}\">",
        sum(|suite| suite.lines.len()),
        sum(|suite| suite.failures),
        suites.iter().map(|suite| suite.seconds).sum::<f64>(),
    );
    for suite in &suites {
        suite.write(&mut xml);
    }
    xml.push_str("</testsuites>\n");
    xml
}

struct Suite<'a> {
    name: String,
    backend: &'a str,
    seconds: f64,
    failures: usize,
    skips: usize,
    lines: Vec<Entry<'a>>,
}

struct Entry<'a> {
    id: &'a str,
    rule: &'a str,
    seconds: f64,
    result: Outcome<'a>,
}

enum Outcome<'a> {
    Passed,
    Failed(&'a str),
    Skipped(String),
}

impl<'a> Suite<'a> {
    fn of(record: &'a Record, required: &[&str]) -> Suite<'a> {
        let backend = record.backend.name;
        let name = match record.device() {
            Some(device) => format!("{backend} on {device} ({})", record.kind()),
            None => format!("{backend} ({})", record.kind()),
        };
        let mut lines: Vec<Entry<'a>> = record.cases.iter().map(Entry::of).collect();
        if let Presence::Unavailable(reason) = &record.presence {
            let result = if required.contains(&backend) {
                Outcome::Failed(reason)
            } else {
                Outcome::Skipped(format!("unavailable: {reason}"))
            };
            lines.push(Entry { id: "(available)", rule: "", seconds: 0.0, result });
        }
        Suite {
            name,
            backend,
            seconds: record.time.as_secs_f64(),
            failures: lines.iter().filter(|line| matches!(line.result, Outcome::Failed(_))).count(),
            skips: lines.iter().filter(|line| matches!(line.result, Outcome::Skipped(_))).count(),
            lines,
        }
    }

    fn write(&self, xml: &mut String) {
        let _ = writeln!(
            xml,
            "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"0\" skipped=\"{}\" time=\"{:.3}\">",
            escape(&self.name),
            self.lines.len(),
            self.failures,
            self.skips,
            self.seconds,
        );
        for line in &self.lines {
            line.write(self.backend, xml);
        }
        xml.push_str("  </testsuite>\n");
    }
}

impl<'a> Entry<'a> {
    fn of(case: &'a Case) -> Entry<'a> {
        let result = match case.status {
            Status::Passed => Outcome::Passed,
            Status::Failed => Outcome::Failed(case.reason()),
            Status::Skipped => Outcome::Skipped(case.reason().to_owned()),
            // JUnit has no word for it. A skip with the reason is the nearest: it is not a pass.
            Status::ExpectedFailure => Outcome::Skipped(format!("expected failure: {}", case.reason())),
        };
        Entry { id: &case.id, rule: &case.rule, seconds: case.ms.max(0.0) / 1e3, result }
    }

    fn write(&self, backend: &str, xml: &mut String) {
        let class =
            if self.rule.is_empty() { backend.to_owned() } else { format!("{backend}.{}", self.rule) };
        let _ = write!(
            xml,
            "    <testcase classname=\"{}\" name=\"{}\" time=\"{:.3}\"",
            escape(&class),
            escape(self.id),
            self.seconds,
        );
        match &self.result {
            Outcome::Passed => xml.push_str("/>\n"),
            Outcome::Failed(reason) => {
                let first = reason.lines().next().unwrap_or_default();
                let _ = writeln!(
                    xml,
                    "><failure message=\"{}\">{}</failure></testcase>",
                    escape(first),
                    escape(reason)
                );
            }
            Outcome::Skipped(reason) => {
                let _ = writeln!(xml, "><skipped message=\"{}\"/></testcase>", escape(reason));
            }
        }
    }
}

/// Text for an element or an attribute. Characters that XML 1.0 cannot carry at all are replaced.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\t' | '\r' | '\n' => {
                let _ = write!(escaped, "&#{};", character as u32);
            }
            '\0'..' ' | '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            other => escaped.push(other),
        }
    }
    escaped
}
