//! The report at the end: time by node, memory, hooks, and what became of the images.
//!
//! Not here: counting (`ledger.rs`).

use std::fmt;
use std::time::Duration;

use comfy_table::{CellAlignment, Table, presets};
use tenure::{BackendInfo, MemoryReport, ScopeReport};

use crate::batch::Tally;
use crate::ledger::Counts;

/// Shows all of it as text, with tables.
#[derive(Debug)]
pub struct Summary<'a> {
    /// What it ran on.
    pub device: &'a BackendInfo,
    /// What became of the images.
    pub tally: &'a Tally,
    /// What was counted.
    pub counts: &'a Counts,
    /// The manager's memory after the batch.
    pub memory: &'a MemoryReport,
    /// The report of the batch's scope.
    pub batch: Option<&'a ScopeReport>,
}

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.nodes().trim_fmt())?;
        writeln!(f, "{}", self.figures().trim_fmt())?;
        match self.batch {
            Some(report) => f.write_str(report.to_string().trim_end()),
            None => Ok(()),
        }
    }
}

impl Summary<'_> {
    fn nodes(&self) -> Table {
        let mut table = Table::new();
        table.load_preset(presets::ASCII_MARKDOWN);
        table.set_header(["node", "runs", "broken", "total", "mean", "longest", "on the device"]);
        for node in &self.counts.nodes {
            let mean =
                node.total.checked_div(u32::try_from(node.runs).unwrap_or(u32::MAX)).unwrap_or_default();
            table.add_row([
                node.name.to_owned(),
                node.runs.to_string(),
                node.broken.to_string(),
                time(node.total),
                time(mean),
                time(node.longest),
                time(node.device),
            ]);
        }
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        table
    }

    fn figures(&self) -> Table {
        let Summary { device, tally, counts, memory, .. } = self;
        let mut table = Table::new();
        table.load_preset(presets::NOTHING);
        let untried = tally.total - tally.tried();
        let images = format!(
            "{} of {} done, {} failed, {untried} left",
            tally.done,
            tally.total,
            tally.failures.len()
        );
        let mut row = |name: &str, value: String| {
            table.add_row([name.to_owned(), value]);
        };
        // A result from software never reads as one from hardware.
        let software = if device.software { " (software)" } else { "" };
        row("device", format!("{}{software}, backend {}", device.device, device.name));
        row("images", images);
        row("scopes", format!("{} finished, {} executions", counts.scopes, counts.executions));
        row("hooks", format!("{} run, {} failed", counts.hook_runs, counts.hook_failures));
        row(
            "peak",
            format!("{} live, {} reserved", bytes(memory.peak_live_bytes), bytes(memory.peak_reserved_bytes)),
        );
        row("live", bytes(memory.live.bytes + memory.retired.bytes));
        row("cached", bytes(memory.cached.bytes));
        let trimmed = self.batch.map_or(0, |report| report.trimmed_bytes);
        row("trimmed", format!("{} at the end; {} trims in all", bytes(trimmed), memory.trims));
        table
    }
}

fn time(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}

/// Bytes with a unit, to one digit after the point.
fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut units = UNITS.into_iter();
    let mut unit = units.next().unwrap_or_default();
    for larger in units {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = larger;
    }
    format!("{value:.1} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::Ledger;
    use tenure::Outcome;

    #[test]
    fn bytes_have_a_unit() {
        let shown = [0, 1023, 1024, 1536, 64 << 20, 3 << 40].map(bytes);
        assert_eq!(shown, ["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "64.0 MiB", "3.0 TiB"]);
    }

    #[test]
    fn the_summary_has_a_row_for_each_node() {
        let ledger = Ledger::new(["load", "save"]);
        ledger.node_ended(0, Duration::from_micros(1500), Some(Outcome::Completed));
        ledger.node_ended(0, Duration::from_micros(2500), Some(Outcome::Cancelled));
        let tally = Tally { total: 3, done: 1, failures: Vec::new() };
        let counts = ledger.counts();
        let memory = MemoryReport { peak_live_bytes: 2048, ..MemoryReport::default() };
        let device = BackendInfo { name: "vulkan".into(), device: "llvmpipe".into(), software: true };
        let summary =
            Summary { device: &device, tally: &tally, counts: &counts, memory: &memory, batch: None };
        let text = summary.to_string();
        let row = |name: &str| {
            let line = text.lines().find(|line| line.trim_start_matches(['|', ' ']).starts_with(name));
            line.unwrap_or_else(|| panic!("no row {name} in\n{text}"))
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(row("load"), "| load | 2 | 1 | 4.00 ms | 2.00 ms | 2.50 ms | 0.00 ms |");
        assert_eq!(row("save"), "| save | 0 | 0 | 0.00 ms | 0.00 ms | 0.00 ms | 0.00 ms |");
        assert_eq!(row("device"), "device llvmpipe (software), backend vulkan");
        assert_eq!(row("images"), "images 1 of 3 done, 0 failed, 2 left");
        assert_eq!(row("peak"), "peak 2.0 KiB live, 0 B reserved");
    }
}
