//! The suite as a program: its events, exit codes and files, on a backend that does nothing.
//!
//! Not here: what a result should be (`runner/tests.rs`).

use std::sync::Arc;

use parking_lot::Mutex;
use tenure_core::{BackendError, BackendErrorKind};

use super::{Arguments, BAD, GOOD, NOTHING_RUN, Suite};
use crate::case::Case;
use crate::expectations::Expectations;
use crate::instrument::tests::tiny::Tiny;
use crate::report::{Event, Report, Reporter, Status};

static CASES: [Case; 2] = [
    Case { id: "a/passes", rules: &["L2"], requires: &[], run: |bed| drop(bed.open()) },
    Case { id: "a/panics", rules: &["L4"], requires: &[], run: |_| panic!("no") },
];

/// Keeps the events as lines.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<Event>>>);

impl Reporter for Heard {
    fn event(&mut self, event: &Event) {
        self.0.lock().push(event.clone());
    }
}

fn arguments(filter: &str) -> Arguments {
    Arguments {
        list: false,
        filter: vec![filter.to_owned()],
        jsonl: true,
        json: None,
        junit: None,
        timeout: 3600,
    }
}

fn tiny() -> Suite {
    Suite::new("tiny", || Ok(Tiny(Arc::default())))
}

fn run(suite: Suite, arguments: &Arguments) -> (u8, Vec<Event>) {
    let heard = Heard::default();
    let all: Vec<&'static Case> = CASES.iter().collect();
    let code = suite.run_cases(&all, arguments, Box::new(heard.clone()));
    let events = std::mem::take(&mut *heard.0.lock());
    (code, events)
}

#[test]
fn a_good_run_has_all_events() {
    let (code, events) = run(tiny(), &arguments("passes"));
    assert_eq!(code, GOOD);
    assert_eq!(
        events[0],
        Event::Start { name: "tiny".into(), device: "nothing".into(), software: true, total: 1 }
    );
    assert_eq!(events[1], Event::Running { id: "a/passes".into(), rule: "L2".into() });
    assert!(matches!(&events[2], Event::Case(result) if result.status == Status::Passed));
    assert_eq!(events[3], Event::End { passed: 1, failed: 0, skipped: 0 });
    assert_eq!(events.len(), 4);
}

#[test]
fn a_failure_is_a_bad_end() {
    let (code, events) = run(tiny(), &arguments("a/"));
    assert_eq!(code, BAD);
    assert_eq!(events.last(), Some(&Event::End { passed: 1, failed: 1, skipped: 0 }));
}

#[test]
fn wrong_expectations_are_a_bad_end() {
    let suite = tiny().expectations(Expectations::new().unsupported("gone", "it is gone"));
    let (code, events) = run(suite, &arguments("passes"));
    assert_eq!(code, BAD);
    assert!(matches!(&events[0], Event::Start { total: 2, .. }), "{events:?}");
    assert!(matches!(&events[1], Event::Case(result) if result.id == "expectations/unsupported"));
}

#[test]
fn nothing_run_is_no_success() {
    let (code, events) = run(tiny(), &arguments("no such case"));
    assert_eq!((code, events.len()), (NOTHING_RUN, 0));

    let missing = || BackendError::new(BackendErrorKind::Unavailable, "open", "no driver");
    let suite = Suite::new("far", move || -> Result<Tiny, _> { Err(missing()) });
    let (code, events) = run(suite, &arguments("a/"));
    assert_eq!(code, NOTHING_RUN);
    assert_eq!(events, [Event::Unavailable { name: "far".into(), reason: "no driver".into() }]);
}

#[test]
fn a_backend_that_is_there_and_does_not_open_is_bad() {
    let broken = || BackendError::new(BackendErrorKind::Driver, "open", "it is broken");
    let suite = Suite::new("broken", move || -> Result<Tiny, _> { Err(broken()) });
    let (code, events) = run(suite, &arguments("a/"));
    assert_eq!((code, events.len()), (BAD, 0));
}

#[test]
fn files_are_written() {
    let folder = std::env::temp_dir().join(format!("tenure-harness-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (json, junit) = (folder.join("run.json"), folder.join("run.xml"));
    let with_files =
        Arguments { json: Some(json.clone()), junit: Some(junit.clone()), ..arguments("passes") };
    assert_eq!(run(tiny(), &with_files).0, GOOD);
    let report: Report = serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
    assert_eq!((report.backends[0].passed, report.backends[0].available), (1, true));
    assert!(std::fs::read_to_string(junit).unwrap().contains("<testsuite name=\"tiny (nothing, software)\""));
    std::fs::remove_dir_all(&folder).unwrap();

    let nowhere = Arguments { json: Some(folder.join("gone").join("run.json")), ..arguments("passes") };
    assert_eq!(run(tiny(), &nowhere).0, BAD);
}
