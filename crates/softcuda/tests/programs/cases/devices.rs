//! Devices, contexts, errors in words.
//!
//! Not here: what is done in a context.

use std::ffi::CString;
use std::ptr::null_mut;

use cudarc::driver::sys::{CUdevice_attribute, CUresult};

use crate::Case;
use crate::ffi::*;
use crate::kit::*;

pub const CASES: &[Case] = &[
    Case::new("devices/they_say_what_they_are", they_say_what_they_are),
    Case::new("devices/as_many_as_asked_for", as_many_as_asked_for)
        .with(&[("SOFTCUDA_DEVICES", "3"), ("SOFTCUDA_MEMORY", "64M")]),
    Case::new("devices/none", none).with(&[("SOFTCUDA_DEVICES", "0")]),
    Case::new("devices/nothing_before_init", nothing_before_init),
    Case::new("devices/errors_have_names", errors_have_names),
    Case::new("devices/functions_are_found_by_name", functions_are_found_by_name),
    Case::new("devices/contexts_are_a_stack_of_a_thread", contexts_are_a_stack_of_a_thread),
    Case::new("devices/a_primary_context_is_counted", a_primary_context_is_counted),
    Case::new("devices/a_destroyed_context_is_told", a_destroyed_context_is_told),
    Case::new("devices/cudarc_runs_unmodified", cudarc_runs_unmodified),
];

fn they_say_what_they_are() {
    cuInit(0).unwrap();
    let mut version = 0;
    cuDriverGetVersion(&mut version).unwrap();
    assert_eq!(version, 12_090);
    let mut count = 0;
    cuDeviceGetCount(&mut count).unwrap();
    assert_eq!(count, 1);
    let mut name = [0; 64];
    cuDeviceGetName(name.as_mut_ptr(), 64, 0).unwrap();
    assert_eq!(text(name.as_ptr()), "softcuda CPU device (not NVIDIA)");
    cuDeviceGetName(name.as_mut_ptr(), 9, 0).unwrap();
    assert_eq!(text(name.as_ptr()), "softcuda", "a name that is cut still ends");
    let attribute = |which| {
        let mut value = 0;
        cuDeviceGetAttribute(&mut value, which, 0).unwrap();
        value
    };
    assert_eq!(attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_WARP_SIZE), 32);
    assert_eq!(attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING), 1);
    assert_eq!(attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED), 1);
    assert_eq!(attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK), 1024);
    let mut bytes = 0;
    cuDeviceTotalMem_v2(&mut bytes, 0).unwrap();
    assert_eq!(bytes, 2 << 30);
    refused(cuDeviceTotalMem_v2(&mut bytes, 1), CUresult::CUDA_ERROR_INVALID_DEVICE);
}

fn as_many_as_asked_for() {
    cuInit(0).unwrap();
    let (mut count, mut bytes, mut device) = (0, 0, 0);
    cuDeviceGetCount(&mut count).unwrap();
    cuDeviceTotalMem_v2(&mut bytes, 2).unwrap();
    assert_eq!((count, bytes), (3, 64 << 20));
    refused(cuDeviceGet(&mut device, 3), CUresult::CUDA_ERROR_INVALID_DEVICE);
}

fn none() {
    refused(cuInit(0), CUresult::CUDA_ERROR_NO_DEVICE);
}

fn nothing_before_init() {
    let mut count = 0;
    refused(cuDeviceGetCount(&mut count), CUresult::CUDA_ERROR_NOT_INITIALIZED);
    refused(cuInit(1), CUresult::CUDA_ERROR_INVALID_VALUE);
    let mut stream = null_mut();
    cuInit(0).unwrap();
    refused(cuStreamCreate(&mut stream, 0), CUresult::CUDA_ERROR_INVALID_CONTEXT);
}

fn errors_have_names() {
    let mut words = std::ptr::null();
    cuGetErrorName(CUresult::CUDA_ERROR_ILLEGAL_ADDRESS, &mut words).unwrap();
    assert_eq!(text(words), "CUDA_ERROR_ILLEGAL_ADDRESS");
    cuGetErrorString(CUresult::CUDA_ERROR_OUT_OF_MEMORY, &mut words).unwrap();
    assert_eq!(text(words), "out of memory");
    let codes = [CUresult::CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, CUresult::CUDA_ERROR_DEVICE_UNAVAILABLE];
    for code in codes {
        cuGetErrorName(code, &mut words).unwrap();
        assert_eq!(text(words), format!("{code:?}"));
    }
}

