//! Runs the whole path from a process to its reports against small programs that speak the protocol, well and
//! badly.
//!
//! The programs are shell scripts, so this needs a Unix shell. Not here: the real suite.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use super::protocol::{Case, Status};
use super::record::{Device, Presence, Record, Tally};
use super::runner::{self, Observer};
use super::story::{Ending, Story};
use super::{Arguments, is_good, json, junit, required, summary};
use crate::backends::{BACKENDS, Backend, Nature};

const START: &str = r#"{"event":"start","name":"host","device":"Test <CPU>","software":false,"total":3}"#;
const FIRST: &str = r#"{"event":"case","id":"scope.finish","rule":"L10,L11","status":"passed","ms":2}"#;
const SECOND: &str = r#"{"event":"case","id":"scope.hook","rule":"L11","status":"failed","reason":"1 run & 2 expected","ms":3.5}"#;
const THIRD: &str =
    r#"{"event":"case","id":"queue.two","rule":"L4","status":"skipped","reason":"one queue only","ms":0}"#;
const RUNNING: &str = r#"{"event":"running","id":"scope.hook","rule":"L11"}"#;
const END: &str = r#"{"event":"end","passed":1,"failed":1,"skipped":1}"#;

/// What an observer was told, in order.
#[derive(Default)]
struct Log(Vec<String>);

impl Observer for Log {
    fn started(&mut self, device: &Device, total: usize) {
        self.0.push(format!("started {} {total}", device.name));
    }

    fn running(&mut self, id: &str) {
        self.0.push(format!("running {id}"));
    }

    fn ended(&mut self, case: &Case) {
        self.0.push(format!("ended {}", case.id));
    }
}

fn host() -> &'static Backend {
    &BACKENDS[0]
}

/// A shell script that prints these lines and then does `rest`.
fn script(lines: &[&str], rest: &str) -> Command {
    let mut text = String::new();
    for line in lines {
        text.push_str(&format!("printf '%s\\n' '{line}'\n"));
    }
    let mut command = Command::new("sh");
    command.arg("-c").arg(text + rest);
    command
}

fn run(command: Command) -> Record {
    runner::run(host(), command, Duration::from_secs(60), &mut Log::default()).unwrap()
}

fn failures(record: &Record) -> Vec<(&str, &str)> {
    record.cases_that(Status::Failed).map(|case| (case.id.as_str(), case.reason())).collect()
}

fn good() -> Record {
    let end = r#"{"event":"end","passed":1,"failed":0,"skipped":1}"#;
    let start = START.replace("\"total\":3", "\"total\":2");
    run(script(&[&start, FIRST, THIRD, end], "exit 0"))
}

#[test]
fn a_whole_suite_is_recorded() {
    let mut log = Log::default();
    let command = script(&[START, FIRST, RUNNING, SECOND, THIRD, END], "exit 1");
    let record = runner::run(host(), command, Duration::from_secs(60), &mut log).unwrap();
    let device = Device { name: "Test <CPU>".to_owned(), software: false };
    assert_eq!(record.presence, Presence::Present(device));
    assert_eq!(record.tally(), Tally { passed: 1, failed: 1, skipped: 1, expected_failures: 0 });
    assert_eq!(failures(&record), [("scope.hook", "1 run & 2 expected")]);
    assert_eq!(
        log.0,
        [
            "started Test <CPU> 3",
            "ended scope.finish",
            "running scope.hook",
            "ended scope.hook",
            "ended queue.two"
        ]
    );
}

#[test]
fn a_good_run_is_good() {
    let record = good();
    assert_eq!(failures(&record), []);
    assert!(is_good(&[record], &["host"]));
}

