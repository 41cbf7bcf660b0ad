//! Contexts: created ones, primary ones, the stack of a thread.
//!
//! Not here: what dies with them (`device/context.rs`).

use std::ffi::{c_int, c_void};

use crate::caller::{In, Out};
use crate::code::{Answer, Code};
use crate::device::{context, driver};
use crate::memory::Handle;

exports! {
    Health cuCtxCreate_v2(context: Out<Handle>, flags: u32, device: c_int) = create(context, flags, device);
    Health cuCtxCreate_v3(
        context: Out<Handle>,
        _affinity: In<c_void>,
        _count: c_int,
        flags: u32,
        device: c_int,
    ) = create(context, flags, device);
    Health cuCtxCreate_v4(context: Out<Handle>, _parameters: In<c_void>, flags: u32, device: c_int) =
        create(context, flags, device);
    Start cuCtxDestroy_v2(context: Handle) = destroy(context);
    Start cuDevicePrimaryCtxRetain(context: Out<Handle>, device: c_int) = retain(context, device);
    Start cuDevicePrimaryCtxRelease_v2(device: c_int) = release(device);
    Start cuDevicePrimaryCtxReset_v2(device: c_int) = reset(device);
    Start cuDevicePrimaryCtxSetFlags_v2(device: c_int, flags: u32) = {
        let mut state = driver().lock();
        let device = state.device(device)?;
        state.devices[device].primary_flags = flags;
        Ok(())
    };
    Start cuDevicePrimaryCtxGetState(device: c_int, flags: Out<u32>, active: Out<c_int>) = {
        let state = driver().lock();
        let device = &state.devices[state.device(device)?];
        flags.set(device.primary_flags)?;
        active.set(c_int::from(device.primary.is_some()))
    };
    Start cuCtxGetCurrent(context: Out<Handle>) = context.set(context::top());
    Start cuCtxSetCurrent(context: Handle) = set_current(context);
    Start cuCtxPushCurrent_v2(context: Handle) = {
        known(context)?;
        context::push(context);
        Ok(())
    };
    Start cuCtxPopCurrent_v2(context: Out<Handle>) = {
        context.set_if_wanted(context::pop().ok_or(Code::INVALID_CONTEXT)?);
        Ok(())
    };
    Start cuCtxGetDevice(device: Out<c_int>) = device.set(driver().lock().current_device()?.1 as c_int);
    Start cuCtxGetApiVersion(_context: Handle, version: Out<u32>) = version.set(3020);
    Start cuCtxGetId(context: Handle, id: Out<u64>) = {
        known(context)?;
        id.set(context)
    };
    Health cuCtxSynchronize() = synchronise();
    Start cuCtxGetFlags(flags: Out<u32>) = {
        let state = driver().lock();
        flags.set(state.contexts[&state.current()?].flags)
    };
    Start cuCtxSetFlags(flags: u32) = {
        let mut state = driver().lock();
        let current = state.current()?;
        if let Some(context) = state.contexts.get_mut(&current) {
            context.flags = flags;
        }
        Ok(())
    };
    Health cuCtxGetLimit(value: Out<usize>, limit: u32) = {
        let state = driver().lock();
        let default = match limit {
            0 => 1 << 10,
            1 => 1 << 20,
            2 => 8 << 20,
            _ => return Err(Code::UNSUPPORTED_LIMIT),
        };
        value.set(state.contexts[&state.current()?].limits.get(&limit).copied().unwrap_or(default))
    };
    Health cuCtxSetLimit(limit: u32, value: usize) = {
        let mut state = driver().lock();
        let current = state.current()?;
        if limit > 2 {
            return Err(Code::UNSUPPORTED_LIMIT);
        }
        if let Some(context) = state.contexts.get_mut(&current) {
            context.limits.insert(limit, value);
        }
        Ok(())
    };
    Health cuCtxGetCacheConfig(config: Out<u32>) = {
        driver().lock().current()?;
        config.set(0)
    };
    Health cuCtxSetCacheConfig(_config: u32) = driver().lock().current().map(|_| ());
    Health cuCtxGetStreamPriorityRange(least: Out<c_int>, greatest: Out<c_int>) = {
        driver().lock().current()?;
        least.set_if_wanted(LEAST_PRIORITY);
        greatest.set_if_wanted(GREATEST_PRIORITY);
        Ok(())
    };
    Health cuCtxEnablePeerAccess(peer: Handle, flags: u32) = enable_peer(peer, flags);
    Health cuCtxDisablePeerAccess(peer: Handle) = {
        let mut state = driver().lock();
        let current = state.current()?;
        let peers = state.contexts.get_mut(&current).map(|context| &mut context.peers);
        let peers = peers.ok_or(Code::INVALID_CONTEXT)?;
        let index = peers.iter().position(|other| *other == peer).ok_or(Code::PEER_ACCESS_NOT_ENABLED)?;
        peers.swap_remove(index);
        Ok(())
    };
}

