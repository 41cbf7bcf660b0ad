//! The driver's functions as cudarc has them, with answers as results; and those that only the software driver has.
//!
//! Programs here pass only pointers to values that live. Not here: anything that a program does.

use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::path::PathBuf;

use cudarc::driver::sys::{self, CUresult};
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};

/// What a function answers when it does not succeed.
pub type Answer = Result<(), CUresult>;

/// Loads the library by its path, so that cudarc finds it when it asks for the driver by name.
pub fn load() {
    let program = std::env::current_exe().expect("the path of this program");
    let folders = program.ancestors().skip(1).take(2);
    let paths: Vec<PathBuf> = folders.map(|folder| folder.join("libsoftcuda.so")).collect();
    let path = paths.iter().find(|path| path.is_file()).expect("the shared library beside this program");
    // SAFETY: the library starts nothing when it is loaded.
    let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_GLOBAL) };
    // It stays until the process ends.
    std::mem::forget(library.expect("the library loads"));
    // SAFETY: it only looks for the library.
    assert!(unsafe { sys::is_culib_present() }, "cudarc finds it");
    assert_eq!(number(b"softcuda_is_software", None), 1, "cudarc found another driver");
}

macro_rules! functions {
    ($($name:ident($($argument:ident: $type:ty),* $(,)?);)*) => {
        $(
            #[allow(non_snake_case, clippy::too_many_arguments)]
            pub fn $name($($argument: $type),*) -> Answer {
                // SAFETY: programs pass pointers to values that live for the call, or as long as the work.
                let code = unsafe { sys::$name($($argument),*) };
                if code == CUresult::CUDA_SUCCESS { Ok(()) } else { Err(code) }
            }
        )*
    };
}

