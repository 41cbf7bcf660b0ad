//! The command as its user runs it, on the host backend.
//!
//! Not here: whether what it learns is right (`training.rs`).

use std::process::{Command, Output};

fn run(arguments: &[&str]) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } =
        Command::new(env!("CARGO_BIN_EXE_logistic_regression")).args(arguments).output().unwrap();
    (status.code(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

/// The words after a name in one of the tables.
#[track_caller]
fn figure<'a>(out: &'a str, name: &str) -> &'a str {
    let value = out.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix(' '));
    value.unwrap_or_else(|| panic!("no figure `{name}` in\n{out}")).trim()
}

#[test]
fn it_tells_what_it_learned_and_what_became_of_the_memory() {
    let (code, out, err) = run(&["--steps", "200"]);
    assert_eq!(code, Some(0), "{out}{err}");
    let rows = out.lines().filter(|line| line.starts_with("|   ")).count();
    assert_eq!(rows, 5, "a row a sample:\n{out}");
    assert_eq!(
        figure(&out, "recordings"),
        "1 of 5 operations, evaluated 201 times, encoded for the driver once"
    );
    let live = figure(&out, "live");
    assert!(live.starts_with("0 bytes before, ") && live.ends_with(", 0 bytes after"), "{live}");
    assert!(figure(&out, "driver").ends_with("; 0 bytes kept for reuse after the scope"), "{out}");
    assert!(out.contains("scope `training`: Completed"), "{out}");
    let lines: Vec<&str> = err.lines().collect();
    assert_eq!(lines.len(), 11, "{err}");
    assert!(lines[10].starts_with("[200/200] loss 0."), "{err}");
}

#[test]
fn an_unknown_backend_is_refused() {
    let (code, out, err) = run(&["--backend", "abacus"]);
    assert_eq!((code, out.as_str()), (Some(2), ""));
    assert!(err.contains(&format!("[possible values: {}]", tenure::BACKENDS.join(", "))), "{err}");
}
