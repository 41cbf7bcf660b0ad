//! Progress: a bar on a terminal, lines elsewhere.

use std::fmt::Display;
use std::io::IsTerminal;
use std::path::Path;

use indicatif::{ProgressBar, ProgressStyle};

/// How far the batch is.
pub struct Progress {
    show: Show,
}

enum Show {
    Bar(ProgressBar),
    Lines,
    Nothing,
}

impl Progress {
    /// For `total` images.
    pub fn new(total: usize, quiet: bool) -> Self {
        let show = if quiet {
            Show::Nothing
        } else if std::io::stderr().is_terminal() {
            let bar = ProgressBar::new(total as u64);
            let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed} {wide_msg}");
            bar.set_style(style.expect("the template is right"));
            Show::Bar(bar)
        } else {
            Show::Lines
        };
        Progress { show }
    }

    /// The next image.
    pub fn at(&self, file: &Path) {
        match &self.show {
            Show::Bar(bar) => bar.set_message(file.display().to_string()),
            Show::Lines => eprintln!("{}", file.display()),
            Show::Nothing => {}
        }
    }

    /// An image failed.
    pub fn failed(&self, file: &Path, error: &dyn Display) {
        let text = format!("failed: {}: {error}", file.display());
        match &self.show {
            Show::Bar(bar) => bar.println(text),
            Show::Lines => eprintln!("{text}"),
            Show::Nothing => {}
        }
    }

    /// An image is over.
    pub fn advance(&self) {
        if let Show::Bar(bar) = &self.show {
            bar.inc(1);
        }
    }

    /// The batch is over.
    pub fn end(&self) {
        if let Show::Bar(bar) = &self.show {
            bar.finish_and_clear();
        }
    }
}
