//! Sources of the kernels that gather from neighbouring pixels: bicubic resize and blur.
//!
//! Not here: their host forms and dispatches (`resize.rs` and `blur.rs` of the crate).

use cubecl::prelude::*;

/// Keys' kernel with the parameter -0.5, at a distance of 0 to 2.
#[cube]
fn weight(distance: f32) -> f32 {
    let x = distance;
    let near = (1.5f32 * x - 2.5f32) * x * x + 1.0f32;
    let far = ((2.5f32 - 0.5f32 * x) * x - 4.0f32) * x + 2.0f32;
    select(x <= 1.0f32, near, far)
}

/// The position `first + tap - 2` within 0 to `length - 1`.
#[cube]
fn clamped(first: u32, tap: u32, length: u32) -> u32 {
    let from_two_before = first + tap;
    let inside = select(from_two_before < 2u32, 2u32, from_two_before) - 2u32;
    select(inside < length, inside, length - 1u32)
}

/// One invocation an element of the target. Positions are fractions of whole numbers, so that no rounding moves a tap.
#[cube(launch)]
pub fn resize(
    source: &[f32],
    target: &mut [f32],
    source_width: u32,
    source_height: u32,
    target_width: u32,
    target_height: u32,
    channels: u32,
) {
    if ABSOLUTE_POS < target.len() {
        let index = ABSOLUTE_POS as u32;
        let channel = index % channels;
        let x = index / channels % target_width;
        let y = index / channels / target_width;
        // Twice the target's length in units of which the centre of target position `i` lies at
        // `(2 i + 1) source - target` from the source's first centre. One unit length more keeps it above 0.
        let across = 2u32 * target_width;
        let down = 2u32 * target_height;
        let at_x = (2u32 * x + 1u32) * source_width + target_width;
        let at_y = (2u32 * y + 1u32) * source_height + target_height;
        let first_x = at_x / across;
        let first_y = at_y / down;
        let part_x = (at_x % across) as f32 / across as f32;
        let part_y = (at_y % down) as f32 / down as f32;
        let mut sum = 0.0f32;
        for tap_y in 0u32..4u32 {
            let row = clamped(first_y, tap_y, source_height);
            let mut line = 0.0f32;
            for tap_x in 0u32..4u32 {
                let column = clamped(first_x, tap_x, source_width);
                let at = (row * source_width + column) * channels + channel;
                line += weight((part_x + 1.0f32 - tap_x as f32).abs()) * source[at as usize];
            }
            sum += weight((part_y + 1.0f32 - tap_y as f32).abs()) * line;
        }
        target[ABSOLUTE_POS] = sum;
    }
}

/// One invocation an element. Along the blurred direction there are `extent` positions, `inner` elements apart.
#[cube(launch)]
pub fn blur(source: &[f32], weights: &[f32], target: &mut [f32], extent: u32, inner: u32) {
    if ABSOLUTE_POS < target.len() {
        let index = ABSOLUTE_POS as u32;
        let position = index / inner % extent;
        let first = index - position * inner;
        let taps = weights.len() as u32;
        let radius = taps / 2u32;
        let mut sum = 0.0f32;
        for tap in 0u32..taps {
            let ahead = position + tap;
            let inside = select(ahead < radius, radius, ahead) - radius;
            let at = select(inside < extent, inside, extent - 1u32);
            sum += weights[tap as usize] * source[(first + at * inner) as usize];
        }
        target[ABSOLUTE_POS] = sum;
    }
}
