//! Modules and kernels.
//!
//! Not here: what instructions do; the tests beside `ptx` have that.

use std::ffi::{CString, c_void};
use std::ptr::null_mut;

use cudarc::driver::sys::{CUfunction_attribute, CUjit_option, CUresult};

use crate::Case;
use crate::ffi::*;
use crate::kit::*;
use crate::ptx::KERNELS;

pub const CASES: &[Case] = &[
    Case::new("kernels/they_run_on_streams", they_run_on_streams),
    Case::new("kernels/variables_of_modules", variables_of_modules),
    Case::new("kernels/a_wrong_text_is_explained", a_wrong_text_is_explained),
    Case::new("kernels/arguments_as_one_block", arguments_as_one_block),
    Case::new("kernels/limits_are_checked", limits_are_checked),
    Case::new("kernels/what_is_not_there_is_not_found", what_is_not_there_is_not_found),
    Case::new("kernels/they_reach_pinned_memory", they_reach_pinned_memory),
];

fn they_run_on_streams() {
    start();
    let (one, two, module) = (stream(), stream(), module(KERNELS));
    let (fill, add) = (function(module, "fill"), function(module, "add"));
    let (to, from) = (memory(4000), memory(4000));
    launch(fill, 1000, one, &[to, 1000, 3]).unwrap();
    launch(fill, 1000, two, &[from, 1000, 4]).unwrap();
    order(two, one);
    launch(add, 1000, one, &[to, from, 1000]).unwrap();
    assert_eq!(words(to, 1000, one), vec![7; 1000]);
    finish(&[one, two]);
    cuModuleUnload(module).unwrap();
    cuMemFree_v2(to).unwrap();
    cuMemFree_v2(from).unwrap();
    end();
}

fn variables_of_modules() {
    start();
    let (module, to) = (module(KERNELS), memory(4));
    let name = CString::new("level").unwrap();
    let (mut address, mut bytes) = (0, 0);
    cuModuleGetGlobal_v2(&mut address, &mut bytes, module, name.as_ptr()).unwrap();
    assert_eq!(bytes, 4);
    assert_eq!(words(address, 1, null_mut()), [5]);
    let get = function(module, "get");
    let mut arguments = Arguments::new(&[to]);
    for expected in [5, 6] {
        cuLaunchKernel(get, 1, 1, 1, 1, 1, 1, 0, null_mut(), arguments.pointers(), null_mut()).unwrap();
        assert_eq!(words(to, 1, null_mut()), [expected]);
    }
    cuMemcpyHtoD_v2(address, 40u32.to_le_bytes().as_ptr().cast(), 4).unwrap();
    cuLaunchKernel(get, 1, 1, 1, 1, 1, 1, 0, null_mut(), arguments.pointers(), null_mut()).unwrap();
    assert_eq!(words(to, 1, null_mut()), [40]);
    cuModuleUnload(module).unwrap();
    cuMemFree_v2(to).unwrap();
    end();
}

fn a_wrong_text_is_explained() {
    start();
    let text = CString::new(KERNELS.replacen("mad.lo.s32", "made.lo.s32", 1)).unwrap();
    let mut log = [0u8; 512];
    let mut options =
        [CUjit_option::CU_JIT_ERROR_LOG_BUFFER, CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES];
    let mut values: [*mut c_void; 2] = [log.as_mut_ptr().cast(), std::ptr::without_provenance_mut(log.len())];
    let mut module = null_mut();
    let (options, values) = (options.as_mut_ptr(), values.as_mut_ptr());
    let answer = cuModuleLoadDataEx(&mut module, text.as_ptr().cast(), 2, options, values);
    refused(answer, CUresult::CUDA_ERROR_INVALID_PTX);
    let words = String::from_utf8_lossy(&log);
    assert!(words.contains("line 24") && words.contains("made"), "{words}");
    let binary = b"\x7fELF\0";
    let answer = cuModuleLoadData(&mut module, binary.as_ptr().cast());
    refused(answer, CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU);
    end();
}

