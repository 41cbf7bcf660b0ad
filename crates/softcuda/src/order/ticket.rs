//! A ticket: the place of one piece of work in the order of things.
//!
//! Not here: what the work does.

use std::fmt;
use std::sync::Arc;

use super::clock::{Clock, Host, Lane};

/// The place of one piece of work in the order of things.
#[derive(Debug)]
pub struct Ticket {
    /// Rises with every piece of work, over all streams.
    pub serial: u64,
    /// The lane that it is in.
    pub lane: Lane,
    /// Its number in the lane, from 1 on.
    pub epoch: u64,
    /// What is complete when it starts, and itself.
    pub clock: Clock,
    /// What the host had seen complete when it was submitted.
    pub host: Arc<Host>,
    /// What it is, for messages.
    pub label: Label,
}

/// What a piece of work is called in messages.
#[derive(Clone, Debug)]
pub struct Label {
    /// The function that asked for it.
    pub function: &'static str,
    /// The kernel, if it is one.
    pub kernel: Option<String>,
    /// The stream's handle; 0 for the host itself.
    pub stream: u64,
}

impl Label {
    /// Work on a stream.
    pub fn on(stream: u64, function: &'static str) -> Label {
        Label { function, kernel: None, stream }
    }

    /// Work of the host itself.
    pub fn host(function: &'static str) -> Label {
        Label::on(0, function)
    }
}

impl Ticket {
    /// Whether this is sure to be complete when the other starts.
    pub fn comes_before(&self, other: &Ticket) -> bool {
        other.clock.get(self.lane) >= self.epoch || other.host.covers(self.lane, self.epoch)
    }
}

/// Whether neither is sure to be complete when the other starts.
pub fn unordered(one: &Ticket, other: &Ticket) -> bool {
    !one.comes_before(other) && !other.comes_before(one)
}

impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Label { function, kernel, stream } = &self.label;
        match kernel {
            Some(kernel) => write!(f, "kernel `{kernel}` ({function})")?,
            None => f.write_str(function)?,
        }
        match stream {
            0 => write!(f, " by the host")?,
            stream => write!(f, " on stream {stream:#x}")?,
        }
        write!(f, ", submission {}", self.serial)
    }
}
