//! Submitting work to a stream: its place in the order, what it waits for, its task.
//!
//! A stream that captures gets a node of its graph instead. Not here: graphs as work (`launch.rs`).

use std::sync::Arc;

use super::completion::Completion;
use super::driver;
use super::event::Recorded;
use super::operation::Operation;
use super::perform::{complete, perform};
use super::queue::Task;
use super::state::State;
use super::stream::Last;
use crate::code::{Answer, Code};
use crate::memory::Handle;
use crate::order::{Label, Ticket};

/// What came of a submission.
#[derive(Clone, Debug)]
pub enum Submitted {
    /// It is work of the stream.
    Work(Last),
    /// It is a node of the graph that the stream captures.
    Captured,
}

impl State {
    /// Submits one operation to a stream that is there.
    ///
    /// # Errors
    /// What resolving the operation, capturing it, or starting the stream's thread answers.
    pub fn submit(
        &mut self,
        stream: Handle,
        operation: Operation,
        function: &'static str,
    ) -> Answer<Submitted> {
        if self.capture_of(stream)?.is_some() {
            self.capture(stream, operation)?;
            return Ok(Submitted::Captured);
        }
        self.forbid_implied_capture(stream)?;
        let label = operation.label(stream, function);
        let resolved = self.resolve(&operation, &label)?;
        let after = self.begin(stream)?;
        let ticket = self.ticket(stream, label)?;
        self.touch(&resolved, &ticket);
        let work = {
            let ticket = ticket.clone();
            Box::new(move || perform(&resolved.work, &ticket))
        };
        Ok(Submitted::Work(self.push(stream, ticket, after, work)?))
    }

    /// Submits a place in the order that does nothing.
    ///
    /// # Errors
    /// As `submit`.
    pub fn submit_mark(
        &mut self,
        stream: Handle,
        after: Vec<Arc<Completion>>,
        function: &'static str,
    ) -> Answer<Last> {
        let mut waits = self.begin(stream)?;
        waits.extend(after);
        let ticket = self.ticket(stream, Label::on(stream, function))?;
        let work = {
            let ticket = ticket.clone();
            Box::new(move || complete(&ticket))
        };
        self.push(stream, ticket, waits, work)
    }

    /// Starts the stream's thread, and joins what its next work comes after by the rules of the default stream. Gives
    /// what that work waits for.
    pub(super) fn begin(&mut self, stream: Handle) -> Answer<Vec<Arc<Completion>>> {
        let implied = self.implied(stream);
        let mut after = Vec::new();
        let mut clocks = Vec::new();
        for other in implied {
            let Some(other) = self.streams.get(&other) else { continue };
            clocks.push(other.clock.clone());
            after.extend(other.last.iter().map(|last| last.done.clone()));
        }
        let context = self.streams.get(&stream).map(|stream| stream.context).unwrap_or_default();
        if let Some(context) = self.contexts.get(&context)
            && context.legacy == Some(stream)
        {
            // Streams that were destroyed still work in front of the default stream.
            clocks.push(context.ended_clock.clone());
            for ended in &context.ended {
                clocks.push(ended.clock.clone());
                after.extend(ended.last.iter().map(|last| last.done.clone()));
            }
        }
        after.retain(|completion| !completion.is_done());
        let stream = self.stream_mut(stream)?;
        stream.queue.start(|| driver().settings.seed())?;
        for clock in &clocks {
            stream.clock.join(clock);
        }
        Ok(after)
    }

    /// The next ticket of a stream.
    pub(super) fn ticket(&mut self, stream: Handle, label: Label) -> Answer<Arc<Ticket>> {
        let stream = self.streams.get_mut(&stream).ok_or(Code::INVALID_HANDLE)?;
        Ok(self.order.ticket(stream.lane, &mut stream.clock, label))
    }

    /// Gives a task to a stream that was begun.
    pub(super) fn push(
        &mut self,
        stream: Handle,
        ticket: Arc<Ticket>,
        after: Vec<Arc<Completion>>,
        work: Box<dyn FnOnce() + Send>,
    ) -> Answer<Last> {
        let done = Completion::new();
        let stream = self.stream_mut(stream)?;
        stream.queue.push(Task { after, work, done: done.clone() });
        let last = Last { ticket, done };
        stream.last = Some(last.clone());
        Ok(last)
    }

    /// Records an event in a stream.
    ///
    /// # Errors
    /// `INVALID_HANDLE` if the event is none, or of another context than the stream.
    pub fn record_event(&mut self, event: Handle, stream: Handle, function: &'static str) -> Answer {
        let context = self.streams.get(&stream).map(|stream| stream.context).ok_or(Code::INVALID_HANDLE)?;
        if self.events.get(&event).ok_or(Code::INVALID_HANDLE)?.context != context {
            return Err(Code::INVALID_HANDLE);
        }
        let recorded = match self.capture_of(stream)? {
            Some(capture) => {
                let nodes = self.frontier(capture, stream);
                Recorded::Capture { capture, nodes }
            }
            None => {
                self.forbid_implied_capture(stream)?;
                let last = self.submit_mark(stream, Vec::new(), function)?;
                Recorded::Stream { done: last.done, clock: last.ticket.clock.clone() }
            }
        };
        if let Some(event) = self.events.get_mut(&event) {
            event.recorded = recorded;
        }
        Ok(())
    }

    /// Lets the next work of a stream wait for what an event was recorded in last.
    ///
    /// # Errors
    /// `INVALID_HANDLE` if the event is none; errors of captures.
    pub fn wait_event(&mut self, stream: Handle, event: Handle, function: &'static str) -> Answer {
        let recorded = self.events.get(&event).ok_or(Code::INVALID_HANDLE)?.recorded.clone();
        match (self.capture_of(stream)?, recorded) {
            (None, Recorded::Never) => Ok(()),
            (None, Recorded::Stream { done, clock }) => {
                self.forbid_implied_capture(stream)?;
                self.stream_mut(stream)?.clock.join(&clock);
                if !done.is_done() {
                    self.submit_mark(stream, vec![done], function)?;
                }
                Ok(())
            }
            (None, Recorded::Capture { capture, nodes }) => self.join_capture(stream, capture, nodes),
            (Some(own), Recorded::Capture { capture, nodes }) if own == capture => {
                self.extend_frontier(capture, stream, nodes);
                Ok(())
            }
            (Some(own), Recorded::Capture { .. }) => self.invalidate(own, Code::STREAM_CAPTURE_MERGE),
            (Some(own), Recorded::Stream { .. }) => self.invalidate(own, Code::STREAM_CAPTURE_ISOLATION),
            // An event that was never recorded counts as complete, inside of a capture too.
            (Some(_), Recorded::Never) => Ok(()),
        }
    }
}
