//! Streams.
//!
//! Not here: captures (`capture.rs`), stream memory operations (`words.rs`).

use std::ffi::c_int;

use super::context::{GREATEST_PRIORITY, LEAST_PRIORITY};
use crate::caller::{HostFunction, HostPointer, Out};
use crate::code::{Answer, Code};
use crate::device::driver;
use crate::device::operation::Operation;
use crate::device::queue::Queue;
use crate::memory::Handle;

exports! {
    Health cuStreamCreate(stream: Out<Handle>, flags: u32) = create(stream, flags, 0);
    Health cuStreamCreateWithPriority(stream: Out<Handle>, flags: u32, priority: c_int) =
        create(stream, flags, priority);
    Health cuStreamDestroy_v2(stream: Handle) = destroy(stream);
    Health cuStreamSynchronize(stream: Handle) = synchronise(stream);
    Health cuStreamQuery(stream: Handle) = query(stream);
    Health cuStreamWaitEvent(stream: Handle, event: Handle, _flags: u32) = {
        let mut state = driver().lock();
        let stream = state.stream(stream)?;
        state.wait_event(stream, event, "cuStreamWaitEvent")
    };
    Health cuStreamGetPriority(stream: Handle, priority: Out<c_int>) = {
        let mut state = driver().lock();
        let stream = state.stream(stream)?;
        priority.set(state.stream_mut(stream)?.priority)
    };
    Health cuStreamGetFlags(stream: Handle, flags: Out<u32>) = {
        let mut state = driver().lock();
        let stream = state.stream(stream)?;
        flags.set(state.stream_mut(stream)?.flags)
    };
    Health cuStreamGetId(stream: Handle, id: Out<u64>) = id.set(driver().lock().stream(stream)?);
    Health cuStreamGetCtx(stream: Handle, context: Out<Handle>) = {
        let mut state = driver().lock();
        let stream = state.stream(stream)?;
        context.set(state.stream_mut(stream)?.context)
    };
    Health cuStreamAttachMemAsync(stream: Handle, _address: u64, _bytes: usize, _flags: u32) =
        driver().lock().stream(stream).map(|_| ());
    Health cuLaunchHostFunc(stream: Handle, function: HostFunction, data: HostPointer) = {
        if function.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        let mut state = driver().lock();
        let stream = state.stream(stream)?;
        state.submit(stream, Operation::Host { function, data }, "cuLaunchHostFunc")?;
        Ok(())
    };
}

fn create(out: Out<Handle>, flags: u32, priority: c_int) -> Answer {
    if out.is_null() || flags > crate::device::stream::NON_BLOCKING {
        return Err(Code::INVALID_VALUE);
    }
    let mut state = driver().lock();
    let context = state.current()?;
    out.set(state.new_stream(context, flags, priority.clamp(GREATEST_PRIORITY, LEAST_PRIORITY), true))
}

fn destroy(handle: Handle) -> Answer {
    let mut state = driver().lock();
    let stream = state.stream_mut(handle)?;
    if !stream.owned {
        return Err(Code::INVALID_HANDLE);
    }
    // A capture cannot go on without its stream.
    if let Some(capture) = stream.capture.take() {
        let _ = state.invalidate(capture, Code::STREAM_CAPTURE_INVALIDATED);
    }
    state.end_stream(handle);
    let ending = state.take_ending();
    drop(state);
    ending.into_iter().for_each(Queue::join);
    Ok(())
}

fn synchronise(stream: Handle) -> Answer {
    let work = {
        let mut state = driver().lock();
        let stream = state.stream(stream)?;
        state.work_of_stream(stream)?
    };
    work.wait()
}

fn query(stream: Handle) -> Answer {
    let work = {
        let mut state = driver().lock();
        let stream = state.stream(stream)?;
        state.work_of_stream(stream)?
    };
    if work.is_done() {
        return work.seen();
    }
    driver().health.tell()?;
    Err(Code::NOT_READY)
}
