//! Memory that is used outside of its life, its range or its order, each as a program that has to be reported and, where
//! there is one, as its twin that must not be.
//!
//! Not here: accesses in no order among each other (`checker.rs`).

use cudarc::driver::sys::{CUresult, CUstream};

use super::checker::{By, between, with_kernels, with_memory};
use crate::Case;
use crate::ffi::*;
use crate::gate::Gate;
use crate::kit::*;
use crate::ptx::KERNELS;

pub const CASES: &[Case] = &[
    Case::new("lifetimes/use_outside_of_the_allocation", || use_before(By::Nothing))
        .reported("use outside of the allocation's order"),
    Case::new("lifetimes/use_outside_of_the_allocation_by_event", || use_before(By::Event)),
    Case::new("lifetimes/freed_in_use", || freed_in_use(By::Nothing)).reported("freed while in use"),
    Case::new("lifetimes/freed_in_use_by_event", || freed_in_use(By::Event)),
    Case::new("lifetimes/freed_in_use_by_host", || freed_in_use(By::Host)),
    Case::new("lifetimes/freed_in_use_by_a_kernel", || freed_in_kernel(By::Nothing))
        .reported("freed while in use"),
    Case::new("lifetimes/freed_in_use_by_a_kernel_by_event", || freed_in_kernel(By::Event)),
    Case::new("lifetimes/pool_memory_freed_by_the_host", || freed_by_host(By::Nothing))
        .reported("freed while in use"),
    Case::new("lifetimes/pool_memory_freed_by_the_host_by_host", || freed_by_host(By::Host)),
    Case::new("lifetimes/pinned_memory_freed_in_use", || pinned_freed(By::Nothing))
        .reported("freed while in use"),
    Case::new("lifetimes/pinned_memory_freed_in_use_by_host", || pinned_freed(By::Host)),
    Case::new("lifetimes/used_after_free", used_after_free).reported("use after free"),
    Case::new("lifetimes/used_after_free_by_a_kernel", || used_after_free_by_a_kernel(false))
        .reported("use after free")
        .leaking(4),
    Case::new("lifetimes/used_after_free_by_a_kernel_beside_older_work", || {
        used_after_free_by_a_kernel(true)
    })
    .reported("use after free")
    .leaking(4),
    Case::new("lifetimes/freed_twice", freed_twice).reported("freed twice"),
    Case::new("lifetimes/a_copy_out_of_range", a_copy_out_of_range).reported("out of range"),
    Case::new("lifetimes/a_kernel_out_of_range", a_kernel_out_of_range)
        .reported("kernel: `fill`, line 30 of its PTX")
        .leaking(4),
    Case::new("lifetimes/uninitialised", || uninitialised(false))
        .with(&[("SOFTCUDA_CHECK_UNINITIALISED", "1")])
        .reported("read of memory that nobody wrote"),
    Case::new("lifetimes/initialised", || uninitialised(true)).with(&[("SOFTCUDA_CHECK_UNINITIALISED", "1")]),
];

fn use_before(by: By) {
    with_streams(|one, two| {
        let address = pooled(64, one);
        between(by, one, two);
        cuMemsetD8Async(address, 1, 64, two).unwrap();
        order(two, one);
        cuMemFreeAsync(address, one).unwrap();
    });
}

fn freed_in_use(by: By) {
    with_streams(|one, two| {
        let address = pooled(64, one);
        order(one, two);
        cuMemsetD8Async(address, 1, 64, two).unwrap();
        between(by, two, one);
        cuMemFreeAsync(address, one).unwrap();
    });
}

fn freed_in_kernel(by: By) {
    with_streams(|one, two| {
        let module = module(KERNELS);
        let address = pooled(256, one);
        order(one, two);
        let gate = Gate::close(two);
        launch(function(module, "fill"), 64, two, &[address, 64, 1]).unwrap();
        between(by, two, one);
        cuMemFreeAsync(address, one).unwrap();
        gate.open();
        cuModuleUnload(module).unwrap();
    });
}

fn freed_by_host(by: By) {
    with_streams(|one, _| {
        let address = pooled(64, one);
        let gate = Gate::close(one);
        cuMemsetD8Async(address, 1, 64, one).unwrap();
        if by == By::Host {
            gate.open();
        }
        between(by, one, one);
        cuMemFree_v2(address).unwrap();
        gate.open();
    });
}

fn pinned_freed(by: By) {
    with_memory(|one, _, address| {
        let pinned = host(64);
        cuMemcpyDtoHAsync_v2(pinned, address, 64, one).unwrap();
        between(by, one, one);
        cuMemFreeHost(pinned).unwrap();
    });
}

fn used_after_free() {
    with_streams(|one, _| {
        let address = pooled(64, one);
        cuMemFreeAsync(address, one).unwrap();
        let answer = cuMemsetD8Async(address, 1, 64, one);
        refused(answer, CUresult::CUDA_ERROR_INVALID_VALUE);
    });
}

fn used_after_free_by_a_kernel(held: bool) {
    start();
    let (one, other, module) = (stream(), stream(), module(KERNELS));
    // While older work waits, the memory is still there behind its address.
    let gate = held.then(|| Gate::close(other));
    let address = pooled(256, one);
    cuMemFreeAsync(address, one).unwrap();
    launch(function(module, "fill"), 64, one, &[address, 64, 1]).unwrap();
    refused(cuStreamSynchronize(one), CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
    if let Some(gate) = gate {
        gate.open();
    }
}

fn freed_twice() {
    with_streams(|one, _| {
        let address = pooled(64, one);
        cuMemFreeAsync(address, one).unwrap();
        refused(cuMemFreeAsync(address, one), CUresult::CUDA_ERROR_INVALID_VALUE);
        cuStreamSynchronize(one).unwrap();
        refused(cuMemFree_v2(address), CUresult::CUDA_ERROR_INVALID_VALUE);
    });
}

fn a_copy_out_of_range() {
    with_memory(|one, _, address| {
        let answer = cuMemsetD8Async(address + 1000, 1, 25, one);
        refused(answer, CUresult::CUDA_ERROR_INVALID_VALUE);
    });
}

fn a_kernel_out_of_range() {
    start();
    let (one, module, address) = (stream(), module(KERNELS), memory(256));
    launch(function(module, "fill"), 128, one, &[address, 128, 1]).unwrap();
    refused(cuStreamSynchronize(one), CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
}

fn uninitialised(written: bool) {
    with_kernels(|one, _, to, module| {
        let from = memory(256);
        cuMemsetD8Async(from, 1, if written { 256 } else { 252 }, one).unwrap();
        launch(function(module, "add"), 64, one, &[to, from, 64]).unwrap();
        cuStreamSynchronize(one).unwrap();
        cuMemFree_v2(from).unwrap();
    });
}

fn with_streams(body: impl FnOnce(CUstream, CUstream)) {
    start();
    let (one, two) = (stream(), stream());
    body(one, two);
    finish(&[one, two]);
    end();
}
