//! Pools of device memory: the unsafe code.
//!
//! Not here: who has the memory (`buffer.rs`).

use std::ptr;
use std::sync::Arc;

use cudarc::driver::sys;
use tenure_core::BackendError;

use crate::ffi::{Context, Current, Handle, Stream};

/// A pool of device memory of our own, from which the driver takes and to which it gives back in the order of a stream.
pub(crate) struct Pool {
    raw: Handle<sys::CUmemPoolHandle_st>,
    context: Arc<Context>,
}

impl Pool {
    /// A pool that keeps everything until it is trimmed.
    pub(crate) fn new(current: &Current<'_>, device: sys::CUdevice) -> Result<Self, BackendError> {
        let properties = sys::CUmemPoolProps {
            allocType: sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
            handleTypes: sys::CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE,
            location: sys::CUmemLocation {
                type_: sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
                id: device,
            },
            win32SecurityAttributes: ptr::null_mut(),
            maxSize: 0,
            usage: 0,
            reserved: [0; 54],
        };
        let mut raw = ptr::null_mut();
        // SAFETY: the properties are complete, and the place takes a handle.
        let made = unsafe { (current.functions().cuMemPoolCreate)(&mut raw, &properties) };
        current.check("cuMemPoolCreate", made)?;
        let pool = Pool { raw: Handle(raw), context: current.context.clone() };
        let threshold = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
        let mut all = u64::MAX;
        // SAFETY: this attribute is a number of 64 bits.
        let set = unsafe {
            (current.functions().cuMemPoolSetAttribute)(raw, threshold, ptr::from_mut(&mut all).cast())
        };
        current.check("cuMemPoolSetAttribute", set)?;
        Ok(pool)
    }

    /// Memory that is there from this moment of the stream on.
    pub(crate) fn allocate(
        &self,
        current: &Current<'_>,
        bytes: usize,
        stream: &Stream,
    ) -> Result<sys::CUdeviceptr, BackendError> {
        let mut address = 0;
        // SAFETY: pool and stream are alive, and the place takes an address.
        let made = unsafe {
            (current.functions().cuMemAllocFromPoolAsync)(&mut address, bytes, self.raw.0, stream.raw.0)
        };
        current.check("cuMemAllocFromPoolAsync", made)?;
        Ok(address)
    }

    /// Takes memory of the pool back, from this moment of the stream on. The device has finished with it.
    pub(crate) fn free(
        &self,
        current: &Current<'_>,
        address: sys::CUdeviceptr,
        stream: &Stream,
    ) -> Result<(), BackendError> {
        // SAFETY: by the contract of this function nobody uses the memory any more, and its owner frees it once.
        let freed = unsafe { (current.functions().cuMemFreeAsync)(address, stream.raw.0) };
        current.check("cuMemFreeAsync", freed)
    }

    /// Gives what nobody has back to the system.
    pub(crate) fn trim(&self, current: &Current<'_>) -> Result<(), BackendError> {
        // SAFETY: the pool is alive.
        let trimmed = unsafe { (current.functions().cuMemPoolTrimTo)(self.raw.0, 0) };
        current.check("cuMemPoolTrimTo", trimmed)
    }

    /// Bytes that the pool has of the device.
    pub(crate) fn reserved(&self, current: &Current<'_>) -> Result<u64, BackendError> {
        let reserved = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT;
        let mut bytes = 0_u64;
        // SAFETY: the pool is alive, and this attribute is a number of 64 bits.
        let got = unsafe {
            (current.functions().cuMemPoolGetAttribute)(
                self.raw.0,
                reserved,
                ptr::from_mut(&mut bytes).cast(),
            )
        };
        current.check("cuMemPoolGetAttribute", got)?;
        Ok(bytes)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.context.destroying(|functions| {
            // SAFETY: it is destroyed once, and everything was given back to it.
            ("cuMemPoolDestroy", unsafe { (functions.cuMemPoolDestroy)(self.raw.0) })
        });
    }
}
