//! Rows of figures: as a table, and as JSON.

use std::fmt;

use comfy_table::{Table, presets};
use serde::Serialize;

use crate::measure::Failure;

/// One figure.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The row's name, `topic.figure`.
    pub id: String,
    /// The figure.
    pub value: f64,
    /// Its unit.
    pub unit: &'static str,
    /// What it is compared with.
    pub baseline: Option<String>,
    /// The figure of that.
    pub baseline_value: Option<f64>,
    /// `value / baseline_value`.
    pub ratio: Option<f64>,
    /// What the figure has to be, at most; or at least, where `at_least` is true.
    #[serde(skip)]
    pub limit: Option<f64>,
    /// Whether the limit is a lower one.
    #[serde(skip)]
    pub at_least: bool,
}

impl Row {
    /// A figure by itself.
    pub fn new(id: impl Into<String>, value: f64, unit: &'static str) -> Self {
        Row {
            id: id.into(),
            value,
            unit,
            baseline: None,
            baseline_value: None,
            ratio: None,
            limit: None,
            at_least: false,
        }
    }

    /// Beside what it is compared with.
    pub fn against(mut self, baseline: impl Into<String>, value: f64) -> Self {
        self.baseline = Some(baseline.into());
        self.baseline_value = Some(value);
        self.ratio = Some(self.value / value);
        self
    }

    /// With the most that it may be.
    pub fn at_most(mut self, limit: f64) -> Self {
        self.limit = Some(limit);
        self
    }

    /// With the least that it may be.
    pub fn at_least(mut self, limit: f64) -> Self {
        self.limit = Some(limit);
        self.at_least = true;
        self
    }

    /// Whether the figure keeps its limit; none where there is no limit.
    pub fn is_kept(&self) -> Option<bool> {
        let limit = self.limit?;
        Some(if self.at_least { self.value >= limit } else { self.value <= limit })
    }
}

/// All rows of a run, with the machine.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The machine's class.
    pub machine: String,
    /// The figures.
    pub rows: Vec<Row>,
}

impl Report {
    /// The rows of a run on this machine.
    pub fn new(rows: Vec<Row>) -> Self {
        Report { machine: machine(), rows }
    }

    /// The agreed form for programs.
    ///
    /// # Errors
    /// None in practice: all fields can be written.
    pub fn to_json(&self) -> Result<String, Failure> {
        Ok(serde_json::to_string_pretty(self)?)
    }
}

/// The machine's class: processor, threads, system.
fn machine() -> String {
    let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get());
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .map_or(std::env::consts::ARCH, |rest| rest.trim_start_matches([' ', '\t', ':']));
    format!("{model}, {threads} threads, {}", std::env::consts::OS)
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new();
        table.load_preset(presets::UTF8_FULL_CONDENSED);
        table.set_header(["row", "value", "unit", "limit", "baseline", "its value", "ratio"]);
        for row in &self.rows {
            let limit = row.limit.map_or_else(String::new, |limit| {
                let sign = if row.at_least { "≥" } else { "≤" };
                let verdict = if row.is_kept() == Some(true) { "" } else { " MISSED" };
                format!("{sign} {limit}{verdict}")
            });
            let figure = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.2}"));
            table.add_row([
                row.id.clone(),
                format!("{:.2}", row.value),
                row.unit.to_owned(),
                limit,
                row.baseline.clone().unwrap_or_default(),
                figure(row.baseline_value),
                row.ratio.map_or_else(String::new, |ratio| format!("{ratio:.4}")),
            ]);
        }
        writeln!(f, "{}", self.machine)?;
        table.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_kept_from_their_side() {
        assert_eq!(Row::new("a.b", 99.0, "ns").at_most(100.0).is_kept(), Some(true));
        assert_eq!(Row::new("a.b", 101.0, "ns").at_most(100.0).is_kept(), Some(false));
        assert_eq!(Row::new("a.b", 0.9, "ratio").at_least(0.85).is_kept(), Some(true));
        assert_eq!(Row::new("a.b", 0.8, "ratio").at_least(0.85).is_kept(), Some(false));
        assert_eq!(Row::new("a.b", 1.0, "ns").is_kept(), None);
    }

    #[test]
    fn the_json_has_the_agreed_fields() {
        let row = Row::new("a.b", 10.0, "ns").against("peer", 40.0).at_most(100.0);
        let report = Report { machine: "m".to_owned(), rows: vec![row] };
        let json: serde_json::Value = serde_json::from_str(&report.to_json().unwrap()).unwrap();
        let expected = serde_json::json!({ "machine": "m", "rows": [{
            "id": "a.b", "value": 10.0, "unit": "ns",
            "baseline": "peer", "baseline_value": 40.0, "ratio": 0.25,
        }]});
        assert_eq!(json, expected);
    }
}
