//! [`Heap`]: memory for the backend's own use, in pieces that are cut from large buffers.
//!
//! One heap for what the host writes (uploads, parameters), one for what it reads (read-backs), one for the device
//! alone (ranges that no binding may begin at). Buffers stay until they are trimmed: taking a piece costs no driver call
//! once there is room. Not here: tensors' memory, which core's pool keeps.

use std::sync::Arc;

use ash::vk;
use offset_allocator::{Allocation, Allocator};
use parking_lot::Mutex;
use tenure_core::BackendError;

use crate::error::unsupported;
use crate::ffi::{Api, RawBuffer};
use crate::instance::{Facts, MAPPABLE};

/// A buffer that pieces are cut from.
const CHUNK_BYTES: u64 = 1 << 20;

/// Larger pieces have a buffer of their own, which goes with them.
const LARGEST_PIECE: u64 = CHUNK_BYTES / 4;

/// Who reaches a heap's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// The host writes, the device reads.
    Upload,
    /// The device writes, the host reads.
    ReadBack,
    /// The device alone.
    Device,
}

impl Reach {
    /// A memory type for it among `allowed`, and whether it is mapped.
    pub(crate) fn memory_type(self, facts: &Facts, allowed: u32) -> Result<(u32, bool), BackendError> {
        let cached = vk::MemoryPropertyFlags::HOST_CACHED;
        let local = vk::MemoryPropertyFlags::DEVICE_LOCAL;
        let (needed, wanted, map): (_, &[_], _) = match self {
            Reach::Upload => (MAPPABLE, &[], true),
            Reach::ReadBack => (MAPPABLE, &[cached], true),
            Reach::Device => (vk::MemoryPropertyFlags::empty(), &[local], false),
        };
        let found = facts.memory_type(allowed, needed, wanted);
        let found =
            found.ok_or_else(|| unsupported("allocate", format!("no memory type for {self:?} buffers")))?;
        Ok((found, map))
    }

    fn label(self) -> &'static str {
        match self {
            Reach::Upload => "tenure: uploads",
            Reach::ReadBack => "tenure: read-backs",
            Reach::Device => "tenure: scratch",
        }
    }
}

/// A heap of one reach.
pub(crate) struct Heap {
    reach: Reach,
    facts: Arc<Facts>,
    api: Arc<Api>,
    /// Pieces begin at multiples of it, so that each can be bound.
    unit: u64,
    chunks: Mutex<Vec<Chunk>>,
}

struct Chunk {
    buffer: Arc<RawBuffer>,
    allocator: Allocator,
    pieces: u32,
}

/// A range of a buffer that nobody else has. It goes back when it drops: by then the device has finished with it.
pub(crate) struct Piece {
    buffer: Arc<RawBuffer>,
    offset: u64,
    bytes: u64,
    /// Where it was cut from; none for a buffer of its own.
    home: Option<(Arc<Heap>, Allocation)>,
}

impl Heap {
    pub(crate) fn new(api: &Arc<Api>, facts: &Arc<Facts>, reach: Reach, unit: u64) -> Arc<Self> {
        let chunks = Mutex::new(Vec::new());
        Arc::new(Heap { reach, facts: facts.clone(), api: api.clone(), unit, chunks })
    }

    /// A piece of at least one byte.
    pub(crate) fn take(self: &Arc<Self>, bytes: u64) -> Result<Piece, BackendError> {
        if bytes > LARGEST_PIECE || bytes.next_multiple_of(self.unit) > CHUNK_BYTES {
            let buffer = Arc::new(self.buffer(bytes)?);
            return Ok(Piece { buffer, offset: 0, bytes, home: None });
        }
        let mut chunks = self.chunks.lock();
        if let Some(piece) = chunks.iter_mut().rev().find_map(|chunk| self.cut(chunk, bytes)) {
            return Ok(piece);
        }
        let units = u32::try_from(CHUNK_BYTES / self.unit).expect("a chunk has few units");
        let allocator = Allocator::with_max_allocs(units, units + 2);
        let mut chunk = Chunk { buffer: Arc::new(self.buffer(CHUNK_BYTES)?), allocator, pieces: 0 };
        let piece = self.cut(&mut chunk, bytes).expect("a new chunk has room for a piece");
        chunks.push(chunk);
        Ok(piece)
    }

    fn buffer(&self, bytes: u64) -> Result<RawBuffer, BackendError> {
        let choose = |allowed| self.reach.memory_type(&self.facts, allowed);
        RawBuffer::new(&self.api, bytes, choose, self.reach.label())
    }

    fn cut(self: &Arc<Self>, chunk: &mut Chunk, bytes: u64) -> Option<Piece> {
        let units = u32::try_from(bytes.div_ceil(self.unit).max(1)).expect("pieces are smaller than chunks");
        let place = chunk.allocator.allocate(units)?;
        chunk.pieces += 1;
        let offset = u64::from(place.offset) * self.unit;
        Some(Piece { buffer: chunk.buffer.clone(), offset, bytes, home: Some((self.clone(), place)) })
    }

    fn give(&self, buffer: &Arc<RawBuffer>, place: Allocation) {
        let mut chunks = self.chunks.lock();
        let chunk = chunks.iter_mut().find(|chunk| Arc::ptr_eq(&chunk.buffer, buffer));
        let chunk = chunk.expect("a chunk with pieces out is kept");
        chunk.allocator.free(place);
        chunk.pieces -= 1;
    }

    /// Destroys the buffers that no piece is cut from. Returns their bytes.
    pub(crate) fn trim(&self) -> u64 {
        let unused: Vec<Chunk> = {
            let mut chunks = self.chunks.lock();
            let (kept, unused) = std::mem::take(&mut *chunks).into_iter().partition(|chunk| chunk.pieces > 0);
            *chunks = kept;
            unused
        };
        unused.iter().map(|chunk| chunk.buffer.allocated).sum()
    }

    /// Bytes in buffers that pieces are cut from.
    pub(crate) fn bytes(&self) -> u64 {
        self.chunks.lock().iter().map(|chunk| chunk.buffer.allocated).sum()
    }
}

impl Piece {
    pub(crate) fn buffer(&self) -> vk::Buffer {
        self.buffer.buffer
    }

    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Copies from the host to the piece's begin. The device does not use it now.
    pub(crate) fn write(&self, bytes: &[u8]) {
        assert!(bytes.len() as u64 <= self.bytes, "a piece takes what it has room for");
        self.buffer.write(self.offset, bytes);
    }

    /// Copies to the host from the piece's begin. The device does not write it now.
    pub(crate) fn read(&self, bytes: &mut [u8]) {
        assert!(bytes.len() as u64 <= self.bytes, "a piece gives what it has");
        self.buffer.read(self.offset, bytes);
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        if let Some((heap, place)) = self.home.take() {
            heap.give(&self.buffer, place);
        }
    }
}
