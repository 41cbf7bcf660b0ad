//! Waiting on the host, and what the driver does when the host has waited.
//!
//! Nobody waits while the state is locked. Not here: the exported functions.

use std::sync::Arc;

use super::completion::Completion;
use super::driver;
use super::event::Recorded;
use super::queue::Queue;
use super::state::State;
use crate::code::{Answer, Code};
use crate::memory::Handle;
use crate::order::Clock;

/// What the host waits for.
#[derive(Debug, Default)]
pub struct Awaited {
    done: Vec<Arc<Completion>>,
    clock: Clock,
}

impl Awaited {
    /// Whether all of it is over.
    pub fn is_done(&self) -> bool {
        self.done.iter().all(|done| done.is_done())
    }

    /// Blocks until all of it is over, then lets the driver know what the host has seen.
    ///
    /// # Errors
    /// The error of a device that has failed.
    pub fn wait(self) -> Answer {
        for done in &self.done {
            done.wait();
        }
        self.seen()
    }

    /// Lets the driver know that the host has seen all of it over.
    ///
    /// # Errors
    /// The error of a device that has failed.
    pub fn seen(self) -> Answer {
        let driver = driver();
        let mut state = driver.lock();
        state.order.observe(&self.clock);
        let State { pools, order, contexts, .. } = &mut *state;
        for context in contexts.values_mut() {
            context.reap(order);
        }
        for pool in pools.values_mut() {
            pool.synchronised(|ticket| order.is_observed(ticket));
        }
        let ending = state.take_ending();
        drop(state);
        ending.into_iter().for_each(Queue::join);
        driver.health.tell()
    }

    /// Waits for another piece of work too.
    pub fn add(&mut self, done: Arc<Completion>, clock: &Clock) {
        self.done.push(done);
        self.clock.join(clock);
    }
}

impl State {
    /// All work of a stream so far, and of those that it implies.
    ///
    /// # Errors
    /// `STREAM_CAPTURE_UNSUPPORTED` if it captures; the capture is then void.
    pub fn work_of_stream(&mut self, stream: Handle) -> Answer<Awaited> {
        if let Some(capture) = self.capture_of(stream)? {
            return Err(self.invalidate(capture, Code::STREAM_CAPTURE_UNSUPPORTED).unwrap_err());
        }
        let mut awaited = Awaited::default();
        self.add_stream(&mut awaited, stream);
        let context = self.streams.get(&stream).map(|stream| stream.context).unwrap_or_default();
        if self.contexts.get(&context).is_some_and(|context| context.legacy == Some(stream)) {
            for other in self.implied(stream) {
                self.add_stream(&mut awaited, other);
            }
        }
        Ok(awaited)
    }

    /// All work of a context so far.
    ///
    /// # Errors
    /// `STREAM_CAPTURE_UNSUPPORTED` if one of its streams captures; the capture is then void.
    pub fn work_of_context(&mut self, context: Handle) -> Answer<Awaited> {
        let streams = self.contexts.get(&context).ok_or(Code::INVALID_CONTEXT)?.streams.clone();
        for stream in &streams {
            if let Some(capture) = self.streams.get(stream).and_then(|stream| stream.capture) {
                return Err(self.invalidate(capture, Code::STREAM_CAPTURE_UNSUPPORTED).unwrap_err());
            }
        }
        let mut awaited = Awaited::default();
        for stream in streams {
            self.add_stream(&mut awaited, stream);
        }
        if let Some(context) = self.contexts.get(&context) {
            awaited.clock.join(&context.ended_clock);
            for ended in &context.ended {
                awaited.clock.join(&ended.clock);
                awaited.done.extend(ended.last.iter().map(|last| last.done.clone()));
            }
        }
        Ok(awaited)
    }

    /// What an event stands for now.
    ///
    /// # Errors
    /// `INVALID_HANDLE` for no event, `CAPTURED_EVENT` for one that a capture recorded.
    pub fn work_of_event(&self, event: Handle) -> Answer<Awaited> {
        let mut awaited = Awaited::default();
        match &self.events.get(&event).ok_or(Code::INVALID_HANDLE)?.recorded {
            Recorded::Never => {}
            Recorded::Stream { done, clock } => awaited.add(done.clone(), clock),
            Recorded::Capture { .. } => return Err(Code::CAPTURED_EVENT),
        }
        Ok(awaited)
    }

    fn add_stream(&self, awaited: &mut Awaited, stream: Handle) {
        if let Some(stream) = self.streams.get(&stream) {
            awaited.clock.join(&stream.clock);
            awaited.done.extend(stream.last.iter().map(|last| last.done.clone()));
        }
    }
}
