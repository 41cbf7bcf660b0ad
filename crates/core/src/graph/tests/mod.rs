//! Tests of graphs without a device. Those with tensors are conformance cases (topic `graphs`).

mod backward;
mod lifetimes;
mod memory_management;
mod pins;
mod stress;
mod support;
