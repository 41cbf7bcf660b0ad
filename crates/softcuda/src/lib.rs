//! A CUDA driver in software, for tests on machines without an NVIDIA device.
//!
//! Here: the modules. Not here: any of their work.

pub mod execute;
pub mod ptx;
