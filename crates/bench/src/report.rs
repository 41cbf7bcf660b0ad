//! Rows of figures: as a table, and as JSON.

use std::fmt;
use std::path::Path;

use comfy_table::{Table, presets};
use serde::Serialize;
use tenure_core::BackendInfo;

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
    /// `value / baseline_value`; none where that is 0.
    pub ratio: Option<f64>,
    /// The device that it is a figure of, where it has one of its own: in a baseline's name the device stands already.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// What the figure has to keep, if anything.
    #[serde(skip)]
    pub limit: Option<f64>,
    /// What the limit is.
    #[serde(skip)]
    pub bound: Bound,
}

/// What a row's limit is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bound {
    /// The most that the value may be.
    #[default]
    Most,
    /// The least that the value may be.
    Least,
    /// The most that the ratio to the baseline may be.
    MostRatio,
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
            device: None,
            limit: None,
            bound: Bound::Most,
        }
    }

    /// Of a device. One in software is named so.
    pub fn on(mut self, device: &BackendInfo) -> Self {
        let software = if device.software { ", in software" } else { "" };
        self.device = Some(format!("{}{software}", device.device));
        self
    }

    /// Beside what it is compared with.
    pub fn against(mut self, baseline: impl Into<String>, value: f64) -> Self {
        self.baseline = Some(baseline.into());
        self.baseline_value = Some(value);
        // Nothing has no parts.
        self.ratio = (value != 0.0).then(|| self.value / value);
        self
    }

    /// A row of what one thing is as a part of another, whose own figure is then 1.
    pub fn part(id: impl Into<String>, part: f64, of: impl Into<String>) -> Self {
        Row::new(id, part, "ratio").against(of, 1.0)
    }

    /// With the most that it may be.
    pub fn at_most(mut self, limit: f64) -> Self {
        self.limit = Some(limit);
        self
    }

    /// With the least that it may be.
    pub fn at_least(mut self, limit: f64) -> Self {
        self.limit = Some(limit);
        self.bound = Bound::Least;
        self
    }

    /// With the most that its ratio to the baseline may be.
    pub fn ratio_at_most(mut self, limit: f64) -> Self {
        self.limit = Some(limit);
        self.bound = Bound::MostRatio;
        self
    }

    /// Whether the figure keeps its limit; none where there is no limit.
    pub fn is_kept(&self) -> Option<bool> {
        let limit = self.limit?;
        Some(match self.bound {
            Bound::Most => self.value <= limit,
            Bound::Least => self.value >= limit,
            Bound::MostRatio => self.ratio? <= limit,
        })
    }

    /// The limit as a value, where a chart marks it.
    pub fn limit_as_value(&self) -> Option<f64> {
        let limit = self.limit?;
        match self.bound {
            Bound::Most | Bound::Least => Some(limit),
            Bound::MostRatio => Some(limit * self.baseline_value?),
        }
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

    /// Adds the rows to a JSON file of that form; makes the file if it is not there.
    ///
    /// # Errors
    /// If the file cannot be read or written, or has another form.
    pub fn add_to(&self, file: &Path) -> Result<(), Failure> {
        let named = |error: std::io::Error| format!("{}: {error}", file.display());
        let mut all: serde_json::Value = match std::fs::read_to_string(file) {
            Ok(text) => serde_json::from_str(&text)?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                serde_json::json!({ "machine": self.machine, "rows": [] })
            }
            Err(error) => return Err(named(error).into()),
        };
        let rows = all.get_mut("rows").and_then(|rows| rows.as_array_mut());
        let rows = rows.ok_or_else(|| format!("{}: there are no rows", file.display()))?;
        for row in &self.rows {
            rows.push(serde_json::to_value(row)?);
        }
        Ok(std::fs::write(file, serde_json::to_string_pretty(&all)? + "\n").map_err(named)?)
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
        let mut header = vec!["row", "value", "unit", "limit", "baseline", "its value", "ratio"];
        let has_devices = self.rows.iter().any(|row| row.device.is_some());
        header.extend(has_devices.then_some("device"));
        table.set_header(header);
        for row in &self.rows {
            let limit = row.limit.map_or_else(String::new, |limit| {
                let sign = match row.bound {
                    Bound::Most => "≤",
                    Bound::Least => "≥",
                    Bound::MostRatio => "ratio ≤",
                };
                let verdict = if row.is_kept() == Some(true) { "" } else { " MISSED" };
                format!("{sign} {limit}{verdict}")
            });
            let figure = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.2}"));
            let mut cells = vec![
                row.id.clone(),
                format!("{:.2}", row.value),
                row.unit.to_owned(),
                limit,
                row.baseline.clone().unwrap_or_default(),
                figure(row.baseline_value),
                row.ratio.map_or_else(String::new, |ratio| format!("{ratio:.4}")),
            ];
            cells.extend(has_devices.then(|| row.device.clone().unwrap_or_default()));
            table.add_row(cells);
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
        let beside = |value| Row::new("a.b", value, "ns").against("peer", 100.0).ratio_at_most(1.1);
        assert_eq!((beside(109.0).is_kept(), beside(111.0).is_kept()), (Some(true), Some(false)));
        assert_eq!(beside(109.0).limit_as_value(), Some(1.1 * 100.0));
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

    #[test]
    fn a_device_in_software_is_named_so() {
        let info = BackendInfo { name: "cuda".to_owned(), device: "softly".to_owned(), software: true };
        let rows = vec![Row::new("a.b", 1.0, "ns").on(&info), Row::new("a.c", 1.0, "ns")];
        let report = Report { machine: "m".to_owned(), rows };
        assert!(report.to_string().contains("softly, in software"), "{report}");
        let json: serde_json::Value = serde_json::from_str(&report.to_json().unwrap()).unwrap();
        assert_eq!(json["rows"][0]["device"], "softly, in software");
        assert!(json["rows"][1].get("device").is_none());
    }

    #[test]
    fn rows_of_peers_are_added() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("rows.json");
        for id in ["a.own", "a.peer"] {
            let rows = vec![Row::new(id, 1.0, "ns")];
            Report { machine: "m".to_owned(), rows }.add_to(&file).unwrap();
        }
        let all: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
        assert_eq!(
            (all["rows"][0]["id"].as_str(), all["rows"][1]["id"].as_str()),
            (Some("a.own"), Some("a.peer"))
        );
    }
}
