//! Doing a piece of work, on a stream's thread.
//!
//! Not here: when (`submit.rs`).

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use super::bus::Bus;
use super::driver;
use super::operation::{End, Fill, KernelLaunch, Prepared, Until};
use crate::code::{Answer, Code};
use crate::execute::{self, Launch};
use crate::memory::Allocation;
use crate::order::Ticket;

/// How long a stream that waits for a word sleeps until it looks again: the host may write it without a sound.
const LOOK_AGAIN: Duration = Duration::from_micros(100);

thread_local! {
    static IN_HOST_FUNCTION: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is inside of a host function, which may not call the driver.
pub fn is_in_host_function() -> bool {
    IN_HOST_FUNCTION.get()
}

/// Does the work, unless the device has failed, and says that it is complete.
pub fn perform(work: &Prepared, ticket: &Arc<Ticket>) {
    let driver = driver();
    if driver.health.error().is_none() {
        let answer = catch_unwind(AssertUnwindSafe(|| run(work, ticket)));
        match answer {
            Ok(Ok(())) => {}
            Ok(Err(code)) => driver.health.fail(code),
            Err(_) => driver.health.fail(Code::UNKNOWN),
        }
    }
    complete(ticket);
}

/// Says that work is complete.
pub fn complete(ticket: &Ticket) {
    let mut state = driver().lock();
    state.order.complete(ticket);
    state.bury();
}

fn run(work: &Prepared, ticket: &Arc<Ticket>) -> Answer {
    match work {
        Prepared::Nothing => {}
        Prepared::Kernel(launch) => return run_kernel(launch, ticket),
        Prepared::Copy { to, from, bytes } => copy(to, from, *bytes),
        Prepared::Fill(allocation, offset, fill) => run_fill(allocation, *offset, fill),
        Prepared::Host(function, data) => {
            IN_HOST_FUNCTION.set(true);
            function.call(*data);
            IN_HOST_FUNCTION.set(false);
        }
        Prepared::Write(allocation, offset, value, bytes) => {
            allocation.mark_written(*offset, *bytes);
            allocation.backing.store(*offset, &value.to_le_bytes()[..*bytes]);
        }
        Prepared::Await(allocation, offset, value, bytes, until) => {
            await_word(allocation, *offset, *value, *bytes, *until);
        }
    }
    Ok(())
}

fn run_kernel(launch: &KernelLaunch, ticket: &Arc<Ticket>) -> Answer {
    let snapshot = driver().lock().map.snapshot();
    let bus = Bus::new(snapshot, ticket.clone());
    let body = Launch {
        grid: launch.grid,
        block: launch.block,
        dynamic_shared_bytes: launch.dynamic_shared_bytes,
        parameters: &launch.parameters,
    };
    let result = execute::run(&launch.kernel, &body, &bus);
    bus.finish(result)
}

fn copy(to: &End, from: &End, bytes: usize) {
    match (to, from) {
        (End::Memory(to, offset), End::Memory(from, start)) => {
            to.mark_written(*offset, bytes);
            to.backing.copy(*offset, &from.backing, *start, bytes);
        }
        (End::Memory(to, offset), End::Staged(staged)) => {
            to.mark_written(*offset, bytes);
            to.backing.store(*offset, &staged[..bytes]);
        }
        (End::Memory(to, offset), End::Pageable(from)) => {
            to.mark_written(*offset, bytes);
            let mut buffer = vec![0; bytes];
            from.read(&mut buffer);
            to.backing.store(*offset, &buffer);
        }
        (End::Pageable(to), End::Memory(from, offset)) => {
            let mut buffer = vec![0; bytes];
            from.backing.load(*offset, &mut buffer);
            to.write(&buffer);
        }
        (End::Pageable(to), End::Pageable(from)) => {
            let mut buffer = vec![0; bytes];
            from.read(&mut buffer);
            to.write(&buffer);
        }
        (End::Pageable(to), End::Staged(staged)) => to.write(&staged[..bytes]),
        // Nothing is ever copied to bytes that were taken from a caller.
        (End::Staged(_), _) => {}
    }
}

fn run_fill(allocation: &Allocation, offset: u64, fill: &Fill) {
    let row = fill.width as usize * fill.element;
    let element = &fill.value.to_le_bytes()[..fill.element];
    let same = element.iter().all(|byte| *byte == element[0]);
    for index in 0..fill.height {
        let start = offset + index * fill.pitch;
        allocation.mark_written(start, row);
        if same {
            allocation.backing.fill(start, row, element[0]);
        } else {
            allocation.backing.store(start, &element.repeat(fill.width as usize));
        }
    }
}

fn await_word(allocation: &Allocation, offset: u64, value: u64, bytes: usize, until: Until) {
    let reached = || {
        let mut word = [0; 8];
        allocation.backing.load(offset, &mut word[..bytes]);
        let word = u64::from_le_bytes(word);
        match until {
            Until::AtLeast if bytes == 4 => (word as u32).wrapping_sub(value as u32) as i32 >= 0,
            Until::AtLeast => word.wrapping_sub(value) as i64 >= 0,
            Until::Equal => word == value,
            Until::And => word & value != 0,
            Until::Nor if bytes == 4 => !(word as u32 | value as u32) != 0,
            Until::Nor => !(word | value) != 0,
        }
    };
    // A device that has failed ends every wait.
    while !reached() && driver().health.error().is_none() {
        std::thread::park_timeout(LOOK_AGAIN);
    }
}
