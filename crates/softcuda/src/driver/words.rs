//! Stream memory operations: a stream writes a word, or waits for one.
//!
//! They order nothing for the checker, which knows events and the host only. Not here: doing it (`device/perform.rs`).

use crate::code::{Answer, Code};
use crate::device::driver;
use crate::device::operation::{Operation, Until};
use crate::memory::Handle;

exports! {
    Health cuStreamWaitValue32_v2(stream: Handle, address: u64, value: u32, flags: u32) =
        wait("cuStreamWaitValue32", stream, address, u64::from(value), 4, flags);
    Health cuStreamWaitValue64_v2(stream: Handle, address: u64, value: u64, flags: u32) =
        wait("cuStreamWaitValue64", stream, address, value, 8, flags);
    Health cuStreamWriteValue32_v2(stream: Handle, address: u64, value: u32, _flags: u32) =
        write("cuStreamWriteValue32", stream, address, u64::from(value), 4);
    Health cuStreamWriteValue64_v2(stream: Handle, address: u64, value: u64, _flags: u32) =
        write("cuStreamWriteValue64", stream, address, value, 8);
}

fn wait(
    function: &'static str,
    stream: Handle,
    address: u64,
    value: u64,
    bytes: usize,
    flags: u32,
) -> Answer {
    let until = match flags & 3 {
        0 => Until::AtLeast,
        1 => Until::Equal,
        2 => Until::And,
        _ => Until::Nor,
    };
    if flags > 3 {
        return Err(Code::NOT_SUPPORTED);
    }
    submit(function, stream, Operation::Await { address, value, bytes, until })
}

fn write(function: &'static str, stream: Handle, address: u64, value: u64, bytes: usize) -> Answer {
    submit(function, stream, Operation::Write { address, value, bytes })
}

fn submit(function: &'static str, stream: Handle, operation: Operation) -> Answer {
    let mut state = driver().lock();
    let stream = state.stream(stream)?;
    state.submit(stream, operation, function)?;
    Ok(())
}
