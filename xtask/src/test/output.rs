//! Makes the output of test programs easy to read while counting it: results in colour, nothing about programs
//! that have no tests.
//!
//! Not here: cargo's own output. It goes to the terminal as it is.

use super::counts::{self, Counts};
use crate::terminal::{green, red, yellow};

/// The filter. It sees every line once, in order.
#[derive(Default)]
pub struct Output {
    counts: Counts,
    /// Whether a blank line would stand beside another one.
    after_gap: bool,
}

impl Output {
    /// Takes a line and gives back how it is shown, if it is.
    pub fn take(&mut self, line: &str) -> Option<String> {
        let counts = counts::parse(line);
        if let Some(counts) = counts {
            self.counts += counts;
        }
        let empty = counts == Some(Counts::default()) || line == "running 0 tests";
        let gap = line.is_empty() && self.after_gap;
        if empty || gap {
            self.after_gap = true;
            return None;
        }
        self.after_gap = line.is_empty();
        Some(coloured(line))
    }

    /// The sums of all result lines.
    pub fn counts(&self) -> Counts {
        self.counts
    }
}

fn coloured(line: &str) -> String {
    if !line.starts_with("test ") {
        return line.to_owned();
    }
    match line.rsplit_once("... ") {
        Some((start, "ok")) => format!("{start}... {}", green("ok")),
        Some((start, "FAILED")) => format!("{start}... {}", red("FAILED")),
        Some((start, "ignored")) => format!("{start}... {}", yellow("ignored")),
        _ => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_without_tests_leave_no_trace() {
        let mut output = Output::default();
        let shown: Vec<String> = [
            "",
            "running 0 tests",
            "",
            "test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s",
            "",
            "",
            "running 1 test",
            "test a ... ok",
            "",
            "test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s",
        ]
        .iter()
        .filter_map(|line| output.take(line))
        .collect();
        let expected = [
            "",
            "running 1 test",
            "test a ... ok",
            "",
            "test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s",
        ];
        assert_eq!(shown, expected);
        assert_eq!(output.counts(), Counts { passed: 1, failed: 0, skipped: 0 });
    }

    #[test]
    fn a_program_whose_tests_were_all_filtered_out_but_failed_is_shown() {
        let line = "test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out";
        assert!(Output::default().take(line).is_some());
    }
}
