//! Copies and fills: all directions, and when they return.
//!
//! Not here: copies in graphs.

use std::ptr::null_mut;

use cudarc::driver::sys::CUresult;

use crate::Case;
use crate::ffi::*;
use crate::gate::Gate;
use crate::kit::*;

pub const CASES: &[Case] = &[
    Case::new("copies/all_directions", all_directions),
    Case::new("copies/fills_of_all_widths", fills_of_all_widths),
    Case::new("copies/to_the_device_from_plain_memory_is_staged", to_the_device_from_plain_memory_is_staged),
    Case::new("copies/to_plain_memory_returns_when_done", to_plain_memory_returns_when_done),
    Case::new("copies/pinned_memory_is_asynchronous", pinned_memory_is_asynchronous),
    Case::new("copies/from_one_device_to_another", from_one_device_to_another)
        .with(&[("SOFTCUDA_DEVICES", "2")]),
    Case::new("copies/of_nothing_do_nothing", of_nothing_do_nothing),
];

fn all_directions() {
    start();
    let (one, two) = (memory(256), memory(256));
    let bytes: Vec<u8> = (0..=255).collect();
    cuMemcpyHtoD_v2(one, bytes.as_ptr().cast(), 256).unwrap();
    cuMemcpyDtoDAsync_v2(two + 16, one, 240, null_mut()).unwrap();
    let mut back = [0u8; 240];
    cuMemcpyDtoH_v2(back.as_mut_ptr().cast(), two + 16, 240).unwrap();
    assert_eq!(back, bytes[..240]);
    // The addresses say which side is where.
    let mut host = [0u8; 16];
    cuMemcpyAsync(host.as_mut_ptr() as u64, one + 240, 16, null_mut()).unwrap();
    assert_eq!(host, bytes[240..]);
    cuMemcpyAsync(two, bytes.as_ptr() as u64, 16, null_mut()).unwrap();
    assert_eq!(read(two, 16, null_mut()), bytes[..16]);
    let mut other = [0u8; 16];
    cuMemcpyAsync(other.as_mut_ptr() as u64, bytes.as_ptr() as u64, 16, null_mut()).unwrap();
    assert_eq!(other, bytes[..16]);
    cuMemFree_v2(one).unwrap();
    cuMemFree_v2(two).unwrap();
    end();
}

fn fills_of_all_widths() {
    start();
    let (stream, address) = (stream(), memory(64));
    cuMemsetD8Async(address, 0, 64, stream).unwrap();
    cuMemsetD32Async(address, 0x0102_0304, 2, stream).unwrap();
    cuMemsetD16Async(address + 8, 0x0506, 3, stream).unwrap();
    cuMemsetD8Async(address + 14, 7, 5, stream).unwrap();
    let bytes = read(address, 24, stream);
    assert_eq!(bytes[..8], [4, 3, 2, 1, 4, 3, 2, 1]);
    assert_eq!(bytes[8..14], [6, 5, 6, 5, 6, 5]);
    assert_eq!(bytes[14..], [7, 7, 7, 7, 7, 0, 0, 0, 0, 0]);
    refused(cuMemsetD32Async(address + 2, 0, 1, stream), CUresult::CUDA_ERROR_INVALID_VALUE);
    finish(&[stream]);
    cuMemFree_v2(address).unwrap();
    end();
}

fn to_the_device_from_plain_memory_is_staged() {
    start();
    let (stream, address) = (stream(), memory(64));
    let gate = Gate::close(stream);
    let mut bytes = [3u8; 64];
    cuMemcpyHtoDAsync_v2(address, bytes.as_ptr().cast(), 64, stream).unwrap();
    bytes.fill(4);
    gate.open();
    assert_eq!(read(address, 64, stream), [3; 64], "it was taken before the call returned");
    assert_eq!(bytes, [4; 64]);
    finish(&[stream]);
    cuMemFree_v2(address).unwrap();
    end();
}

fn to_plain_memory_returns_when_done() {
    start();
    let (stream, address) = (stream(), memory(64));
    cuMemsetD8Async(address, 5, 64, stream).unwrap();
    let mut bytes = [0u8; 64];
    cuMemcpyDtoHAsync_v2(bytes.as_mut_ptr().cast(), address, 64, stream).unwrap();
    assert_eq!(bytes, [5; 64], "nobody waited");
    cuStreamQuery(stream).unwrap();
    finish(&[stream]);
    cuMemFree_v2(address).unwrap();
    end();
}

fn pinned_memory_is_asynchronous() {
    start();
    let (stream, address, memory) = (stream(), memory(64), host(64));
    cuMemsetD8Async(address, 5, 64, stream).unwrap();
    cuStreamSynchronize(stream).unwrap();
    pinned(memory, 64).fill(1);
    let gate = Gate::close(stream);
    cuMemcpyDtoHAsync_v2(memory, address, 64, stream).unwrap();
    assert_eq!(*pinned(memory, 64), [1; 64], "the stream is held");
    gate.open();
    cuStreamSynchronize(stream).unwrap();
    assert_eq!(*pinned(memory, 64), [5; 64]);
    finish(&[stream]);
    cuMemFree_v2(address).unwrap();
    cuMemFreeHost(memory).unwrap();
    end();
}

fn from_one_device_to_another() {
    let one = start();
    let (stream, from) = (stream(), memory(64));
    cuMemsetD8Async(from, 6, 64, stream).unwrap();
    let two = primary(1);
    let to = memory(64);
    cuMemcpyPeerAsync(to, two, from, one, 64, stream).unwrap();
    assert_eq!(read(to, 64, stream), [6; 64]);
    cuMemFree_v2(to).unwrap();
    cuDevicePrimaryCtxRelease_v2(1).unwrap();
    cuCtxSetCurrent(one).unwrap();
    cuMemFree_v2(from).unwrap();
    finish(&[stream]);
    end();
}

fn of_nothing_do_nothing() {
    start();
    cuMemcpyHtoDAsync_v2(0, std::ptr::null(), 0, null_mut()).unwrap();
    cuMemsetD8_v2(0, 0, 0).unwrap();
    refused(cuMemcpyHtoD_v2(0, std::ptr::null(), 1), CUresult::CUDA_ERROR_INVALID_VALUE);
    end();
}
