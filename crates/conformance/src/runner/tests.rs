//! The runner judges right: cases that fail in each way, and each expectation, on a backend that does nothing.
//!
//! Not here: cases of the suite.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tenure_core::op;

use super::{Filter, Runner};
use crate::bed::Bed;
use crate::case::{Case, Requirement};
use crate::expectations::Expectations;
use crate::instrument::tests::tiny::Tiny;
use crate::report::{CaseResult, Status};

static CASES: [Case; 6] = [
    Case { id: "a/passes", rules: &["L2", "L4"], requires: &[], run: |bed| drop(bed.open()) },
    Case { id: "a/panics", rules: &["L2"], requires: &[], run: |_| panic!("left is not right") },
    Case { id: "a/breaks_a_rule", rules: &["L4"], requires: &[], run: breaks_a_rule },
    Case { id: "a/holds_and_panics", rules: &["L4"], requires: &[], run: holds_and_panics },
    Case { id: "b/many_queues", rules: &["L4"], requires: &[Requirement::Queues(9)], run: |_| {} },
    Case { id: "b/passes", rules: &["L28"], requires: &[], run: |bed| drop(bed.open()) },
];

/// Nothing fails but the checker's judgement.
fn breaks_a_rule(bed: &Bed) {
    let rig = bed.open();
    let _guard = rig.probe.forbid_calls_here();
    rig.manager.trim().unwrap();
}

/// What is held when a case panics is released, so that its manager can close.
fn holds_and_panics(bed: &Bed) {
    let rig = bed.open();
    let tensor = rig.manager.tensor::<u32>(4).unwrap();
    let scope = rig.manager.scope("s").unwrap();
    rig.probe.hold();
    scope.evaluate([op::fill(&tensor, 0)]).unwrap();
    panic!("holding");
}

fn bed() -> Bed {
    Bed::new(|| Ok(Tiny(Arc::default()))).unwrap()
}

fn run(expectations: Expectations, id: &str) -> CaseResult {
    let runner = Runner::new(bed(), expectations);
    let case = CASES.iter().find(|case| case.id == id).unwrap();
    let plan = runner.plan([case]);
    runner.run(&plan[0])
}

#[track_caller]
fn expect(result: &CaseResult, status: Status, reason: &str) {
    assert_eq!(result.status, status, "{result:?}");
    assert!(result.reason.as_deref().unwrap_or_default().contains(reason), "{result:?}");
}

#[test]
fn a_case_passes_or_fails_by_itself() {
    let passed = run(Expectations::new(), "a/passes");
    assert_eq!((passed.status, passed.reason.as_deref()), (Status::Passed, None));
    assert_eq!((&*passed.id, &*passed.rule), ("a/passes", "L2,L4"));
    let failed = run(Expectations::new(), "a/panics");
    expect(&failed, Status::Failed, "left is not right\n  at ");
    expect(&failed, Status::Failed, "tests.rs:");
}

#[test]
fn a_case_fails_by_what_it_leaves() {
    let result = run(Expectations::new(), "a/breaks_a_rule");
    expect(&result, Status::Failed, "manager `manager`: trim on thread");
    let result = run(Expectations::new(), "a/holds_and_panics");
    expect(&result, Status::Failed, "holding\n  at ");
    assert!(!result.reason.unwrap().contains("did not shut its backend down"));
}

#[test]
fn a_case_fails_by_complaints_about_its_backend() {
    let asked = Arc::new(Mutex::new(vec!["a leak".to_owned()]));
    let runner = Runner::new(bed(), Expectations::new())
        .with_complaints(Box::new(move || std::mem::take(&mut *asked.lock())));
    let plan = runner.plan([&CASES[0]]);
    expect(&runner.run(&plan[0]), Status::Failed, "a leak");
    // Asked again there is nothing new.
    expect(&runner.run(&plan[0]), Status::Passed, "");
}

#[test]
fn skips_carry_their_reason() {
    let result = run(Expectations::new(), "b/many_queues");
    expect(&result, Status::Skipped, "needs 9 queues, the device has 2");
    let result = run(Expectations::new().require("b/*"), "b/many_queues");
    expect(&result, Status::Failed, "required on this backend, but needs 9 queues");
    let result = run(Expectations::new().unsupported("a/*", "not here"), "a/panics");
    expect(&result, Status::Skipped, "unsupported: not here");
}

#[test]
fn an_unexpected_pass_fails() {
    let known = Expectations::new().expect_failure("a/p*", "a known defect");
    expect(&run(known.clone(), "a/panics"), Status::ExpectedFailure, "a known defect: left is not right");
    let passed = run(known, "a/passes");
    expect(&passed, Status::Failed, "passed, and was expected to fail (a known defect)");
}

#[test]
fn dead_patterns_are_failed_results() {
    let runner = Runner::new(bed(), Expectations::new().require("gone/*"));
    let results = runner.check_expectations(&CASES);
    assert_eq!(results.len(), 1);
    assert_eq!(results[0].id, "expectations/required");
    expect(&results[0], Status::Failed, "`gone/*` matches no case");
}

#[test]
fn filters_select_by_text_or_rule() {
    let select = |text: &str| -> Vec<&str> {
        let filter = Filter::parse(text);
        CASES.iter().filter(|case| filter.selects(case)).map(|case| case.id).collect()
    };
    assert_eq!(select("passes"), ["a/passes", "b/passes"]);
    assert_eq!(select("rule:L2"), ["a/passes", "a/panics"]);
    assert_eq!(select("rule:L28"), ["b/passes"]);
    assert_eq!(select("nothing"), [""; 0]);
}

#[test]
fn facts_are_found() {
    let bed = bed();
    assert_eq!((&*bed.info().name, bed.capabilities().queues), ("tiny", 2));
    // It takes every kernel and runs none.
    assert!(bed.facts().kernels && !bed.facts().host_kernels && !bed.facts().blocking_kernels);
}

#[test]
fn a_manager_that_stays_open_is_found() {
    let bed = bed();
    let rig = bed.open();
    let problems = bed.verify_within(Duration::from_millis(1));
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(problems[0].contains("did not shut its backend down"), "{problems:?}");
    drop(rig);
}