functions! {
    cuInit(flags: c_uint);
    cuDriverGetVersion(version: *mut c_int);
    cuGetErrorName(code: CUresult, text: *mut *const c_char);
    cuGetErrorString(code: CUresult, text: *mut *const c_char);
    cuGetProcAddress_v2(name: *const c_char, function: *mut *mut c_void, version: c_int, flags: u64,
        status: *mut sys::CUdriverProcAddressQueryResult);
    cuDeviceGet(device: *mut c_int, ordinal: c_int);
    cuDeviceGetCount(count: *mut c_int);
    cuDeviceGetName(name: *mut c_char, length: c_int, device: c_int);
    cuDeviceGetAttribute(value: *mut c_int, attribute: sys::CUdevice_attribute, device: c_int);
    cuDeviceTotalMem_v2(bytes: *mut usize, device: c_int);
    cuDevicePrimaryCtxRetain(context: *mut sys::CUcontext, device: c_int);
    cuDevicePrimaryCtxRelease_v2(device: c_int);
    cuDeviceGetDefaultMemPool(pool: *mut sys::CUmemoryPool, device: c_int);
    cuCtxCreate_v2(context: *mut sys::CUcontext, flags: c_uint, device: c_int);
    cuCtxDestroy_v2(context: sys::CUcontext);
    cuCtxGetCurrent(context: *mut sys::CUcontext);
    cuCtxSetCurrent(context: sys::CUcontext);
    cuCtxPushCurrent_v2(context: sys::CUcontext);
    cuCtxPopCurrent_v2(context: *mut sys::CUcontext);
    cuCtxSynchronize();
    cuStreamCreate(stream: *mut sys::CUstream, flags: c_uint);
    cuStreamDestroy_v2(stream: sys::CUstream);
    cuStreamSynchronize(stream: sys::CUstream);
    cuStreamQuery(stream: sys::CUstream);
    cuStreamWaitEvent(stream: sys::CUstream, event: sys::CUevent, flags: c_uint);
    cuStreamWaitValue32_v2(stream: sys::CUstream, address: u64, value: u32, flags: c_uint);
    cuStreamWriteValue32_v2(stream: sys::CUstream, address: u64, value: u32, flags: c_uint);
    cuStreamBeginCapture_v2(stream: sys::CUstream, mode: sys::CUstreamCaptureMode);
    cuStreamEndCapture(stream: sys::CUstream, graph: *mut sys::CUgraph);
    cuStreamIsCapturing(stream: sys::CUstream, status: *mut sys::CUstreamCaptureStatus);
    cuLaunchHostFunc(stream: sys::CUstream, function: sys::CUhostFn, data: *mut c_void);
    cuEventCreate(event: *mut sys::CUevent, flags: c_uint);
    cuEventDestroy_v2(event: sys::CUevent);
    cuEventRecord(event: sys::CUevent, stream: sys::CUstream);
    cuEventSynchronize(event: sys::CUevent);
    cuEventQuery(event: sys::CUevent);
    cuEventElapsedTime(milliseconds: *mut f32, start: sys::CUevent, end: sys::CUevent);
    cuMemGetInfo_v2(free: *mut usize, total: *mut usize);
    cuMemAlloc_v2(address: *mut u64, bytes: usize);
    cuMemFree_v2(address: u64);
    cuMemHostAlloc(pointer: *mut *mut c_void, bytes: usize, flags: c_uint);
    cuMemFreeHost(pointer: *mut c_void);
    cuMemHostRegister_v2(pointer: *mut c_void, bytes: usize, flags: c_uint);
    cuMemHostUnregister(pointer: *mut c_void);
    cuMemAllocAsync(address: *mut u64, bytes: usize, stream: sys::CUstream);
    cuMemAllocFromPoolAsync(address: *mut u64, bytes: usize, pool: sys::CUmemoryPool, stream: sys::CUstream);
    cuMemFreeAsync(address: u64, stream: sys::CUstream);
    cuMemPoolCreate(pool: *mut sys::CUmemoryPool, properties: *const sys::CUmemPoolProps);
    cuMemPoolDestroy(pool: sys::CUmemoryPool);
    cuMemPoolTrimTo(pool: sys::CUmemoryPool, keep: usize);
    cuMemPoolGetAttribute(pool: sys::CUmemoryPool, attribute: sys::CUmemPool_attribute, value: *mut c_void);
    cuMemPoolSetAttribute(pool: sys::CUmemoryPool, attribute: sys::CUmemPool_attribute, value: *mut c_void);
    cuMemcpyHtoD_v2(to: u64, from: *const c_void, bytes: usize);
    cuMemcpyHtoDAsync_v2(to: u64, from: *const c_void, bytes: usize, stream: sys::CUstream);
    cuMemcpyDtoH_v2(to: *mut c_void, from: u64, bytes: usize);
    cuMemcpyDtoHAsync_v2(to: *mut c_void, from: u64, bytes: usize, stream: sys::CUstream);
    cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: usize, stream: sys::CUstream);
    cuMemcpyAsync(to: u64, from: u64, bytes: usize, stream: sys::CUstream);
    cuMemcpyPeerAsync(to: u64, to_context: sys::CUcontext, from: u64, from_context: sys::CUcontext, bytes: usize,
        stream: sys::CUstream);
    cuMemsetD8_v2(to: u64, value: u8, count: usize);
    cuMemsetD8Async(to: u64, value: u8, count: usize, stream: sys::CUstream);
    cuMemsetD16Async(to: u64, value: u16, count: usize, stream: sys::CUstream);
    cuMemsetD32Async(to: u64, value: u32, count: usize, stream: sys::CUstream);
    cuModuleLoadData(module: *mut sys::CUmodule, image: *const c_void);
    cuModuleLoadDataEx(module: *mut sys::CUmodule, image: *const c_void, count: c_uint,
        options: *mut sys::CUjit_option, values: *mut *mut c_void);
    cuModuleUnload(module: sys::CUmodule);
    cuModuleGetFunction(function: *mut sys::CUfunction, module: sys::CUmodule, name: *const c_char);
    cuModuleGetGlobal_v2(address: *mut u64, bytes: *mut usize, module: sys::CUmodule, name: *const c_char);
    cuFuncGetAttribute(value: *mut c_int, attribute: sys::CUfunction_attribute, function: sys::CUfunction);
    cuFuncSetAttribute(function: sys::CUfunction, attribute: sys::CUfunction_attribute, value: c_int);
    cuLaunchKernel(function: sys::CUfunction, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint,
        block_y: c_uint, block_z: c_uint, shared: c_uint, stream: sys::CUstream, parameters: *mut *mut c_void,
        extra: *mut *mut c_void);
    cuGraphCreate(graph: *mut sys::CUgraph, flags: c_uint);
    cuGraphDestroy(graph: sys::CUgraph);
    cuGraphAddKernelNode_v2(node: *mut sys::CUgraphNode, graph: sys::CUgraph, after: *const sys::CUgraphNode,
        count: usize, parameters: *const sys::CUDA_KERNEL_NODE_PARAMS);
    cuGraphAddMemcpyNode(node: *mut sys::CUgraphNode, graph: sys::CUgraph, after: *const sys::CUgraphNode,
        count: usize, parameters: *const sys::CUDA_MEMCPY3D, context: sys::CUcontext);
    cuGraphAddMemsetNode(node: *mut sys::CUgraphNode, graph: sys::CUgraph, after: *const sys::CUgraphNode,
        count: usize, parameters: *const sys::CUDA_MEMSET_NODE_PARAMS, context: sys::CUcontext);
    cuGraphAddHostNode(node: *mut sys::CUgraphNode, graph: sys::CUgraph, after: *const sys::CUgraphNode,
        count: usize, parameters: *const sys::CUDA_HOST_NODE_PARAMS);
    cuGraphAddEmptyNode(node: *mut sys::CUgraphNode, graph: sys::CUgraph, after: *const sys::CUgraphNode,
        count: usize);
    cuGraphAddEventRecordNode(node: *mut sys::CUgraphNode, graph: sys::CUgraph, after: *const sys::CUgraphNode,
        count: usize, event: sys::CUevent);
    cuGraphAddChildGraphNode(node: *mut sys::CUgraphNode, graph: sys::CUgraph, after: *const sys::CUgraphNode,
        count: usize, child: sys::CUgraph);
    cuGraphGetNodes(graph: sys::CUgraph, nodes: *mut sys::CUgraphNode, count: *mut usize);
    cuGraphInstantiateWithFlags(executable: *mut sys::CUgraphExec, graph: sys::CUgraph, flags: u64);
    cuGraphExecKernelNodeSetParams_v2(executable: sys::CUgraphExec, node: sys::CUgraphNode,
        parameters: *const sys::CUDA_KERNEL_NODE_PARAMS);
    cuGraphAddEventWaitNode(node: *mut sys::CUgraphNode, graph: sys::CUgraph, after: *const sys::CUgraphNode,
        count: usize, event: sys::CUevent);
    cuGraphClone(clone: *mut sys::CUgraph, graph: sys::CUgraph);
    cuGraphInstantiateWithParams(executable: *mut sys::CUgraphExec, graph: sys::CUgraph,
        parameters: *mut sys::CUDA_GRAPH_INSTANTIATE_PARAMS);
    cuGraphExecUpdate_v2(executable: sys::CUgraphExec, graph: sys::CUgraph,
        result: *mut sys::CUgraphExecUpdateResultInfo);
    cuGraphExecDestroy(executable: sys::CUgraphExec);
    cuGraphUpload(executable: sys::CUgraphExec, stream: sys::CUstream);
    cuGraphLaunch(executable: sys::CUgraphExec, stream: sys::CUstream);
}

