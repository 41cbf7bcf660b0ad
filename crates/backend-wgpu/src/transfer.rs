//! Submitting, for recordings and for copies between host and blocks outside of any.
//!
//! Not here: staging itself (`staging.rs`), and the timeline (`timeline.rs`).

use std::sync::Arc;

use tenure_core::BackendError;

use crate::buffer::WgpuBlock;
use crate::device::Device;
use crate::encode::{Encoded, Encoder, Range};
use crate::sequence::Reads;
use crate::staging::{PIECE, ReadBacks};
use crate::timeline::{Ticket, polled};

impl Device {
    /// Submits commands that were encoded without an error. On an error nothing was submitted.
    pub(crate) fn submit(
        &self,
        encoded: Encoded,
        reads: &Reads,
        value: Option<u64>,
    ) -> Result<Ticket, BackendError> {
        self.submit_reading(encoded, &reads.staging, value)
    }

    fn submit_reading(
        &self,
        encoded: Encoded,
        reads: &ReadBacks,
        value: Option<u64>,
    ) -> Result<Ticket, BackendError> {
        let Encoded { commands, uploads } = encoded;
        let index = self.checked("submit", || {
            uploads.unmap();
            self.queue.submit([commands])
        })?;
        // Mappings are asked for before anybody hears of the submission: so they are made when it completes.
        // A device that is lost meanwhile refuses them, and the callbacks say so.
        let mut mappings = Arc::default();
        // It was submitted, so an error of a mapping comes when it is read.
        let _ = self.checked("map", || {
            uploads.submitted(self);
            mappings = reads.submitted(&self.timeline);
        });
        Ok(self.timeline.submitted(index, value, mappings))
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
            self.timeline.start(&self.device)?;
            let encoded = self.checked("write", || {
                let mut encoder = Encoder::new(self, "tenure write");
                encoder.write(piece, &target)?;
                Ok::<_, BackendError>(encoder.finish())
            })??;
            self.submit_reading(encoded, &ReadBacks::default(), None)?;
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
            self.timeline.start(&self.device)?;
            let mut reads = ReadBacks::default();
            let (encoded, pieces) = self.checked("read", || {
                let mut encoder = Encoder::new(self, "tenure read");
                let pieces = reads.copy(&mut encoder, &source)?;
                Ok::<_, BackendError>((encoder.finish(), pieces))
            })??;
            let ticket = self.submit_reading(encoded, &reads, None)?;
            self.wait(ticket, "read")?;
            reads.read_all(&pieces, part)?;
            reads.end(&self.staging);
            done += part.len() as u64;
        }
        Ok(())
    }
}
