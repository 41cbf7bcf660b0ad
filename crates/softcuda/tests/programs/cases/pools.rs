//! Memory pools: accounts, thresholds, trimming.
//!
//! Not here: the order of uses (`checker.rs`).

use std::ptr::null_mut;

use cudarc::driver::sys::{CUmemPool_attribute, CUmemoryPool, CUresult};

use crate::Case;
use crate::ffi::*;
use crate::gate::Gate;
use crate::kit::*;

pub const CASES: &[Case] = &[
    Case::new("pools/accounts", accounts),
    Case::new("pools/the_threshold_acts_at_the_next_wait", the_threshold_acts_at_the_next_wait),
    Case::new("pools/trimming_counts_what_the_host_has_not_seen", trimming_counts_what_the_host_has_not_seen),
    Case::new("pools/memory_is_reused_in_order", memory_is_reused_in_order)
        .with(&[("SOFTCUDA_MEMORY", "8M")]),
    Case::new("pools/out_of_memory", out_of_memory).with(&[("SOFTCUDA_MEMORY", "8M")]),
    Case::new("pools/a_destroyed_pool_ends_with_its_last_memory", a_destroyed_pool_ends_with_its_last_memory),
    Case::new("pools/memory_outlives_its_context", memory_outlives_its_context),
    Case::new("pools/wrong_uses_are_refused", wrong_uses_are_refused),
];

use CUmemPool_attribute::*;

const MIB: usize = 1 << 20;

fn reserved(pool: CUmemoryPool) -> u64 {
    pool_attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)
}

fn used(pool: CUmemoryPool) -> u64 {
    pool_attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT)
}

fn allocate(pool: CUmemoryPool, bytes: usize, stream: cudarc::driver::sys::CUstream) -> u64 {
    let mut address = 0;
    cuMemAllocFromPoolAsync(&mut address, bytes, pool, stream).unwrap();
    address
}

fn accounts() {
    start();
    let (stream, pool) = (stream(), pool());
    assert_eq!((reserved(pool), used(pool)), (0, 0));
    let (one, two) = (allocate(pool, 1000, stream), allocate(pool, 3 * MIB, stream));
    assert_eq!((reserved(pool), used(pool)), (4 * MIB as u64, 3 * MIB as u64 + 1024));
    cuMemFreeAsync(one, stream).unwrap();
    cuMemFreeAsync(two, stream).unwrap();
    assert_eq!(used(pool), 0);
    assert_eq!(pool_attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH), 3 * MIB as u64 + 1024);
    assert_eq!(pool_attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH), 4 * MIB as u64);
    set_pool_attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, 0);
    assert_eq!(pool_attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH), 0);
    finish(&[stream]);
    assert_eq!(reserved(pool), 0);
    cuMemPoolDestroy(pool).unwrap();
    end();
}

fn the_threshold_acts_at_the_next_wait() {
    start();
    let (stream, pool) = (stream(), pool());
    set_pool_attribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, 2 * MIB as u64);
    let address = allocate(pool, 6 * MIB, stream);
    cuMemFreeAsync(address, stream).unwrap();
    assert_eq!(reserved(pool), 6 * MIB as u64, "nobody waited");
    cuStreamSynchronize(stream).unwrap();
    assert_eq!(reserved(pool), 2 * MIB as u64);
    cuMemPoolTrimTo(pool, 0).unwrap();
    assert_eq!(reserved(pool), 0);
    finish(&[stream]);
    cuMemPoolDestroy(pool).unwrap();
    end();
}

