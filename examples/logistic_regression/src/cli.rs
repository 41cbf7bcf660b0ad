//! The arguments of the command line. Not here: what they lead to.

use clap::Parser;
use clap::builder::PossibleValuesParser;

use crate::training::Training;

/// Trains a logistic regression on five samples and tells what it learned, and what became of the device's memory.
#[derive(Clone, Debug, Parser)]
#[command(name = "logistic_regression", version)]
pub struct Arguments {
    /// Device API to compute with.
    #[arg(long, default_value = "host", value_parser = PossibleValuesParser::new(tenure::BACKENDS))]
    pub backend: String,

    /// Steps of gradient descent.
    #[arg(long, value_name = "N", default_value_t = Training::default().steps)]
    pub steps: u64,

    /// How far a step goes: times the gradient.
    #[arg(long, value_name = "RATE", default_value_t = Training::default().learning_rate, value_parser = rate)]
    pub learning_rate: f32,
}

impl Arguments {
    /// How to train.
    pub fn training(&self) -> Training {
        Training { steps: self.steps, learning_rate: self.learning_rate }
    }
}

fn rate(text: &str) -> Result<f32, String> {
    let rate: f32 = text.parse().map_err(|error| format!("{error}"))?;
    if rate.is_finite() && rate > 0.0 { Ok(rate) } else { Err("it is a number above 0".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn parse(words: &[&str]) -> Result<Arguments, clap::Error> {
        Arguments::try_parse_from(["logistic_regression"].iter().chain(words))
    }

    #[test]
    fn the_definition_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn what_is_not_given_is_as_in_komputes_example() {
        let arguments = parse(&[]).unwrap();
        assert_eq!(arguments.backend, "host");
        assert_eq!(arguments.training(), Training { steps: 100, learning_rate: 0.1 });
    }

    #[test]
    fn a_rate_is_a_number_above_zero() {
        assert_eq!(parse(&["--learning-rate", "1e-3"]).unwrap().learning_rate, 1e-3);
        for rate in ["0", "-1", "NaN", "inf", "fast"] {
            assert!(parse(&[&format!("--learning-rate={rate}")]).is_err(), "{rate}");
        }
    }
}
