//! Staging: buffers that the host can map, shared by all scopes, through which bytes go to the device and come back.
//!
//! An upload buffer is mapped while it is idle. It is written, unmapped, submitted, and asked to be mapped again;
//! when the reclaimer's poll says that it is, it is idle again. A read-back buffer is mapped when its submission has
//! completed, read at once, unmapped, and idle. Not here: device memory (`buffer.rs`).

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use parking_lot::Mutex;
use tenure_core::BackendError;
use wgpu::{BufferDescriptor, BufferUsages, MapMode};

use crate::device::Device;
use crate::error::driver;
use crate::timeline::Timeline;

/// Which way the bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Way {
    Up,
    Back,
}

/// The pool.
#[derive(Debug)]
pub(crate) struct Staging {
    state: Mutex<State>,
    /// Most bytes that are kept idle, and after which an upload waits for those before it.
    pub limit: u64,
}

#[derive(Debug, Default)]
struct State {
    idle: BTreeMap<(Way, u64), Vec<wgpu::Buffer>>,
    idle_bytes: u64,
    /// Upload buffers that are submitted. Kept here and not by the callback, which the buffer itself would keep.
    flying: HashMap<u64, wgpu::Buffer>,
    flying_bytes: u64,
}

/// Pieces of one transfer are this long at most, so that many fit the pool.
pub(crate) const PIECE: u64 = (8 << 20) - SLOT;
const SMALLEST: u64 = 16 << 10;
/// Ranges are mapped from multiples of 8: WebGPU's rule.
const SLOT: u64 = 16;

impl Staging {
    pub(crate) fn new(limit: u64) -> Self {
        Staging { state: Mutex::default(), limit }
    }

    /// Bytes of upload buffers that the device still reads.
    pub(crate) fn flying_bytes(&self) -> u64 {
        self.state.lock().flying_bytes
    }

    fn take(&self, way: Way, class: u64) -> Option<wgpu::Buffer> {
        let mut state = self.state.lock();
        let buffer = state.idle.get_mut(&(way, class))?.pop()?;
        state.idle_bytes -= class;
        Some(buffer)
    }

    fn give(&self, way: Way, buffer: wgpu::Buffer) {
        let class = buffer.size();
        let mut state = self.state.lock();
        if state.idle_bytes + class > self.limit {
            drop(state);
            drop(buffer);
            return;
        }
        state.idle_bytes += class;
        state.idle.entry((way, class)).or_default().push(buffer);
    }

    /// Drops what is idle. Returns its bytes.
    pub(crate) fn trim(&self) -> u64 {
        let mut state = self.state.lock();
        let idle = std::mem::take(&mut state.idle);
        let bytes = std::mem::take(&mut state.idle_bytes);
        drop(state);
        drop(idle);
        bytes
    }

    /// Drops everything: nothing comes back any more.
    pub(crate) fn end(&self) {
        let state = std::mem::take(&mut *self.state.lock());
        drop(state);
    }

    /// An upload buffer was submitted: it is idle again when it has been mapped.
    fn return_later(self: &Arc<Self>, id: u64, buffer: &wgpu::Buffer) {
        let bytes = buffer.size();
        {
            let mut state = self.state.lock();
            state.flying_bytes += bytes;
            state.flying.insert(id, buffer.clone());
        }
        let staging = Arc::downgrade(self);
        buffer.map_async(MapMode::Write, .., move |mapped| {
            let Some(staging) = staging.upgrade() else { return };
            let buffer = {
                let mut state = staging.state.lock();
                let Some(buffer) = state.flying.remove(&id) else { return };
                state.flying_bytes -= bytes;
                buffer
            };
            if mapped.is_ok() {
                staging.give(Way::Up, buffer);
            }
        });
    }
}

/// The upload buffers of one submission. Dropped before it is submitted, they go nowhere but to wgpu.
#[derive(Debug, Default)]
pub(crate) struct Uploads {
    buffers: Vec<wgpu::Buffer>,
    /// Bytes used of the last one.
    used: u64,
}

/// A range of a staging buffer.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    pub buffer: wgpu::Buffer,
    pub offset: u64,
}

impl Uploads {
    /// Puts bytes, at most [`PIECE`] of them, where the device can copy them from: at an offset that is `phase` more
    /// than a multiple of 4.
    pub(crate) fn put(&mut self, device: &Device, phase: u64, bytes: &[u8]) -> Result<Slot, BackendError> {
        let wanted = (phase + bytes.len() as u64).next_multiple_of(SLOT);
        let fits = self.buffers.last().is_some_and(|last| self.used + wanted <= last.size());
        if !fits {
            self.buffers.push(device.staging(Way::Up, wanted)?);
            self.used = 0;
        }
        let buffer = self.buffers.last().expect("one was pushed, or fits").clone();
        let start = self.used;
        let mut view = buffer
            .get_mapped_range_mut(start..start + wanted)
            .map_err(|error| driver("write staging", error.to_string()).with_source(error))?;
        let from = phase as usize;
        view.slice(from..from + bytes.len()).copy_from_slice(bytes);
        drop(view);
        self.used += wanted;
        Ok(Slot { buffer, offset: start + phase })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.buffers.is_empty()
    }

