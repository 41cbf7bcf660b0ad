//! Stream capture: what is submitted becomes nodes of a graph.
//!
//! Not here: the exported functions (`driver/capture.rs`), what is done with the graph.

use std::collections::HashMap;
use std::thread::ThreadId;

use super::graph::{Action, Graph};
use super::operation::Operation;
use super::state::State;
use crate::code::{Answer, Code};
use crate::memory::Handle;

/// A capture under way.
#[derive(Debug)]
pub struct Capture {
    /// The stream that it began in.
    pub origin: Handle,
    /// What calls it forbids.
    pub mode: Mode,
    /// Whether it can still become a graph.
    pub status: Status,
    /// What was captured so far.
    pub graph: Graph,
    /// For each stream that takes part, the nodes that its next one comes after.
    pub frontiers: HashMap<Handle, Vec<usize>>,
    /// The thread that began it.
    pub thread: ThreadId,
}

/// What calls a capture forbids, of those that could wait for the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Those of all threads.
    Global,
    /// Those of the thread that began it.
    ThreadLocal,
    /// None.
    Relaxed,
}

/// Whether a capture can still become a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It can.
    Active,
    /// Something forbidden happened.
    Invalidated,
}

impl State {
    /// The capture that a stream takes part in.
    ///
    /// # Errors
    /// `INVALID_HANDLE` for no stream.
    pub fn capture_of(&self, stream: Handle) -> Answer<Option<Handle>> {
        Ok(self.streams.get(&stream).ok_or(Code::INVALID_HANDLE)?.capture)
    }

    /// Begins a capture in a stream.
    ///
    /// # Errors
    /// `STREAM_CAPTURE_UNSUPPORTED` for a default stream, `ILLEGAL_STATE` if it captures already.
    pub fn begin_capture(&mut self, stream: Handle, mode: Mode) -> Answer {
        let found = self.stream_mut(stream)?;
        if !found.owned {
            return Err(Code::STREAM_CAPTURE_UNSUPPORTED);
        }
        if found.capture.is_some() {
            return Err(Code::ILLEGAL_STATE);
        }
        let handle = self.new_handle();
        self.stream_mut(stream)?.capture = Some(handle);
        let capture = Capture {
            origin: stream,
            mode,
            status: Status::Active,
            graph: Graph::default(),
            frontiers: HashMap::from([(stream, Vec::new())]),
            thread: std::thread::current().id(),
        };
        self.captures.insert(handle, capture);
        Ok(())
    }

    /// Ends the capture that began in a stream, and gives its graph.
    ///
    /// # Errors
    /// `ILLEGAL_STATE` if it captures nothing, `STREAM_CAPTURE_UNMATCHED` if the capture began elsewhere,
    /// `STREAM_CAPTURE_WRONG_THREAD`, `STREAM_CAPTURE_UNJOINED` if work of another stream is not joined,
    /// `STREAM_CAPTURE_INVALIDATED`. After the last two the capture is over too.
    pub fn end_capture(&mut self, stream: Handle) -> Answer<Handle> {
        let handle = self.capture_of(stream)?.ok_or(Code::ILLEGAL_STATE)?;
        let capture = self.captures.get(&handle).ok_or(Code::ILLEGAL_STATE)?;
        if capture.origin != stream {
            return Err(self.invalidate(handle, Code::STREAM_CAPTURE_UNMATCHED).unwrap_err());
        }
        if capture.mode != Mode::Relaxed && capture.thread != std::thread::current().id() {
            return Err(Code::STREAM_CAPTURE_WRONG_THREAD);
        }
        let Some(capture) = self.captures.remove(&handle) else { return Err(Code::ILLEGAL_STATE) };
        for stream in capture.frontiers.keys() {
            if let Some(stream) = self.streams.get_mut(stream) {
                stream.capture = None;
            }
        }
        if capture.status == Status::Invalidated {
            return Err(Code::STREAM_CAPTURE_INVALIDATED);
        }
        if !capture.is_joined() {
            return Err(Code::STREAM_CAPTURE_UNJOINED);
        }
        let graph = self.new_handle();
        self.graphs.insert(graph, capture.graph);
        Ok(graph)
    }

    /// Makes a capture void, and answers with the code that says why.
    ///
    /// # Errors
    /// Always that code.
    pub fn invalidate(&mut self, capture: Handle, why: Code) -> Answer {
        if let Some(capture) = self.captures.get_mut(&capture) {
            capture.status = Status::Invalidated;
        }
        Err(why)
    }

