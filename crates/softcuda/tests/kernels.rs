//! Kernels as compilers make them, against plain references.
//!
//! Not here: single instructions. The texts in `ptx/` are what clang 19 makes of the CUDA C++ in
//! `crates/kernels/generated` (`-x cuda --cuda-device-only --cuda-gpu-arch=sm_80 -nocudainc -nocudalib -O2 -S`, with
//! a header that gives `__global__` and the like).

mod common;

use common::{BASE, Flat, module, parameters};
use softcuda::execute::{Launch, run};

const SAXPY: &str = include_str!("ptx/saxpy.ptx");
const SUM: &str = include_str!("ptx/sum.ptx");
const MATMUL: &str = include_str!("ptx/matmul.ptx");

fn values(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed;
    let next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 24) as f32 - 0.5
    };
    std::iter::repeat_with(next).take(count).collect()
}

/// The info buffer of a generated kernel: scalars, then lengths.
fn info(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

#[test]
fn matmul_gives_the_product() {
    for (m, k, n) in [(64, 64, 64), (17, 5, 33), (1, 1, 1), (16, 0, 16)] {
        let module = module(MATMUL);
        let kernel = module.kernel("matmul").unwrap();
        assert_eq!(kernel.parameters().len(), 4);
        assert_eq!(kernel.max_threads(), Some(256));
        let (a, b) = (values(m * k, 1), values(k * n, 2));
        let memory = Flat::new(1 << 16);
        let (at_a, at_b, at_c, at_info) = (0, 1 << 14, 1 << 15, 3 << 14);
        memory.write_floats(at_a, &a);
        memory.write_floats(at_b, &b);
        let sizes = [m, k, n, 0, m * k, k * n, m * n, 0].map(|size| size as u32);
        memory.write(at_info, &info(&sizes));
        let parameters = parameters(&[at_a, at_b, at_c, at_info].map(|at| BASE + at as u64));
        let grid = [(n as u32).div_ceil(16), (m as u32).div_ceil(16), 1];
        let launch = Launch { grid, block: [16, 16, 1], dynamic_shared_bytes: 2048, parameters: &parameters };
        run(kernel, &launch, &memory).unwrap();
        let c = memory.floats(at_c, m * n);
        for row in 0..m {
            for column in 0..n {
                let sum = (0..k).fold(0.0_f32, |sum, l| a[row * k + l].mul_add(b[l * n + column], sum));
                assert_eq!(c[row * n + column].to_bits(), sum.to_bits(), "at {row}, {column} of {m}x{k}x{n}");
            }
        }
    }
}

#[test]
fn saxpy_adds_to_what_is_there() {
    for count in [1, 255, 256, 1000] {
        let (x, y) = (values(count, 3), values(count, 4));
        let memory = Flat::new(1 << 14);
        let (at_x, at_y, at_info) = (0, 1 << 12, 1 << 13);
        memory.write_floats(at_x, &x);
        memory.write_floats(at_y, &y);
        memory.write(at_info, &info(&[2.5_f32.to_bits(), 0, count as u32, count as u32]));
        let parameters = parameters(&[at_x, at_y, at_info].map(|at| BASE + at as u64));
        let grid = [(count as u32).div_ceil(256), 1, 1];
        let launch = Launch { grid, block: [256, 1, 1], dynamic_shared_bytes: 0, parameters: &parameters };
        run(module(SAXPY).kernel("saxpy").unwrap(), &launch, &memory).unwrap();
        let expected: Vec<f32> = x.iter().zip(&y).map(|(x, y)| 2.5_f32.mul_add(*x, *y)).collect();
        assert_eq!(memory.floats(at_y, count), expected);
    }
}

/// The additions of a block in the order of the kernel: each thread its own, then halves onto halves.
fn sum_of_block(input: &[f32], block: usize, blocks: usize) -> f32 {
    let mut sums = [0.0_f32; 256];
    for row in input.chunks(256).skip(block).step_by(blocks) {
        for (sum, value) in sums.iter_mut().zip(row) {
            *sum += value;
        }
    }
    let mut half = 128;
    while half > 0 {
        for thread in 0..half {
            sums[thread] += sums[thread + half];
        }
        half /= 2;
    }
    sums[0]
}

#[test]
fn sum_adds_as_a_tree() {
    for (count, blocks) in [(1, 1), (256, 1), (5000, 3), (2048, 8)] {
        let input = values(count, 5);
        let memory = Flat::new(1 << 16);
        let (at_partial, at_info) = (3 << 14, 7 << 13);
        memory.write_floats(0, &input);
        memory.write(at_info, &info(&[count as u32, blocks as u32]));
        let parameters = parameters(&[0, at_partial, at_info].map(|at| BASE + at as u64));
        let launch = Launch {
            grid: [blocks as u32, 1, 1],
            block: [256, 1, 1],
            dynamic_shared_bytes: 1024,
            parameters: &parameters,
        };
        run(module(SUM).kernel("sum").unwrap(), &launch, &memory).unwrap();
        let expected: Vec<f32> = (0..blocks).map(|block| sum_of_block(&input, block, blocks)).collect();
        assert_eq!(memory.floats(at_partial, blocks), expected);
    }
}
