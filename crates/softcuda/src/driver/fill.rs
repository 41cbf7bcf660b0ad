//! Filling memory with equal elements of 1, 2 or 4 bytes.
//!
//! Not here: doing it (`device/perform.rs`).

use crate::code::{Answer, Code};
use crate::device::driver;
use crate::device::operation::{Fill, Operation};
use crate::memory::Handle;

exports! {
    Health cuMemsetD8_v2(to: u64, value: u8, count: usize) =
        row("cuMemsetD8", to, u32::from(value), 1, count, 0);
    Health cuMemsetD16_v2(to: u64, value: u16, count: usize) =
        row("cuMemsetD16", to, u32::from(value), 2, count, 0);
    Health cuMemsetD32_v2(to: u64, value: u32, count: usize) = row("cuMemsetD32", to, value, 4, count, 0);
    Health cuMemsetD8Async(to: u64, value: u8, count: usize, stream: Handle) =
        row("cuMemsetD8Async", to, u32::from(value), 1, count, stream);
    Health cuMemsetD16Async(to: u64, value: u16, count: usize, stream: Handle) =
        row("cuMemsetD16Async", to, u32::from(value), 2, count, stream);
    Health cuMemsetD32Async(to: u64, value: u32, count: usize, stream: Handle) =
        row("cuMemsetD32Async", to, value, 4, count, stream);
    Health cuMemsetD2D8_v2(to: u64, pitch: usize, value: u8, width: usize, height: usize) =
        rows("cuMemsetD2D8", fill(to, u32::from(value), 1, width, height, pitch), 0);
    Health cuMemsetD2D8Async(to: u64, pitch: usize, value: u8, width: usize, height: usize, stream: Handle) =
        rows("cuMemsetD2D8Async", fill(to, u32::from(value), 1, width, height, pitch), stream);
    Health cuMemsetD2D32_v2(to: u64, pitch: usize, value: u32, width: usize, height: usize) =
        rows("cuMemsetD2D32", fill(to, value, 4, width, height, pitch), 0);
    Health cuMemsetD2D32Async(to: u64, pitch: usize, value: u32, width: usize, height: usize, stream: Handle) =
        rows("cuMemsetD2D32Async", fill(to, value, 4, width, height, pitch), stream);
}

fn fill(address: u64, value: u32, element: usize, width: usize, height: usize, pitch: usize) -> Fill {
    Fill { address, value, element, width: width as u64, height: height as u64, pitch: pitch as u64 }
}

fn row(function: &'static str, to: u64, value: u32, element: usize, count: usize, stream: Handle) -> Answer {
    rows(function, fill(to, value, element, count, 1, 0), stream)
}

/// Also without a stream a fill is asynchronous to the host: it is work of the default stream.
fn rows(function: &'static str, fill: Fill, stream: Handle) -> Answer {
    if !fill.address.is_multiple_of(fill.element as u64) {
        return Err(Code::INVALID_VALUE);
    }
    let mut state = driver().lock();
    let stream = state.stream(stream)?;
    if fill.width == 0 || fill.height == 0 {
        return Ok(());
    }
    state.submit(stream, Operation::Fill(fill), function)?;
    Ok(())
}
