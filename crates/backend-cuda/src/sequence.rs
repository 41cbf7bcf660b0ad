//! Native recordings: lists of commands, and graphs of them.
//!
//! The first submission of a recording puts its commands into the stream one by one, for most recordings are submitted once
//! and making a graph costs more than that. The second one makes the graph, and from then on that is submitted (L9). Not here:
//! what each operation becomes (`encode.rs`).

use std::sync::Arc;

use tenure_core::backend::{QueueId, Sequence, Submission};
use tenure_core::operation::Operation;
use tenure_core::{BackendError, BackendErrorKind};

use crate::backend::CudaBackend;
use crate::device::Device;
use crate::encode::Recording;
use crate::ffi::{Current, Stream};
use crate::graph::ffi::Executable;
use crate::graph::graph_of;

/// One native recording.
pub struct CudaSequence {
    // Before the recording: a graph goes before the memory that it names.
    form: Form,
    recording: Recording,
    device: Arc<Device>,
    queue: QueueId,
}

/// How the recording is submitted next.
enum Form {
    /// It was not submitted yet.
    Fresh,
    /// It was submitted once. Its parameters are on the device.
    Submitted,
    /// It is a graph.
    Graph(Executable),
}

impl CudaSequence {
    pub(crate) fn new(device: Arc<Device>, queue: QueueId) -> Self {
        CudaSequence { form: Form::Fresh, recording: Recording::default(), device, queue }
    }

    fn send(&mut self, submission: &Submission<'_>) -> Result<(), BackendError> {
        let device = self.device.clone();
        let current = device.context.enter()?;
        // Before anything is in the stream: a graph that cannot be made submits nothing.
        if matches!(self.form, Form::Submitted) && !self.recording.commands.is_empty() {
            self.form = Form::Graph(graph_of(&current, &self.recording.commands)?);
        }
        let first = match self.form {
            Form::Fresh => self.recording.place_parameters(&device, &current)?,
            _ => None,
        };
        let Submission { point, waits, .. } = *submission;
        device.timelines.submit(&current, point, waits, |stream| {
            if let Some(command) = &first {
                stream.put(&current, command)?;
            }
            self.put(&current, stream)
        })?;
        if matches!(self.form, Form::Fresh) {
            self.form = Form::Submitted;
        }
        Ok(())
    }

    fn put(&self, current: &Current<'_>, stream: &Stream) -> Result<(), BackendError> {
        match &self.form {
            Form::Graph(graph) => graph.launch(current, stream),
            _ => self.recording.commands.iter().try_for_each(|command| stream.put(current, command)),
        }
    }

    fn discard(&mut self) {
        self.form = Form::Fresh;
        self.recording = Recording::default();
    }
}

impl Sequence<CudaBackend> for CudaSequence {
    unsafe fn record(&mut self, operation: &Operation<'_, CudaBackend>) -> Result<(), BackendError> {
        assert!(
            matches!(self.form, Form::Fresh),
            "a recording that was submitted is reset before it is recorded anew"
        );
        self.recording.push(&self.device, operation)
    }

    unsafe fn submit(&mut self, submission: &Submission<'_>) -> Result<(), BackendError> {
        assert_eq!(submission.point.queue, self.queue, "a sequence is submitted to its scope's queue");
        self.send(submission)
    }

    fn collect(&mut self) -> Result<(), BackendError> {
        self.device.context.alive()?;
        for read in &self.recording.reads {
            let length = read.piece.bytes();
            let mut bytes = Vec::new();
            bytes.try_reserve_exact(length).map_err(|error| {
                let message = format!("no {length} bytes for a read-back");
                BackendError::new(BackendErrorKind::OutOfMemory, "read back", message).with_source(error)
            })?;
            bytes.resize(length, 0);
            read.piece.read(&mut bytes);
            read.into.deliver(bytes);
        }
        Ok(())
    }

    unsafe fn reset(&mut self) -> Result<(), BackendError> {
        self.discard();
        Ok(())
    }
}

impl std::fmt::Debug for CudaSequence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CudaSequence")
            .field("queue", &self.queue)
            .field("commands", &self.recording.commands.len())
            .finish_non_exhaustive()
    }
}
