//! Copies: between devices, to and from the host, at once and in streams.
//!
//! A copy that returns before it is done may use host memory only if it is pinned. Bytes from other host memory are taken
//! at once, and a copy to other host memory is waited for. Not here: moving the bytes (`device/perform.rs`).

use std::ffi::c_void;

use crate::caller::{HostPointer, In};
use crate::code::{Answer, Code};
use crate::device::driver;
use crate::device::operation::{Operation, Place};
use crate::device::submit::Submitted;
use crate::device::wait::Awaited;
use crate::memory::Handle;

exports! {
    Health cuMemcpyHtoD_v2(to: u64, from: HostPointer, bytes: usize) =
        to_device("cuMemcpyHtoD", to, from, bytes, None);
    Health cuMemcpyHtoDAsync_v2(to: u64, from: HostPointer, bytes: usize, stream: Handle) =
        to_device("cuMemcpyHtoDAsync", to, from, bytes, Some(stream));
    Health cuMemcpyDtoH_v2(to: HostPointer, from: u64, bytes: usize) =
        to_host("cuMemcpyDtoH", to, from, bytes, None);
    Health cuMemcpyDtoHAsync_v2(to: HostPointer, from: u64, bytes: usize, stream: Handle) =
        to_host("cuMemcpyDtoHAsync", to, from, bytes, Some(stream));
    Health cuMemcpyDtoD_v2(to: u64, from: u64, bytes: usize) =
        on_device("cuMemcpyDtoD", to, from, bytes, None);
    Health cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: usize, stream: Handle) =
        on_device("cuMemcpyDtoDAsync", to, from, bytes, Some(stream));
    Health cuMemcpy(to: HostPointer, from: HostPointer, bytes: usize) =
        anywhere("cuMemcpy", to, from, bytes, None);
    Health cuMemcpyAsync(to: HostPointer, from: HostPointer, bytes: usize, stream: Handle) =
        anywhere("cuMemcpyAsync", to, from, bytes, Some(stream));
    Health cuMemcpyPeer(to: u64, to_context: Handle, from: u64, from_context: Handle, bytes: usize) = {
        contexts(to_context, from_context)?;
        on_device("cuMemcpyPeer", to, from, bytes, None)
    };
    Health cuMemcpyPeerAsync(
        to: u64,
        to_context: Handle,
        from: u64,
        from_context: Handle,
        bytes: usize,
        stream: Handle,
    ) = {
        contexts(to_context, from_context)?;
        on_device("cuMemcpyPeerAsync", to, from, bytes, Some(stream))
    };
    Health cuMemcpy2D_v2(_copy: In<c_void>) = Err(Code::NOT_SUPPORTED);
    Health cuMemcpy2DAsync_v2(_copy: In<c_void>, _stream: Handle) = Err(Code::NOT_SUPPORTED);
}

/// Whether the call waits for the copy.
#[derive(Clone, Copy, PartialEq)]
enum Return {
    /// When it is done.
    Done,
    /// When it is submitted.
    Submitted,
}

fn contexts(to: Handle, from: Handle) -> Answer {
    let state = driver().lock();
    let known = |context: Handle| state.contexts.contains_key(&context);
    if known(to) && known(from) { Ok(()) } else { Err(Code::INVALID_CONTEXT) }
}

/// Whether the device reaches host memory, because it is pinned.
fn is_pinned(pointer: HostPointer) -> bool {
    let state = driver().lock();
    state.map.find(pointer.address(), 1).is_ok_and(|(allocation, _)| allocation.kind.is_host())
}

fn to_device(
    function: &'static str,
    to: u64,
    from: HostPointer,
    bytes: usize,
    stream: Option<Handle>,
) -> Answer {
    if bytes > 0 && from.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    let source = host_source(from, bytes, stream);
    run(function, Place::Device(to), source, bytes, stream, Return::Submitted)
}

/// A synchronous copy from pinned memory is over when it returns; one from other memory once its bytes are taken.
fn host_source(from: HostPointer, bytes: usize, stream: Option<Handle>) -> Place {
    if is_pinned(from) {
        return Place::Device(from.address());
    }
    let is_capturing = stream.is_some_and(|stream| {
        let mut state = driver().lock();
        let stream = state.stream(stream);
        stream.is_ok_and(|stream| state.capture_of(stream).is_ok_and(|capture| capture.is_some()))
    });
    if is_capturing {
        // A graph reads the memory whenever it is launched.
        return Place::Pageable(from);
    }
    let mut staged = vec![0; bytes];
    from.read(&mut staged);
    Place::Staged(staged.into())
}

fn to_host(
    function: &'static str,
    to: HostPointer,
    from: u64,
    bytes: usize,
    stream: Option<Handle>,
) -> Answer {
    let (place, returns) = if is_pinned(to) {
        (Place::Device(to.address()), Return::Submitted)
    } else {
        (Place::Pageable(to), Return::Done)
    };
    run(function, place, Place::Device(from), bytes, stream, returns)
}

fn on_device(function: &'static str, to: u64, from: u64, bytes: usize, stream: Option<Handle>) -> Answer {
    run(function, Place::Device(to), Place::Device(from), bytes, stream, Return::Submitted)
}

/// Which end is where is seen from the addresses.
fn anywhere(
    function: &'static str,
    to: HostPointer,
    from: HostPointer,
    bytes: usize,
    stream: Option<Handle>,
) -> Answer {
    let known = |address: u64| driver().lock().map.find(address, 1).is_ok();
    match (known(to.address()), known(from.address())) {
        (true, true) => on_device(function, to.address(), from.address(), bytes, stream),
        (true, false) => to_device(function, to.address(), from, bytes, stream),
        (false, true) => to_host(function, to, from.address(), bytes, stream),
        (false, false) => {
            let source = host_source(from, bytes, stream);
            run(function, Place::Pageable(to), source, bytes, stream, Return::Done)
        }
    }
}

/// Without a stream it is the default stream, and the call returns when the copy is done.
fn run(
    function: &'static str,
    to: Place,
    from: Place,
    bytes: usize,
    stream: Option<Handle>,
    returns: Return,
) -> Answer {
    let submitted = {
        let mut state = driver().lock();
        if stream.is_none() {
            state.forbid_in_capture()?;
        }
        let stream = state.stream(stream.unwrap_or(0))?;
        if bytes == 0 {
            return Ok(());
        }
        state.submit(stream, Operation::Copy { to, from, bytes: bytes as u64 }, function)?
    };
    match submitted {
        Submitted::Work(last) if stream.is_none() || returns == Return::Done => {
            let mut work = Awaited::default();
            work.add(last.done, &last.ticket.clock);
            work.wait()
        }
        _ => Ok(()),
    }
}
