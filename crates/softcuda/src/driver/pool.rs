//! Memory pools and memory in stream order.
//!
//! Not here: the accounts of a pool (`memory/pool.rs`).

use std::ffi::{c_int, c_void};

use crate::caller::{In, Out};
use crate::code::{Answer, Code};
use crate::device::driver;
use crate::memory::{Handle, Pool};

exports! {
    Health cuMemPoolCreate(pool: Out<Handle>, properties: In<Properties>) = create(pool, properties);
    Health cuMemPoolDestroy(pool: Handle) = destroy(pool);
    Health cuMemPoolTrimTo(pool: Handle, keep: usize) = trim(pool, keep as u64);
    Health cuMemPoolGetAttribute(pool: Handle, attribute: u32, value: Out<c_void>) =
        get_attribute(pool, attribute, value);
    Health cuMemPoolSetAttribute(pool: Handle, attribute: u32, value: Out<c_void>) =
        set_attribute(pool, attribute, value);
    Health cuMemPoolSetAccess(pool: Handle, _access: In<c_void>, _count: usize) =
        driver().lock().pools.get(&pool).map(|_| ()).ok_or(Code::INVALID_VALUE);
    Health cuMemPoolGetAccess(access: Out<u32>, pool: Handle, _location: In<c_void>) = {
        driver().lock().pools.get(&pool).map(|_| ()).ok_or(Code::INVALID_VALUE)?;
        // 3: read and write.
        access.set(3)
    };
    Start cuDeviceGetDefaultMemPool(pool: Out<Handle>, device: c_int) = {
        let state = driver().lock();
        pool.set(state.devices[state.device(device)?].default_pool)
    };
    Start cuDeviceGetMemPool(pool: Out<Handle>, device: c_int) = {
        let state = driver().lock();
        pool.set(state.devices[state.device(device)?].pool)
    };
    Start cuDeviceSetMemPool(device: c_int, pool: Handle) = {
        let mut state = driver().lock();
        let device = state.device(device)?;
        let found = state.pools.get(&pool).filter(|pool| !pool.destroyed && pool.device == device);
        found.ok_or(Code::INVALID_VALUE)?;
        state.devices[device].pool = pool;
        Ok(())
    };
    Health cuMemAllocAsync(address: Out<u64>, bytes: usize, stream: Handle) = {
        let mut state = driver().lock();
        let stream = state.stream(stream)?;
        let context = state.stream_mut(stream)?.context;
        let device = state.contexts.get(&context).ok_or(Code::INVALID_CONTEXT)?.device;
        let pool = state.devices[device].pool;
        drop(state);
        allocate(address, bytes, pool, stream, "cuMemAllocAsync")
    };
    Health cuMemAllocFromPoolAsync(address: Out<u64>, bytes: usize, pool: Handle, stream: Handle) = {
        let stream = driver().lock().stream(stream)?;
        allocate(address, bytes, pool, stream, "cuMemAllocFromPoolAsync")
    };
    Health cuMemFreeAsync(address: u64, stream: Handle) = {
        let mut state = driver().lock();
        let stream = state.stream(stream)?;
        state.free_on_stream(address, stream, "cuMemFreeAsync")
    };
}

/// The part of `CUmemPoolProps` that matters here; what comes after it is not looked at.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Properties {
    allocation_type: u32,
    handle_types: u32,
    location_type: u32,
    location: c_int,
    security: u64,
    limit: usize,
}

/// `CU_MEM_ALLOCATION_TYPE_PINNED`
const PINNED: u32 = 1;

/// `CU_MEM_LOCATION_TYPE_DEVICE`
const ON_DEVICE: u32 = 1;

fn create(out: Out<Handle>, properties: In<Properties>) -> Answer {
    let properties = properties.get()?;
    if out.is_null() || properties.allocation_type != PINNED || properties.location_type != ON_DEVICE {
        return Err(Code::INVALID_VALUE);
    }
    // Nothing is shared with other processes.
    if properties.handle_types != 0 {
        return Err(Code::NOT_SUPPORTED);
    }
    if !driver().settings.pools {
        return Err(Code::NOT_SUPPORTED);
    }
    let mut state = driver().lock();
    let device = state.device(properties.location).map_err(|_| Code::INVALID_VALUE)?;
    let handle = state.new_handle();
    state.pools.insert(handle, Pool::new(device, false, properties.limit as u64));
    out.set(handle)
}

/// A pool with allocations in it goes when the last of them is freed.
fn destroy(handle: Handle) -> Answer {
    let mut state = driver().lock();
    let pool = state.pools.get_mut(&handle).filter(|pool| !pool.destroyed && !pool.is_default);
    let pool = pool.ok_or(Code::INVALID_VALUE)?;
    pool.destroyed = true;
    let device = pool.device;
    if state.devices[device].pool == handle {
        state.devices[device].pool = state.devices[device].default_pool;
    }
    state.drop_pool_if_over(handle);
    Ok(())
}

fn trim(handle: Handle, keep: u64) -> Answer {
    let mut state = driver().lock();
    let crate::device::State { pools, order, .. } = &mut *state;
    let pool = pools.get_mut(&handle).ok_or(Code::INVALID_VALUE)?;
    pool.trim(keep, |ticket| order.is_observed(ticket));
    Ok(())
}

fn allocate(out: Out<u64>, bytes: usize, pool: Handle, stream: Handle, function: &'static str) -> Answer {
    if out.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    let address = driver().lock().allocate_pooled(pool, bytes as u64, stream, function)?;
    out.set(address)
}

fn get_attribute(handle: Handle, attribute: u32, value: Out<c_void>) -> Answer {
    let state = driver().lock();
    let pool = state.pools.get(&handle).ok_or(Code::INVALID_VALUE)?;
    match attribute {
        1..=3 => value.of_type::<c_int>().set(pool.reuse[attribute as usize - 1]),
        4 => value.of_type::<u64>().set(pool.threshold),
        5 => value.of_type::<u64>().set(pool.reserved().0),
        6 => value.of_type::<u64>().set(pool.reserved().1),
        7 => value.of_type::<u64>().set(pool.used().0),
        8 => value.of_type::<u64>().set(pool.used().1),
        _ => Err(Code::INVALID_VALUE),
    }
}

fn set_attribute(handle: Handle, attribute: u32, value: Out<c_void>) -> Answer {
    let mut state = driver().lock();
    let pool = state.pools.get_mut(&handle).ok_or(Code::INVALID_VALUE)?;
    match attribute {
        1..=3 => pool.reuse[attribute as usize - 1] = value.of_type::<c_int>().get()?,
        4 => pool.threshold = value.of_type::<u64>().get()?,
        // The marks of the most can only be taken back to what is now.
        6 | 8 if value.of_type::<u64>().get()? == 0 => pool.reset_high(attribute == 6),
        _ => return Err(Code::INVALID_VALUE),
    }
    Ok(())
}
