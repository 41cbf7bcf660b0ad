//! Tests of the decorator itself: deliberately wrong sequences of SPI calls on a tiny backend, each of which the
//! checker must find; and its controls.
//!
//! `tiny` is the backend, `ffi` makes its calls safe, `bench` puts both together. Not here: core on top of it; that is
//! what the cases are for.

mod bench;
mod clean;
mod ffi;
mod hazards;
mod holding;
mod lifetimes;
mod loss;
mod objects;
mod submissions;
pub(crate) mod tiny;