    /// The device may read them: called before submitting.
    pub(crate) fn unmap(&self) {
        for buffer in &self.buffers {
            buffer.unmap();
        }
    }

    /// They were submitted.
    pub(crate) fn submitted(self, device: &Device) {
        for buffer in self.buffers {
            device.staging.return_later(device.next_id(), &buffer);
        }
    }
}

/// The read-back buffers of one submission.
#[derive(Debug, Default)]
pub(crate) struct ReadBacks {
    buffers: Vec<(wgpu::Buffer, Arc<AtomicU8>)>,
    /// Bytes used of the last one.
    used: u64,
}

/// What a mapping came to; 0 while it is asked for.
const MAPPED: u8 = 1;
const FAILED: u8 = 2;

/// Where a piece of a read-back is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    buffer: usize,
    /// Of the first word.
    offset: u64,
    /// Bytes before the wanted ones.
    phase: u64,
    bytes: u64,
}

impl Piece {
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl ReadBacks {
    /// Room for `bytes`, at most [`PIECE`] of them, that begin `phase` bytes after a multiple of 4.
    pub(crate) fn room(
        &mut self,
        device: &Device,
        phase: u64,
        bytes: u64,
    ) -> Result<(Piece, Slot), BackendError> {
        let wanted = (phase + bytes).next_multiple_of(SLOT);
        let fits = self.buffers.last().is_some_and(|(last, _)| self.used + wanted <= last.size());
        if !fits {
            let buffer = device.staging(Way::Back, wanted)?;
            self.buffers.push((buffer, Arc::default()));
            self.used = 0;
        }
        let at = self.buffers.len() - 1;
        let piece = Piece { buffer: at, offset: self.used, phase, bytes };
        let slot = Slot { buffer: self.buffers[at].0.clone(), offset: self.used };
        self.used += wanted;
        Ok((piece, slot))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.buffers.is_empty()
    }

    /// They were submitted: asks for them to be mapped. The submission counts as complete when they are, which the
    /// counter says: wgpu calls back on whatever thread polls or submits, so the poll that waits for the submission may
    /// return before.
    pub(crate) fn submitted(&self, timeline: &Arc<Timeline>) -> Arc<AtomicUsize> {
        let outstanding = Arc::new(AtomicUsize::new(self.buffers.len()));
        for (buffer, state) in &self.buffers {
            let (state, timeline, left) = (state.clone(), timeline.clone(), outstanding.clone());
            buffer.map_async(MapMode::Read, .., move |mapped| {
                // Release: pairs with the load in `read`.
                state.store(if mapped.is_ok() { MAPPED } else { FAILED }, Ordering::Release);
                left.fetch_sub(1, Ordering::Release);
                timeline.mapped();
            });
        }
        outstanding
    }

    /// Copies a piece out. Its submission has completed.
    pub(crate) fn read(&self, piece: Piece, into: &mut [u8]) -> Result<(), BackendError> {
        let (buffer, state) = &self.buffers[piece.buffer];
        match state.load(Ordering::Acquire) {
            MAPPED => {}
            FAILED => return Err(driver("read back", "wgpu did not map the buffer".to_owned())),
            _ => return Err(driver("read back", "the buffer is not mapped yet".to_owned())),
        }
        let end = piece.offset + (piece.phase + piece.bytes).next_multiple_of(SLOT);
        let view = buffer
            .get_mapped_range(piece.offset..end)
            .map_err(|error| driver("read back", error.to_string()).with_source(error))?;
        let from = piece.phase as usize;
        into.copy_from_slice(&view[from..from + piece.bytes as usize]);
        Ok(())
    }

    /// Everything was read.
    pub(crate) fn end(self, staging: &Staging) {
        for (buffer, state) in self.buffers {
            if state.load(Ordering::Acquire) == MAPPED {
                buffer.unmap();
                staging.give(Way::Back, buffer);
            }
        }
    }
}

impl Device {
    /// A staging buffer of at least `bytes`; one for uploads is mapped.
    fn staging(&self, way: Way, bytes: u64) -> Result<wgpu::Buffer, BackendError> {
        let class = bytes.next_power_of_two().clamp(SMALLEST, self.limits.max_buffer);
        if let Some(buffer) = self.staging.take(way, class) {
            return Ok(buffer);
        }
        let (label, usage) = match way {
            Way::Up => ("tenure upload", BufferUsages::MAP_WRITE | BufferUsages::COPY_SRC),
            Way::Back => ("tenure read-back", BufferUsages::MAP_READ | BufferUsages::COPY_DST),
        };
        let descriptor =
            BufferDescriptor { label: Some(label), size: class, usage, mapped_at_creation: way == Way::Up };
        self.checked("allocate staging", || self.device.create_buffer(&descriptor))
    }
}
