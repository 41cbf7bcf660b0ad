//! The CUDA backend under a manager, for what the conformance suite does not ask of every backend: streams, events, graphs,
//! pinned memory, contexts, errors that stay. Each test has a process of its own on the driver in software.
//!
//! Not here: the suite (`tenure-conformance`).

#![cfg(target_os = "linux")]

mod contexts;
mod devices;
mod faults;
mod ffi;
mod graphs;
mod kernels;
mod memory;
mod streams;
mod support;
