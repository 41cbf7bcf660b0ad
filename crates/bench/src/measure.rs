//! Times by criterion: the median of an operation, in nanoseconds.

use std::time::Duration;

use criterion::{BatchSize, Criterion};
use serde::Deserialize;
use tempfile::TempDir;

/// Why something could not be measured or told.
pub type Failure = Box<dyn std::error::Error>;

/// What a topic measures with.
pub struct Bench {
    /// Where criterion keeps its figures.
    folder: TempDir,
    quick: bool,
    filter: Option<String>,
}

#[derive(Deserialize)]
struct Estimates {
    median: Estimate,
}

#[derive(Deserialize)]
struct Estimate {
    point_estimate: f64,
}

impl Bench {
    /// With `quick` a tenth of the work is done; only rows whose id contains the `filter` are asked for.
    ///
    /// # Errors
    /// If there is no place for criterion's figures.
    pub fn new(quick: bool, filter: Option<String>) -> Result<Self, Failure> {
        Ok(Bench { folder: tempfile::tempdir()?, quick, filter })
    }

    /// Whether the row is asked for.
    pub fn wants(&self, id: &str) -> bool {
        self.filter.as_ref().is_none_or(|text| id.contains(text))
    }

    /// `count` of something, or a tenth of it where figures are not to be quoted.
    pub fn scaled(&self, count: u64) -> u64 {
        if self.quick { (count / 10).max(1) } else { count }
    }

    fn criterion(&self, samples: usize) -> Criterion {
        let time = Duration::from_millis(if self.quick { 300 } else { 3_000 });
        Criterion::default()
            .without_plots()
            .output_directory(self.folder.path())
            .sample_size(samples)
            .warm_up_time(time / 3)
            .measurement_time(time)
    }

    /// Median nanoseconds of `run`, which is short: at most some microseconds.
    ///
    /// # Errors
    /// If criterion left no figures.
    pub fn time(&mut self, id: &str, mut run: impl FnMut()) -> Result<f64, Failure> {
        // Many short samples: where other programs want the processors too, most are still not interrupted.
        self.criterion(1_000).nresamples(2_000).bench_function(id, |bencher| bencher.iter(&mut run));
        self.median(id)
    }

    /// Median nanoseconds of `run` on what `make` made, which is not timed.
    ///
    /// # Errors
    /// If criterion left no figures.
    pub fn time_of<T>(
        &mut self,
        id: &str,
        mut make: impl FnMut() -> T,
        mut run: impl FnMut(T),
    ) -> Result<f64, Failure> {
        self.criterion(10).bench_function(id, |bencher| {
            bencher.iter_batched(&mut make, &mut run, BatchSize::PerIteration);
        });
        self.median(id)
    }

    fn median(&self, id: &str) -> Result<f64, Failure> {
        let file = self.folder.path().join(id).join("new/estimates.json");
        let text = std::fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        Ok(serde_json::from_str::<Estimates>(&text)?.median.point_estimate)
    }
}

/// The median of `samples` figures that `sample` gives.
pub fn median_of(samples: u64, mut sample: impl FnMut() -> f64) -> f64 {
    median((0..samples).map(|_| sample()).collect())
}

/// The median of some figures.
pub fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
