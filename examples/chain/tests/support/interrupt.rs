//! Runs of the command that Ctrl-C ends. Nothing is timed: the command says when it has come so far, and then waits.
//!
//! Not here: what is left after it.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

use super::{Folders, Run};

/// Starts the command, waits until it pauses in the image of this name, sends it the signal, and waits for its end.
pub fn interrupted(folders: &Folders, arguments: &[&str], image: &str, signal: &str) -> Run {
    let mut command = folders.command(arguments);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    assert_eq!(line, format!("paused in {image}: waiting for Ctrl-C\n"));
    send(signal, &child);
    let mut out = String::new();
    stdout.read_to_string(&mut out).unwrap();
    Run { out, ..Run::from(child.wait_with_output().unwrap()) }
}

/// By the shell's own `kill`, which is everywhere.
fn send(signal: &str, child: &Child) {
    let line = format!("kill -{signal} {}", child.id());
    assert!(Command::new("sh").args(["-c", &line]).status().unwrap().success());
}
