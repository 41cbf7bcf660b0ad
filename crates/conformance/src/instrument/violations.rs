//! Violations: what was found wrong, in words, bounded.
//!
//! Not here: finding it (`checker.rs`, `submission.rs`, `shared.rs`).

/// Violations kept at most; the rest is counted.
const MAX_TEXTS: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Violations {
    texts: Vec<String>,
    more: u64,
}

impl Violations {
    /// Records one. Texts begin with the rule's number where one stands for it.
    pub(super) fn add(&mut self, text: impl Into<String>) {
        if self.texts.len() < MAX_TEXTS {
            self.texts.push(text.into());
        } else {
            self.more += 1;
        }
    }

    pub(super) fn texts(&self) -> Vec<String> {
        let more = (self.more > 0).then(|| format!("({} more violations)", self.more));
        self.texts.iter().cloned().chain(more).collect()
    }
}
