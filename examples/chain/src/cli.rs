//! The command line.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use tenure::TrimPolicy;

/// Upscales, blurs and sharpens every PNG image of a folder.
#[derive(Clone, Debug, Parser)]
#[command(name = "chain", version, about)]
pub struct Cli {
    /// Folder of PNG images.
    #[arg(long, value_name = "DIR")]
    pub input: PathBuf,
    /// Folder for the results; made if it is not there.
    #[arg(long, value_name = "DIR")]
    pub output: PathBuf,
    /// The backend, by name.
    #[arg(long, default_value = "host")]
    pub backend: String,
    /// When cached memory goes back to the device.
    #[arg(long, value_enum, default_value_t = Trim::OnFinish)]
    pub trim: Trim,
    /// Stop at the first image that fails.
    #[arg(long)]
    pub fail_fast: bool,
    /// Largest image, in pixels before upscaling.
    #[arg(long, default_value_t = 64_000_000, value_name = "PIXELS")]
    pub max_pixels: u64,
    /// Write so many sample images to the input folder first, if it holds no PNG image.
    #[arg(long, value_name = "COUNT")]
    pub generate: Option<u32>,
    /// Print no progress.
    #[arg(long)]
    pub quiet: bool,
    /// Wait for Ctrl-C after so many images: for the test of cancellation.
    #[arg(long, hide = true, value_name = "COUNT")]
    pub pause_after: Option<usize>,
}

/// The trim policies by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Trim {
    /// Once, when the batch is done.
    OnFinish,
    /// After every node.
    EveryExecution,
    /// Only when memory runs out, and at the end.
    Never,
}

impl From<Trim> for TrimPolicy {
    fn from(trim: Trim) -> TrimPolicy {
        match trim {
            Trim::OnFinish => TrimPolicy::OnFinish,
            Trim::EveryExecution => TrimPolicy::EveryExecution,
            Trim::Never => TrimPolicy::Never,
        }
    }
}
