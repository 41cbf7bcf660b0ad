//! Submitting, for recordings and for copies between host and blocks outside of any.
//!
//! Not here: staging itself (`staging.rs`), and the timeline (`timeline.rs`).

use std::sync::Arc;

use tenure_core::BackendError;

use crate::buffer::WgpuBlock;
use crate::device::Device;
use crate::encode::{Encoded, Encoder, Range};
use crate::staging::{PIECE, ReadBacks};
use crate::timeline::{Ticket, polled};

/// What was submitted: its number, its read-backs, and what encoding it came to.
pub(crate) struct Submitted<R> {
    pub ticket: Ticket,
    pub reads: ReadBacks,
    pub encoded: R,
}

impl Device {
    /// Encodes commands and submits them. On an error nothing was submitted.
    ///
    /// One look for errors stands around both: wgpu takes no commands whose encoding it had something against.
    pub(crate) fn submit<R>(
        &self,
        (operation, label): (&'static str, &str),
        value: Option<u64>,
        encode: impl FnOnce(&mut Encoder<'_>, &mut ReadBacks) -> Result<R, BackendError>,
    ) -> Result<Submitted<R>, BackendError> {
        self.timeline.start(&self.device)?;
        let mut reads = ReadBacks::default();
        let (index, uploads, encoded) = self.checked(operation, || {
            let mut encoder = Encoder::new(self, label);
            let encoded = encode(&mut encoder, &mut reads)?;
            let Encoded { commands, uploads } = encoder.finish();
            uploads.unmap();
            Ok::<_, BackendError>((self.queue.submit([commands]), uploads, encoded))
        })??;
        // Mappings are asked for before anybody hears of the submission: so they are made when it completes.
        // A device that is lost meanwhile refuses them, and the callbacks say so.
        let mut mappings = Arc::default();
        if !uploads.is_empty() || !reads.is_empty() {
            // It was submitted, so an error of a mapping comes when it is read.
            let _ = self.checked("map", || {
                uploads.submitted(self);
                mappings = reads.submitted(&self.timeline);
            });
        }
        let ticket = self.timeline.submitted(index, value, mappings);
        Ok(Submitted { ticket, reads, encoded })
    }

    /// Blocks until a submission has completed.
    fn wait(&self, ticket: Ticket, operation: &'static str) -> Result<(), BackendError> {
        self.timeline.wait(&|poll| polled(&self.device, poll), ticket, operation)
    }

    /// Queues a copy from the host. Every later use of the block, by whoever, comes after it in the one queue that
    /// there is, so it need not be waited for; only where more than the pool's bytes are under way the older ones are.
    pub(crate) fn write_block(
        &self,
        block: &WgpuBlock,
        offset: u64,
        bytes: &[u8],
    ) -> Result<(), BackendError> {
        let mut done = 0;
        for piece in bytes.chunks(PIECE as usize) {
            if self.staging.flying_bytes() + piece.len() as u64 > self.staging.limit {
                self.wait(self.timeline.last(), "write")?;
            }
            let target =
                Range { storage: block.storage.clone(), offset: offset + done, bytes: piece.len() as u64 };
            self.submit(("write", "tenure write"), None, |encoder, _| encoder.write(piece, &target))?;
            done += piece.len() as u64;
        }
        Ok(())
    }

    /// Copies to the host, and waits for it.
    pub(crate) fn read_block(
        &self,
        block: &WgpuBlock,
        offset: u64,
        bytes: &mut [u8],
    ) -> Result<(), BackendError> {
        // As much at a time as the pool keeps.
        let most = self.staging.limit.max(PIECE) as usize;
        let mut done = 0;
        for part in bytes.chunks_mut(most) {
            let source =
                Range { storage: block.storage.clone(), offset: offset + done, bytes: part.len() as u64 };
            let Submitted { ticket, reads, encoded: pieces } =
                self.submit(("read", "tenure read"), None, |encoder, reads| reads.copy(encoder, &source))?;
            self.wait(ticket, "read")?;
            reads.read_all(&pieces, part)?;
            reads.end(&self.staging);
            done += part.len() as u64;
        }
        Ok(())
    }
}
