//! The functions of the driver, and the unsafe code that finds them.
//!
//! They are looked up by name in the library that cudarc opened, all of them before the first is called: cudarc's own
//! wrappers panic at the call where a symbol is missing, and type what the driver answers as an enum that a newer driver's
//! answer would not fit. The types are cudarc's. Not here: calling them.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::path::Path;

use cudarc::driver::sys;
use sys::{
    CUcontext, CUdevice, CUdeviceptr, CUevent, CUfunction, CUgraph, CUgraphExec, CUgraphNode, CUmemoryPool,
    CUmodule, CUstream,
};

use crate::error::Code;

macro_rules! functions {
    ($($name:ident($($argument:ty),* $(,)?);)*) => {
        /// What the driver exports, with the names of `cuda.h`.
        #[allow(non_snake_case, reason = "the driver's names")]
        pub(crate) struct Functions {
            $(pub $name: unsafe extern "system" fn($($argument),*) -> Code,)*
        }

        fn find(library: &libloading::Library) -> Result<Functions, &'static str> {
            Ok(Functions {
                $($name: {
                    // SAFETY: this is the function's signature in `cuda.h`, with the answer as the number that it is.
                    let found = unsafe { library.get(concat!(stringify!($name), "\0").as_bytes()) };
                    *found.map_err(|_| stringify!($name))?
                },)*
            })
        }
    };
}

functions! {
    cuInit(c_uint);
    cuDriverGetVersion(*mut c_int);
    cuGetErrorName(Code, *mut *const c_char);
    cuGetErrorString(Code, *mut *const c_char);
    cuDeviceGetCount(*mut c_int);
    cuDeviceGet(*mut CUdevice, c_int);
    cuDeviceGetName(*mut c_char, c_int, CUdevice);
    cuDeviceGetAttribute(*mut c_int, sys::CUdevice_attribute, CUdevice);
    cuDeviceTotalMem_v2(*mut usize, CUdevice);
    cuDevicePrimaryCtxRetain(*mut CUcontext, CUdevice);
    cuDevicePrimaryCtxRelease_v2(CUdevice);
    cuCtxPushCurrent_v2(CUcontext);
    cuCtxPopCurrent_v2(*mut CUcontext);
    cuCtxGetDevice(*mut CUdevice);
    cuThreadExchangeStreamCaptureMode(*mut c_uint);
    cuMemGetInfo_v2(*mut usize, *mut usize);
    cuPointerGetAttribute(*mut c_void, sys::CUpointer_attribute, CUdeviceptr);
    cuStreamCreate(*mut CUstream, c_uint);
    cuStreamDestroy_v2(CUstream);
    cuStreamSynchronize(CUstream);
    cuStreamWaitEvent(CUstream, CUevent, c_uint);
    cuEventCreate(*mut CUevent, c_uint);
    cuEventDestroy_v2(CUevent);
    cuEventRecord(CUevent, CUstream);
    cuEventQuery(CUevent);
    cuEventSynchronize(CUevent);
    cuMemPoolCreate(*mut CUmemoryPool, *const sys::CUmemPoolProps);
    cuMemPoolDestroy(CUmemoryPool);
    cuMemPoolSetAttribute(CUmemoryPool, sys::CUmemPool_attribute, *mut c_void);
    cuMemPoolGetAttribute(CUmemoryPool, sys::CUmemPool_attribute, *mut c_void);
    cuMemPoolTrimTo(CUmemoryPool, usize);
    cuMemAllocFromPoolAsync(*mut CUdeviceptr, usize, CUmemoryPool, CUstream);
    cuMemFreeAsync(CUdeviceptr, CUstream);
    cuMemHostAlloc(*mut *mut c_void, usize, c_uint);
    cuMemFreeHost(*mut c_void);
    cuMemcpyHtoDAsync_v2(CUdeviceptr, *const c_void, usize, CUstream);
    cuMemcpyDtoHAsync_v2(*mut c_void, CUdeviceptr, usize, CUstream);
    cuMemcpyDtoDAsync_v2(CUdeviceptr, CUdeviceptr, usize, CUstream);
    cuMemsetD8Async(CUdeviceptr, u8, usize, CUstream);
    cuMemsetD16Async(CUdeviceptr, u16, usize, CUstream);
    cuMemsetD32Async(CUdeviceptr, u32, usize, CUstream);
    cuModuleLoadDataEx(*mut CUmodule, *const c_void, c_uint, *mut sys::CUjit_option, *mut *mut c_void);
    cuModuleUnload(CUmodule);
    cuModuleGetFunction(*mut CUfunction, CUmodule, *const c_char);
    cuFuncGetAttribute(*mut c_int, sys::CUfunction_attribute, CUfunction);
    cuFuncSetAttribute(CUfunction, sys::CUfunction_attribute, c_int);
    cuLaunchKernel(
        CUfunction, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, CUstream, *mut *mut c_void,
        *mut *mut c_void,
    );
    cuGraphCreate(*mut CUgraph, c_uint);
    cuGraphDestroy(CUgraph);
    cuGraphAddKernelNode_v2(
        *mut CUgraphNode, CUgraph, *const CUgraphNode, usize, *const sys::CUDA_KERNEL_NODE_PARAMS,
    );
    cuGraphAddMemcpyNode(
        *mut CUgraphNode, CUgraph, *const CUgraphNode, usize, *const sys::CUDA_MEMCPY3D, CUcontext,
    );
    cuGraphAddEmptyNode(*mut CUgraphNode, CUgraph, *const CUgraphNode, usize);
    cuGraphAddMemsetNode(
        *mut CUgraphNode, CUgraph, *const CUgraphNode, usize, *const sys::CUDA_MEMSET_NODE_PARAMS, CUcontext,
    );
    cuGraphInstantiateWithFlags(*mut CUgraphExec, CUgraph, u64);
    cuGraphExecDestroy(CUgraphExec);
    cuGraphLaunch(CUgraphExec, CUstream);
}

/// Whether there is a driver to open.
pub(crate) fn is_present() -> bool {
    // SAFETY: what loading a driver's library runs is as sound as the machine's driver.
    unsafe { sys::is_culib_present() }
}

/// All functions, or the name of the first that is missing. For a driver that is present.
pub(crate) fn find_functions() -> Result<Functions, &'static str> {
    // SAFETY: as in `is_present`, after which this does not panic.
    let library = unsafe { sys::culib() };
    find(library)
}

/// Whether the driver says of itself that it is the one in software. For a driver that is present.
pub(crate) fn exports_software() -> bool {
    // SAFETY: as in `find_functions`.
    let library = unsafe { sys::culib() };
    // SAFETY: only that the symbol is there counts; it is not used.
    let symbol = unsafe { library.get::<*const c_void>(b"softcuda_is_software\0") };
    symbol.is_ok()
}

/// Opens a library for good, with its symbols for everybody.
#[cfg(unix)]
pub(crate) fn open_globally(path: &Path) -> Result<(), String> {
    use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
    // SAFETY: whoever names the library vouches for what loading it runs.
    let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_GLOBAL) };
    let library = library.map_err(|error| format!("{} cannot be opened: {error}", path.display()))?;
    // It stays open as long as the process: its functions are kept.
    std::mem::forget(library);
    Ok(())
}

/// Opens a library for good.
#[cfg(not(unix))]
pub(crate) fn open_globally(path: &Path) -> Result<(), String> {
    Err(format!("{}: the driver in software is for Unix only", path.display()))
}
