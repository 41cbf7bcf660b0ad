//! The conformance suite of tenure: one set of cases for every backend.
//!
//! A [`Case`] gets a [`Bed`], opens managers on backends under [`instrument::Instrumented`], and fails by panicking.
//! After it the bed proves that everything was given back. [`Suite`] makes a program of it, in a few lines for any
//! backend; [`Expectations`] say as data what a backend need not do.
//!
//! Not here: cases that need no backend. They are tests of the crate that they are about.

#![deny(missing_docs)]

pub mod backends;
pub mod bed;
pub mod case;
pub mod cases;
mod engine_memory;
pub mod events;
mod expectations;
pub mod harness;
mod human;
pub mod instrument;
pub mod junit;
pub mod kernels;
mod panics;
pub mod presence;
mod random;
pub mod reference;
pub mod report;
pub mod runner;
#[cfg(feature = "trials")]
pub mod trials;
mod watchdog;

pub use bed::{Bed, Facts, Rig};
pub use case::{Case, Requirement};
pub use expectations::{Expectations, Verdict};
pub use harness::{Arguments, Suite};
pub use instrument::{CallKind, CallSet, Limits, ObjectKind, Probe};
pub use kernels::{KernelSet, groups_for};
pub use presence::Presence;
pub use runner::{Filter, Planned, Runner};