fn trimming_counts_what_the_host_has_not_seen() {
    start();
    let (stream, pool) = (stream(), pool());
    set_pool_attribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, u64::MAX);
    let address = allocate(pool, 6 * MIB, stream);
    cuMemFreeAsync(address, stream).unwrap();
    cuMemPoolTrimTo(pool, 0).unwrap();
    assert_eq!(reserved(pool), 6 * MIB as u64, "the host has not seen the free complete");
    cuStreamSynchronize(stream).unwrap();
    assert_eq!(reserved(pool), 6 * MIB as u64, "the threshold keeps it");
    cuMemPoolTrimTo(pool, 3 * MIB).unwrap();
    assert_eq!(reserved(pool), 4 * MIB as u64, "at least what was asked for stays");
    cuMemPoolTrimTo(pool, 0).unwrap();
    assert_eq!(reserved(pool), 0);
    finish(&[stream]);
    cuMemPoolDestroy(pool).unwrap();
    end();
}

fn memory_is_reused_in_order() {
    start();
    let (one, two, pool) = (stream(), stream(), pool());
    let gate = Gate::close(one);
    let first = allocate(pool, 6 * MIB, one);
    cuMemFreeAsync(first, one).unwrap();
    // The device has no room for both: the second comes after the free of the first, in the other stream too.
    let second = allocate(pool, 6 * MIB, two);
    still_waits(two);
    gate.open();
    cuMemFreeAsync(second, two).unwrap();
    finish(&[two, one]);
    cuMemPoolDestroy(pool).unwrap();
    end();
}

fn out_of_memory() {
    start();
    let (stream, pool) = (stream(), pool());
    let mut address = 0;
    let most = allocate(pool, 6 * MIB, stream);
    let more = cuMemAllocFromPoolAsync(&mut address, 3 * MIB, pool, stream);
    refused(more, CUresult::CUDA_ERROR_OUT_OF_MEMORY);
    refused(cuMemAlloc_v2(&mut address, 3 * MIB), CUresult::CUDA_ERROR_OUT_OF_MEMORY);
    cuMemFreeAsync(most, stream).unwrap();
    set_pool_attribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, u64::MAX);
    cuStreamSynchronize(stream).unwrap();
    assert_eq!(reserved(pool), 6 * MIB as u64);
    // What one pool only keeps for later, another one gets.
    let other = pooled(8 * MIB, stream);
    assert_eq!(reserved(pool), 0);
    cuMemFreeAsync(other, stream).unwrap();
    finish(&[stream]);
    cuMemPoolDestroy(pool).unwrap();
    end();
}

fn a_destroyed_pool_ends_with_its_last_memory() {
    start();
    let (stream, pool) = (stream(), pool());
    let address = allocate(pool, 64, stream);
    cuMemPoolDestroy(pool).unwrap();
    let mut more = 0;
    let refused_now = cuMemAllocFromPoolAsync(&mut more, 64, pool, stream);
    refused(refused_now, CUresult::CUDA_ERROR_INVALID_VALUE);
    cuMemsetD8Async(address, 1, 64, stream).unwrap();
    cuMemFreeAsync(address, stream).unwrap();
    let mut value = 0u64;
    let gone = cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, (&raw mut value).cast());
    refused(gone, CUresult::CUDA_ERROR_INVALID_VALUE);
    finish(&[stream]);
    end();
}

fn memory_outlives_its_context() {
    cuInit(0).unwrap();
    let mut context = null_mut();
    cuCtxCreate_v2(&mut context, 0, 0).unwrap();
    let stream = stream();
    let address = pooled(64, stream);
    cuMemsetD8Async(address, 3, 64, stream).unwrap();
    finish(&[stream]);
    cuCtxDestroy_v2(context).unwrap();
    primary(0);
    assert_eq!(read(address, 64, null_mut()), [3; 64]);
    cuMemFree_v2(address).unwrap();
    end();
}

fn wrong_uses_are_refused() {
    start();
    let mut default = null_mut();
    cuDeviceGetDefaultMemPool(&mut default, 0).unwrap();
    refused(cuMemPoolDestroy(default), CUresult::CUDA_ERROR_INVALID_VALUE);
    let mut address = 0;
    refused(cuMemAllocAsync(&mut address, 0, null_mut()), CUresult::CUDA_ERROR_INVALID_VALUE);
    refused(cuMemFreeAsync(12345, null_mut()), CUresult::CUDA_ERROR_INVALID_VALUE);
    end();
}