fn arguments_as_one_block() {
    start();
    let (module, to) = (module(KERNELS), memory(256));
    let fill = function(module, "fill");
    let mut block = [0u8; 16];
    block[..8].copy_from_slice(&to.to_le_bytes());
    block[8..12].copy_from_slice(&64u32.to_le_bytes());
    block[12..].copy_from_slice(&9u32.to_le_bytes());
    let mut size = block.len();
    let number = |number| std::ptr::without_provenance_mut::<c_void>(number);
    // The names in the list: 1 is the block, 2 its size, 0 the end.
    let mut extra = [number(1), block.as_mut_ptr().cast(), number(2), (&raw mut size).cast(), number(0)];
    let list = extra.as_mut_ptr();
    cuLaunchKernel(fill, 1, 1, 1, 64, 1, 1, 0, null_mut(), null_mut(), list).unwrap();
    assert_eq!(words(to, 64, null_mut()), [9; 64]);
    let mut short = 4usize;
    extra[3] = (&raw mut short).cast();
    let answer = cuLaunchKernel(fill, 1, 1, 1, 64, 1, 1, 0, null_mut(), null_mut(), extra.as_mut_ptr());
    refused(answer, CUresult::CUDA_ERROR_INVALID_VALUE);
    cuModuleUnload(module).unwrap();
    cuMemFree_v2(to).unwrap();
    end();
}

fn limits_are_checked() {
    start();
    let (module, to) = (module(KERNELS), memory(4));
    let fill = function(module, "fill");
    let mut arguments = Arguments::new(&[to, 1, 1]);
    let mut attempt = |grid: [u32; 3], block: [u32; 3], shared: u32| {
        let [x, y, z] = grid;
        let [bx, by, bz] = block;
        cuLaunchKernel(fill, x, y, z, bx, by, bz, shared, null_mut(), arguments.pointers(), null_mut())
    };
    let invalid = Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    assert_eq!(attempt([0, 1, 1], [1, 1, 1], 0), invalid);
    assert_eq!(attempt([1, 1, 1], [1, 0, 1], 0), invalid);
    assert_eq!(attempt([1, 1, 1], [1025, 1, 1], 0), invalid);
    assert_eq!(attempt([1, 1, 1], [512, 4, 1], 0), invalid);
    assert_eq!(attempt([1, 65_536, 1], [1, 1, 1], 0), invalid);
    assert_eq!(attempt([1, 1, 1], [1, 1, 1], (48 << 10) + 1), invalid);
    assert_eq!(attempt([1, 1, 1], [1, 1, 1], 48 << 10), Ok(()));
    let more = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    cuFuncSetAttribute(fill, more, 96 << 10).unwrap();
    let mut value = 0;
    cuFuncGetAttribute(&mut value, more, fill).unwrap();
    assert_eq!(value, 96 << 10);
    assert_eq!(attempt([1, 1, 1], [1, 1, 1], 96 << 10), Ok(()));
    refused(cuFuncSetAttribute(fill, more, 1 << 20), CUresult::CUDA_ERROR_INVALID_VALUE);
    let none = cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, null_mut(), null_mut(), null_mut());
    refused(none, CUresult::CUDA_ERROR_INVALID_VALUE);
    cuModuleUnload(module).unwrap();
    cuMemFree_v2(to).unwrap();
    end();
}

fn what_is_not_there_is_not_found() {
    start();
    let module = module(KERNELS);
    let name = CString::new("nothing").unwrap();
    let mut function = null_mut();
    let answer = cuModuleGetFunction(&mut function, module, name.as_ptr());
    refused(answer, CUresult::CUDA_ERROR_NOT_FOUND);
    let (mut address, mut bytes) = (0, 0);
    let answer = cuModuleGetGlobal_v2(&mut address, &mut bytes, module, name.as_ptr());
    refused(answer, CUresult::CUDA_ERROR_NOT_FOUND);
    cuModuleUnload(module).unwrap();
    refused(cuModuleUnload(module), CUresult::CUDA_ERROR_INVALID_HANDLE);
    end();
}

fn they_reach_pinned_memory() {
    start();
    let (stream, module, memory) = (stream(), module(KERNELS), host(256));
    launch(function(module, "fill"), 64, stream, &[memory as u64, 64, 0x0101_0101]).unwrap();
    cuStreamSynchronize(stream).unwrap();
    assert_eq!(*pinned(memory, 256), [1; 256]);
    finish(&[stream]);
    cuModuleUnload(module).unwrap();
    cuMemFreeHost(memory).unwrap();
    end();
}
