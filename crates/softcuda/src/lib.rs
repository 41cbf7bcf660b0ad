//! A CUDA driver in software, for tests on machines without an NVIDIA device.
//!
//! Built as a shared library with the driver's name, it lets unmodified programs run: contexts, streams, events,
//! memory, modules of PTX, graphs. It checks what they do and says what is wrong. It is not NVIDIA's software and says
//! so wherever it can be asked; what a green run on it means stands in the crate's README.
//!
//! `driver/` has the exported functions by group, `device/` what they act on, `memory/` addresses and bytes, `order/`
//! the checker, `ptx/` and `execute/` kernels, `modes/` settings and faults. Unsafe code stands in files named `ffi.rs`.

pub mod caller;
pub mod code;
pub mod device;
pub mod driver;
pub mod execute;
pub mod memory;
pub mod modes;
pub mod order;
pub mod ptx;
