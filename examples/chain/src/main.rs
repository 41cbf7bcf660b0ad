//! A chain of image filters over a folder of PNG files: load, upscale, blur, sharpen, save.
//!
//! Here only: from arguments to an exit code. The work is in `batch.rs`.

mod batch;
mod cancel;
mod cli;
mod image;
mod kernels;
mod node;
mod progress;
mod samples;
mod summary;

use std::process::ExitCode;

use clap::Parser;

use crate::batch::{Batch, BatchError};
use crate::cancel::Cancel;
use crate::cli::Cli;

/// Some images failed, the others are done.
const SOME_FAILED: u8 = 1;
/// Nothing could be done at all.
const UNUSABLE: u8 = 2;
/// Ended by Ctrl-C, as shells report it.
const CANCELLED: u8 = 130;

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(&cli) {
        Ok(summary) => {
            println!("{summary}");
            for (file, error) in &summary.failed {
                eprintln!("error: {}: {error}", file.display());
            }
            if summary.cancelled {
                eprintln!("cancelled: what was done is kept, everything else was given back");
                ExitCode::from(CANCELLED)
            } else if summary.failed.is_empty() {
                ExitCode::SUCCESS
            } else {
                ExitCode::from(SOME_FAILED)
            }
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(UNUSABLE)
        }
    }
}

fn run(cli: &Cli) -> Result<summary::Summary, BatchError> {
    if let Some(count) = cli.generate {
        samples::write(&cli.input, count)?;
    }
    let cancel = Cancel::on_signal()?;
    Batch::new(cli, &cancel)?.run()
}
