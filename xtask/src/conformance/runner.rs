//! Runs one conformance process: starts it, reads both its streams, ends it if it is silent for too long.
//!
//! Not here: what its lines and its end mean (`story.rs`), how the executable is built (`build.rs`), how progress
//! is shown (`progress.rs`).

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use super::protocol::Case;
use super::record::{Device, Record};
use super::story::{Ending, Story};
use crate::backends::Backend;
use crate::workspace::Problem;

/// How long after a process was ended its last lines are awaited.
const DRAIN: Duration = Duration::from_secs(2);

/// Who watches a run.
pub trait Observer {
    /// The suite begins on this device.
    fn started(&mut self, device: &Device, total: usize);
    /// This case begins.
    fn running(&mut self, id: &str);
    /// This case ended.
    fn ended(&mut self, case: &Case);
}

/// Runs `command` as the conformance process of `backend`. Any output counts as a sign of life; `patience` is
/// how long there may be none.
///
/// # Errors
/// The process cannot be started. All that goes wrong later is in the record.
pub fn run(
    backend: &'static Backend,
    mut command: Command,
    patience: Duration,
    observer: &mut dyn Observer,
) -> Result<Record, Problem> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let start = Instant::now();
    let mut child = command
        .spawn()
        .map_err(Problem::while_doing(format!("starting {}", command.get_program().to_string_lossy())))?;
    let lines = read_lines(&mut child);

    let mut story = Story::new(backend);
    let ending = match follow(&lines, patience, &mut story, observer) {
        Flow::Closed => {
            Ending::Exited(child.wait().map_err(Problem::while_doing("waiting for the process"))?)
        }
        Flow::Silent => {
            // It may have ended just now by itself; then there is nothing left to end, which is as good.
            let _ = child.kill();
            let _ = child.wait();
            // Its last words; a grandchild may hold the pipe open for ever, so this wait is bounded too.
            follow(&lines, DRAIN, &mut story, observer);
            Ending::Silent(patience)
        }
    };
    story.close(&ending, observer);
    Ok(story.into_record(start.elapsed()))
}

/// A line of the process.
enum Line {
    Output(String),
    Error(String),
}

/// Why there are no more lines for now.
#[derive(PartialEq)]
enum Flow {
    /// The process closed both streams.
    Closed,
    /// No line came for the whole patience.
    Silent,
}

fn follow(
    lines: &Receiver<Line>,
    patience: Duration,
    story: &mut Story,
    observer: &mut dyn Observer,
) -> Flow {
    loop {
        match lines.recv_timeout(patience) {
            Ok(Line::Output(line)) => story.hear(&line, observer),
            Ok(Line::Error(line)) => story.remember(line),
            Err(RecvTimeoutError::Disconnected) => return Flow::Closed,
            Err(RecvTimeoutError::Timeout) => return Flow::Silent,
        }
    }
}

/// Both streams are read by threads of their own, so that a full pipe never stops the process.
fn read_lines(child: &mut Child) -> Receiver<Line> {
    let (sender, receiver) = mpsc::channel();
    if let Some(stream) = child.stdout.take() {
        forward(stream, sender.clone(), Line::Output);
    }
    if let Some(stream) = child.stderr.take() {
        forward(stream, sender, Line::Error);
    }
    receiver
}

fn forward(stream: impl Read + Send + 'static, to: Sender<Line>, wrap: fn(String) -> Line) {
    thread::spawn(move || {
        let mut stream = BufReader::new(stream);
        let mut bytes = Vec::new();
        // Bytes, not `lines()`: a driver may print what is no UTF-8.
        while matches!(stream.read_until(b'\n', &mut bytes), Ok(1..)) {
            let line = String::from_utf8_lossy(&bytes).trim_end().to_owned();
            bytes.clear();
            if to.send(wrap(line)).is_err() {
                return;
            }
        }
    });
}
