//! Events as lines for people.
//!
//! Not here: the table over several backends, which `cargo xtask conformance` prints.

use std::io::Write;

use crate::report::{Event, Reporter, Status};

/// Prints to standard output.
pub(crate) struct Human {
    expected_failures: usize,
}

impl Human {
    pub(crate) fn new() -> Self {
        Human { expected_failures: 0 }
    }

    fn line(&mut self, event: &Event) -> Option<String> {
        match event {
            Event::Start { name, device, software, total } => {
                let kind = if *software { ", a software device" } else { "" };
                Some(format!("{name}: {device}{kind}; {total} cases"))
            }
            // The result says it all; a case that hangs is named by the watchdog.
            Event::Running { .. } => None,
            Event::Case(result) => {
                let word = match result.status {
                    Status::Passed => "ok     ",
                    Status::Failed => "FAILED ",
                    Status::Skipped => "skipped",
                    Status::ExpectedFailure => {
                        self.expected_failures += 1;
                        "expected failure"
                    }
                };
                let reason = result.reason.as_deref().map(|reason| format!(": {}", indented(reason)));
                let rule = if result.rule.is_empty() { String::new() } else { format!(" [{}]", result.rule) };
                Some(format!("{word} {}{rule}{}", result.id, reason.unwrap_or_default()))
            }
            Event::End { passed, failed, skipped } => {
                let expected = match self.expected_failures {
                    0 => String::new(),
                    count => format!(", {count} expected failures"),
                };
                Some(format!("{passed} passed, {failed} failed, {skipped} skipped{expected}"))
            }
            Event::Unavailable { name, reason } => Some(format!("{name}: unavailable, {reason}")),
        }
    }
}

impl Reporter for Human {
    fn event(&mut self, event: &Event) {
        if let Some(line) = self.line(event) {
            // Who listened is gone: the exit code still tells.
            let _ = writeln!(std::io::stdout().lock(), "{line}");
        }
    }
}

/// Further lines of a reason stand under the first.
fn indented(text: &str) -> String {
    text.replace('\n', "\n        ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::CaseResult;

    #[test]
    fn reasons_and_counts_are_shown() {
        let mut human = Human::new();
        let result = CaseResult {
            id: "loss/a".into(),
            rule: "L23".into(),
            status: Status::ExpectedFailure,
            reason: Some("known\nmore".into()),
            ms: 1.0,
        };
        let line = human.line(&Event::Case(result)).unwrap();
        assert_eq!(line, "expected failure loss/a [L23]: known\n        more");
        let end = human.line(&Event::End { passed: 1, failed: 2, skipped: 3 }).unwrap();
        assert_eq!(end, "1 passed, 2 failed, 3 skipped, 1 expected failures");
    }
}
