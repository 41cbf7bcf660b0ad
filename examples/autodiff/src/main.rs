//! Trains a two-layer perceptron and tells what became of the memory.

use std::path::PathBuf;
use std::process::ExitCode;

use autodiff::plot;
use autodiff::training::{Training, train};
use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};

/// Trains a two-layer perceptron on generated data, with gradients by tenure's graph.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// The backend to run on.
    #[arg(long, default_value = "host")]
    backend: String,
    /// Steps of gradient descent.
    #[arg(long, default_value_t = 1_000)]
    steps: u64,
    /// Steps of one scope.
    #[arg(long, default_value_t = 100)]
    epoch: u64,
    /// Draw memory and loss over the steps to this file, as SVG.
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), Box<dyn std::error::Error>> {
    let manager = tenure::open(&arguments.backend)?;
    let info = manager.info().clone();
    let device = format!("{}{}", info.device, if info.software { " (software)" } else { "" });
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} steps, loss {msg}")?;
    let progress = ProgressBar::new(arguments.steps).with_style(style);
    let training = Training { steps: arguments.steps, epoch: arguments.epoch, ..Training::default() };
    let mut samples = Vec::new();
    let report = train(&manager, training, |step, sample| {
        progress.set_position(step + 1);
        if step % 10 == 0 {
            progress.set_message(format!("{:.5}", sample.loss));
        }
        samples.push(sample);
    })?;
    progress.finish_and_clear();
    if let (Some(first), Some(last), Some(report)) = (samples.first(), samples.last(), report) {
        let live = |pick: fn(u64, u64) -> u64| {
            samples.iter().map(|sample| sample.live_bytes).reduce(pick).unwrap_or(0)
        };
        println!("{device}: {} steps, loss {:.5} -> {:.5}", samples.len(), first.loss, last.loss);
        println!(
            "live after a step: {} to {} bytes; graph: {} nodes",
            live(u64::min),
            live(u64::max),
            last.nodes
        );
        println!(
            "last epoch: {} executions, {} hooks, {} bytes at most",
            report.executions,
            report.hooks.len(),
            report.peak_bytes
        );
    }
    if let Some(file) = &arguments.plot {
        std::fs::write(file, plot::draw(&device, &samples))
            .map_err(|error| format!("{}: {error}", file.display()))?;
        println!("drawn to {}", file.display());
    }
    let closed = manager.close()?;
    if !closed.is_clean() {
        return Err(format!("something was left over: {closed}").into());
    }
    Ok(())
}
