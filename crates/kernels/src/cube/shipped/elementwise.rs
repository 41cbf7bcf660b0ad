//! Sources of the kernels in which an invocation works on one element or pixel: fill, copy, saxpy, unsharp mask.
//!
//! Not here: their host forms and dispatches (`fill.rs`, `copy.rs`, `saxpy.rs` and `unsharp.rs` of the crate).

use cubecl::prelude::*;

#[cube(launch)]
pub fn fill(value: u32, target: &mut [u32]) {
    if ABSOLUTE_POS < target.len() {
        target[ABSOLUTE_POS] = value;
    }
}

#[cube(launch)]
pub fn copy(source: &[u32], target: &mut [u32]) {
    if ABSOLUTE_POS < target.len() {
        target[ABSOLUTE_POS] = source[ABSOLUTE_POS];
    }
}

#[cube(launch)]
pub fn saxpy(a: f32, x: &[f32], y: &mut [f32]) {
    if ABSOLUTE_POS < y.len() {
        y[ABSOLUTE_POS] += a * x[ABSOLUTE_POS];
    }
}

/// One invocation a pixel, of `channels` elements.
#[cube(launch)]
pub fn unsharp(
    original: &[f32],
    blurred: &[f32],
    target: &mut [f32],
    amount: f32,
    threshold: f32,
    channels: u32,
) {
    let channels = channels as usize;
    let first = ABSOLUTE_POS * channels;
    if first < target.len() {
        let mut applied = 0.0f32;
        for channel in 0..channels {
            let difference = original[first + channel] - blurred[first + channel];
            if difference.abs() >= threshold {
                applied = amount;
            }
        }
        for channel in 0..channels {
            let difference = original[first + channel] - blurred[first + channel];
            target[first + channel] = original[first + channel] + applied * difference;
        }
    }
}
