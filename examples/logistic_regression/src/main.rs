//! The command `logistic_regression`. Not here: its parts (`lib.rs` lists them).

use std::error::Error;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use logistic_regression::cli::Arguments;
use logistic_regression::model::Samples;
use logistic_regression::progress::Progress;
use logistic_regression::report::{Learned, Life, device};
use logistic_regression::training::train;

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let manager = tenure::open(&arguments.backend)?;
    println!("{}", device(manager.info()));
    let samples = Samples::kompute();
    let progress = Progress::new(arguments.steps);
    let before = manager.memory();
    let begun = Instant::now();
    let ended = manager
        .run("training", |scope| train(scope, &samples, arguments.training(), |step| progress.taken(step)));
    let time = begun.elapsed();
    progress.end();
    if let Ok((trained, _)) = &ended {
        println!("{}", Learned { samples: &samples, trained, time });
    }

    // Whatever came of it, the scope has given everything back.
    let after = manager.memory();
    let closed = manager.close()?;
    println!("{}", Life { before: &before, after: &after, closed: &closed.memory });
    let report = match &ended {
        Ok((_, report)) => Some(report),
        Err(error) => error.report(),
    };
    if let Some(report) = report {
        println!("{}", report.to_string().trim_end());
    }
    ended?;
    if closed.is_clean() { Ok(()) } else { Err(format!("something was left over: {closed}").into()) }
}
