//! Evaluating a sequence that does not change: what core adds to the driver's work.
//!
//! Over the null backend what is left is core alone. Beside raw Vulkan and raw wgpu (features) the same empty dispatch
//! is submitted and waited for on both sides, in pairs that take turns, on devices that are opened again and again: a
//! driver in software has threads, and on which processor each runs decides more than what is compared.

use std::hint::black_box;

use tenure::{ManagedScope, ManagedSequence, Manager, ManagerOptions, Tensor, TrimPolicy, op};
use tenure_bench::measure::{Bench, Failure};
use tenure_bench::null::NullBackend;
use tenure_bench::report::Row;
#[cfg(any(feature = "vulkan", feature = "wgpu"))]
use tenure_bench::scaling::Pairs;

/// All rows.
pub fn rows(bench: &mut Bench) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for (id, threads) in [("eval.core_overhead", true), ("eval.core_overhead_without_threads", false)] {
        if bench.wants(id) {
            let unchanged = Unchanged::new(threads)?;
            let value = bench.time(id, || unchanged.run())?;
            rows.push(Row::new(id, value, "ns").at_most(500.0));
        }
    }
    #[cfg(feature = "vulkan")]
    beside_raw_vulkan(bench, &mut rows)?;
    #[cfg(feature = "wgpu")]
    beside_raw_wgpu(bench, &mut rows)?;
    Ok(rows)
}

/// Evaluates `rounds` times over the null backend, and measures nothing: for a program that counts instructions.
pub fn repeat(rounds: u64, threads: bool) -> Result<(), Failure> {
    let unchanged = Unchanged::new(threads)?;
    (0..rounds).for_each(|_| unchanged.run());
    Ok(())
}

/// How often both sides are opened.
#[cfg(any(feature = "vulkan", feature = "wgpu"))]
const OPENINGS: u64 = 25;

/// Pairs on each opening.
#[cfg(any(feature = "vulkan", feature = "wgpu"))]
const PAIRS: u64 = 41;

/// Evaluations of each side between two looks at the clock.
#[cfg(any(feature = "vulkan", feature = "wgpu"))]
const ROUNDS: u64 = 20;

/// The two rows of one comparison, in microseconds and as a part.
#[cfg(any(feature = "vulkan", feature = "wgpu"))]
fn compare(rows: &mut Vec<Row>, (id, of): (&str, &str), device: &str, pairs: &Pairs) {
    let pair = pairs.medians();
    let us = |ns: f64| ns / 1_000.0;
    rows.push(
        Row::new(format!("{id}_us"), us(pair.own), "us").against(format!("{of} on {device}"), us(pair.other)),
    );
    rows.push(Row::part(id, pair.ratio, format!("{of} on {device}")).at_most(1.10));
}

/// The empty program: one buffer bound, one workgroup, nothing done.
#[cfg(any(feature = "vulkan", feature = "wgpu"))]
const EMPTY: &str = "
    @group(0) @binding(0) var<storage, read_write> data: array<u32>;
    @compute @workgroup_size(1) fn main() { let keep = arrayLength(&data); }";

/// A sequence with one empty dispatch.
#[cfg(any(feature = "vulkan", feature = "wgpu"))]
fn empty_dispatch(
    manager: &Manager,
    source: &tenure::KernelSource,
) -> Result<(ManagedScope, ManagedSequence), Failure> {
    let kernel = manager.kernel(source)?;
    let scope = manager.scope("scope")?;
    let tensor = scope.tensor::<u32>(64)?;
    let sequence = scope.named("empty")?;
    sequence.record(op::dispatch(&kernel).bind(&tensor))?;
    Ok((scope, sequence))
}

#[cfg(feature = "vulkan")]
fn beside_raw_vulkan(bench: &Bench, rows: &mut Vec<Row>) -> Result<(), Failure> {
    use crate::raw_vulkan::{Raw, Step, spirv, tenure_kernel};
    if !bench.wants("eval.vulkan_vs_raw") {
        return Ok(());
    }
    let words = spirv(EMPTY)?;
    let source = tenure_kernel("empty", &[tenure::Access::ReadWrite], &words);
    let (mut pairs, mut device) = (Pairs::default(), String::new());
    for _ in 0..bench.scaled(OPENINGS) {
        let manager = tenure::open("vulkan")?;
        device.clone_from(&manager.info().device);
        let (scope, sequence) = empty_dispatch(&manager, &source)?;
        let mut raw = Raw::open(&device)?;
        let (buffer, program) = (raw.buffer(256)?, raw.program(&words, 1)?);
        let step = Step::Dispatch { program, buffers: vec![buffer], groups: 1 };
        let commands = raw.record(&[step])?;
        pairs.time(
            PAIRS,
            ROUNDS,
            || sequence.run().expect("nothing fails"),
            || {
                let value = raw.submit(&[commands]).expect("the device is there");
                raw.wait(value).expect("the device is there");
            },
        );
        drop((scope, sequence));
        manager.close()?;
    }
    compare(rows, ("eval.vulkan_vs_raw", "raw ash"), &device, &pairs);
    Ok(())
}

#[cfg(feature = "wgpu")]
fn beside_raw_wgpu(bench: &Bench, rows: &mut Vec<Row>) -> Result<(), Failure> {
    use crate::raw_wgpu::Raw;
    if !bench.wants("eval.wgpu_vs_raw") {
        return Ok(());
    }
    let source = tenure::KernelSource::new("empty", &[tenure::Access::ReadWrite]).wgsl(EMPTY, "main");
    let (mut pairs, mut device) = (Pairs::default(), String::new());
    for _ in 0..bench.scaled(OPENINGS) {
        let manager = tenure::open("wgpu")?;
        let (scope, sequence) = empty_dispatch(&manager, &source)?;
        let raw = Raw::open(EMPTY)?;
        device.clone_from(&raw.name);
        pairs.time(PAIRS, ROUNDS, || sequence.run().expect("nothing fails"), || raw.run());
        drop((scope, sequence));
        manager.close()?;
    }
    compare(rows, ("eval.wgpu_vs_raw", "raw wgpu"), &device, &pairs);
    Ok(())
}

/// A sequence with one tensor over the null backend.
struct Unchanged {
    sequence: ManagedSequence,
    _scope: ManagedScope,
    _tensor: Tensor<u32>,
    _manager: Manager,
}

impl Unchanged {
    fn new(threads: bool) -> Result<Self, Failure> {
        let options = ManagerOptions::builder().trim(TrimPolicy::Never).threads(threads).build();
        let manager = Manager::open_with(NullBackend::new(), options)?;
        let scope = manager.scope("scope")?;
        let tensor = scope.tensor::<u32>(64)?;
        let sequence = scope.named("unchanged")?;
        sequence.record(op::fill(&tensor, 1))?;
        Ok(Unchanged { sequence, _scope: scope, _tensor: tensor, _manager: manager })
    }

    /// Evaluates and retires.
    fn run(&self) {
        black_box(&self.sequence).run().expect("nothing fails");
    }
}
