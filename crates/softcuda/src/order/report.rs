//! What was found wrong: counted, printed, kept to be asked for.
//!
//! Not here: finding it.

use std::collections::VecDeque;

use super::history::{Conflict, ConflictKind};

/// How many texts are kept until somebody takes them; older ones go first.
const KEPT: usize = 256;

/// How many texts are printed. A loop that goes wrong says the same thing again and again.
const PRINTED: u64 = 64;

/// All that was found wrong so far.
#[derive(Debug, Default)]
pub struct Report {
    found: u64,
    texts: VecDeque<String>,
    quiet: bool,
}

impl Report {
    /// Nothing found. A quiet report prints nothing.
    pub fn new(quiet: bool) -> Report {
        Report { quiet, ..Report::default() }
    }

    /// How many there were.
    pub fn found(&self) -> u64 {
        self.found
    }

    /// Adds a violation.
    pub fn add(&mut self, text: String) {
        self.found += 1;
        let text = format!("softcuda: violation {}: {text}", self.found);
        if !self.quiet && self.found <= PRINTED {
            eprintln!("{text}");
        }
        if !self.quiet && self.found == PRINTED + 1 {
            eprintln!("softcuda: more violations are counted, not printed");
        }
        if self.texts.len() == KEPT {
            self.texts.pop_front();
        }
        self.texts.push_back(text);
    }

    /// The bytes of the text that `take` would give.
    pub fn length(&self) -> usize {
        self.texts.iter().map(|text| text.len() + 1).sum::<usize>().saturating_sub(1)
    }

    /// Hands the texts over, one after the other, and forgets them. The count stays.
    pub fn take(&mut self) -> String {
        let texts: Vec<String> = self.texts.drain(..).collect();
        texts.join("\n")
    }
}

/// A conflict on an allocation in words: what, where, and how to order the two.
pub fn in_words(conflict: &Conflict, allocation: &str) -> String {
    let (what, first, second, how) = match conflict.kind {
        ConflictKind::WriteWrite => ("two writes in no order", "one", "other", EVENT),
        ConflictKind::ReadWrite => ("a read and a write in no order", "one", "other", EVENT),
        ConflictKind::BeforeAllocation => {
            ("use outside of the allocation's order", "allocated by", "used by", EVENT)
        }
        ConflictKind::FreedInUse => ("freed while in use", "used by", "freed by", EVENT),
        ConflictKind::UseAfterFree => ("use after free", "freed by", "used by", "use it before it is freed"),
    };
    let (start, end) = conflict.bytes;
    let bytes = if start < end { format!(", bytes {start}..{end}") } else { String::new() };
    format!(
        "{what}\n  where: {allocation}{bytes}\n  {first}: {}\n  {second}: {}\n  mend: {how}",
        conflict.first, conflict.second
    )
}

const EVENT: &str = "record an event after the first (cuEventRecord) and let the second's stream wait for it \
    (cuStreamWaitEvent), or wait on the host in between";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_taken_once_and_counted_for_ever() {
        let mut report = Report::new(true);
        for number in 0..300 {
            report.add(format!("fault {number}"));
        }
        assert_eq!(report.found(), 300);
        let text = report.take();
        assert_eq!(text.lines().count(), KEPT);
        assert!(text.ends_with("violation 300: fault 299"), "{text}");
        assert_eq!((report.take(), report.found()), (String::new(), 300));
    }
}
