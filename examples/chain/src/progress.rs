//! Telling how far the batch is: a bar on a terminal, plain lines elsewhere, or nothing.
//!
//! All of it goes to standard error. Not here: the report at the end (`report.rs`).

use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// Where progress goes.
#[derive(Debug)]
pub enum Progress {
    /// Nowhere.
    Silent,
    /// A line for each image.
    Lines {
        /// Images of the batch.
        total: usize,
    },
    /// A bar that stays in its place.
    Bar(ProgressBar),
}

impl Progress {
    /// For a batch of so many images, by what standard error is.
    pub fn new(total: usize, quiet: bool) -> Progress {
        if quiet {
            return Progress::Silent;
        }
        if !io::stderr().is_terminal() {
            return Progress::Lines { total };
        }
        let style = ProgressStyle::with_template("{bar:32} {pos}/{len} {wide_msg}")
            .unwrap_or_else(|_| ProgressStyle::default_bar());
        Progress::Bar(ProgressBar::new(total as u64).with_style(style))
    }

    /// The work on an image begins.
    pub fn begun(&self, name: &str) {
        if let Progress::Bar(bar) = self {
            bar.set_message(name.to_owned());
        }
    }

    /// The image with this number, from 1, was done.
    pub fn done(&self, number: usize, name: &str, time: Duration) {
        match self {
            Progress::Silent => {}
            Progress::Lines { total } => {
                complain(format_args!("[{number}/{total}] {name}: done in {time:.1?}"))
            }
            Progress::Bar(bar) => bar.inc(1),
        }
    }

    /// The image with this number, from 1, was not done.
    pub fn failed(&self, number: usize, name: &str, error: &dyn fmt::Display) {
        match self {
            Progress::Silent => {}
            Progress::Lines { total } => complain(format_args!("[{number}/{total}] {name}: failed: {error}")),
            Progress::Bar(bar) => {
                bar.println(format!("{name}: failed: {error}"));
                bar.inc(1);
            }
        }
    }

    /// No more images.
    pub fn end(&self) {
        if let Progress::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}

/// Writes a line to standard error. If nobody reads that, nothing can be said.
pub fn complain(line: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Writes a line to standard output at once, also into a pipe. A reader that has gone is no failure.
pub fn say(line: fmt::Arguments<'_>) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
