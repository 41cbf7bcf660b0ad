//! Kernels: their attributes, and how many of their blocks fit.
//!
//! Not here: launching them (`launch.rs`).

use std::ffi::c_int;

use super::device::{
    CAPABILITY, MAX_THREADS, MULTIPROCESSOR_BLOCKS, MULTIPROCESSOR_SHARED, MULTIPROCESSOR_THREADS, SHARED,
    SHARED_ON_REQUEST,
};
use crate::caller::Out;
use crate::code::{Answer, Code};
use crate::device::driver;
use crate::device::module::Function;
use crate::memory::Handle;

exports! {
    Health cuFuncGetAttribute(value: Out<c_int>, attribute: u32, function: Handle) =
        get_attribute(value, attribute, function);
    Health cuFuncSetAttribute(function: Handle, attribute: u32, value: c_int) =
        set_attribute(function, attribute, value);
    Health cuFuncSetCacheConfig(function: Handle, _config: u32) = known(function).map(|_| ());
    Health cuFuncGetModule(module: Out<Handle>, function: Handle) = module.set(known(function)?.module);
    Health cuFuncGetParamInfo(function: Handle, index: usize, offset: Out<usize>, bytes: Out<usize>) = {
        let function = known(function)?;
        let parameter = function.kernel.parameters().get(index).ok_or(Code::INVALID_VALUE)?;
        offset.set_if_wanted(parameter.offset);
        bytes.set_if_wanted(parameter.bytes);
        Ok(())
    };
    Health cuOccupancyMaxActiveBlocksPerMultiprocessor(
        blocks: Out<c_int>,
        function: Handle,
        threads: c_int,
        shared: usize,
    ) = occupancy(blocks, function, threads, shared);
    Health cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        blocks: Out<c_int>,
        function: Handle,
        threads: c_int,
        shared: usize,
        _flags: u32,
    ) = occupancy(blocks, function, threads, shared);
    Health cuOccupancyAvailableDynamicSMemPerBlock(
        bytes: Out<usize>,
        function: Handle,
        blocks: c_int,
        threads: c_int,
    ) = available_shared(bytes, function, blocks, threads);
}

/// `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`
const MAX_DYNAMIC_SHARED: u32 = 8;

/// `CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT`
const CARVEOUT: u32 = 9;

/// A copy of a kernel's record.
pub fn known(function: Handle) -> Answer<Function> {
    driver().lock().functions.get(&function).cloned().ok_or(Code::INVALID_HANDLE)
}

/// Shared memory that a launch may add to what the kernel declares.
pub fn dynamic_limit(function: &Function) -> u32 {
    let declared = function.kernel.static_shared_bytes();
    function.dynamic_shared_limit.unwrap_or_else(|| SHARED.saturating_sub(declared))
}

/// The most threads of a block of the kernel.
pub fn thread_limit(function: &Function) -> u32 {
    function.kernel.max_threads().unwrap_or(MAX_THREADS).min(MAX_THREADS)
}

fn get_attribute(value: Out<c_int>, attribute: u32, handle: Handle) -> Answer {
    let function = known(handle)?;
    let kernel = &function.kernel;
    value.set(match attribute {
        0 => thread_limit(&function) as c_int,
        1 => kernel.static_shared_bytes() as c_int,
        2 | 7 => 0,
        3 => kernel.local_bytes() as c_int,
        4 => kernel.registers() as c_int,
        5 | 6 => CAPABILITY.0 * 10 + CAPABILITY.1,
        MAX_DYNAMIC_SHARED => dynamic_limit(&function) as c_int,
        CARVEOUT => function.attributes.get(&CARVEOUT).copied().unwrap_or(-1),
        _ => function.attributes.get(&attribute).copied().unwrap_or(0),
    })
}

fn set_attribute(handle: Handle, attribute: u32, value: c_int) -> Answer {
    let mut state = driver().lock();
    let function = state.functions.get_mut(&handle).ok_or(Code::INVALID_HANDLE)?;
    if attribute == MAX_DYNAMIC_SHARED {
        let bytes = u32::try_from(value).map_err(|_| Code::INVALID_VALUE)?;
        if bytes > SHARED_ON_REQUEST.saturating_sub(function.kernel.static_shared_bytes()) {
            return Err(Code::INVALID_VALUE);
        }
        function.dynamic_shared_limit = Some(bytes);
    } else if attribute < MAX_DYNAMIC_SHARED {
        // The others say what the kernel is.
        return Err(Code::INVALID_VALUE);
    } else {
        function.attributes.insert(attribute, value);
    }
    Ok(())
}

fn occupancy(blocks: Out<c_int>, handle: Handle, threads: c_int, dynamic: usize) -> Answer {
    let function = known(handle)?;
    let threads = u32::try_from(threads).ok().filter(|threads| *threads > 0).ok_or(Code::INVALID_VALUE)?;
    let shared = (function.kernel.static_shared_bytes() as usize).saturating_add(dynamic);
    if threads > thread_limit(&function) {
        return blocks.set(0);
    }
    let by_threads = MULTIPROCESSOR_THREADS / threads.next_multiple_of(32);
    let by_shared = (MULTIPROCESSOR_SHARED as usize).checked_div(shared).unwrap_or(usize::MAX);
    blocks
        .set(by_threads.min(MULTIPROCESSOR_BLOCKS).min(u32::try_from(by_shared).unwrap_or(u32::MAX)) as c_int)
}

fn available_shared(bytes: Out<usize>, handle: Handle, blocks: c_int, threads: c_int) -> Answer {
    let function = known(handle)?;
    let blocks = u32::try_from(blocks).ok().filter(|blocks| *blocks > 0).ok_or(Code::INVALID_VALUE)?;
    if threads <= 0 {
        return Err(Code::INVALID_VALUE);
    }
    let each = (MULTIPROCESSOR_SHARED / blocks).min(SHARED_ON_REQUEST);
    bytes.set(each.saturating_sub(function.kernel.static_shared_bytes()) as usize)
}
