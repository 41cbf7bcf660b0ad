//! Sources of the kernels that combine elements across a workgroup: sum, histogram, prefix sum.
//!
//! Not here: their host forms and dispatches (`sum.rs`, `histogram.rs` and `scan.rs` of the crate).

use cubecl::prelude::*;

/// Each invocation adds every `units * CUBE_COUNT`-th element; then the workgroup's sums are added as a tree.
#[cube(launch)]
pub fn sum(input: &[f32], partial: &mut [f32], #[comptime] units: usize) {
    let mut sums = Shared::<[f32]>::new_slice(units);
    let unit = UNIT_POS as usize;
    let stride = CUBE_COUNT * units;
    let mut own = 0.0f32;
    let mut at = ABSOLUTE_POS;
    while at < input.len() {
        own += input[at];
        at += stride;
    }
    sums[unit] = own;
    sync_cube();
    let mut half = comptime!(units / 2).runtime();
    while half > 0usize {
        if unit < half {
            let other = sums[unit + half];
            sums[unit] += other;
        }
        sync_cube();
        half /= 2usize;
    }
    if unit == 0usize && CUBE_POS < partial.len() {
        partial[CUBE_POS] = sums[0];
    }
}

#[cube(launch)]
pub fn histogram(values: &[u32], counts: &[Atomic<u32>]) {
    if ABSOLUTE_POS < values.len() {
        let value = values[ABSOLUTE_POS] as usize;
        if value < counts.len() {
            counts[value].fetch_add(1u32);
        }
    }
}

/// The inclusive prefix sum of each block of `units * each` elements, and the blocks' totals.
#[cube(launch)]
pub fn scan_blocks(
    input: &[u32],
    output: &mut [u32],
    totals: &mut [u32],
    #[comptime] units: usize,
    #[comptime] each: usize,
) {
    let mut sums = Shared::<[u32]>::new_slice(units);
    let unit = UNIT_POS as usize;
    let first = CUBE_POS * comptime!(units * each) + unit * each;
    let mut own = 0u32;
    for at in 0..each {
        if first + at < input.len() {
            own += input[first + at];
        }
    }
    sums[unit] = own;
    sync_cube();
    let mut reach = 1usize;
    while reach < units {
        let mut before = 0u32;
        if unit >= reach {
            before = sums[unit - reach];
        }
        sync_cube();
        sums[unit] += before;
        sync_cube();
        reach *= 2usize;
    }
    let mut running = sums[unit] - own;
    for at in 0..each {
        if first + at < input.len() {
            running += input[first + at];
            output[first + at] = running;
        }
    }
    if unit == comptime!(units - 1) && CUBE_POS < totals.len() {
        totals[CUBE_POS] = sums[unit];
    }
}

/// The exclusive prefix sum of the blocks' totals, in place, by one workgroup that goes over them in steps.
#[cube(launch)]
pub fn scan_totals(totals: &mut [u32], #[comptime] units: usize) {
    let mut sums = Shared::<[u32]>::new_slice(units);
    let unit = UNIT_POS as usize;
    let mut carry = 0u32;
    let mut start = 0usize;
    while start < totals.len() {
        let at = start + unit;
        let mut own = 0u32;
        if at < totals.len() {
            own = totals[at];
        }
        sums[unit] = own;
        sync_cube();
        let mut reach = 1usize;
        while reach < units {
            let mut before = 0u32;
            if unit >= reach {
                before = sums[unit - reach];
            }
            sync_cube();
            sums[unit] += before;
            sync_cube();
            reach *= 2usize;
        }
        if at < totals.len() {
            totals[at] = carry + sums[unit] - own;
        }
        carry += sums[comptime!(units - 1)];
        // Nobody begins the next step before everybody has read the last sum.
        sync_cube();
        start += units;
    }
}

#[cube(launch)]
pub fn scan_add(totals: &[u32], output: &mut [u32], #[comptime] block: usize) {
    if ABSOLUTE_POS < output.len() {
        output[ABSOLUTE_POS] += totals[ABSOLUTE_POS / block];
    }
}
