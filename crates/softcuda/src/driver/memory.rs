//! Memory that is not of a pool: device memory, managed memory, pinned host memory; what a pointer is.
//!
//! Not here: pools (`pool.rs`), copies (`copy.rs`).

use crate::caller::{HostPointer, Out};
use crate::code::{Answer, Code};
use crate::device::driver;
use crate::memory::{Handle, Kind};

exports! {
    Health cuMemAlloc_v2(address: Out<u64>, bytes: usize) = allocate(address, bytes, Kind::Device);
    Health cuMemAllocManaged(address: Out<u64>, bytes: usize, _flags: u32) =
        allocate(address, bytes, Kind::Managed);
    Health cuMemFree_v2(address: u64) = free(address);
    Health cuMemHostAlloc(pointer: Out<HostPointer>, bytes: usize, _flags: u32) = allocate_host(pointer, bytes);
    Health cuMemAllocHost_v2(pointer: Out<HostPointer>, bytes: usize) = allocate_host(pointer, bytes);
    Health cuMemFreeHost(pointer: HostPointer) = free_host(pointer, Kind::Host, "cuMemFreeHost");
    Health cuMemHostRegister_v2(pointer: HostPointer, bytes: usize, _flags: u32) = {
        let mut state = driver().lock();
        state.register(pointer, bytes as u64)
    };
    Health cuMemHostUnregister(pointer: HostPointer) = free_host(pointer, Kind::Registered, "cuMemHostUnregister");
    Health cuMemHostGetDevicePointer_v2(address: Out<u64>, pointer: HostPointer, _flags: u32) = {
        let state = driver().lock();
        let found = state.map.find(pointer.address(), 1).map_err(|_| Code::INVALID_VALUE)?;
        if !found.0.kind.is_host() {
            return Err(Code::INVALID_VALUE);
        }
        address.set(pointer.address())
    };
    Health cuMemGetInfo_v2(free: Out<usize>, total: Out<usize>) = {
        let state = driver().lock();
        let (_, device) = state.current_device()?;
        free.set(state.free_bytes(device) as usize)?;
        total.set(driver().settings.memory as usize)
    };
    Health cuMemGetAddressRange_v2(start: Out<u64>, bytes: Out<usize>, address: u64) = {
        let state = driver().lock();
        let (allocation, _) = state.map.find(address, 1).map_err(|_| Code::NOT_FOUND)?;
        start.set_if_wanted(allocation.address);
        bytes.set_if_wanted(allocation.bytes as usize);
        Ok(())
    };
    Health cuPointerGetAttribute(value: Out<std::ffi::c_void>, attribute: u32, address: u64) =
        attribute_of(value, attribute, address);
    Health cuMemPrefetchAsync_v2(_address: u64, _bytes: usize, _location: u64, _flags: u32, stream: Handle) =
        driver().lock().stream(stream).map(|_| ());
    Health cuMemAdvise_v2(_address: u64, _bytes: usize, _advice: u32, _location: u64) = Ok(());
}

fn allocate(out: Out<u64>, bytes: usize, kind: Kind) -> Answer {
    if out.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    let mut state = driver().lock();
    state.forbid_in_capture()?;
    let allocation = state.allocate(kind, bytes as u64)?;
    out.set(allocation.address)
}

fn allocate_host(out: Out<HostPointer>, bytes: usize) -> Answer {
    if out.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    let mut state = driver().lock();
    state.forbid_in_capture()?;
    let allocation = state.allocate(Kind::Host, bytes as u64)?;
    out.set(allocation.backing.host_pointer())
}

/// Freeing device memory waits for the work of its context, as the real driver does; memory of a pool does not.
fn free(address: u64) -> Answer {
    const FUNCTION: &str = "cuMemFree";
    if address == 0 {
        return Ok(());
    }
    let (allocation, work) = {
        let mut state = driver().lock();
        state.current()?;
        state.forbid_in_capture()?;
        let allocation = state.live(address, FUNCTION)?;
        match allocation.kind {
            Kind::Device | Kind::Managed => {
                let work = state.work_of_context(allocation.context)?;
                (allocation, Some(work))
            }
            Kind::Pooled(_) => (allocation, None),
            _ => return Err(Code::INVALID_VALUE),
        }
    };
    if let Some(work) = work {
        work.wait()?;
    }
    let mut state = driver().lock();
    // Somebody else may have freed it while nobody held the lock.
    state.live(address, FUNCTION)?;
    state.free_by_host(&allocation, FUNCTION);
    Ok(())
}

/// Work that still uses pinned memory is waited for, and reported: nothing says that it has to be waited for.
fn free_host(pointer: HostPointer, kind: Kind, function: &'static str) -> Answer {
    let missing =
        if kind == Kind::Registered { Code::HOST_MEMORY_NOT_REGISTERED } else { Code::INVALID_VALUE };
    let (allocation, work) = {
        let mut state = driver().lock();
        state.current()?;
        state.forbid_in_capture()?;
        let allocation = state.live(pointer.address(), function).map_err(|_| missing)?;
        if allocation.kind != kind {
            return Err(missing);
        }
        state.free_by_host(&allocation, function);
        let work = state.work_of_context(allocation.context)?;
        (allocation, work)
    };
    let answer = work.wait();
    // From here on the memory is the caller's again, or gone: nothing of ours may look at it.
    let mut state = driver().lock();
    state.bury();
    state.map.remove(allocation.address);
    state.order.gone(allocation.address);
    answer
}

fn attribute_of(value: Out<std::ffi::c_void>, attribute: u32, address: u64) -> Answer {
    const HOST: u32 = 1;
    const DEVICE: u32 = 2;
    let state = driver().lock();
    let (allocation, _) = state.map.find(address, 1).map_err(|_| Code::INVALID_VALUE)?;
    if allocation.is_freed() {
        return Err(Code::INVALID_VALUE);
    }
    let is_host = allocation.kind.is_host();
    match attribute {
        1 => value.of_type().set(allocation.context),
        2 => value.of_type().set(if is_host && allocation.kind != Kind::Managed { HOST } else { DEVICE }),
        3 => value.of_type().set(address),
        4 if is_host => value.of_type().set(address),
        7 => value.of_type().set(allocation.address),
        8 => value.of_type().set(u32::from(allocation.kind == Kind::Managed)),
        9 => value.of_type().set(allocation.device as i32),
        11 => value.of_type().set(allocation.address),
        12 => value.of_type().set(allocation.bytes as usize),
        13 => value.of_type().set(1u32),
        17 => match allocation.kind {
            Kind::Pooled(pool) => value.of_type().set(pool),
            _ => value.of_type().set(0u64),
        },
        _ => Err(Code::INVALID_VALUE),
    }
}
