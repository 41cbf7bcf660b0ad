//! Shows a running suite: a bar with the current case on a terminal, plain lines elsewhere.
//!
//! Not here: the verdict. It is shown once at the end (`summary.rs`).

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use super::protocol::{Case, Status};
use super::record::{Device, Tally};
use super::runner::Observer;
use crate::terminal::{counted, green, interactive, red, seconds, yellow};

/// The progress of one backend's suite.
pub struct Progress {
    backend: &'static str,
    look: Look,
    tally: Tally,
    total: usize,
}

enum Look {
    Bar(ProgressBar),
    Lines,
}

impl Progress {
    /// For the suite of this backend, with a bar if somebody watches.
    pub fn new(backend: &'static str) -> Progress {
        let look = if interactive() { Look::Bar(bar(backend)) } else { Look::Lines };
        Progress { backend, look, tally: Tally::default(), total: 0 }
    }

    fn say(&self, line: &str) {
        match &self.look {
            Look::Bar(bar) => bar.println(line),
            Look::Lines => println!("{line}"),
        }
    }
}

impl Observer for Progress {
    fn started(&mut self, device: &Device, total: usize) {
        self.total = total;
        self.say(&format!("{} on {}: {}", self.backend, device.name, counted(total, "case")));
        if let Look::Bar(bar) = &self.look {
            bar.set_length(total as u64);
            // Not earlier: a bar without a length looks full.
            bar.enable_steady_tick(Duration::from_millis(100));
        }
    }

    fn running(&mut self, id: &str) {
        if let Look::Bar(bar) = &self.look {
            bar.set_message(id.to_owned());
        }
    }

    fn ended(&mut self, case: &Case) {
        let before = self.tally.total();
        self.tally.count(case.status);
        match &self.look {
            Look::Bar(bar) => {
                bar.set_position(before as u64 + 1);
                bar.set_prefix(state(self.tally));
            }
            Look::Lines => println!("{}", line(self.backend, before + 1, self.total, case)),
        }
        // With a bar only failures are worth a line while it runs; the rest is in the summary.
        if let (Look::Bar(bar), Status::Failed) = (&self.look, case.status) {
            bar.println(line(self.backend, before + 1, self.total, case));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Look::Bar(bar) = &self.look {
            bar.finish_and_clear();
        }
    }
}

fn bar(backend: &'static str) -> ProgressBar {
    let bar = ProgressBar::new(0);
    let template =
        format!("{{spinner}} {backend:>10} [{{bar:32}}] {{pos}}/{{len}} {{prefix}} {{wide_msg:.dim}}");
    // A template that indicatif does not take is replaced by its own: progress must never fail a run.
    bar.set_style(
        ProgressStyle::with_template(&template)
            .unwrap_or_else(|_| ProgressStyle::default_bar())
            .progress_chars("=> "),
    );
    bar
}

fn state(tally: Tally) -> String {
    match tally.failed {
        0 => String::new(),
        failed => red(&format!("{failed} failed")),
    }
}

/// `host  [ 12/140] scope.finish_twice ... ok (3 ms)`
fn line(backend: &str, number: usize, total: usize, case: &Case) -> String {
    let width = total.to_string().len();
    let time = seconds(Duration::from_secs_f64(case.ms.max(0.0) / 1e3));
    let status = match case.status {
        Status::Passed => green("ok"),
        Status::Failed => red("FAILED"),
        Status::Skipped => yellow("skipped"),
        Status::ExpectedFailure => yellow("failed as expected"),
    };
    let mut line = format!("{backend} [{number:>width$}/{total}] {} ... {status} ({time})", case.id);
    // The first line is enough here: the whole reason is in the summary.
    if let Some(reason) = case.reason().lines().next() {
        line.push_str(": ");
        line.push_str(reason);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_line_has_the_case_and_its_result() {
        let case = Case {
            id: "scope.finish_twice".into(),
            rule: "L10".into(),
            status: Status::Skipped,
            reason: Some("one queue only\nand more".into()),
            ms: 3.0,
        };
        let line = line("host", 7, 120, &case);
        assert_eq!(line, "host [  7/120] scope.finish_twice ... skipped (3 ms): one queue only");
    }
}
