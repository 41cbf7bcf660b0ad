//! Telling how far training is: a bar on a terminal, a line for each tenth elsewhere. All of it goes to standard error.
//!
//! Not here: the report at the end (`report.rs`).

use std::io::{self, IsTerminal, Write};

use indicatif::{ProgressBar, ProgressStyle};

use crate::training::Step;

/// Steps between two looks at a bar's text.
const EVERY: u64 = 10;

/// Where progress goes.
#[derive(Debug)]
pub enum Progress {
    /// A line for each tenth.
    Lines {
        /// Steps of the training.
        total: u64,
    },
    /// A bar that stays in its place.
    Bar(ProgressBar),
}

impl Progress {
    /// For so many steps, by what standard error is.
    pub fn new(total: u64) -> Progress {
        if !io::stderr().is_terminal() {
            return Progress::Lines { total };
        }
        let style = ProgressStyle::with_template("{bar:40} {pos}/{len} steps, loss {msg}")
            .unwrap_or_else(|_| ProgressStyle::default_bar());
        Progress::Bar(ProgressBar::new(total).with_style(style))
    }

    /// A step was taken.
    pub fn taken(&self, step: &Step) {
        match self {
            Progress::Lines { total } => {
                if is_tenth(step.number, *total) {
                    let (number, loss) = (step.number, step.loss);
                    // If nobody reads that, nothing can be said.
                    let _ = writeln!(io::stderr(), "[{number}/{total}] loss {loss:.5}");
                }
            }
            Progress::Bar(bar) => {
                bar.set_position(step.number);
                if step.number.is_multiple_of(EVERY) {
                    bar.set_message(format!("{:.5}", step.loss));
                }
            }
        }
    }

    /// No more steps.
    pub fn end(&self) {
        if let Progress::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}

/// True for the step that completes a tenth of the whole.
fn is_tenth(number: u64, total: u64) -> bool {
    let tenths = |steps: u64| u128::from(steps) * 10 / u128::from(total);
    number == 1 || tenths(number) > tenths(number - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_about_ten_lines() {
        let lines = |total: u64| (1..=total).filter(|number| is_tenth(*number, total)).collect::<Vec<_>>();
        assert_eq!(lines(3), [1, 2, 3]);
        assert_eq!(lines(100), [1, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100]);
        assert_eq!(lines(1234).len(), 11);
    }
}