/// The priorities of streams. They are kept and change nothing.
pub const LEAST_PRIORITY: c_int = 0;

/// Numerically the lowest.
pub const GREATEST_PRIORITY: c_int = -5;

fn create(out: Out<Handle>, flags: u32, device: c_int) -> Answer {
    if out.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    let mut state = driver().lock();
    let device = state.device(device)?;
    let handle = state.new_context(device, flags, None);
    context::push(handle);
    out.set(handle)
}

fn known(context: Handle) -> Answer {
    if context != 0 && driver().lock().contexts.contains_key(&context) {
        Ok(())
    } else {
        Err(Code::INVALID_CONTEXT)
    }
}

fn destroy(handle: Handle) -> Answer {
    if driver().lock().contexts.get(&handle).is_none_or(|context| context.retained.is_some()) {
        return Err(Code::INVALID_CONTEXT);
    }
    let answer = end(handle);
    if context::top() == handle {
        context::pop();
    }
    answer
}

/// Waits for a context's work and takes it away. Threads on whose stacks it is find it destroyed.
fn end(handle: Handle) -> Answer {
    let work = {
        let mut state = driver().lock();
        let streams = state.contexts.get(&handle).map(|context| context.streams.clone()).unwrap_or_default();
        // A capture that is under way ends with its stream.
        for stream in streams {
            if let Some(capture) = state.streams.get_mut(&stream).and_then(|stream| stream.capture.take()) {
                state.captures.remove(&capture);
            }
        }
        state.work_of_context(handle)?
    };
    let answer = work.wait();
    let queues = driver().lock().end_context(handle);
    for queue in queues {
        queue.join();
    }
    driver().lock().bury();
    answer
}

fn retain(out: Out<Handle>, device: c_int) -> Answer {
    if out.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    let mut state = driver().lock();
    let device = state.device(device)?;
    let handle = match state.devices[device].primary {
        Some(handle) => handle,
        None => {
            let flags = state.devices[device].primary_flags;
            let handle = state.new_context(device, flags, Some(0));
            state.devices[device].primary = Some(handle);
            handle
        }
    };
    if let Some(context) = state.contexts.get_mut(&handle) {
        context.retained = context.retained.map(|count| count + 1);
    }
    out.set(handle)
}

fn release(device: c_int) -> Answer {
    let over = {
        let mut state = driver().lock();
        let device = state.device(device)?;
        let handle = state.devices[device].primary.ok_or(Code::INVALID_CONTEXT)?;
        let context = state.contexts.get_mut(&handle).ok_or(Code::INVALID_CONTEXT)?;
        let left = context.retained.unwrap_or(0).saturating_sub(1);
        context.retained = Some(left);
        (left == 0).then_some(handle)
    };
    // The real driver answers success here even if the device has failed.
    over.map_or(Ok(()), |handle| end(handle).or(Ok(())))
}

fn reset(device: c_int) -> Answer {
    let primary = {
        let state = driver().lock();
        state.devices[state.device(device)?].primary
    };
    primary.map_or(Ok(()), |handle| end(handle).or(Ok(())))
}

fn set_current(handle: Handle) -> Answer {
    if handle != 0 {
        known(handle)?;
    }
    context::replace_top(handle);
    Ok(())
}

fn synchronise() -> Answer {
    let work = {
        let mut state = driver().lock();
        let current = state.current()?;
        state.forbid_in_capture()?;
        state.work_of_context(current)?
    };
    work.wait()
}

fn enable_peer(peer: Handle, flags: u32) -> Answer {
    let mut state = driver().lock();
    let (current, device) = state.current_device()?;
    let other = state.contexts.get(&peer).ok_or(Code::INVALID_CONTEXT)?.device;
    if flags != 0 {
        return Err(Code::INVALID_VALUE);
    }
    if other == device {
        return Err(Code::PEER_ACCESS_UNSUPPORTED);
    }
    let peers =
        state.contexts.get_mut(&current).map(|context| &mut context.peers).ok_or(Code::INVALID_CONTEXT)?;
    if peers.contains(&peer) {
        return Err(Code::PEER_ACCESS_ALREADY_ENABLED);
    }
    peers.push(peer);
    Ok(())
}
