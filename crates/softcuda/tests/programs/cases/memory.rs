//! Device memory, pinned memory, how much there is.
//!
//! Not here: pools, copies.

use std::ptr::null_mut;

use cudarc::driver::sys::CUresult;

use crate::Case;
use crate::ffi::*;
use crate::gate::Gate;
use crate::kit::*;

pub const CASES: &[Case] = &[
    Case::new("memory/there_is_so_much", there_is_so_much).with(&[("SOFTCUDA_MEMORY", "16M")]),
    Case::new("memory/addresses_never_come_again", addresses_never_come_again),
    Case::new("memory/fresh_memory_is_not_zero", fresh_memory_is_not_zero),
    Case::new("memory/freeing_waits", freeing_waits),
    Case::new("memory/what_cannot_be_freed_is_refused", what_cannot_be_freed_is_refused),
    Case::new("memory/memory_can_be_pinned_later", memory_can_be_pinned_later),
];

fn info() -> (usize, usize) {
    let (mut free, mut total) = (0, 0);
    cuMemGetInfo_v2(&mut free, &mut total).unwrap();
    (free, total)
}

fn there_is_so_much() {
    start();
    assert_eq!(info(), (16 << 20, 16 << 20));
    let most = memory(12 << 20);
    assert_eq!(info(), (4 << 20, 16 << 20));
    let mut address = 0;
    refused(cuMemAlloc_v2(&mut address, (4 << 20) + 1), CUresult::CUDA_ERROR_OUT_OF_MEMORY);
    refused(cuMemAlloc_v2(&mut address, 0), CUresult::CUDA_ERROR_INVALID_VALUE);
    refused(cuMemAlloc_v2(&mut address, usize::MAX), CUresult::CUDA_ERROR_OUT_OF_MEMORY);
    // Pinned memory is the host's.
    let pinned = host(32 << 20);
    let rest = memory(4 << 20);
    cuMemFree_v2(rest).unwrap();
    cuMemFree_v2(most).unwrap();
    cuMemFreeHost(pinned).unwrap();
    assert_eq!(info().0, 16 << 20);
    end();
}

fn addresses_never_come_again() {
    start();
    let mut seen = std::collections::HashSet::new();
    for _ in 0..100 {
        let address = memory(1 << 16);
        assert!(seen.insert(address));
        cuMemFree_v2(address).unwrap();
    }
    end();
}

fn fresh_memory_is_not_zero() {
    start();
    let address = memory(1000);
    assert_eq!(read(address, 1000, null_mut()), [0xa5; 1000]);
    cuMemFree_v2(address).unwrap();
    end();
}

fn freeing_waits() {
    start();
    let (stream, address) = (stream(), memory(64));
    let gate = Gate::close(stream);
    cuMemsetD8Async(address, 1, 64, stream).unwrap();
    let context = {
        let mut context = null_mut();
        cuCtxGetCurrent(&mut context).unwrap();
        context as usize
    };
    let freeing = std::thread::spawn(move || {
        cuCtxSetCurrent(context as _).unwrap();
        cuMemFree_v2(address)
    });
    assert_eq!(live("memory"), 1, "the stream is held, so nothing can be freed");
    gate.open();
    freeing.join().unwrap().unwrap();
    assert_eq!(live("memory"), 0);
    finish(&[stream]);
    end();
}

fn what_cannot_be_freed_is_refused() {
    start();
    let (address, pinned) = (memory(64), host(64));
    cuMemFree_v2(0).unwrap();
    refused(cuMemFree_v2(address + 1), CUresult::CUDA_ERROR_INVALID_VALUE);
    refused(cuMemFree_v2(pinned as u64), CUresult::CUDA_ERROR_INVALID_VALUE);
    refused(cuMemFreeHost(address as _), CUresult::CUDA_ERROR_INVALID_VALUE);
    cuMemFree_v2(address).unwrap();
    cuMemFreeHost(pinned).unwrap();
    end();
}

fn memory_can_be_pinned_later() {
    start();
    let (stream, address) = (stream(), memory(64));
    let own = Box::leak(Box::new([7u8; 64]));
    let pointer = own.as_mut_ptr().cast();
    cuMemHostRegister_v2(pointer, 64, 0).unwrap();
    let again = cuMemHostRegister_v2(pointer, 8, 0);
    refused(again, CUresult::CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    let gate = Gate::close(stream);
    cuMemcpyHtoDAsync_v2(address, pointer, 64, stream).unwrap();
    // The copy is asynchronous: it reads what is there when it runs.
    pinned(pointer, 64).fill(9);
    gate.open();
    assert_eq!(read(address, 64, stream), [9; 64]);
    cuMemHostUnregister(pointer).unwrap();
    refused(cuMemHostUnregister(pointer), CUresult::CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    finish(&[stream]);
    cuMemFree_v2(address).unwrap();
    end();
}
