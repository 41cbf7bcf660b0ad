//! [`Heap`]: memory for the backend's own use, in pieces that are cut from large ones.
//!
//! One heap of pinned memory, through which everything between host and device goes, and one of device memory, for
//! parameters. What is given back is kept until it is trimmed, for the driver takes its time to make pinned memory, and waits
//! for the device to free it. Not here: tensors' memory, which core's pool keeps.

pub(crate) mod ffi;

use std::collections::BTreeMap;
use std::sync::Arc;

use offset_allocator::{Allocation, Allocator};
use parking_lot::Mutex;
use tenure_core::{BackendError, BackendErrorKind};

use crate::ffi::{Context, Current};
use crate::heap::ffi::Pinned;

/// What pieces are cut from.
const CHUNK_BYTES: usize = 1 << 20;

/// Larger pieces have memory of their own.
const LARGEST_PIECE: usize = CHUNK_BYTES / 4;

/// Pieces begin at multiples of it: as the driver's own allocations do.
const UNIT_BYTES: usize = 256;

/// Memory of one kind.
pub(crate) trait Memory: Send + Sync {
    /// Size in bytes.
    fn bytes(&self) -> usize;
}

impl Memory for Pinned {
    fn bytes(&self) -> usize {
        Pinned::bytes(self)
    }
}

