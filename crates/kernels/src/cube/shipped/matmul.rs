//! Source of the tiled matrix product.
//!
//! Not here: its host form and dispatch (`matmul.rs` of the crate).

use cubecl::prelude::*;

/// `c = a b` for row-major `a` of m x k, `b` of k x n. Each workgroup makes one tile of `side` x `side` elements, and
/// goes along k in tiles that it keeps in shared memory.
#[cube(launch)]
pub fn matmul(a: &[f32], b: &[f32], c: &mut [f32], m: u32, k: u32, n: u32, #[comptime] side: usize) {
    let mut tile_a = Shared::<[f32]>::new_slice(comptime!(side * side));
    let mut tile_b = Shared::<[f32]>::new_slice(comptime!(side * side));
    let m = m as usize;
    let k = k as usize;
    let n = n as usize;
    let x = UNIT_POS_X as usize;
    let y = UNIT_POS_Y as usize;
    let column = CUBE_POS_X as usize * side + x;
    let row = CUBE_POS_Y as usize * side + y;
    let mut sum = 0.0f32;
    let mut start = 0usize;
    while start < k {
        let mut from_a = 0.0f32;
        if row < m && start + x < k {
            from_a = a[row * k + start + x];
        }
        let mut from_b = 0.0f32;
        if start + y < k && column < n {
            from_b = b[(start + y) * n + column];
        }
        tile_a[y * side + x] = from_a;
        tile_b[y * side + x] = from_b;
        sync_cube();
        for at in 0..side {
            sum += tile_a[y * side + at] * tile_b[at * side + x];
        }
        sync_cube();
        start += side;
    }
    if row < m && column < n {
        c[row * n + column] = sum;
    }
}
