//! Streams: a queue, a lane of the order, and the rules of the default stream.
//!
//! Not here: what is submitted (`submit.rs`), waiting for it (`wait.rs`).

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::completion::Completion;
use super::queue::Queue;
use super::state::State;
use crate::code::{Answer, Code};
use crate::memory::Handle;
use crate::order::{Clock, Lane, Ticket};

/// A stream.
#[derive(Debug)]
pub struct Stream {
    /// The context that it was made in.
    pub context: Handle,
    /// Its row in the order of work.
    pub lane: Lane,
    /// What is complete when its next work starts.
    pub clock: Clock,
    /// Whether it keeps order with the default stream.
    pub blocking: bool,
    /// As it was asked for.
    pub flags: u32,
    /// As it was asked for, within the range of priorities.
    pub priority: i32,
    /// Where its tasks run.
    pub queue: Queue,
    /// Its last work.
    pub last: Option<Last>,
    /// The capture that it takes part in.
    pub capture: Option<Handle>,
    /// Whether callers have a handle of it; the default streams have none that can be destroyed.
    pub owned: bool,
}

/// The last work of a stream.
#[derive(Clone, Debug)]
pub struct Last {
    /// Its place in the order.
    pub ticket: Arc<Ticket>,
    /// Its end.
    pub done: Arc<Completion>,
}

/// A stream that was destroyed. Its work goes on.
#[derive(Debug)]
pub struct Ended {
    /// What is known when all of its work is complete.
    pub clock: Clock,
    /// Its last work.
    pub last: Option<Last>,
    /// Its queue, closed.
    pub queue: Queue,
}

/// `CU_STREAM_NON_BLOCKING`.
pub const NON_BLOCKING: u32 = 1;

/// `CU_STREAM_LEGACY` and no handle at all.
const LEGACY: [Handle; 2] = [0, 1];

/// `CU_STREAM_PER_THREAD`.
const PER_THREAD: Handle = 2;

/// A number that no other thread has.
fn thread_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local! {
        static NUMBER: Cell<u64> = Cell::new(NEXT.fetch_add(1, Ordering::Relaxed));
    }
    NUMBER.get()
}

impl State {
    /// Makes a stream of a context.
    pub fn new_stream(&mut self, context: Handle, flags: u32, priority: i32, owned: bool) -> Handle {
        let handle = self.new_handle();
        let lane = self.order.open_lane();
        let stream = Stream {
            context,
            lane,
            clock: Clock::default(),
            blocking: flags & NON_BLOCKING == 0,
            flags,
            priority,
            queue: Queue::new(lane),
            last: None,
            capture: None,
            owned,
        };
        self.streams.insert(handle, stream);
        if let Some(context) = self.contexts.get_mut(&context) {
            context.streams.push(handle);
        }
        handle
    }

    /// The stream that a caller means.
    ///
    /// # Errors
    /// `INVALID_HANDLE` if there is none; for the default streams also what `current` answers.
    pub fn stream(&mut self, named: Handle) -> Answer<Handle> {
        if LEGACY.contains(&named) {
            let context = self.current()?;
            return Ok(self.legacy_stream(context));
        }
        if named == PER_THREAD {
            let context = self.current()?;
            let thread = thread_number();
            let there =
                self.contexts.get(&context).and_then(|context| context.per_thread.get(&thread).copied());
            return Ok(there.unwrap_or_else(|| {
                let handle = self.new_stream(context, 0, 0, false);
                if let Some(context) = self.contexts.get_mut(&context) {
                    context.per_thread.insert(thread, handle);
                }
                handle
            }));
        }
        if self.streams.contains_key(&named) { Ok(named) } else { Err(Code::INVALID_HANDLE) }
    }

    /// The default stream of a context. It is made when it is first used.
    pub fn legacy_stream(&mut self, context: Handle) -> Handle {
        match self.contexts.get(&context).and_then(|context| context.legacy) {
            Some(handle) => handle,
            None => {
                let handle = self.new_stream(context, 0, 0, false);
                if let Some(context) = self.contexts.get_mut(&context) {
                    context.legacy = Some(handle);
                }
                handle
            }
        }
    }

    /// A stream that is sure to be there.
    pub fn stream_mut(&mut self, handle: Handle) -> Answer<&mut Stream> {
        self.streams.get_mut(&handle).ok_or(Code::INVALID_HANDLE)
    }

    /// The streams whose work the next work of this one comes after by the rules of the default stream.
    ///
    /// The default stream waits for every blocking stream of its context, and each of them waits for it.
    pub fn implied(&self, handle: Handle) -> Vec<Handle> {
        let Some(stream) = self.streams.get(&handle) else { return Vec::new() };
        let Some(context) = self.contexts.get(&stream.context) else { return Vec::new() };
        match context.legacy {
            Some(legacy) if legacy == handle => {
                let others = context.streams.iter().copied().filter(|other| *other != handle);
                others.filter(|other| self.streams.get(other).is_some_and(|other| other.blocking)).collect()
            }
            Some(legacy) if stream.blocking => vec![legacy],
            _ => Vec::new(),
        }
    }

    /// Destroys a stream. What it was given runs to its end.
    pub fn end_stream(&mut self, handle: Handle) {
        let Some(stream) = self.streams.remove(&handle) else { return };
        stream.queue.close();
        self.order.close_lane(stream.lane);
        let order = &self.order;
        if let Some(context) = self.contexts.get_mut(&stream.context) {
            context.streams.retain(|other| *other != handle);
            // The default stream comes after blocking streams that are gone, too.
            let ended = Ended { clock: stream.clock, last: stream.last, queue: stream.queue };
            context.ended.push(ended);
            context.reap(order);
        }
    }
}
