//! Launching kernels: reading arguments, checking limits.
//!
//! Not here: running them (`execute/`).

use std::sync::Arc;

use super::device::{MAX_BLOCK, MAX_GRID};
use super::function::{dynamic_limit, known, thread_limit};
use crate::caller::{HostPointer, In};
use crate::code::{Answer, Code};
use crate::device::driver;
use crate::device::operation::{KernelLaunch, Operation};
use crate::memory::Handle;
use crate::ptx::Kernel;

exports! {
    Health cuLaunchKernel(
        function: Handle,
        grid_x: u32,
        grid_y: u32,
        grid_z: u32,
        block_x: u32,
        block_y: u32,
        block_z: u32,
        shared: u32,
        stream: Handle,
        parameters: In<HostPointer>,
        extra: In<HostPointer>,
    ) = {
        let size = Size { grid: [grid_x, grid_y, grid_z], block: [block_x, block_y, block_z], shared };
        submit(prepare(function, size, parameters, extra)?, stream, "cuLaunchKernel")
    };
    Health cuLaunchKernelEx(
        config: In<Config>,
        function: Handle,
        parameters: In<HostPointer>,
        extra: In<HostPointer>,
    ) = {
        let config = config.get()?;
        // Attributes change how a kernel runs; none of them is known here.
        if config.attributes != 0 {
            return Err(Code::NOT_SUPPORTED);
        }
        let size = Size { grid: config.grid, block: config.block, shared: config.shared };
        submit(prepare(function, size, parameters, extra)?, config.stream, "cuLaunchKernelEx")
    };
    Health cuLaunchCooperativeKernel(
        _function: Handle,
        _grid_x: u32,
        _grid_y: u32,
        _grid_z: u32,
        _block_x: u32,
        _block_y: u32,
        _block_z: u32,
        _shared: u32,
        _stream: Handle,
        _parameters: In<HostPointer>,
    ) = Err(Code::NOT_SUPPORTED);
}

/// How large a launch is.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub shared: u32,
}

/// `CUlaunchConfig`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Config {
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    stream: Handle,
    attribute_list: u64,
    attributes: u32,
}

fn submit(launch: KernelLaunch, stream: Handle, function: &'static str) -> Answer {
    let mut state = driver().lock();
    let stream = state.stream(stream)?;
    state.submit(stream, Operation::Kernel(Arc::new(launch)), function)?;
    Ok(())
}

/// Reads the arguments of a launch and checks its limits.
///
/// # Errors
/// `INVALID_HANDLE` for no kernel, `INVALID_VALUE` for sizes beyond the device's or missing arguments,
/// `LAUNCH_OUT_OF_RESOURCES` for more threads than the kernel allows.
pub fn prepare(
    handle: Handle,
    size: Size,
    parameters: In<HostPointer>,
    extra: In<HostPointer>,
) -> Answer<KernelLaunch> {
    let function = known(handle)?;
    let within = |sizes: [u32; 3], limits: [u32; 3]| {
        sizes.iter().zip(limits).all(|(size, limit)| (1..=limit).contains(size))
    };
    if !within(size.grid, MAX_GRID) || !within(size.block, MAX_BLOCK) {
        return Err(Code::INVALID_VALUE);
    }
    let threads: u32 = size.block.iter().product();
    if threads > super::device::MAX_THREADS || size.shared > dynamic_limit(&function) {
        return Err(Code::INVALID_VALUE);
    }
    if threads > thread_limit(&function) {
        return Err(Code::LAUNCH_OUT_OF_RESOURCES);
    }
    let parameters = read_parameters(&function.kernel, parameters, extra)?;
    Ok(KernelLaunch {
        kernel: function.kernel,
        function: handle,
        grid: size.grid,
        block: size.block,
        dynamic_shared_bytes: size.shared,
        parameters,
    })
}

/// A pointer to each argument, or the whole block of them.
fn read_parameters(kernel: &Kernel, each: In<HostPointer>, extra: In<HostPointer>) -> Answer<Vec<u8>> {
    let mut block = vec![0; kernel.parameter_bytes()];
    if !extra.is_null() {
        if !each.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        return read_block(extra, block);
    }
    let parameters = kernel.parameters();
    for (parameter, pointer) in parameters.iter().zip(each.all(parameters.len())?) {
        if pointer.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        pointer.read(&mut block[parameter.offset..parameter.offset + parameter.bytes]);
    }
    Ok(block)
}

/// The list of names and values that `extra` is: a block of arguments, its size, an end.
fn read_block(extra: In<HostPointer>, mut block: Vec<u8>) -> Answer<Vec<u8>> {
    const POINTER: u64 = 1;
    const SIZE: u64 = 2;
    let (mut start, mut size) = (None, None);
    let mut at = 0;
    loop {
        let name = extra.at(at)?.address();
        match name {
            0 => break,
            POINTER => start = Some(extra.at(at + 1)?),
            SIZE => size = Some(extra.at(at + 1)?.as_out::<usize>().get()?),
            _ => return Err(Code::INVALID_VALUE),
        }
        at += 2;
    }
    let (Some(start), Some(size)) = (start, size) else { return Err(Code::INVALID_VALUE) };
    if size < block.len() || start.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    start.read(&mut block);
    Ok(block)
}
