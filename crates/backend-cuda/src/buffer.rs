//! Device memory: blocks, which core owns, and memory of the backend's own.
//!
//! Both come from a pool of the driver's in the order of a stream that has nothing else in it. The host waits for that
//! stream, which is idle, after each allocation: then the memory is there for every stream. Memory is given back when
//! the host has seen that the device has finished with it, so the order of that stream is enough too. Not here: cutting blocks
//! into tensors (core's pool), copies (`transfer.rs`).

pub(crate) mod ffi;

use std::sync::Arc;

use cudarc::driver::sys;
use tenure_core::BackendError;
use tenure_core::backend::BlockRequest;

use crate::buffer::ffi::Pool;
use crate::device::Device;
use crate::device::ffi::device_at;
use crate::error::unsupported;
use crate::ffi::{Context, Current, Stream};
use crate::heap::Memory;

/// One block of device memory.
#[derive(Debug)]
pub struct CudaBlock {
    address: sys::CUdeviceptr,
    bytes: u64,
    origin: Origin,
}

/// Whose memory it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// From our pool, to which it goes back.
    Pool,
    /// An engine's, which is never freed here.
    Engine,
}

/// Device memory of an engine's own, to be adopted: of the same device, and there for every stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CudaMemory {
    /// The driver's address of its first byte, a multiple of 16. A tensor begins there.
    pub address: sys::CUdeviceptr,
    /// Its size in bytes.
    pub bytes: u64,
}

/// What an engine's memory begins at a multiple of: elements of 16 bytes are the largest that kernels access at once.
const ENGINE_ALIGNMENT: u64 = 16;

impl CudaBlock {
    /// The driver's address of the block's first byte: a tensor begins at its offset from it. Valid while the block is not
    /// freed; never to be freed by others.
    pub fn address(&self) -> sys::CUdeviceptr {
        self.address
    }

    /// Size in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// A pool of device memory and the stream of its order.
pub(crate) struct Allocator {
    pool: Pool,
    stream: Stream,
    context: Arc<Context>,
}

impl Allocator {
    pub(crate) fn new(current: &Current<'_>, device: sys::CUdevice) -> Result<Arc<Self>, BackendError> {
        let (pool, stream) = (Pool::new(current, device)?, Stream::new(current)?);
        Ok(Arc::new(Allocator { pool, stream, context: current.context.clone() }))
    }

    /// Memory that every stream may use when this returns.
    fn take(&self, current: &Current<'_>, bytes: u64) -> Result<sys::CUdeviceptr, BackendError> {
        let size = usize::try_from(bytes)
            .map_err(|_| unsupported("allocate", format!("{bytes} bytes pass what the machine addresses")))?;
        let address = self.pool.allocate(current, size, &self.stream)?;
        if let Err(error) = self.stream.synchronize(current) {
            // What went wrong is told; freeing can only go wrong the same way.
            let _ = self.pool.free(current, address, &self.stream);
            return Err(error);
        }
        Ok(address)
    }

    fn give(&self, current: &Current<'_>, address: sys::CUdeviceptr) -> Result<(), BackendError> {
        self.pool.free(current, address, &self.stream)
    }

    /// Gives what was given back to the pool to the system.
    pub(crate) fn trim(&self, current: &Current<'_>) -> Result<(), BackendError> {
        // The pool counts what the host has seen freed.
        self.stream.synchronize(current)?;
        self.pool.trim(current)
    }

    /// Bytes that the pool has of the device.
    pub(crate) fn reserved(&self, current: &Current<'_>) -> Result<u64, BackendError> {
        self.pool.reserved(current)
    }
}

impl Device {
    pub(crate) fn allocate(&self, request: &BlockRequest<'_>) -> Result<CudaBlock, BackendError> {
        let current = self.context.enter()?;
        let address = self.allocator.take(&current, request.bytes)?;
        Ok(CudaBlock { address, bytes: request.bytes, origin: Origin::Pool })
    }

    pub(crate) fn free(&self, block: CudaBlock) -> Result<(), BackendError> {
        match block.origin {
            Origin::Pool => self.allocator.give(&self.context.enter()?, block.address),
            Origin::Engine => Ok(()),
        }
    }

    /// A block of an engine's memory.
    pub(crate) fn adopt(
        &self,
        memory: CudaMemory,
        request: &BlockRequest<'_>,
    ) -> Result<CudaBlock, BackendError> {
        let current = self.context.enter()?;
        let CudaMemory { address, bytes } = memory;
        let label = request.label;
        if bytes < request.bytes {
            let message = format!("`{label}` has {} bytes, the memory {bytes}", request.bytes);
            return Err(unsupported("adopt", message));
        }
        if address == 0 || !address.is_multiple_of(ENGINE_ALIGNMENT) || address.checked_add(bytes).is_none() {
            let message = format!("`{label}`: {bytes} bytes at address {address:#x} are no memory to bind");
            return Err(unsupported("adopt", message));
        }
        let own = self.ordinal;
        match device_at(&current, address)? {
            Some(device) if device == own => Ok(CudaBlock { address, bytes, origin: Origin::Engine }),
            Some(device) => {
                let message = format!(
                    "`{label}`: the memory at address {address:#x} is of device {device}, and the manager of device {own}: \
                     no device uses another's memory here"
                );
                Err(unsupported("adopt", message))
            }
            None => {
                let message = format!("`{label}`: the driver knows of no memory at address {address:#x}");
                Err(unsupported("adopt", message))
            }
        }
    }
}

/// Device memory of the backend's own.
pub(crate) struct DeviceMemory {
    address: sys::CUdeviceptr,
    bytes: usize,
    allocator: Arc<Allocator>,
}

impl DeviceMemory {
    pub(crate) fn new(
        current: &Current<'_>,
        allocator: &Arc<Allocator>,
        bytes: usize,
    ) -> Result<Self, BackendError> {
        let address = allocator.take(current, bytes as u64)?;
        Ok(DeviceMemory { address, bytes, allocator: allocator.clone() })
    }

    pub(crate) fn address(&self) -> sys::CUdeviceptr {
        self.address
    }
}

impl Memory for DeviceMemory {
    fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        // On a lost device it is abandoned (L23). Of another failure nobody could make anything here.
        let Ok(current) = self.allocator.context.enter() else { return };
        let _ = self.allocator.give(&current, self.address);
    }
}
