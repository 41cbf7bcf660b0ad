//! Logistic regression on tenure: the example that Kompute made well known, with its data.
//!
//! A sequence is recorded once and evaluated at every step: it computes each sample's part of the gradient and its loss
//! on the device, and reads these and the parameters back. The host takes the step and writes the parameters. All of it
//! lives in one scope, which gives it back on every way out.
//!
//! - [`model`] is what is learned, and from what; [`kernel`] the device code, a host form and WGSL.
//! - [`device`] has the tensors and the recording, [`training`] is the loop.
//! - [`cli`] is the arguments, [`progress`] tells meanwhile, [`report`] at the end.
//!
//! Not here: speed. Five samples are too few for any device.

pub mod cli;
pub mod device;
mod ffi;
pub mod kernel;
pub mod model;
pub mod progress;
pub mod report;
pub mod training;
