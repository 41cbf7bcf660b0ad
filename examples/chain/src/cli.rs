//! The arguments of the command line. Not here: what they lead to.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Parser, ValueEnum};
use tenure::TrimPolicy;

/// Upscales every PNG image of a folder to twice its size, blurs and sharpens it.
///
/// Exit codes: 0 all images were done, 1 some failed, 2 the command cannot be carried out, 130 cancelled.
#[derive(Clone, Debug, Parser)]
#[command(name = "chain", version)]
pub struct Arguments {
    /// Folder with the PNG images.
    #[arg(long, value_name = "DIR")]
    pub input: PathBuf,

    /// Folder for the results, under the same names. It is made if it is not there.
    #[arg(long, value_name = "DIR")]
    pub output: PathBuf,

    /// Device API to compute with.
    #[arg(long, default_value = "host", value_parser = PossibleValuesParser::new(tenure::BACKENDS))]
    pub backend: String,

    /// When memory that is kept for reuse goes back to the driver.
    #[arg(long, value_enum, default_value_t = Trim::OnFinish)]
    pub trim: Trim,

    /// Stop at the first image that fails.
    #[arg(long)]
    pub fail_fast: bool,

    /// Largest image that is taken, in pixels.
    #[arg(long, value_name = "N", default_value_t = 64_000_000)]
    pub max_pixels: u64,

    /// Write N sample images to the input folder first, if it is not there or empty.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub generate: Option<u32>,

    /// Say nothing but errors.
    #[arg(long)]
    pub quiet: bool,

    /// For tests: after N images, say so in the middle of the next one and wait for Ctrl-C.
    #[arg(long, value_name = "N", hide = true)]
    pub pause_after: Option<usize>,
}

/// Trim policies by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Trim {
    /// When the batch is over.
    OnFinish,
    /// After every execution. Uses least memory, and costs time.
    EveryExecution,
    /// Only when memory runs out, and when the program ends.
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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn parse(words: &[&str]) -> Result<Arguments, clap::Error> {
        Arguments::try_parse_from(["chain", "--input", "a", "--output", "b"].iter().chain(words))
    }

    #[test]
    fn the_definition_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn what_is_not_given_has_a_default() {
        let arguments = parse(&[]).unwrap();
        assert_eq!(arguments.backend, "host");
        assert_eq!(arguments.trim, Trim::OnFinish);
        assert_eq!(arguments.max_pixels, 64_000_000);
    }

    #[test]
    fn trim_policies_have_names() {
        assert_eq!(parse(&["--trim", "never"]).unwrap().trim, Trim::Never);
        assert_eq!(
            TrimPolicy::from(parse(&["--trim", "every-execution"]).unwrap().trim),
            TrimPolicy::EveryExecution
        );
        assert!(parse(&["--trim", "sometimes"]).is_err());
    }

    #[test]
    fn nothing_cannot_be_generated() {
        assert!(parse(&["--generate", "0"]).is_err());
        assert_eq!(parse(&["--generate", "3"]).unwrap().generate, Some(3));
    }
}