/// Memory that the driver pinned, as bytes. The program reads or writes it only when no work does.
pub fn pinned<'a>(pointer: *mut c_void, bytes: usize) -> &'a mut [u8] {
    // SAFETY: the driver made as many bytes there, and the program is the only one that looks now.
    unsafe { std::slice::from_raw_parts_mut(pointer.cast(), bytes) }
}

/// A C text of the driver's.
pub fn text(pointer: *const c_char) -> String {
    // SAFETY: the driver's texts have a zero at their end and live for ever.
    unsafe { std::ffi::CStr::from_ptr(pointer) }.to_string_lossy().into_owned()
}

/// How many violations were found.
pub fn violations() -> u64 {
    number(b"softcuda_violations", None)
}

/// What is left behind.
pub fn leaks() -> u64 {
    number(b"softcuda_leaks", None)
}

/// Live objects of a kind.
pub fn live(kind: &str) -> u64 {
    number(b"softcuda_live", Some(kind))
}

/// How often a function was called.
pub fn calls(function: &str) -> u64 {
    number(b"softcuda_calls", Some(function))
}

/// The texts of what was found.
pub fn take_report() -> String {
    let mut bytes = vec![0u8; 1 << 20];
    // SAFETY: it has this type.
    let function =
        unsafe { library().get::<unsafe extern "C" fn(*mut u8, usize) -> usize>(b"softcuda_take_report") };
    let function = function.expect("the software driver");
    // SAFETY: there is as much room.
    let length = unsafe { function(bytes.as_mut_ptr(), bytes.len()) };
    String::from_utf8_lossy(&bytes[..length.min(bytes.len() - 1)]).into_owned()
}

/// Lets a later call fail.
pub fn inject(function: &str, call: u64, code: CUresult, sticky: bool) {
    let name = CString::new(function).expect("a name");
    type Inject = unsafe extern "C" fn(*const c_char, u64, u32, c_int) -> c_int;
    // SAFETY: it has this type.
    let inject = unsafe { library().get::<Inject>(b"softcuda_inject") }.expect("the software driver");
    // SAFETY: the name has a zero at its end.
    unsafe { inject(name.as_ptr(), call, code as u32, c_int::from(sticky)) };
}

/// Sets when errors are told.
pub fn set_errors_at_once(at_once: bool) {
    // SAFETY: it has this type.
    let set =
        unsafe { library().get::<unsafe extern "C" fn(c_int) -> c_int>(b"softcuda_set_errors_at_once") };
    let set = set.expect("the software driver");
    // SAFETY: it takes any number.
    unsafe { set(c_int::from(at_once)) };
}

/// Sets the seed of delays.
pub fn set_seed(seed: u64) {
    // SAFETY: it has this type.
    let set = unsafe { library().get::<unsafe extern "C" fn(u64) -> c_int>(b"softcuda_set_seed") };
    let set = set.expect("the software driver");
    // SAFETY: it takes any number.
    unsafe { set(seed) };
}

fn number(name: &[u8], argument: Option<&str>) -> u64 {
    match argument {
        None => {
            // SAFETY: it has this type; a smaller number in the answer's register has zeros above it here.
            let function = unsafe { library().get::<unsafe extern "C" fn() -> u64>(name) };
            let function = function.expect("the software driver");
            // SAFETY: it takes nothing.
            unsafe { function() }
        }
        Some(argument) => {
            let argument = CString::new(argument).expect("a name");
            // SAFETY: it has this type.
            let function = unsafe { library().get::<unsafe extern "C" fn(*const c_char) -> u64>(name) };
            let function = function.expect("the software driver");
            // SAFETY: the name has a zero at its end.
            unsafe { function(argument.as_ptr()) }
        }
    }
}

fn library() -> &'static libloading::Library {
    // SAFETY: the library was loaded before.
    unsafe { sys::culib() }
}
