//! The report at the end: what was learned, and what became of the memory.
//!
//! Not here: measuring (`main.rs`).

use std::fmt;
use std::time::Duration;

use comfy_table::{CellAlignment, Table, presets};
use tenure::{BackendInfo, MemoryReport};

use crate::model::Samples;
use crate::training::Trained;

/// The device, and that it is software if it is: a result from software never reads as one from hardware.
pub fn device(info: &BackendInfo) -> String {
    let software = if info.software { " (software)" } else { "" };
    format!("{}{software}, backend {}", info.device, info.name)
}

/// What was learned, as text with tables.
#[derive(Debug)]
pub struct Learned<'a> {
    /// From what.
    pub samples: &'a Samples,
    /// What.
    pub trained: &'a Trained,
    /// In which time.
    pub time: Duration,
}

/// The life of the memory, as text with a table.
#[derive(Debug)]
pub struct Life<'a> {
    /// Before the training.
    pub before: &'a MemoryReport,
    /// After the training.
    pub after: &'a MemoryReport,
    /// After the manager has closed.
    pub closed: &'a MemoryReport,
}

impl fmt::Display for Learned<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Learned { samples, trained, time } = self;
        let mut predictions = Table::new();
        predictions.load_preset(presets::ASCII_MARKDOWN);
        predictions.set_header(["x_i", "x_j", "y", "predicted"]);
        for ((x_i, x_j), y) in samples.x_i.iter().zip(&samples.x_j).zip(&samples.y) {
            let predicted = trained.parameters.predict(*x_i, *x_j);
            predictions.add_row([x_i.to_string(), x_j.to_string(), y.to_string(), format!("{predicted:.4}")]);
        }
        for column in predictions.column_iter_mut() {
            column.set_cell_alignment(CellAlignment::Right);
        }
        writeln!(f, "{}", predictions.trim_fmt())?;
        let [weight_i, weight_j] = trained.parameters.weights;
        let recordings = format!(
            "{} of {} operations, evaluated {} times, encoded for the driver {}",
            trained.recordings,
            trained.operations,
            trained.executions,
            times(trained.encodings)
        );
        rows(
            f,
            [
                ("weights", format!("{weight_i:.6}, {weight_j:.6}")),
                ("bias", format!("{:.6}", trained.parameters.bias)),
                ("loss", format!("{:.6}, at the start {:.6}", trained.loss, trained.first_loss)),
                ("recordings", recordings),
                ("time", format!("{:.2} ms", time.as_secs_f64() * 1e3)),
            ],
        )
    }
}

impl fmt::Display for Life<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Life { before, after, closed } = self;
        let held = |memory: &MemoryReport| memory.live.bytes + memory.retired.bytes;
        let live = format!(
            "{} bytes before, {} at most, {} bytes after",
            held(before),
            after.peak_live_bytes,
            held(after)
        );
        let driver = format!(
            "{} allocations, {} frees; {} bytes kept for reuse after the scope",
            closed.allocations, closed.frees, after.cached.bytes
        );
        rows(f, [("live", live), ("driver", driver)])
    }
}

fn times(count: u64) -> String {
    if count == 1 { "once".to_owned() } else { format!("{count} times") }
}

fn rows<const N: usize>(f: &mut fmt::Formatter<'_>, rows: [(&str, String); N]) -> fmt::Result {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    for (name, value) in rows {
        table.add_row([name.to_owned(), value]);
    }
    f.write_str(&table.trim_fmt())
}
