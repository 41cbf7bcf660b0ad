//! The log: one line a call, while it is switched on, bounded.
//!
//! A line is written before the call reaches the inner backend, so that lines are in the order of calls; what
//! failed gets a second line. Not here: the events of the contract, which core has itself (L27).

use std::collections::VecDeque;

/// Lines kept at most; older ones are dropped.
const MAX_LINES: usize = 4096;

#[derive(Debug, Default)]
pub(super) struct CallLog {
    lines: VecDeque<String>,
    /// Lines that were dropped.
    dropped: u64,
}

impl CallLog {
    pub(super) fn push(&mut self, line: String) {
        if self.lines.len() == MAX_LINES {
            self.lines.pop_front();
            self.dropped += 1;
        }
        self.lines.push_back(line);
    }

    pub(super) fn lines(&self) -> Vec<String> {
        let dropped = (self.dropped > 0).then(|| format!("({} earlier lines were dropped)", self.dropped));
        dropped.into_iter().chain(self.lines.iter().cloned()).collect()
    }

    pub(super) fn clear(&mut self) {
        self.lines.clear();
        self.dropped = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_bounded_and_says_what_it_dropped() {
        let mut log = CallLog::default();
        for line in 0..MAX_LINES + 2 {
            log.push(line.to_string());
        }
        let lines = log.lines();
        assert_eq!(lines.len(), MAX_LINES + 1);
        assert_eq!(lines[0], "(2 earlier lines were dropped)");
        assert_eq!(lines[1], "2");
    }
}
