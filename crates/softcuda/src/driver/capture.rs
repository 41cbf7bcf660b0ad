//! Stream capture.
//!
//! Not here: what is captured (`device/capture.rs`).

use std::cell::Cell;

use crate::caller::Out;
use crate::code::{Answer, Code};
use crate::device::capture::{Mode, Status};
use crate::device::driver;
use crate::memory::Handle;

exports! {
    Health cuStreamBeginCapture_v2(stream: Handle, mode: u32) = {
        let mode = match mode {
            0 => Mode::Global,
            1 => Mode::ThreadLocal,
            2 => Mode::Relaxed,
            _ => return Err(Code::INVALID_VALUE),
        };
        let mut state = driver().lock();
        let stream = state.stream(stream)?;
        state.begin_capture(stream, mode)
    };
    Health cuStreamEndCapture(stream: Handle, graph: Out<Handle>) = {
        let mut state = driver().lock();
        let stream = state.stream(stream)?;
        let answer = state.end_capture(stream);
        graph.set(answer.unwrap_or(0))?;
        answer.map(|_| ())
    };
    Health cuStreamIsCapturing(stream: Handle, status: Out<u32>) = status.set(status_of(stream)?.0);
    Health cuStreamGetCaptureInfo(stream: Handle, status: Out<u32>, id: Out<u64>) = {
        let (number, capture) = status_of(stream)?;
        id.set_if_wanted(capture);
        status.set(number)
    };
    Health cuStreamGetCaptureInfo_v2(
        stream: Handle,
        status: Out<u32>,
        id: Out<u64>,
        graph: Out<Handle>,
        nodes: Out<usize>,
        count: Out<usize>,
    ) = info(stream, status, id, [graph, nodes.cast()], count);
    Health cuThreadExchangeStreamCaptureMode(mode: Out<u32>) = {
        let new = mode.get()?;
        if new > 2 {
            return Err(Code::INVALID_VALUE);
        }
        mode.set(THREAD_MODE.replace(new))
    };
}

thread_local! {
    /// Kept and given back, and otherwise without effect: only the mode of the capture itself counts here.
    static THREAD_MODE: Cell<u32> = const { Cell::new(0) };
}

/// Numbers of `CUstreamCaptureStatus`, and which capture it is.
fn status_of(stream: Handle) -> Answer<(u32, Handle)> {
    let mut state = driver().lock();
    let stream = state.stream(stream)?;
    let Some(capture) = state.capture_of(stream)? else { return Ok((0, 0)) };
    match state.captures.get(&capture).map(|capture| capture.status) {
        Some(Status::Active) => Ok((1, capture)),
        _ => Ok((2, capture)),
    }
}

/// The graph that is being made has no handle before its capture ends, and neither have its nodes: nothing is told of
/// them.
fn info(
    stream: Handle,
    status: Out<u32>,
    id: Out<u64>,
    unknown: [Out<Handle>; 2],
    count: Out<usize>,
) -> Answer {
    let (number, capture) = status_of(stream)?;
    id.set_if_wanted(capture);
    unknown.into_iter().for_each(|place| place.set_if_wanted(0));
    count.set_if_wanted(0);
    status.set(number)
}
