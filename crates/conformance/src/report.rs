//! Results as data: what a case came to, the report over backends, and the lines of the streaming protocol.
//!
//! The JSON names are a contract with `cargo xtask conformance` and with CI: change both sides or neither. Not here:
//! JUnit (`junit.rs`) and lines for people (`harness.rs`).

use serde::{Deserialize, Serialize};

/// How a case ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// All that it asserts holds, and it left nothing behind.
    Passed,
    /// Something does not hold, or an expectation is wrong.
    Failed,
    /// It did not run. Never a pass.
    Skipped,
    /// It failed as it was expected to.
    ExpectedFailure,
}

/// The result of one case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CaseResult {
    /// `topic/name`; `expectations/...` for what is wrong with the lists themselves.
    pub id: String,
    /// The rules that it is about, joined by commas.
    pub rule: String,
    /// How it ended.
    pub status: Status,
    /// Why, unless it passed.
    pub reason: Option<String>,
    /// How long it took, in milliseconds.
    pub ms: f64,
}

/// The report of a run over one or more backends.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// One entry a backend.
    pub backends: Vec<BackendReport>,
}

/// What a backend came to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BackendReport {
    /// The backend's name.
    pub name: String,
    /// The device, as its driver names it; none where it is unavailable.
    pub device: Option<String>,
    /// True for a device emulated on the CPU.
    pub software: bool,
    /// Whether the backend could be opened here.
    pub available: bool,
    /// Why not.
    pub reason: Option<String>,
    /// Cases that passed.
    pub passed: usize,
    /// Cases that failed.
    pub failed: usize,
    /// Cases that were skipped. Expected failures are in none of the three.
    pub skipped: usize,
    /// All results, in the order of the run.
    pub cases: Vec<CaseResult>,
}

/// One line of the streaming protocol: `--jsonl` prints one object a line, and nothing else on standard output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The backend is open, and the suite begins.
    Start {
        /// The backend's name.
        name: String,
        /// The device, as its driver names it.
        device: String,
        /// True for a device emulated on the CPU.
        software: bool,
        /// How many results will follow.
        total: usize,
    },
    /// A case begins. If the process dies, it died in this one.
    Running {
        /// Its id.
        id: String,
        /// The rules that it is about, joined by commas.
        rule: String,
    },
    /// A case ended, or did not run.
    Case(CaseResult),
    /// The suite ended.
    End {
        /// Cases that passed.
        passed: usize,
        /// Cases that failed.
        failed: usize,
        /// Cases that were skipped.
        skipped: usize,
    },
    /// The backend cannot be opened here; nothing follows.
    Unavailable {
        /// The backend's name.
        name: String,
        /// What is missing.
        reason: String,
    },
}

/// Who is told of events, as they happen.
pub trait Reporter {
    /// One event.
    fn event(&mut self, event: &Event);
}

impl Event {
    /// The event as one line, without its end.
    pub fn to_line(&self) -> String {
        // Plain data with text keys: there is nothing that could not be written.
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl Report {
    /// The report as JSON text.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }
}

/// A backend's report is a reporter: it grows with the events.
impl Reporter for BackendReport {
    fn event(&mut self, event: &Event) {
        match event {
            Event::Start { name, device, software, .. } => {
                self.name.clone_from(name);
                self.device = Some(device.clone());
                self.software = *software;
                self.available = true;
            }
            Event::Case(result) => {
                match result.status {
                    Status::Passed => self.passed += 1,
                    Status::Failed => self.failed += 1,
                    Status::Skipped => self.skipped += 1,
                    Status::ExpectedFailure => {}
                }
                self.cases.push(result.clone());
            }
            Event::Unavailable { name, reason } => {
                self.name.clone_from(name);
                self.reason = Some(reason.clone());
            }
            Event::Running { .. } | Event::End { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed() -> CaseResult {
        CaseResult {
            id: "loss/a".into(),
            rule: "L4,L23".into(),
            status: Status::Failed,
            reason: Some("it leaks".into()),
            ms: 1.5,
        }
    }

    #[test]
    fn lines_have_these_names() {
        let start = Event::Start { name: "host".into(), device: "CPU".into(), software: false, total: 2 };
        assert_eq!(
            start.to_line(),
            r#"{"event":"start","name":"host","device":"CPU","software":false,"total":2}"#
        );
        assert_eq!(
            Event::Case(failed()).to_line(),
            r#"{"event":"case","id":"loss/a","rule":"L4,L23","status":"failed","reason":"it leaks","ms":1.5}"#
        );
        assert_eq!(
            Event::End { passed: 1, failed: 2, skipped: 3 }.to_line(),
            r#"{"event":"end","passed":1,"failed":2,"skipped":3}"#
        );
        assert_eq!(
            Event::Unavailable { name: "cuda".into(), reason: "no driver".into() }.to_line(),
            r#"{"event":"unavailable","name":"cuda","reason":"no driver"}"#
        );
        assert_eq!(
            Event::Running { id: "loss/a".into(), rule: "L23".into() }.to_line(),
            r#"{"event":"running","id":"loss/a","rule":"L23"}"#
        );
    }

    #[test]
    fn a_report_adds_up_what_happened() {
        let mut report = BackendReport::default();
        report.event(&Event::Start { name: "host".into(), device: "CPU".into(), software: false, total: 3 });
        report.event(&Event::Case(failed()));
        report.event(&Event::Case(CaseResult { status: Status::Skipped, ..failed() }));
        report.event(&Event::Case(CaseResult { status: Status::ExpectedFailure, ..failed() }));
        assert_eq!((report.passed, report.failed, report.skipped, report.cases.len()), (0, 1, 1, 3));
        let json = Report { backends: vec![report.clone()] }.to_json();
        let back: Report = serde_json::from_str(&json).unwrap();
        assert_eq!(back.backends, [report]);
    }
}
