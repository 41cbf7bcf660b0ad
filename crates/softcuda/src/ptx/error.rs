//! [`ParseError`]: why a text is no module.
//!
//! Not here: faults of a running kernel.

use std::error::Error;
use std::fmt::{self, Display};

/// Where something stands in a text. Both count from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Position {
    pub line: u32,
    pub column: u32,
}

impl Position {
    /// An error at this place.
    pub fn error(self, message: impl Into<String>) -> ParseError {
        ParseError { line: self.line, column: self.column, message: message.into() }
    }
}

/// Why a text could not be made into a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// The line, from 1.
    pub line: u32,
    /// The column in characters, from 1.
    pub column: u32,
    /// What is wrong; names the opcode, modifier or symbol in question.
    pub message: String,
}

impl Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PTX line {}, column {}: {}", self.line, self.column, self.message)
    }
}

impl Error for ParseError {}
