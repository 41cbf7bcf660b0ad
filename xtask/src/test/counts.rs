//! Reads the counts out of what test programs print, the standard harness and those that print like it.
//!
//! Not here: conformance runs, which have counts of their own.

use std::ops::AddAssign;

/// How many tests ended how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Passed.
    pub passed: usize,
    /// Failed.
    pub failed: usize,
    /// Did not run.
    pub skipped: usize,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

/// Reads `test result: ok. 3 passed; 0 failed; 1 ignored; ...`. `None` for any other line.
pub fn parse(line: &str) -> Option<Counts> {
    let line = plain(line);
    let (_, parts) = line.trim().strip_prefix("test result: ")?.split_once(". ")?;
    let number = |word: &str| {
        parts.split(';').find_map(|part| part.trim().strip_suffix(word)?.trim().parse::<usize>().ok())
    };
    Some(Counts { passed: number("passed")?, failed: number("failed")?, skipped: number("ignored")? })
}

/// Without the escape sequences that colour it.
fn plain(line: &str) -> String {
    let mut plain = String::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once('\u{1b}') {
        plain.push_str(before);
        rest = after.split_once(|c: char| c.is_ascii_alphabetic()).map_or("", |(_, rest)| rest);
    }
    plain + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_lines_are_read() {
        let counts = Counts { passed: 12, failed: 3, skipped: 1 };
        for line in [
            "test result: FAILED. 12 passed; 3 failed; 1 ignored; 0 measured; 7 filtered out; finished in 0.01s",
            "test result: FAILED. 12 passed; 3 failed; 1 ignored; 0 measured; 7 filtered out",
            "test result: \u{1b}[31mFAILED\u{1b}(B\u{1b}[m. 12 passed; 3 failed; 1 ignored; 0 measured; 7 filtered out",
        ] {
            assert_eq!(parse(line), Some(counts), "{line}");
        }
    }

    #[test]
    fn other_lines_are_not() {
        for line in
            ["", "running 3 tests", "test a::b ... ok", "test result: ok", "12 passed; 3 failed; 1 ignored"]
        {
            assert_eq!(parse(line), None, "{line}");
        }
    }

    #[test]
    fn counts_add_up() {
        let mut sum = Counts { passed: 1, failed: 2, skipped: 3 };
        sum += Counts { passed: 10, failed: 20, skipped: 30 };
        assert_eq!(sum, Counts { passed: 11, failed: 22, skipped: 33 });
    }
}
