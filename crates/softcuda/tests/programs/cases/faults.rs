//! Errors that are asked for, and errors that stay.
//!
//! After an error that stays nothing can be given back, so these programs leave things behind. Not here: disorder.

use std::ptr::null_mut;
use std::sync::{Arc, Mutex};

use cudarc::driver::sys::{CUresult, CUstream};

use crate::Case;
use crate::ffi::*;
use crate::gate::{Gate, run};
use crate::kit::*;
use crate::ptx::KERNELS;

pub const CASES: &[Case] = &[
    Case::new("faults/of_the_environment", of_the_environment)
        .with(&[("SOFTCUDA_FAULTS", "cuMemAllocAsync:2:2; cuStreamCreate:1:999")]),
    Case::new("faults/of_the_program", of_the_program),
    Case::new("faults/a_sticky_one_stays", a_sticky_one_stays)
        .with(&[("SOFTCUDA_FAULTS", "cuMemsetD8Async:1:719:sticky")])
        .leaking(1),
    Case::new("faults/calls_are_counted", calls_are_counted),
    Case::new("faults/errors_are_told_late", errors_are_told_late).reported("out of range").leaking(4),
    Case::new("faults/errors_are_told_at_once", errors_are_told_at_once)
        .with(&[("SOFTCUDA_ERRORS", "at-once")])
        .reported("out of range")
        .leaking(4),
    Case::new("faults/errors_are_told_at_once_from_now_on", errors_are_told_at_once_from_now_on)
        .reported("out of range")
        .leaking(4),
    Case::new("faults/a_trap", a_trap).reported("trap").leaking(4),
    Case::new("faults/a_misaligned_store", a_misaligned_store).reported("misaligned").leaking(4),
    Case::new("faults/queued_work_ends_without_running", queued_work_ends_without_running)
        .reported("out of range")
        .leaking(5),
];

fn of_the_environment() {
    start();
    let mut stream = null_mut();
    refused(cuStreamCreate(&mut stream, 0), CUresult::CUDA_ERROR_UNKNOWN);
    cuStreamCreate(&mut stream, 0).unwrap();
    let one = pooled(64, stream);
    let mut two = 0;
    refused(cuMemAllocAsync(&mut two, 64, stream), CUresult::CUDA_ERROR_OUT_OF_MEMORY);
    two = pooled(64, stream);
    for address in [one, two] {
        cuMemFreeAsync(address, stream).unwrap();
    }
    finish(&[stream]);
    end();
}

fn of_the_program() {
    start();
    let first = event();
    inject("cuEventCreate", 2, CUresult::CUDA_ERROR_OUT_OF_MEMORY, false);
    let second = event();
    let mut third = null_mut();
    refused(cuEventCreate(&mut third, 0), CUresult::CUDA_ERROR_OUT_OF_MEMORY);
    assert!(third.is_null());
    for event in [first, second] {
        cuEventDestroy_v2(event).unwrap();
    }
    end();
}

fn a_sticky_one_stays() {
    start();
    let answer = cuMemsetD8Async(0, 0, 0, null_mut());
    refused(answer, CUresult::CUDA_ERROR_LAUNCH_FAILED);
    let mut stream: CUstream = null_mut();
    refused(cuStreamCreate(&mut stream, 0), CUresult::CUDA_ERROR_LAUNCH_FAILED);
    refused(cuCtxSynchronize(), CUresult::CUDA_ERROR_LAUNCH_FAILED);
    // Devices can still be looked at.
    let mut count = 0;
    cuDeviceGetCount(&mut count).unwrap();
    // A new context does not help: only a new process does.
    let mut context = null_mut();
    let answer = cuCtxCreate_v2(&mut context, 0, 0);
    refused(answer, CUresult::CUDA_ERROR_LAUNCH_FAILED);
}

fn calls_are_counted() {
    start();
    let (before, all) = (calls("cuEventCreate"), calls(""));
    let event = event();
    cuEventDestroy_v2(event).unwrap();
    assert_eq!(calls("cuEventCreate"), before + 1);
    assert_eq!(calls(""), all + 2);
    assert_eq!(calls("cuNothing"), 0);
    end();
}

/// Leaves a context, a stream, a module, and memory.
fn out_of_range() -> (CUstream, u64) {
    start();
    let (stream, module, to) = (stream(), module(KERNELS), memory(256));
    launch(function(module, "fill"), 128, stream, &[to, 128, 1]).unwrap();
    (stream, to)
}

fn errors_are_told_late() {
    let (stream, to) = out_of_range();
    // Whether the kernel ran already or not: nobody asked yet.
    cuMemsetD8Async(to, 0, 1, stream).unwrap();
    let illegal = CUresult::CUDA_ERROR_ILLEGAL_ADDRESS;
    refused(cuStreamSynchronize(stream), illegal);
    refused(cuStreamSynchronize(stream), illegal);
    refused(cuMemFree_v2(to), illegal);
    refused(cuStreamDestroy_v2(stream), illegal);
}

/// Nobody waits for anything: calls that have nothing to do with the kernel tell.
fn errors_are_told_at_once() {
    let (stream, to) = out_of_range();
    while cuMemsetD8Async(to, 0, 1, stream).is_ok() {
        std::thread::yield_now();
    }
    refused(cuMemsetD8Async(to, 0, 1, stream), CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
}

fn errors_are_told_at_once_from_now_on() {
    let (stream, to) = out_of_range();
    // The report comes when the kernel is at its end; nobody has asked yet.
    while violations() == 0 {
        std::thread::yield_now();
    }
    cuMemsetD8Async(to, 0, 1, stream).unwrap();
    set_errors_at_once(true);
    while cuMemsetD8Async(to, 0, 1, stream).is_ok() {
        std::thread::yield_now();
    }
    refused(cuMemsetD8Async(to, 0, 1, stream), CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
}

fn a_trap() {
    start();
    let (stream, module, _left) = (stream(), module(KERNELS), memory(4));
    cuLaunchKernel(function(module, "stop"), 1, 1, 1, 1, 1, 1, 0, stream, null_mut(), null_mut()).unwrap();
    refused(cuStreamSynchronize(stream), CUresult::CUDA_ERROR_LAUNCH_FAILED);
}

fn a_misaligned_store() {
    start();
    let (stream, module, to) = (stream(), module(KERNELS), memory(256));
    launch(function(module, "crooked"), 1, stream, &[to]).unwrap();
    refused(cuStreamSynchronize(stream), CUresult::CUDA_ERROR_MISALIGNED_ADDRESS);
    refused(cuCtxSynchronize(), CUresult::CUDA_ERROR_MISALIGNED_ADDRESS);
}

fn queued_work_ends_without_running() {
    start();
    let (held, stream) = (stream(), stream());
    let (module, to) = (module(KERNELS), memory(256));
    cuMemsetD8Async(to, 1, 256, held).unwrap();
    cuStreamSynchronize(held).unwrap();
    let gate = Gate::close(held);
    let ran = Arc::new(Mutex::new(false));
    let inside = ran.clone();
    run(held, move || *inside.lock().unwrap() = true);
    launch(function(module, "fill"), 128, stream, &[to + 1024, 128, 1]).unwrap();
    refused(cuStreamSynchronize(stream), CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
    gate.open();
    refused(cuStreamSynchronize(held), CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
    assert!(!*ran.lock().unwrap(), "it was queued before the error, and its turn came after it");
}
