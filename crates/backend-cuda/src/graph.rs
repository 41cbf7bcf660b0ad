//! Graphs: a recording that is evaluated again is submitted as one (L9).
//!
//! The nodes are made one by one from the recording's commands, each after the one before. Capturing a stream would make the same
//! nodes; but a capture fails by what other threads do meanwhile, and leaves a stream that is of no use until it is ended.

pub(crate) mod ffi;

use tenure_core::BackendError;

use crate::commands::Command;
use crate::ffi::Current;
use crate::graph::ffi::{Executable, Template};

/// The graph of these commands.
///
/// # Errors
/// What the driver said. What was made by then is destroyed.
pub(crate) fn graph_of(current: &Current<'_>, commands: &[Command]) -> Result<Executable, BackendError> {
    let mut template = Template::new(current)?;
    for command in commands {
        template.add(current, command)?;
    }
    template.instantiate(current)
}
