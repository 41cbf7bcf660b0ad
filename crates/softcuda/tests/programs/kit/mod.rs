//! What programs need again and again: a context, streams, events, memory, kernels.
//!
//! Not here: what a program shows.

pub mod ffi;

use std::ffi::{CString, c_void};
use std::ptr::null_mut;

use cudarc::driver::sys::{
    self, CUcontext, CUevent, CUfunction, CUgraph, CUgraphExec, CUmemoryPool, CUmodule, CUresult, CUstream,
};

use crate::ffi::*;

/// `CU_STREAM_NON_BLOCKING`
pub const NON_BLOCKING: u32 = 1;

/// A device's primary context, current.
pub fn start() -> CUcontext {
    cuInit(0).unwrap();
    primary(0)
}

/// The primary context of a device, current in the place of the one that was.
pub fn primary(device: i32) -> CUcontext {
    let mut context = null_mut();
    cuDevicePrimaryCtxRetain(&mut context, device).unwrap();
    cuCtxSetCurrent(context).unwrap();
    context
}

/// Gives the first device's context back.
pub fn end() {
    cuDevicePrimaryCtxRelease_v2(0).unwrap();
}

/// A stream that keeps no order with the default stream.
pub fn stream() -> CUstream {
    let mut stream = null_mut();
    cuStreamCreate(&mut stream, NON_BLOCKING).unwrap();
    stream
}

/// Waits for streams and destroys them.
pub fn finish(streams: &[CUstream]) {
    for stream in streams {
        cuStreamSynchronize(*stream).unwrap();
        cuStreamDestroy_v2(*stream).unwrap();
    }
}

/// An event.
pub fn event() -> CUevent {
    let mut event = null_mut();
    cuEventCreate(&mut event, 0).unwrap();
    event
}

/// Lets what comes in `after` wait for what was submitted to `before`.
pub fn order(before: CUstream, after: CUstream) {
    let event = event();
    cuEventRecord(event, before).unwrap();
    cuStreamWaitEvent(after, event, 0).unwrap();
    cuEventDestroy_v2(event).unwrap();
}

/// Device memory that all streams may use.
pub fn memory(bytes: usize) -> u64 {
    let mut address = 0;
    cuMemAlloc_v2(&mut address, bytes).unwrap();
    address
}

/// Device memory in the order of a stream.
pub fn pooled(bytes: usize, stream: CUstream) -> u64 {
    let mut address = 0;
    cuMemAllocAsync(&mut address, bytes, stream).unwrap();
    address
}

/// Pinned host memory.
pub fn host(bytes: usize) -> *mut c_void {
    let mut pointer = null_mut();
    cuMemHostAlloc(&mut pointer, bytes, 0).unwrap();
    pointer
}

/// A pool of the first device.
pub fn pool() -> CUmemoryPool {
    let mut properties = ffi::no_properties();
    properties.allocType = sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type_ = sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
    properties.location.id = 0;
    let mut pool = null_mut();
    cuMemPoolCreate(&mut pool, &properties).unwrap();
    pool
}

/// An attribute of a pool.
pub fn pool_attribute(pool: CUmemoryPool, attribute: sys::CUmemPool_attribute) -> u64 {
    let mut value = 0u64;
    cuMemPoolGetAttribute(pool, attribute, (&raw mut value).cast()).unwrap();
    value
}

/// Sets an attribute of a pool.
pub fn set_pool_attribute(pool: CUmemoryPool, attribute: sys::CUmemPool_attribute, mut value: u64) {
    cuMemPoolSetAttribute(pool, attribute, (&raw mut value).cast()).unwrap();
}

/// Bytes of the device, read when all that was submitted to the stream is done.
pub fn read(address: u64, bytes: usize, stream: CUstream) -> Vec<u8> {
    let mut host = vec![0u8; bytes];
    cuMemcpyDtoHAsync_v2(host.as_mut_ptr().cast(), address, bytes, stream).unwrap();
    host
}

/// Words of the device.
pub fn words(address: u64, count: usize, stream: CUstream) -> Vec<u32> {
    let bytes = read(address, count * 4, stream);
    bytes.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect()
}

/// A module of PTX.
pub fn module(text: &str) -> CUmodule {
    let text = CString::new(text).unwrap();
    let mut module = null_mut();
    cuModuleLoadData(&mut module, text.as_ptr().cast()).unwrap();
    module
}

/// A kernel.
pub fn function(module: CUmodule, name: &str) -> CUfunction {
    let name = CString::new(name).unwrap();
    let mut function = null_mut();
    cuModuleGetFunction(&mut function, module, name.as_ptr()).unwrap();
    function
}

/// Arguments of kernels, as 8 bytes each.
pub struct Arguments(Vec<u64>, Vec<*mut c_void>);

impl Arguments {
    /// Numbers of up to 8 bytes.
    pub fn new(values: &[u64]) -> Arguments {
        let mut values = values.to_vec();
        let pointers = values.iter_mut().map(|value| (&raw mut *value).cast()).collect();
        Arguments(values, pointers)
    }

    /// As `cuLaunchKernel` takes them.
    pub fn pointers(&mut self) -> *mut *mut c_void {
        debug_assert_eq!(self.0.len(), self.1.len());
        self.1.as_mut_ptr()
    }
}

/// Launches a kernel over so many threads, in blocks of 64.
pub fn launch(function: CUfunction, threads: u32, stream: CUstream, arguments: &[u64]) -> Answer {
    let mut arguments = Arguments::new(arguments);
    let blocks = threads.div_ceil(64);
    cuLaunchKernel(function, blocks, 1, 1, 64, 1, 1, 0, stream, arguments.pointers(), null_mut())
}

/// A graph that can be launched.
pub fn instantiate(graph: CUgraph) -> CUgraphExec {
    let mut executable = null_mut();
    cuGraphInstantiateWithFlags(&mut executable, graph, 0).unwrap();
    executable
}

/// That a stream waits for something that the program has not done yet.
///
/// Other streams get work to do first, so that a stream that wrongly does not wait has been at its end for long.
#[track_caller]
pub fn still_waits(waiting: CUstream) {
    let other = stream();
    for _ in 0..50 {
        crate::gate::run(other, std::thread::yield_now);
        cuStreamSynchronize(other).unwrap();
    }
    cuStreamDestroy_v2(other).unwrap();
    refused(cuStreamQuery(waiting), CUresult::CUDA_ERROR_NOT_READY);
}

/// That something failed with a code.
#[track_caller]
pub fn refused(answer: Answer, code: CUresult) {
    assert_eq!(answer, Err(code));
}
