//! The command as its user runs it, one file for each kind of end.
//!
//! Not here: the arithmetic; its tests are beside it.

mod batches;
#[cfg(unix)]
mod cancellation;
mod refusals;
mod support;