#[test]
fn other_output_does_not_disturb() {
    let end = r#"{"event":"end","passed":1,"failed":0,"skipped":0}"#;
    let start = START.replace("\"total\":3", "\"total\":1");
    let lines = [&start, "a driver says hello", r#"{"event":"note","text":"new"}"#, FIRST, end];
    let record = run(script(&lines, "echo noise >&2"));
    assert_eq!(record.tally().passed, 1);
    assert_eq!(failures(&record), []);
}

#[test]
fn a_crash_is_a_failure_of_the_case_that_ran() {
    let record = run(script(&[START, FIRST, RUNNING], "echo 'last words' >&2; kill -SEGV $$"));
    let [(id, reason)] = failures(&record)[..] else { panic!("{record:?}") };
    assert_eq!(id, "scope.hook");
    assert!(reason.contains("signal: 11"), "{reason}");
    assert!(reason.contains("last words"), "{reason}");
    assert!(reason.contains("1 case of 3 did not run"), "{reason}");
    assert_eq!(record.cases[1].rule, "L11");
    assert!(!is_good(&[record], &[]));
}

#[test]
fn an_early_end_is_a_failure_even_with_a_good_status() {
    let record = run(script(&[START, FIRST], "exit 0"));
    let [(id, reason)] = failures(&record)[..] else { panic!("{record:?}") };
    assert_eq!(id, "(process)");
    assert!(reason.contains("after `scope.finish`"), "{reason}");
}

#[test]
fn a_process_that_says_nothing_is_broken() {
    let record = run(script(&[], "echo 'no such option' >&2; exit 2"));
    assert_eq!(record.presence, Presence::Broken);
    assert!(failures(&record)[0].1.contains("no such option"));
    assert!(!is_good(&[record], &[]));
}

#[test]
fn a_silent_process_is_ended() {
    // It never ends by itself. `exec`, so that what is ended is the silent program, not the shell before it.
    let command = script(&[START, FIRST], "exec tail -f /dev/null");
    let record = runner::run(host(), command, Duration::from_millis(200), &mut Log::default()).unwrap();
    let reason = failures(&record)[0].1;
    assert!(reason.contains("said nothing"), "{reason}");
    assert!(!is_good(&[record], &[]));
}

#[test]
fn silence_is_a_failure_of_the_case_that_ran() {
    let mut story = Story::new(host());
    for line in [START, FIRST, RUNNING] {
        story.hear(line, &mut Log::default());
    }
    story.close(&Ending::Silent(Duration::from_secs(300)), &mut Log::default());
    let record = story.into_record(Duration::ZERO);
    let [(id, reason)] = failures(&record)[..] else { panic!("{record:?}") };
    assert_eq!(id, "scope.hook");
    assert!(reason.contains("said nothing for 300 s"), "{reason}");
}

#[test]
fn lost_cases_are_noticed() {
    for (lines, complaint) in [
        (
            vec![START, FIRST, SECOND, r#"{"event":"end","passed":1,"failed":1,"skipped":0}"#],
            "3 cases announced",
        ),
        (vec![START, FIRST, FIRST, THIRD, END], "counts at its end"),
        (
            vec![
                r#"{"event":"start","name":"host","device":"d","software":false,"total":0}"#,
                r#"{"event":"end","passed":0,"failed":0,"skipped":0}"#,
            ],
            "no case at all",
        ),
    ] {
        let record = run(script(&lines, "exit 0"));
        let last = failures(&record).last().map(|(id, reason)| ((*id).to_owned(), (*reason).to_owned()));
        let (id, reason) = last.unwrap_or_else(|| panic!("{record:?}"));
        assert_eq!(id, "(process)");
        assert!(reason.contains(complaint), "{reason}");
    }
}

#[test]
fn a_bad_status_after_a_good_suite_is_a_failure() {
    let end = r#"{"event":"end","passed":1,"failed":0,"skipped":0}"#;
    let start = START.replace("\"total\":3", "\"total\":1");
    let record = run(script(&[&start, FIRST, end], "exit 3"));
    assert!(failures(&record)[0].1.contains("exit status: 3"), "{record:?}");
}

#[test]
fn results_of_another_backend_are_refused() {
    let end = r#"{"event":"end","passed":1,"failed":0,"skipped":0}"#;
    let start = r#"{"event":"start","name":"cuda","device":"d","software":true,"total":1}"#;
    let record = run(script(&[start, FIRST, end], "exit 0"));
    assert!(failures(&record).iter().any(|(_, reason)| reason.contains("ran `cuda`")), "{record:?}");
}

#[test]
fn an_unavailable_backend_fails_only_where_it_is_required() {
    let line = r#"{"event":"unavailable","name":"host","reason":"no driver"}"#;
    let record = run(script(&[line], "exit 0"));
    assert_eq!(record.presence, Presence::Unavailable("no driver".to_owned()));
    let records = [record];
    assert!(is_good(&records, &[]));
    assert!(!is_good(&records, &["host"]));
    let summary = summary::render(&records, &["host"]);
    for part in ["unavailable", "no driver", "(required)", "fix: "] {
        assert!(summary.contains(part), "{summary}");
    }
    assert!(junit::render(&records, &["host"]).contains("<failure message=\"no driver\">"));
    assert!(junit::render(&records, &[]).contains("<skipped message=\"unavailable: no driver\"/>"));
}

#[test]
fn a_program_that_is_not_there_is_a_problem() {
    let command = Command::new(PathBuf::from("tenure-no-such-program"));
    assert!(runner::run(host(), command, Duration::from_secs(1), &mut Log::default()).is_err());
}

#[test]
fn what_is_required_has_to_be_chosen() {
    let names = |name: &str| vec![name.to_owned()];
    assert_eq!(required(&names("host"), &[host()]).unwrap(), ["host"]);
    assert!(required(&names("host"), &[]).unwrap_err().to_string().contains("does not choose"));
    assert!(required(&names("nonsense"), &[host()]).is_err());
}

#[test]
fn the_default_arguments_are_those_of_the_command_line() {
    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }
    let parsed = <Line as clap::Parser>::parse_from(["conformance"]).arguments;
    assert_eq!(format!("{parsed:?}"), format!("{:?}", Arguments::default()));
}

#[test]
fn the_summary_shows_rules_by_backends() {
    let record = run(script(&[START, FIRST, SECOND, THIRD, END], "exit 1"));
    let summary = summary::render(&[record], &[]);
    let row = |rule: &str| {
        let is_row = |line: &&str| line.split_whitespace().nth(1) == Some(rule);
        summary.lines().find(is_row).unwrap_or_else(|| panic!("no row {rule} in\n{summary}")).to_owned()
    };
    assert!(row("L10").contains("1 ok"), "{summary}");
    assert!(row("L11").contains("1 FAILED of 2"), "{summary}");
    assert!(row("L4").contains("1 skipped"), "{summary}");
    assert!(row("L28").contains(" - "), "{summary}");
    for part in ["Test <CPU>", "CPU itself", "one queue only", "1 run & 2 expected"] {
        assert!(summary.contains(part), "{summary}");
    }
}

#[test]
fn software_is_named_as_such() {
    static CUDA: Backend = Backend {
        name: "host",
        feature: "cuda",
        library: None,
        environment: &[],
        nature: Nature::Device,
        expected: || false,
        needs: "",
        fix: "",
    };
    let mut record = Record { backend: &CUDA, ..good() };
    assert_eq!(record.kind(), "hardware");
    record.presence = Presence::Present(Device { name: "softcuda".to_owned(), software: true });
    assert_eq!(record.kind(), "software");
    assert!(summary::render(&[record], &[]).contains("software"));
}

#[test]
fn json_has_exactly_the_agreed_fields() {
    let record = run(script(&[START, FIRST, SECOND, THIRD, END], "exit 1"));
    let value: serde_json::Value = serde_json::from_str(&json::render(&[record])).unwrap();
    let expected = serde_json::json!({"backends": [{
        "name": "host", "device": "Test <CPU>", "software": false, "available": true, "reason": null,
        "passed": 1, "failed": 1, "skipped": 1,
        "cases": [
            {"id": "scope.finish", "rule": "L10,L11", "status": "passed", "reason": null, "ms": 2.0},
            {"id": "scope.hook", "rule": "L11", "status": "failed", "reason": "1 run & 2 expected", "ms": 3.5},
            {"id": "queue.two", "rule": "L4", "status": "skipped", "reason": "one queue only", "ms": 0.0},
        ],
    }]});
    assert_eq!(value, expected);
}

#[test]
fn junit_is_escaped_and_counted() {
    let mut record = run(script(&[START, FIRST, SECOND, THIRD, END], "exit 1"));
    record.time = Duration::from_millis(1500);
    let expected = r#"<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="conformance" tests="3" failures="1" errors="0" time="1.500">
  <testsuite name="host on Test &lt;CPU&gt; (CPU itself)" tests="3" failures="1" errors="0" skipped="1" time="1.500">
    <testcase classname="host.L10,L11" name="scope.finish" time="0.002"/>
    <testcase classname="host.L11" name="scope.hook" time="0.004"><failure message="1 run &amp; 2 expected">1 run &amp; 2 expected</failure></testcase>
    <testcase classname="host.L4" name="queue.two" time="0.000"><skipped message="one queue only"/></testcase>
  </testsuite>
</testsuites>
"#;
    assert_eq!(junit::render(&[record], &[]), expected);
}

#[test]
fn junit_takes_any_text() {
    let mut record = good();
    record.cases[0].id = "quote\" and \u{1b}[31m\u{0}".to_owned();
    let xml = junit::render(&[record], &[]);
    assert!(xml.contains("quote&quot; and \u{fffd}[31m\u{fffd}"), "{xml}");
}