type Make<M> = dyn Fn(&Current<'_>, usize) -> Result<M, BackendError> + Send + Sync;

/// A heap of one kind of memory.
pub(crate) struct Heap<M> {
    make: Box<Make<M>>,
    context: Arc<Context>,
    state: Mutex<State<M>>,
    /// Most bytes of large memory that is kept idle.
    keep: usize,
}

struct State<M> {
    chunks: Vec<Chunk<M>>,
    /// Large memory that nobody has, by size.
    idle: BTreeMap<usize, Vec<Arc<M>>>,
    idle_bytes: usize,
}

struct Chunk<M> {
    memory: Arc<M>,
    allocator: Allocator,
    pieces: u32,
}

/// A range that nobody else has. It goes back when it drops: by then the device has finished with it.
pub(crate) struct Piece<M: Memory> {
    memory: Arc<M>,
    offset: usize,
    bytes: usize,
    heap: Arc<Heap<M>>,
    /// Its place in a chunk; none for memory of its own.
    place: Option<Allocation>,
}

impl<M: Memory> Heap<M> {
    pub(crate) fn new(
        context: &Arc<Context>,
        keep: usize,
        make: impl Fn(&Current<'_>, usize) -> Result<M, BackendError> + Send + Sync + 'static,
    ) -> Arc<Self> {
        let state = State { chunks: Vec::new(), idle: BTreeMap::new(), idle_bytes: 0 };
        Arc::new(Heap { make: Box::new(make), context: context.clone(), state: Mutex::new(state), keep })
    }

    /// A piece of so many bytes, one at least.
    pub(crate) fn take(
        self: &Arc<Self>,
        current: &Current<'_>,
        bytes: usize,
    ) -> Result<Piece<M>, BackendError> {
        if bytes > LARGEST_PIECE {
            return self.take_large(current, bytes);
        }
        let cut = self.state.lock().chunks.iter_mut().rev().find_map(|chunk| self.cut(chunk, bytes));
        if let Some(piece) = cut {
            return Ok(piece);
        }
        let units = (CHUNK_BYTES / UNIT_BYTES) as u32;
        let allocator = Allocator::with_max_allocs(units, units + 2);
        let mut chunk = Chunk { memory: self.make(current, CHUNK_BYTES)?, allocator, pieces: 0 };
        let piece = self.cut(&mut chunk, bytes).expect("a new chunk has room for a piece");
        self.state.lock().chunks.push(chunk);
        Ok(piece)
    }

    /// New memory from the driver. Where there is none, what is kept idle goes back first (L20).
    fn make(&self, current: &Current<'_>, bytes: usize) -> Result<Arc<M>, BackendError> {
        let made = match (self.make)(current, bytes) {
            Err(error) if error.kind == BackendErrorKind::OutOfMemory && self.trim() > 0 => {
                (self.make)(current, bytes)
            }
            made => made,
        };
        made.map(Arc::new)
    }

    fn cut(self: &Arc<Self>, chunk: &mut Chunk<M>, bytes: usize) -> Option<Piece<M>> {
        let units = bytes.div_ceil(UNIT_BYTES).max(1) as u32;
        let place = chunk.allocator.allocate(units)?;
        chunk.pieces += 1;
        let offset = place.offset as usize * UNIT_BYTES;
        let (memory, heap) = (chunk.memory.clone(), self.clone());
        Some(Piece { memory, offset, bytes, heap, place: Some(place) })
    }

    fn take_large(self: &Arc<Self>, current: &Current<'_>, bytes: usize) -> Result<Piece<M>, BackendError> {
        // Sizes a quarter apart, so that what is kept serves the next one of about that size.
        let step = (bytes.next_power_of_two() / 8).max(UNIT_BYTES);
        let class = bytes.next_multiple_of(step);
        let mut state = self.state.lock();
        let kept = state.idle.get_mut(&class).and_then(Vec::pop);
        if kept.is_some() {
            state.idle_bytes -= class;
        }
        drop(state);
        let memory = match kept {
            Some(memory) => memory,
            None => self.make(current, class)?,
        };
        Ok(Piece { memory, offset: 0, bytes, heap: self.clone(), place: None })
    }

    fn give(&self, memory: Arc<M>, place: Option<Allocation>) {
        let mut state = self.state.lock();
        let Some(place) = place else {
            let class = memory.bytes();
            if state.idle_bytes + class <= self.keep {
                state.idle_bytes += class;
                state.idle.entry(class).or_default().push(memory);
            }
            // Else it goes to the driver, outside of the lock.
            drop(state);
            return;
        };
        let chunk = state.chunks.iter_mut().find(|chunk| Arc::ptr_eq(&chunk.memory, &memory));
        let chunk = chunk.expect("a chunk with pieces out is kept");
        chunk.allocator.free(place);
        chunk.pieces -= 1;
    }

    /// Gives the memory that no piece is cut from back to the driver. Returns its bytes.
    pub(crate) fn trim(&self) -> u64 {
        let (unused, idle) = {
            let mut state = self.state.lock();
            let chunks = std::mem::take(&mut state.chunks);
            let (kept, unused): (Vec<_>, Vec<_>) = chunks.into_iter().partition(|chunk| chunk.pieces > 0);
            state.chunks = kept;
            state.idle_bytes = 0;
            (unused, std::mem::take(&mut state.idle))
        };
        let chunks = unused.iter().map(|chunk| chunk.memory.bytes());
        chunks.chain(idle.values().flatten().map(|memory| memory.bytes())).sum::<usize>() as u64
    }
}

impl<M: Memory> Piece<M> {
    pub(crate) fn memory(&self) -> &M {
        &self.memory
    }

    pub(crate) fn offset(&self) -> usize {
        self.offset
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Piece<Pinned> {
    /// The address for the driver.
    pub(crate) fn address(&self) -> usize {
        self.memory.address() + self.offset
    }

    /// Copies to the piece's begin. The device does not use it now.
    pub(crate) fn write(&self, bytes: &[u8]) {
        assert!(bytes.len() <= self.bytes, "a piece takes what it has room for");
        self.memory.write(self.offset, bytes);
    }

    /// Copies from the piece's begin. The device has written it.
    pub(crate) fn read(&self, bytes: &mut [u8]) {
        assert!(bytes.len() <= self.bytes, "a piece gives what it has");
        self.memory.read(self.offset, bytes);
    }
}

impl<M: Memory> Drop for Piece<M> {
    fn drop(&mut self) {
        if self.heap.context.alive().is_err() {
            // L23: nothing is recycled; the memory is abandoned with the rest.
            return;
        }
        self.heap.give(self.memory.clone(), self.place.take());
    }
}
