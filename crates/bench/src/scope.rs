//! Scopes, handles, hooks: what the calls cost that a program makes all the time.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use tenure::{Manager, hook};
use tenure_bench::measure::{Bench, Failure, median_of};
use tenure_bench::null;
use tenure_bench::report::Row;
use tenure_bench::scaling::paired;

/// All rows.
pub fn rows(bench: &mut Bench) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    scopes(bench, &mut rows)?;
    handles(bench, &mut rows)?;
    hooks(bench, &mut rows)?;
    events(bench, &mut rows)?;
    Ok(rows)
}

/// Makes and finishes `rounds` scopes with one sequence and one hook, and measures nothing.
pub fn repeat(rounds: u64) -> Result<(), Failure> {
    let host = tenure::open("host")?;
    (0..rounds).for_each(|_| make_finish(&host));
    Ok(())
}

/// A scope with one sequence and one hook, made and finished.
fn make_finish(manager: &Manager) {
    let scope = manager.scope("scope").expect("the manager is open");
    let sequence = scope.sequence().expect("the scope is open");
    scope.register(hook::once("hook", |_| Ok(()))).expect("the scope is open");
    drop(sequence);
    black_box(scope.finish_blocking().expect("nothing fails"));
}

fn scopes(bench: &mut Bench, rows: &mut Vec<Row>) -> Result<(), Failure> {
    if bench.wants("scope.make_finish") {
        let host = tenure::open("host")?;
        let value = bench.time("scope.make_finish", || make_finish(&host))?;
        rows.push(Row::new("scope.make_finish", value, "ns").at_most(2_000.0));
    }
    if bench.wants("scope.make_finish_empty") {
        let host = tenure::open("host")?;
        let value = bench.time("scope.make_finish_empty", || {
            let scope = host.scope("scope").expect("the manager is open");
            black_box(scope.finish_blocking().expect("nothing fails"));
        })?;
        rows.push(Row::new("scope.make_finish_empty", value, "ns"));
    }
    Ok(())
}

fn handles(bench: &Bench, rows: &mut Vec<Row>) -> Result<(), Failure> {
    if !bench.wants("handle.clone_drop") {
        return Ok(());
    }
    let manager = null::manager()?;
    let tensor = manager.tensor::<f32>(64)?;
    let shared = Arc::new(0_u64);
    let clones = paired(
        bench.scaled(100_000),
        || drop(black_box(black_box(&tensor).clone())),
        || drop(black_box(black_box(&shared).clone())),
    );
    rows.push(Row::new("handle.clone_drop_ns", clones.own, "ns").against("Arc", clones.other));
    rows.push(Row::part("handle.clone_drop", clones.ratio, "Arc").at_most(1.3));
    Ok(())
}

/// Registrations between two looks at the clock.
const HOOKS: u32 = 1_000;

fn hooks(bench: &Bench, rows: &mut Vec<Row>) -> Result<(), Failure> {
    if !bench.wants("hook.register") {
        return Ok(());
    }
    let manager = null::manager()?;
    let label: Arc<str> = "hook".into();
    let counted = Arc::new(0_u64);
    // The label is shared, as a program that registers in a loop would have it; the capture is a box of the hook's own.
    let value = median_of(bench.scaled(1_000), || {
        let scope = manager.scope("scope").expect("the manager is open");
        let captured: Vec<_> = (0..HOOKS).map(|_| counted.clone()).collect();
        let begun = Instant::now();
        for capture in captured {
            let hook = hook::once(label.clone(), move |_| {
                black_box(&capture);
                Ok(())
            });
            scope.register(hook).expect("the scope is open");
        }
        let took = begun.elapsed();
        scope.finish_blocking().expect("no hook fails");
        took.as_nanos() as f64 / f64::from(HOOKS)
    });
    rows.push(Row::new("hook.register", value, "ns").at_most(60.0));
    Ok(())
}

/// Questions between two looks at the clock.
const QUESTIONS: u32 = 1_000;

/// What an event costs that nobody listens for: the question whether anybody does.
fn events(bench: &mut Bench, rows: &mut Vec<Row>) -> Result<(), Failure> {
    if !bench.wants("event.off") {
        return Ok(());
    }
    let manager = null::manager()?;
    let value = bench.time("event.off", || {
        for _ in 0..QUESTIONS {
            black_box(manager.records_events());
        }
    })?;
    rows.push(Row::new("event.off", value / f64::from(QUESTIONS), "ns").at_most(1.0));
    Ok(())
}
