//! The CUDA backend at work: the product of two matrices by the shipped kernel, which is tiled in shared memory.
//!
//! `cargo xtask bench cuda` runs it on the driver in software, which interprets the kernel: the figure says that
//! tests on it come to an end, and nothing about a device. Not here: what an evaluation costs the host (`eval.rs`).

use tenure::op;
use tenure_bench::measure::{Bench, Failure};
use tenure_bench::report::Row;
use tenure_kernels::{Matmul, MatmulSize};

/// Rows and columns of all three matrices.
const SIDE: usize = 64;

/// Most milliseconds that it may take.
const LIMIT_MS: f64 = 200.0;

/// All rows.
pub fn rows(bench: &mut Bench) -> Result<Vec<Row>, Failure> {
    let id = "cuda.matmul_64";
    let mut rows = Vec::new();
    if bench.wants(id) {
        rows.push(matmul(bench, id)?);
    }
    Ok(rows)
}

/// Evaluated again and again and waited for each time, after its result was found to be right.
fn matmul(bench: &mut Bench, id: &str) -> Result<Row, Failure> {
    let manager = tenure::open("cuda")?;
    let matmul = Matmul::compile(&manager)?;
    let [a, b] = [1, 2].map(elements);
    let scope = manager.scope("product")?;
    let (left, right) = (scope.tensor_from("a", &a)?, scope.tensor_from("b", &b)?);
    let product = scope.tensor_from("product", &[f32::NAN; SIDE * SIDE])?;
    let side = SIDE as u32;
    let size = MatmulSize { m: side, k: side, n: side };
    let sequence = scope.named("product")?;
    sequence.record(matmul.dispatch(&left, &right, &product, size)?)?;
    // By both ways: command by command, and as the graph that is timed.
    for _ in 0..2 {
        scope.evaluate([op::fill(&product, f32::NAN)])?.wait()?;
        sequence.run()?;
        check(&a, &b, &product.read()?)?;
    }
    let ns = bench.time_of(id, || (), |()| sequence.run().expect("nothing fails"))?;
    check(&a, &b, &product.read()?)?;
    let row = Row::new(id, ns / 1e6, "ms").at_most(LIMIT_MS).on(manager.info());
    scope.finish_blocking()?;
    // The driver in software says at the end what is left.
    drop((scope, left, right, product, sequence, matmul));
    manager.close()?;
    Ok(row)
}

/// Numbers from -1 to 1 that are the same in every run.
fn elements(seed: u64) -> Vec<f32> {
    let mut state = seed;
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // The high bits are the good ones; 24 of them are what a number of this width keeps.
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    std::iter::repeat_with(next).take(SIDE * SIDE).collect()
}

/// Compares with sums in double precision. Each of the `SIDE` steps may round the sum of what was added so far, which is at
/// most the sum of the products without their signs.
fn check(a: &[f32], b: &[f32], product: &[f32]) -> Result<(), Failure> {
    for (at, found) in product.iter().enumerate() {
        let (row, column) = (at / SIDE, at % SIDE);
        let terms = (0..SIDE).map(|k| f64::from(a[row * SIDE + k]) * f64::from(b[k * SIDE + column]));
        let (sum, size) = terms.fold((0.0, 0.0), |(sum, size), term| (sum + term, size + term.abs()));
        let tolerance = SIDE as f64 * f64::from(f32::EPSILON) * size;
        // Not a number is within nothing.
        let is_near = (f64::from(*found) - sum).abs() <= tolerance;
        if !is_near {
            return Err(format!(
                "element ({row}, {column}) is {found}, and should be {sum} +- {tolerance:e}"
            )
            .into());
        }
    }
    Ok(())
}
