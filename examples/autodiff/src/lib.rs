//! A small reverse-mode engine on tenure: values on a device, a graph of what made them, and gradients.
//!
//! It shows how an engine puts its graph and its tensors under tenure's care: every operation is a node that keeps what
//! its backward step needs; what nobody can reach any more goes at once, and the device memory with it.
//!
//! `kernels.rs` has the device code, `ffi.rs` its form for CUDA, `operation.rs` the mathematics, `engine.rs` the tape, `perceptron.rs` a model,
//! `training.rs` the loop, `plot.rs` its picture. Not here: speed; each operation is one small dispatch.

pub mod engine;
mod ffi;
pub mod kernels;
pub mod operation;
pub mod perceptron;
pub mod plot;
pub mod training;

pub use engine::{BackwardOptions, Engine, Gradients, Variable};
pub use operation::Operation;
