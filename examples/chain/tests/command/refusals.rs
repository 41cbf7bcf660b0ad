//! Commands that come to no batch: a clear error, exit code 2, nothing written.
//!
//! Not here: batches in which images fail (`batches.rs`).

use std::fs;
use std::process::Command;

use crate::support::{Folders, Run, names, samples};

/// The error of a run that was refused.
fn refused(run: &Run) -> &str {
    assert_eq!(run.code, Some(2), "{run:#?}");
    assert!(run.out.is_empty(), "{run:#?}");
    assert!(run.err.starts_with("error: "), "{run:#?}");
    &run.err
}

#[test]
fn an_unknown_backend() {
    let folders = Folders::with_samples("backend");
    let run = folders.run(&["--backend", "abacus"]);
    let error = refused(&run);
    let known = format!("[possible values: {}]", tenure::BACKENDS.join(", "));
    assert!(error.contains("'abacus'") && error.contains(&known), "{error}");
    assert!(!folders.output().exists());
}

#[test]
fn a_missing_input() {
    let folders = Folders::new("missing");
    fs::remove_dir(folders.input()).unwrap();
    let run = folders.run(&[]);
    let start = format!("error: cannot read the input folder {}: ", folders.input().display());
    assert!(refused(&run).starts_with(&start), "{run:#?}");
    assert!(!folders.output().exists());
}

#[test]
fn an_input_that_is_a_file() {
    let folders = Folders::new("file");
    fs::remove_dir(folders.input()).unwrap();
    fs::write(folders.input(), "").unwrap();
    for arguments in [&[][..], &["--generate", "2"]] {
        let run = folders.run(arguments);
        assert!(refused(&run).starts_with("error: cannot read the input folder "), "{run:#?}");
    }
}

#[test]
fn an_input_without_images() {
    let folders = Folders::new("none");
    folders.put("notes.txt", b"no image");
    let run = folders.run(&[]);
    let start = format!("error: no PNG images in {}", folders.input().display());
    assert!(refused(&run).starts_with(&start), "{run:#?}");
    assert!(!folders.output().exists());
}

#[test]
fn an_output_that_is_a_file() {
    let folders = Folders::with_samples("output");
    fs::write(folders.output(), "mine").unwrap();
    let run = folders.run(&[]);
    let start = format!("error: cannot write to the output folder {}: ", folders.output().display());
    assert!(refused(&run).starts_with(&start), "{run:#?}");
    assert_eq!(fs::read(folders.output()).unwrap(), b"mine");
}

#[cfg(target_os = "linux")]
#[test]
fn an_output_where_nobody_can_write() {
    let folders = Folders::with_samples("nobody");
    // Not even the superuser can make files here.
    let mut command = Command::new(env!("CARGO_BIN_EXE_chain"));
    command.arg("--input").arg(folders.input()).args(["--output", "/proc/self"]);
    let run = Run::of(&mut command);
    assert!(refused(&run).starts_with("error: cannot write to the output folder /proc/self: "), "{run:#?}");
}

#[test]
fn the_input_as_output() {
    let folders = Folders::with_samples("same");
    let mut command = Command::new(env!("CARGO_BIN_EXE_chain"));
    command.arg("--input").arg(folders.input()).arg("--output").arg(folders.input().join("../in"));
    let run = Run::of(&mut command);
    assert!(refused(&run).starts_with("error: input and output are the same folder"), "{run:#?}");
    for name in names(&samples()) {
        let untouched = fs::read(samples().join(&name)).unwrap();
        assert!(fs::read(folders.input().join(&name)).unwrap() == untouched, "{name}");
    }
    assert_eq!(names(&folders.input()), names(&samples()));
}

#[test]
fn a_command_without_folders() {
    let run = Run::of(&mut Command::new(env!("CARGO_BIN_EXE_chain")));
    assert!(refused(&run).contains("--input <DIR>"), "{run:#?}");
}
