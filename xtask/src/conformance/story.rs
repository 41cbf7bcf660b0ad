//! Turns what a conformance process prints, and how it ends, into a [`Record`].
//!
//! A process that dies is a failure of the case that was running. What it claims at its end is checked against
//! what it reported, so that no case can get lost and no bad end can look like a good one.
//! Not here: the process itself (`runner.rs`).

use std::collections::VecDeque;
use std::process::ExitStatus;
use std::time::Duration;

use super::protocol::{self, Case, Event, Status};
use super::record::{Device, Presence, Record, Tally};
use super::runner::Observer;
use crate::backends::Backend;
use crate::terminal::{counted, indented};

/// How many lines of a dead process are shown.
const TAIL: usize = 30;

/// The id of a failure that belongs to no case.
const PROCESS: &str = "(process)";

/// How a process ended.
#[derive(Debug)]
pub enum Ending {
    /// By itself, or by a signal.
    Exited(ExitStatus),
    /// We ended it, for it said nothing for that long.
    Silent(Duration),
}

/// What was heard so far.
pub struct Story {
    backend: &'static Backend,
    stage: Stage,
    cases: Vec<Case>,
    /// Id and rules of the case that began and has not ended.
    running: Option<(String, String)>,
    /// The last lines that are no events.
    tail: VecDeque<String>,
}

/// Where the process is in its protocol.
#[derive(Debug)]
enum Stage {
    Silent,
    Started { device: Device, total: usize },
    Ended { device: Device, total: usize, claimed: Claim },
    Unavailable(String),
}

/// What the process said at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Claim {
    passed: usize,
    failed: usize,
    skipped: usize,
}

impl Story {
    /// Nothing was heard yet.
    pub fn new(backend: &'static Backend) -> Story {
        Story { backend, stage: Stage::Silent, cases: Vec::new(), running: None, tail: VecDeque::new() }
    }

    /// A line of the output stream.
    pub fn hear(&mut self, line: &str, observer: &mut dyn Observer) {
        let Some(event) = protocol::parse(line) else {
            self.remember(line.to_owned());
            return;
        };
        match event {
            Event::Start { name, device, software, total } => {
                let device = Device { name: device, software };
                observer.started(&device, total);
                self.stage = Stage::Started { device, total };
                if name != self.backend.name {
                    // Its results would stand in another backend's column.
                    self.fail(
                        PROCESS,
                        "",
                        format!("asked for `{}`, it ran `{name}`", self.backend.name),
                        observer,
                    );
                }
            }
            Event::Running { id, rule } => {
                observer.running(&id);
                self.running = Some((id, rule));
            }
            Event::Case(case) => {
                self.running = None;
                observer.ended(&case);
                self.cases.push(case);
            }
            Event::End { passed, failed, skipped } => {
                if let Stage::Started { device, total } = std::mem::replace(&mut self.stage, Stage::Silent) {
                    self.stage = Stage::Ended { device, total, claimed: Claim { passed, failed, skipped } };
                }
            }
            Event::Unavailable { reason } => self.stage = Stage::Unavailable(reason),
            Event::Other => {}
        }
    }

    /// A line that is no event, kept for the case that the process dies.
    pub fn remember(&mut self, line: String) {
        if self.tail.len() == TAIL {
            self.tail.pop_front();
        }
        self.tail.push_back(line);
    }

    /// Compares how the process ended with what it said before.
    pub fn close(&mut self, ending: &Ending, observer: &mut dyn Observer) {
        match (&self.stage, ending) {
            (_, Ending::Silent(patience)) => {
                let what = format!("it said nothing for {} s and was ended", patience.as_secs());
                self.fail_running(&what, observer);
            }
            (Stage::Silent | Stage::Started { .. }, Ending::Exited(status)) => {
                self.fail_running(&format!("it ended before the suite did ({status})"), observer);
            }
            (Stage::Ended { total, claimed, .. }, Ending::Exited(status)) => {
                if let Some(complaint) = complaint(*total, *claimed, Tally::of(&self.cases), *status) {
                    let complaint = self.with_tail(&complaint);
                    self.fail(PROCESS, "", complaint, observer);
                }
            }
            // The exit status of an unavailable backend says nothing more.
            (Stage::Unavailable(_), Ending::Exited(_)) => {}
        }
    }

    /// Blames the case that was running, if one was.
    fn fail_running(&mut self, what: &str, observer: &mut dyn Observer) {
        let running = self.running.take();
        let when = match (&running, self.cases.last()) {
            (Some(_), _) => "while this case ran".to_owned(),
            (None, Some(last)) => format!("after `{}`", last.id),
            (None, None) => "before its first case".to_owned(),
        };
        let mut reason = format!("the process died {when}: {what}");
        if let Stage::Started { total, .. } = self.stage {
            let reported = self.cases.len() + usize::from(running.is_some());
            let lost = total.saturating_sub(reported);
            if lost > 0 {
                reason.push_str(&format!("\n{} of {total} did not run", counted(lost, "case")));
            }
        }
        let (id, rule) = running.unwrap_or_else(|| (PROCESS.to_owned(), String::new()));
        let reason = self.with_tail(&reason);
        self.fail(&id, &rule, reason, observer);
    }

    fn with_tail(&self, reason: &str) -> String {
        if self.tail.is_empty() {
            return format!("{reason}\nit printed nothing else");
        }
        let tail: String = self.tail.iter().map(|line| format!("{line}\n")).collect();
        let lines = counted(self.tail.len(), "line");
        format!("{reason}\nits last {lines}:\n{}", indented(&tail, 2).trim_end_matches('\n'))
    }

    fn fail(&mut self, id: &str, rule: &str, reason: String, observer: &mut dyn Observer) {
        let case = Case {
            id: id.to_owned(),
            rule: rule.to_owned(),
            status: Status::Failed,
            reason: Some(reason),
            ms: 0.0,
        };
        observer.ended(&case);
        self.cases.push(case);
    }

    /// All of it, after [`Story::close`].
    pub fn into_record(self, time: Duration) -> Record {
        let presence = match self.stage {
            Stage::Started { device, .. } | Stage::Ended { device, .. } => Presence::Present(device),
            Stage::Unavailable(reason) => Presence::Unavailable(reason),
            Stage::Silent => Presence::Broken,
        };
        Record { backend: self.backend, presence, cases: self.cases, time }
    }
}

/// What is wrong with a suite that came to its end; `None` if nothing is.
fn complaint(total: usize, claimed: Claim, seen: Tally, status: ExitStatus) -> Option<String> {
    if total == 0 {
        return Some("it ran no case at all".to_owned());
    }
    if seen.total() != total {
        return Some(format!("{} announced, {} reported", counted(total, "case"), seen.total()));
    }
    let counted = Claim { passed: seen.passed, failed: seen.failed, skipped: seen.skipped };
    if claimed != counted {
        return Some(format!("the counts at its end are {claimed:?}, its cases add up to {counted:?}"));
    }
    if !status.success() && seen.failed == 0 {
        return Some(format!("all cases were reported, but then it ended badly ({status})"));
    }
    if status.code().is_none() {
        return Some(format!("it was killed after the suite's end ({status})"));
    }
    None
}
