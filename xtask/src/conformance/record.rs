//! What is known of one backend after its run. All reports are made from it.
//!
//! Not here: how it was found out (`runner.rs`) and how it is shown (`summary.rs`, `json.rs`, `junit.rs`).

use std::time::Duration;

use super::protocol::{Case, Status};
use crate::backends::{Backend, Nature};

/// One backend's part in a run.
#[derive(Debug)]
pub struct Record {
    /// Its row in the table of backends.
    pub backend: &'static Backend,
    /// Whether it ran, and on what.
    pub presence: Presence,
    /// The results, in the order in which they came. A process that ended badly adds a failed one, so that no
    /// failure is outside this list.
    pub cases: Vec<Case>,
    /// From the start of the process to its end.
    pub time: Duration,
}

/// Whether a backend ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It said on what it runs.
    Present(Device),
    /// It said that it cannot run here, and why.
    Unavailable(String),
    /// It did not get as far as saying either; the failed case says why.
    Broken,
}

/// What a backend ran on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// As its driver names it.
    pub name: String,
    /// True for a device emulated on the CPU.
    pub software: bool,
}

/// How many cases ended how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// All that they assert holds.
    pub passed: usize,
    /// Not so.
    pub failed: usize,
    /// Did not run.
    pub skipped: usize,
    /// Failed as a known defect says.
    pub expected_failures: usize,
}

impl Record {
    /// The counts of all cases.
    pub fn tally(&self) -> Tally {
        Tally::of(&self.cases)
    }

    /// The device's name, if the backend ran.
    pub fn device(&self) -> Option<&str> {
        match &self.presence {
            Presence::Present(device) => Some(&device.name),
            Presence::Unavailable(_) | Presence::Broken => None,
        }
    }

    /// In words what kind of device it is: a green row on software never reads as a green row on hardware.
    pub fn kind(&self) -> &'static str {
        match (&self.presence, self.backend.nature) {
            (Presence::Present(_), Nature::Processor) => "CPU itself",
            (Presence::Present(Device { software: true, .. }), Nature::Device) => "software",
            (Presence::Present(Device { software: false, .. }), Nature::Device) => "hardware",
            (Presence::Unavailable(_), _) => "unavailable",
            (Presence::Broken, _) => "broken",
        }
    }

    /// The cases that ended in that way.
    pub fn cases_that(&self, status: Status) -> impl Iterator<Item = &Case> {
        self.cases.iter().filter(move |case| case.status == status)
    }
}

impl Tally {
    /// Counts.
    pub fn of<'a>(cases: impl IntoIterator<Item = &'a Case>) -> Tally {
        let mut tally = Tally::default();
        for case in cases {
            tally.count(case.status);
        }
        tally
    }

    /// Counts one more.
    pub fn count(&mut self, status: Status) {
        *match status {
            Status::Passed => &mut self.passed,
            Status::Failed => &mut self.failed,
            Status::Skipped => &mut self.skipped,
            Status::ExpectedFailure => &mut self.expected_failures,
        } += 1;
    }

    /// How many cases were counted.
    pub fn total(self) -> usize {
        self.passed + self.failed + self.skipped + self.expected_failures
    }
}
