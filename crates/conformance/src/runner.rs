//! The runner: selects cases, runs each on a fresh bed, and judges the result.
//!
//! Not here: what to expect of a backend (`expectations.rs`), and where results go (`report.rs`, `harness.rs`).

use std::time::Instant;

use crate::bed::{Bed, Listening};
use crate::case::Case;
use crate::events::{self, Recorded};
use crate::expectations::{Expectations, Verdict};
use crate::panics;
use crate::report::{CaseResult, Status};

/// Which cases to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Filter {
    /// Those whose id contains the text.
    Text(String),
    /// Those about a rule.
    Rule(String),
}

impl Filter {
    /// Reads a filter: `rule:L4`, or any text.
    pub fn parse(text: &str) -> Filter {
        match text.strip_prefix("rule:") {
            Some(rule) => Filter::Rule(rule.to_owned()),
            None => Filter::Text(text.to_owned()),
        }
    }

    /// Whether it selects the case.
    pub fn selects(&self, case: &Case) -> bool {
        match self {
            Filter::Text(text) => case.id.contains(text),
            Filter::Rule(rule) => case.rules.contains(&rule.as_str()),
        }
    }
}

/// A case, and what is to happen with it.
#[derive(Clone, Debug)]
pub struct Planned {
    /// The case.
    pub case: &'static Case,
    /// What its backend's expectations and the device make of it.
    pub verdict: Verdict,
}

/// Says what was found wrong since it was last asked, in words.
pub type Complaints = Box<dyn Fn() -> Vec<String> + Send + Sync>;

/// Counts the objects that the driver has for this process.
pub type Census = Box<dyn Fn() -> u64 + Send + Sync>;

/// Plans and runs cases on one backend.
pub struct Runner {
    bed: Bed,
    expectations: Expectations,
    complaints: Option<Complaints>,
    census: Option<Census>,
}

impl Runner {
    /// A runner for the backend of `bed`.
    pub fn new(bed: Bed, expectations: Expectations) -> Self {
        Runner { bed, expectations, complaints: None, census: None }
    }

    /// Asks `complaints` after each case; any fails it.
    pub fn with_complaints(mut self, complaints: Complaints) -> Self {
        self.complaints = Some(complaints);
        self
    }

    /// Counts before and after each case: what a case leaves with the driver fails it, unless a device was lost in it,
    /// whose objects are abandoned (L23).
    pub fn with_census(mut self, census: Census) -> Self {
        self.census = Some(census);
        self
    }

    /// The bed that it runs on.
    pub fn bed(&self) -> &Bed {
        &self.bed
    }

    /// What is to happen with each of these cases, in their order.
    pub fn plan(&self, cases: impl IntoIterator<Item = &'static Case>) -> Vec<Planned> {
        let facts = self.bed.facts();
        let plan = |case: &'static Case| Planned {
            case,
            verdict: self.expectations.verdict(case, case.missing(facts)),
        };
        cases.into_iter().map(plan).collect()
    }

    /// What is wrong with the expectations themselves, as failed results. `all` is every case that there is.
    pub fn check_expectations<'a>(&self, all: impl IntoIterator<Item = &'a Case> + Clone) -> Vec<CaseResult> {
        let problems = self.expectations.problems(all);
        problems
            .into_iter()
            .map(|(list, reason)| CaseResult {
                id: format!("expectations/{list}"),
                rule: String::new(),
                status: Status::Failed,
                reason: Some(reason),
                ms: 0.0,
            })
            .collect()
    }

    /// Runs one case, or says why not.
    pub fn run(&self, planned: &Planned) -> CaseResult {
        let Planned { case, verdict } = planned;
        let start = Instant::now();
        let (status, reason) = match verdict {
            Verdict::Skip(reason) => (Status::Skipped, Some(reason.clone())),
            Verdict::Refuse(reason) => (Status::Failed, Some(reason.clone())),
            Verdict::Run => match self.attempt(case) {
                Ok(()) => (Status::Passed, None),
                Err(reason) => (Status::Failed, Some(reason)),
            },
            Verdict::ExpectFailure(reason) => match self.attempt(case) {
                Ok(()) => {
                    let text = format!("passed, and was expected to fail ({reason}): take it off the list");
                    (Status::Failed, Some(text))
                }
                Err(failure) => (Status::ExpectedFailure, Some(format!("{reason}: {failure}"))),
            },
        };
        // To the microsecond: reports are read by people too.
        let ms = start.elapsed().as_micros() as f64 / 1000.0;
        CaseResult { id: case.id.to_owned(), rule: case.rule(), status, reason, ms }
    }

    /// Runs a lifecycle case and returns its contract events as they are kept in the snapshots; none for other cases.
    ///
    /// # Errors
    /// As the case's own failure.
    pub fn events_of(&self, case: &Case) -> Option<Result<String, String>> {
        Recorded::of(case)?;
        let bed = self.bed.fresh_and(Listening::On);
        let problems = live(&bed, case);
        if !problems.is_empty() {
            return Some(Err(problems.join("\n")));
        }
        Some(Ok(events::abridged(&bed.contract_events())))
    }

    /// Runs the case on a fresh bed. What it left behind counts as much as its own panic.
    fn attempt(&self, case: &Case) -> Result<(), String> {
        let recorded = Recorded::of(case);
        let bed = self.bed.fresh_and(if recorded.is_some() { Listening::On } else { Listening::Off });
        let before = self.census.as_ref().map(|count| count());
        let mut problems = live(&bed, case);
        let after = self.census.as_ref().map(|count| count());
        if bed.abandoned() == 0 && before != after {
            let (before, after) = (before.unwrap_or(0), after.unwrap_or(0));
            problems.push(format!(
                "L19: the driver had {before} objects before the case, and has {after} after it"
            ));
        }
        problems.extend(self.complaints.as_ref().map(|ask| ask()).unwrap_or_default());
        // Of a case that failed half-way the events say nothing.
        if problems.is_empty()
            && let Some(recorded) = recorded
        {
            problems.extend(recorded.difference(&bed.contract_events()));
        }
        if problems.is_empty() { Ok(()) } else { Err(problems.join("\n")) }
    }
}

/// Runs the case to the end of its managers, and says what is wrong: its own panic first, then what it left behind.
fn live(bed: &Bed, case: &Case) -> Vec<String> {
    let own = panics::catch(|| (case.run)(bed));
    if own.is_err() {
        bed.let_go();
    }
    own.err().into_iter().chain(bed.verify()).collect()
}

impl std::fmt::Debug for Runner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runner")
            .field("bed", &self.bed)
            .field("expectations", &self.expectations)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
