//! Vulkan by its raw interface, as a careful program would use it by hand: what the backend is compared with.
//!
//! One device, one queue; buffers, programs and recordings are named by numbers and live as long as the device. Command
//! buffers are recorded once, and submitted again as they are; a timeline semaphore says when. Not here: the calls
//! themselves (`ffi.rs`).

mod ffi;

pub use ffi::{Raw, tenure_kernel};

use tenure_bench::measure::Failure;

/// A buffer of a [`Raw`].
#[derive(Clone, Copy, Debug)]
pub struct Buffer(usize);

/// A compute pipeline of a [`Raw`].
#[derive(Clone, Copy, Debug)]
pub struct Program(usize);

/// A command buffer of a [`Raw`].
#[derive(Clone, Copy, Debug)]
pub struct Commands(usize);

/// What is recorded.
#[derive(Clone, Debug)]
pub enum Step {
    /// Workgroups of a program with buffers at bindings 0, 1, 2, ...
    Dispatch { program: Program, buffers: Vec<Buffer>, groups: u32 },
    /// All elements become this word.
    Fill { buffer: Buffer, word: u32 },
    /// What was written before is seen after.
    Barrier,
}

/// A compute shader as SPIR-V, for both sides. What it indexes it checks itself.
pub fn spirv(wgsl: &str) -> Result<Vec<u32>, Failure> {
    let module = naga::front::wgsl::parse_str(wgsl)?;
    let info =
        naga::valid::Validator::new(naga::valid::ValidationFlags::all(), naga::valid::Capabilities::empty())
            .validate(&module)?;
    Ok(naga::back::spv::write_vec(&module, &info, &naga::back::spv::Options::default(), None)?)
}
