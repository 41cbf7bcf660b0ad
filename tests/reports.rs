//! The texts of reports and errors, as snapshots: what a user reads must be worth reading.

#![cfg(feature = "host")]

use std::time::Duration;

use tenure::{Error, Manager, ManagerOptions, ScopeReport, TensorOptions, TrimPolicy, hook, op};

fn open(options: ManagerOptions) -> Manager {
    tenure::open_with_options("host", options).expect("host opens")
}

/// Durations differ from run to run.
fn still(mut report: ScopeReport) -> String {
    report.duration = Duration::ZERO;
    for hook in &mut report.hooks {
        hook.total = Duration::ZERO;
        hook.longest = Duration::ZERO;
    }
    report.to_string()
}

fn labelled(label: &str, len: u64) -> TensorOptions {
    TensorOptions::builder().shape([len]).label(label).build()
}

#[test]
fn the_report_of_a_scope() {
    let manager = open(ManagerOptions::default());
    let scope = manager.scope("chain").expect("open");
    scope.register(hook::each("count", |_| Ok(()))).expect("open");
    scope.register(hook::once("flush", |_| Err("disk full".into()))).expect("open");
    scope.register(hook::after_release("empty cache", |_| panic!("no cache")).key("cache")).expect("open");
    let tensor = scope.tensor_with::<u8>(labelled("image", 1 << 20)).expect("there is room");
    for _ in 0..3 {
        scope.evaluate([op::fill(&tensor, 1)]).expect("live").wait().expect("it runs");
    }
    let Err(Error::Cleanup(failure)) = scope.finish_blocking() else { panic!("two hooks fail") };
    insta::assert_snapshot!("scope_report", still(failure.report.clone()));
    insta::assert_snapshot!("cleanup_error", Error::Cleanup(failure));
}

#[test]
fn the_report_of_a_close_that_finds_leaks() {
    let manager = open(ManagerOptions::builder().label("engine").build());
    let scope = manager.scope("chain").expect("open");
    let weights = manager.tensor_with::<u8>(labelled("weights", 64 << 20)).expect("there is room");
    let blur = scope.named("blur").expect("open");
    blur.record(op::fill(&weights, 1)).expect("live");
    let report = manager.close().expect("not inside a hook");
    insta::with_settings!({filters => vec![(r"tests/reports\.rs:\d+:\d+", "[site]")]}, {
        insta::assert_snapshot!("close_report", report);
    });
}

#[test]
fn what_errors_say() {
    let manager =
        open(ManagerOptions::builder().label("small").budget(4 << 20).trim(TrimPolicy::Never).build());
    let other = open(ManagerOptions::builder().label("other").build());
    let scope = manager.scope("job").expect("open");
    let held = scope.tensor_with::<f32>(labelled("held", 1 << 19)).expect("there is room");
    let foreign = other.tensor_with::<f32>(labelled("foreign", 4)).expect("there is room");
    let sequence = scope.named("step").expect("open");
    let gone = scope.tensor_with::<f32>(labelled("gone", 4)).expect("there is room");
    gone.destroy().expect("once");
    let errors = [
        scope.tensor_with::<f32>(labelled("large", 1 << 20)).expect_err("over the budget"),
        scope.tensor_with::<f32>(labelled("huge", u64::MAX)).expect_err("overflows"),
        held.write(&[1.0]).expect_err("too short"),
        held.view(5..(1 << 20)).expect_err("outside"),
        held.erase().cast::<u32>().expect_err("another type"),
        gone.read().expect_err("destroyed"),
        sequence.record(op::fill(&foreign, 1.0)).expect_err("foreign"),
        sequence
            .record(op::copy(held.view(0..2).expect("inside"), held.view(1..3).expect("inside")))
            .expect_err("aliased"),
        scope.named("step").expect_err("taken"),
        scope.find("stepp").expect_err("unknown"),
    ];
    let text: Vec<String> = errors.iter().map(ToString::to_string).collect();
    insta::with_settings!({filters => vec![(r"tests/reports\.rs:\d+:\d+", "[site]")]}, {
        insta::assert_snapshot!("errors", text.join("\n"));
    });
}
