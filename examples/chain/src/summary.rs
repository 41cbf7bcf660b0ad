//! What the batch did: times by node, memory, hooks.

use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use comfy_table::Table;
use tenure::{BackendInfo, MemoryReport, ScopeReport};

use crate::batch::JobError;
use crate::node::NODES;

/// The figures of a batch.
pub struct Summary {
    device: String,
    /// Images that were written.
    pub done: usize,
    /// Images that failed, and why.
    pub failed: Vec<(PathBuf, JobError)>,
    /// The user has cancelled.
    pub cancelled: bool,
    /// The report of the batch's scope.
    pub batch: Option<ScopeReport>,
    /// Memory when the manager closed: peaks, allocations.
    pub memory: MemoryReport,
    /// What closing found wrong.
    pub problems: Option<String>,
    hooks_run: u64,
    hooks_failed: u64,
    times: Vec<(&'static str, u32, Duration)>,
}

impl Summary {
    /// Nothing done yet.
    pub fn new(info: &BackendInfo) -> Self {
        let kind = if info.software { ", software" } else { "" };
        let nodes = ["load"].into_iter().chain(NODES).chain(["save"]);
        Summary {
            device: format!("{} ({}{kind})", info.name, info.device),
            done: 0,
            failed: Vec::new(),
            cancelled: false,
            batch: None,
            memory: MemoryReport::default(),
            problems: None,
            hooks_run: 0,
            hooks_failed: 0,
            times: nodes.map(|node| (node, 0, Duration::ZERO)).collect(),
        }
    }

    /// Adds the time that `work` takes to a node's.
    pub fn timed<R>(&mut self, node: &str, work: impl FnOnce() -> R) -> R {
        let started = Instant::now();
        let result = work();
        self.add_time(node, started.elapsed());
        result
    }

    /// Adds the times of the device's nodes.
    pub fn add_times(&mut self, times: &[Duration; 3]) {
        for (node, time) in NODES.iter().zip(times) {
            self.add_time(node, *time);
        }
    }

    fn add_time(&mut self, node: &str, time: Duration) {
        if let Some((_, runs, total)) = self.times.iter_mut().find(|(name, ..)| *name == node) {
            *runs += 1;
            *total += time;
        }
    }

    /// Adds the hooks of a scope.
    pub fn add_hooks(&mut self, report: &ScopeReport) {
        self.hooks_run += report.hooks.iter().map(|hook| hook.runs).sum::<u64>();
        self.hooks_failed += report.hooks.iter().map(|hook| hook.failed).sum::<u64>();
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new();
        table.set_header(["node", "images", "total ms", "ms an image"]);
        for (node, runs, total) in &self.times {
            let total = total.as_secs_f64() * 1e3;
            let each = if *runs == 0 { 0.0 } else { total / f64::from(*runs) };
            table.add_row([
                (*node).to_owned(),
                runs.to_string(),
                format!("{total:.1}"),
                format!("{each:.2}"),
            ]);
        }
        writeln!(f, "{} on {}", if self.cancelled { "cancelled" } else { "done" }, self.device)?;
        writeln!(f, "{table}")?;
        writeln!(f, "images: {} done, {} failed", self.done, self.failed.len())?;
        writeln!(
            f,
            "memory: peak {} bytes live, {} bytes reserved; {} bytes trimmed at the end; {} driver allocations, {} reused",
            self.memory.peak_live_bytes,
            self.memory.peak_reserved_bytes,
            self.batch.as_ref().map_or(0, |report| report.trimmed_bytes),
            self.memory.allocations,
            self.memory.cache_hits
        )?;
        writeln!(f, "trims: {}; cached at the end: {} bytes", self.memory.trims, self.memory.cached.bytes)?;
        write!(f, "hooks: {} run, {} failed", self.hooks_run, self.hooks_failed)?;
        if let Some(report) = &self.batch {
            write!(f, "\n{}", report.to_string().trim_end())?;
        }
        if let Some(problems) = &self.problems {
            write!(f, "\n{problems}")?;
        }
        Ok(())
    }
}