    /// Refuses a call that could wait for the device, if a capture forbids it, and makes the capture void.
    ///
    /// # Errors
    /// `STREAM_CAPTURE_UNSUPPORTED`.
    pub fn forbid_in_capture(&mut self) -> Answer {
        let thread = std::thread::current().id();
        let forbids = |capture: &Capture| match capture.mode {
            Mode::Global => true,
            Mode::ThreadLocal => capture.thread == thread,
            Mode::Relaxed => false,
        };
        let hit = self.captures.iter().find(|(_, capture)| forbids(capture)).map(|entry| *entry.0);
        hit.map_or(Ok(()), |capture| self.invalidate(capture, Code::STREAM_CAPTURE_UNSUPPORTED))
    }

    /// Refuses work of a default stream while a stream that it would wait for captures, and makes the capture void.
    ///
    /// # Errors
    /// `STREAM_CAPTURE_IMPLICIT`.
    pub fn forbid_implied_capture(&mut self, stream: Handle) -> Answer {
        let capture = |other: &Handle| self.streams.get(other).and_then(|other| other.capture);
        let hit = self.implied(stream).iter().find_map(capture);
        hit.map_or(Ok(()), |capture| self.invalidate(capture, Code::STREAM_CAPTURE_IMPLICIT))
    }

    /// Adds an operation as the next node of a stream that captures.
    ///
    /// # Errors
    /// `STREAM_CAPTURE_INVALIDATED` if the capture is void.
    pub fn capture(&mut self, stream: Handle, operation: Operation) -> Answer {
        let capture = self.capture_of(stream)?.ok_or(Code::ILLEGAL_STATE)?;
        self.capture_action(capture, stream, Action::Operation(operation))
    }

    /// Adds a node.
    ///
    /// # Errors
    /// As `capture`.
    pub fn capture_action(&mut self, capture: Handle, stream: Handle, action: Action) -> Answer {
        let node = self.new_handle();
        let capture = self.captures.get_mut(&capture).ok_or(Code::ILLEGAL_STATE)?;
        if capture.status == Status::Invalidated {
            return Err(Code::STREAM_CAPTURE_INVALIDATED);
        }
        let frontier = capture.frontiers.entry(stream).or_default();
        let index = capture.graph.add(node, action, std::mem::take(frontier));
        capture.frontiers.insert(stream, vec![index]);
        Ok(())
    }

    /// The nodes that the next one of a stream comes after.
    pub fn frontier(&self, capture: Handle, stream: Handle) -> Vec<usize> {
        self.captures
            .get(&capture)
            .and_then(|capture| capture.frontiers.get(&stream))
            .cloned()
            .unwrap_or_default()
    }

    /// The next node of a stream comes after these too.
    pub fn extend_frontier(&mut self, capture: Handle, stream: Handle, nodes: Vec<usize>) {
        if let Some(capture) = self.captures.get_mut(&capture) {
            let frontier = capture.frontiers.entry(stream).or_default();
            frontier.extend(nodes);
            frontier.sort_unstable();
            frontier.dedup();
        }
    }

    /// A stream that captures nothing takes part in a capture, because it waits for an event of it.
    ///
    /// # Errors
    /// `STREAM_CAPTURE_UNSUPPORTED` for a default stream, `CAPTURED_EVENT` if the capture is over.
    pub fn join_capture(&mut self, stream: Handle, capture: Handle, nodes: Vec<usize>) -> Answer {
        if !self.captures.contains_key(&capture) {
            return Err(Code::CAPTURED_EVENT);
        }
        let found = self.stream_mut(stream)?;
        if !found.owned {
            return Err(self.invalidate(capture, Code::STREAM_CAPTURE_UNSUPPORTED).unwrap_err());
        }
        found.capture = Some(capture);
        self.extend_frontier(capture, stream, nodes);
        Ok(())
    }
}

impl Capture {
    /// Whether everything comes before what the stream would do next in which the capture began.
    fn is_joined(&self) -> bool {
        let mut reached = vec![false; self.graph.nodes.len()];
        let mut left = self.frontiers.get(&self.origin).cloned().unwrap_or_default();
        while let Some(index) = left.pop() {
            if !std::mem::replace(&mut reached[index], true) {
                left.extend(&self.graph.nodes[index].after);
            }
        }
        reached.into_iter().all(|reached| reached)
    }
}
