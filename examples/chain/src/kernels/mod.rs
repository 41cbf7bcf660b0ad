//! The filters, as plain functions over RGBA values and as kernels that wrap them.
//!
//! Rows of the result are computed by several threads; each has its own rows.

pub mod bicubic;
pub mod blur;
pub mod unsharp;

use std::thread::available_parallelism;

use crate::image::CHANNELS;

/// Width and height, as a kernel's parameters.
#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Size {
    /// Pixels of a row.
    pub width: u32,
    /// Rows.
    pub height: u32,
}

impl Size {
    /// Values of a row.
    pub fn row(self) -> usize {
        self.width as usize * CHANNELS
    }
}

/// Calls `compute` with each row's number and values, on as many threads as the machine has.
pub fn for_each_row(target: &mut [f32], row: usize, compute: impl Fn(usize, &mut [f32]) + Sync) {
    if row == 0 {
        return;
    }
    let rows = target.len() / row;
    let threads = available_parallelism().map_or(1, usize::from).min(rows.max(1));
    let each = rows.div_ceil(threads).max(1);
    let compute = &compute;
    std::thread::scope(|scope| {
        for (part, values) in target.chunks_mut(each * row).enumerate() {
            scope.spawn(move || {
                for (at, values) in values.chunks_exact_mut(row).enumerate() {
                    compute(part * each + at, values);
                }
            });
        }
    });
}

/// The pixel at a position, clamped to the image's edge.
pub fn clamped(position: isize, length: u32) -> usize {
    position.clamp(0, length as isize - 1) as usize
}
