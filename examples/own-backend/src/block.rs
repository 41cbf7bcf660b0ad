//! Memory of the inline backend: bytes in a vector whose elements are aligned for every kernel's element type.
//!
//! Not here: who may use a block when; core sees to that.

use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;

/// Alignment of blocks and of the ranges in them.
pub const ALIGNMENT: u64 = size_of::<u128>() as u64;

/// Bytes, aligned to [`ALIGNMENT`].
#[derive(Debug)]
pub struct AlignedBytes {
    words: Vec<u128>,
    len: usize,
}

impl AlignedBytes {
    /// `len` bytes of 0.
    pub fn zeroed(len: usize) -> Self {
        AlignedBytes { words: vec![0; len.div_ceil(size_of::<u128>())], len }
    }

    /// A copy of `bytes`.
    pub fn copy_of(bytes: &[u8]) -> Self {
        let mut copy = AlignedBytes::zeroed(bytes.len());
        copy.as_mut_slice().copy_from_slice(bytes);
        copy
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.words)[..self.len]
    }

    /// The bytes, to write.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.words)[..self.len]
    }
}

/// A block. Recordings share it, so that no order of calls could make it dangle.
#[derive(Clone, Debug)]
pub struct InlineBlock(Arc<Mutex<AlignedBytes>>);

impl InlineBlock {
    /// A block of `bytes` zeroes.
    pub fn new(bytes: usize) -> Self {
        InlineBlock(Arc::new(Mutex::new(AlignedBytes::zeroed(bytes))))
    }

    /// Its size.
    pub fn bytes(&self) -> u64 {
        self.0.lock().len as u64
    }

    /// Copies a range out.
    pub fn read(&self, range: Range<usize>) -> AlignedBytes {
        AlignedBytes::copy_of(&self.0.lock().as_slice()[range])
    }

    /// Copies bytes in, from `offset` on.
    pub fn write(&self, offset: usize, bytes: &[u8]) {
        self.0.lock().as_mut_slice()[offset..offset + bytes.len()].copy_from_slice(bytes);
    }
}