fn functions_are_found_by_name() {
    let find = |name: &str| {
        let name = CString::new(name).unwrap();
        let mut function = null_mut();
        let answer = cuGetProcAddress_v2(name.as_ptr(), &mut function, 12_090, 0, null_mut());
        (answer, function.is_null())
    };
    assert_eq!(find("cuMemAlloc"), (Ok(()), false), "the latest version is meant");
    assert_eq!(find("cuInit"), (Ok(()), false));
    assert_eq!(find("cuNothing"), (Err(CUresult::CUDA_ERROR_NOT_FOUND), true));
}

fn contexts_are_a_stack_of_a_thread() {
    cuInit(0).unwrap();
    let (mut one, mut two, mut current) = (null_mut(), null_mut(), null_mut());
    cuCtxCreate_v2(&mut one, 0, 0).unwrap();
    cuCtxCreate_v2(&mut two, 0, 0).unwrap();
    cuCtxGetCurrent(&mut current).unwrap();
    assert_eq!(current, two, "a new context is current");
    let elsewhere = std::thread::spawn(|| {
        let mut current = null_mut();
        cuCtxGetCurrent(&mut current).unwrap();
        current.is_null()
    });
    assert!(elsewhere.join().unwrap(), "on its thread only");
    cuCtxPopCurrent_v2(&mut current).unwrap();
    assert_eq!(current, two);
    cuCtxGetCurrent(&mut current).unwrap();
    assert_eq!(current, one);
    cuCtxPushCurrent_v2(two).unwrap();
    cuCtxDestroy_v2(two).unwrap();
    cuCtxGetCurrent(&mut current).unwrap();
    assert_eq!(current, one, "a destroyed context is taken from the top");
    cuCtxDestroy_v2(one).unwrap();
    refused(cuCtxPopCurrent_v2(&mut current), CUresult::CUDA_ERROR_INVALID_CONTEXT);
}

fn a_primary_context_is_counted() {
    cuInit(0).unwrap();
    let (one, two) = (primary(0), primary(0));
    assert_eq!(one, two);
    refused(cuCtxDestroy_v2(one), CUresult::CUDA_ERROR_INVALID_CONTEXT);
    cuDevicePrimaryCtxRelease_v2(0).unwrap();
    cuCtxSynchronize().unwrap();
    cuDevicePrimaryCtxRelease_v2(0).unwrap();
    refused(cuDevicePrimaryCtxRelease_v2(0), CUresult::CUDA_ERROR_INVALID_CONTEXT);
}

fn a_destroyed_context_is_told() {
    start();
    end();
    refused(cuCtxSynchronize(), CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

/// The safe layer of cudarc: what a program that knows nothing of this driver does.
fn cudarc_runs_unmodified() {
    use cudarc::driver::{CudaContext, LaunchConfig, PushKernelArg};
    let context = CudaContext::new(0).unwrap();
    assert_eq!(context.name().unwrap(), "softcuda CPU device (not NVIDIA)");
    assert!(context.has_async_alloc());
    let (one, two) = (context.new_stream().unwrap(), context.new_stream().unwrap());
    let host: Vec<u32> = (0..1000).collect();
    let from = one.clone_htod(&host).unwrap();
    let mut to = two.clone_dtod(&from).unwrap();
    let module = context.load_module(cudarc::nvrtc::Ptx::from_src(crate::ptx::KERNELS)).unwrap();
    let add = module.load_function("add").unwrap();
    let mut call = two.launch_builder(&add);
    let count = 1000u32;
    call.arg(&mut to).arg(&from).arg(&count);
    crate::kit::ffi::launch_cudarc(&mut call, LaunchConfig::for_num_elems(1000));
    assert!(two.clone_dtoh(&to).unwrap().iter().zip(&host).all(|(sum, word)| *sum == 2 * word));
}
