//! The command as its user runs it, one file for each kind of end.
//!
//! On the host backend; not here: the others (`devices.rs`).

mod batches;
#[cfg(unix)]
mod cancellation;
mod refusals;
#[path = "../support/mod.rs"]
mod support;
