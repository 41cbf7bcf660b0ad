//! Events: a place in a stream's work that others can wait for.
//!
//! Recording again changes what later waits mean, not what earlier ones did. Not here: the exported functions.

use std::sync::Arc;

use super::completion::Completion;
use crate::memory::Handle;
use crate::order::Clock;

/// An event.
#[derive(Debug)]
pub struct Event {
    /// The context that it was made in.
    pub context: Handle,
    /// Whether it keeps time.
    pub timing: bool,
    /// What was recorded last.
    pub recorded: Recorded,
}

/// What an event was recorded in last.
#[derive(Clone, Debug, Default)]
pub enum Recorded {
    /// It never was. It then counts as complete.
    #[default]
    Never,
    /// A stream, after this work.
    Stream {
        /// Over when all work before it is.
        done: Arc<Completion>,
        /// What is complete then.
        clock: Clock,
    },
    /// A stream that was capturing: these nodes of the capture.
    Capture {
        /// The capture.
        capture: Handle,
        /// Indices of nodes.
        nodes: Vec<usize>,
    },
}
