//! Events.
//!
//! Not here: what they stand for (`device/event.rs`).

use crate::caller::Out;
use crate::code::{Answer, Code};
use crate::device::driver;
use crate::device::event::{Event, Recorded};
use crate::device::wait::Awaited;
use crate::memory::Handle;

exports! {
    Health cuEventCreate(event: Out<Handle>, flags: u32) = create(event, flags);
    Health cuEventDestroy_v2(event: Handle) =
        driver().lock().events.remove(&event).map(|_| ()).ok_or(Code::INVALID_HANDLE);
    Health cuEventRecord(event: Handle, stream: Handle) = record(event, stream);
    Health cuEventRecordWithFlags(event: Handle, stream: Handle, _flags: u32) = record(event, stream);
    Health cuEventSynchronize(event: Handle) = {
        let work = driver().lock().work_of_event(event)?;
        work.wait()
    };
    Health cuEventQuery(event: Handle) = {
        let work = driver().lock().work_of_event(event)?;
        if work.is_done() {
            return work.seen();
        }
        driver().health.tell()?;
        Err(Code::NOT_READY)
    };
    Health cuEventElapsedTime(milliseconds: Out<f32>, start: Handle, end: Handle) =
        elapsed(milliseconds, start, end);
    Health cuEventElapsedTime_v2(milliseconds: Out<f32>, start: Handle, end: Handle) =
        elapsed(milliseconds, start, end);
}

/// `CU_EVENT_DISABLE_TIMING`
const NO_TIMING: u32 = 2;

/// All flags: blocking waits, no timing, other processes.
const FLAGS: u32 = 7;

fn create(out: Out<Handle>, flags: u32) -> Answer {
    if out.is_null() || flags > FLAGS {
        return Err(Code::INVALID_VALUE);
    }
    let mut state = driver().lock();
    let context = state.current()?;
    let handle = state.new_handle();
    let event = Event { context, timing: flags & NO_TIMING == 0, recorded: Recorded::Never };
    state.events.insert(handle, event);
    out.set(handle)
}

fn record(event: Handle, stream: Handle) -> Answer {
    let mut state = driver().lock();
    let stream = state.stream(stream)?;
    state.record_event(event, stream, "cuEventRecord")
}

fn elapsed(milliseconds: Out<f32>, start: Handle, end: Handle) -> Answer {
    let state = driver().lock();
    let (mut times, mut seen) = (Vec::new(), Awaited::default());
    for handle in [start, end] {
        let event = state.events.get(&handle).ok_or(Code::INVALID_HANDLE)?;
        match &event.recorded {
            _ if !event.timing => return Err(Code::INVALID_HANDLE),
            Recorded::Never => return Err(Code::INVALID_HANDLE),
            Recorded::Capture { .. } => return Err(Code::CAPTURED_EVENT),
            Recorded::Stream { done, clock } => {
                times.push(done.at().ok_or(Code::NOT_READY)?);
                seen.add(done.clone(), clock);
            }
        }
    }
    drop(state);
    seen.seen()?;
    let (start, end) = (times[0], times[1]);
    let forward = end.saturating_duration_since(start).as_secs_f32();
    let backward = start.saturating_duration_since(end).as_secs_f32();
    milliseconds.set((forward - backward) * 1e3)
}
