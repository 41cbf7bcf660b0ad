//! The shape of Kompute's own benchmark, on Vulkan: 10 sequences of 10 operations each on vectors of 102,400 elements,
//! all sequences submitted before the first is waited for.
//!
//! As Kompute has it, all operations add to one vector, so each has to come after the one before: ours and the raw
//! program have barriers there, and the sums are checked. (Kompute has none between its operations; on a device that
//! overlaps them its sums are wrong.) A second row gives each sequence a vector of its own, so that sequences are
//! independent. Not here: Kompute itself, which no program of this workspace links.

use std::time::Instant;

use tenure::{Access, ManagedScope, ManagedSequence, Manager, Tensor, op};
use tenure_bench::measure::{Bench, Failure};
use tenure_bench::report::Row;
use tenure_bench::scaling::pairs;

use crate::raw_vulkan::{Buffer, Commands, Raw, Step, spirv, tenure_kernel};

const SEQUENCES: usize = 10;
const OPERATIONS: usize = 10;
const ELEMENTS: usize = 102_400;
/// Elements of a workgroup, which is one invocation.
const OF_A_GROUP: usize = 4;
const ITERATIONS: u64 = 20;
/// What one operation adds to each element.
const STEP: f32 = 2.0;

const PROGRAM: &str = "
    @group(0) @binding(0) var<storage, read> a: array<f32>;
    @group(0) @binding(1) var<storage, read> b: array<i32>;
    @group(0) @binding(2) var<storage, read_write> sum: array<f32>;
    @compute @workgroup_size(1) fn main(@builtin(workgroup_id) group: vec3<u32>) {
        let first = group.x * 4u;
        let length = min(arrayLength(&sum), min(arrayLength(&a), arrayLength(&b)));
        for (var at = first; at < min(first + 4u, length); at++) {
            sum[at] += a[at] + f32(b[at]);
        }
    }";

/// All rows.
pub fn rows(bench: &mut Bench) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for (id, sums) in [("kompute.shape", 1), ("kompute.shape_independent", SEQUENCES)] {
        if bench.wants(id) {
            rows.push(shape(bench, id, sums)?);
        }
    }
    Ok(rows)
}

/// One row: the sequences take turns at `sums` vectors.
fn shape(bench: &Bench, id: &'static str, sums: usize) -> Result<Row, Failure> {
    let words = spirv(PROGRAM)?;
    let manager = tenure::open("vulkan")?;
    let own = Own::new(&manager, &words, sums)?;
    let mut by_hand = ByHand::new(&manager.info().device, &words, sums)?;
    let iterations = bench.scaled(ITERATIONS);
    let begun = Instant::now();
    let mut done = 0;
    let pair = pairs(
        iterations,
        1,
        || own.iteration(),
        || {
            by_hand.iteration();
            done += 1;
            eprintln!("{id}: {done} of {iterations} pairs after {:.1?}", begun.elapsed());
        },
    );
    let operations = iterations as usize * SEQUENCES * OPERATIONS / sums;
    let expected = operations as f32 * STEP;
    own.check(expected)?;
    by_hand.check(expected)?;
    drop(own);
    manager.close()?;
    let ms = |ns: f64| ns / 1e6;
    let of = format!("raw ash on {}", by_hand.raw.name);
    Ok(Row::new(id, ms(pair.own), "ms").against(of, ms(pair.other)).ratio_at_most(1.10))
}

/// Tenure's side.
struct Own {
    _scope: ManagedScope,
    sequences: Vec<ManagedSequence>,
    sums: Vec<Tensor<f32>>,
}

impl Own {
    fn new(manager: &Manager, words: &[u32], sums: usize) -> Result<Self, Failure> {
        let access = [Access::Read, Access::Read, Access::ReadWrite];
        let kernel = manager.kernel(&tenure_kernel("add", &access, words))?;
        let scope = manager.scope("benchmark")?;
        let a = scope.tensor_from("a", &vec![1.0_f32; ELEMENTS])?;
        let b = scope.tensor_from("b", &vec![1_i32; ELEMENTS])?;
        let sums = (0..sums).map(|_| scope.tensor_from("sum", &vec![0.0_f32; ELEMENTS]));
        let sums: Vec<Tensor<f32>> = sums.collect::<Result<_, _>>()?;
        let mut sequences = Vec::new();
        for at in 0..SEQUENCES {
            let sequence = scope.sequence()?;
            for _ in 0..OPERATIONS {
                let add = op::dispatch(&kernel).bind(&a).bind(&b).bind(&sums[at % sums.len()]);
                sequence.record(add.groups([(ELEMENTS / OF_A_GROUP) as u32, 1, 1]))?;
            }
            sequences.push(sequence);
        }
        Ok(Own { _scope: scope, sequences, sums })
    }

    fn iteration(&self) {
        let running: Vec<_> =
            self.sequences.iter().map(|sequence| sequence.evaluate().expect("nothing fails")).collect();
        for execution in running {
            execution.wait().expect("nothing fails");
        }
    }

    fn check(&self, expected: f32) -> Result<(), Failure> {
        for sum in &self.sums {
            check("tenure", &sum.read()?, expected)?;
        }
        Ok(())
    }
}

/// The same by hand: a barrier before each operation that adds to what the one before wrote, and one submission for all.
struct ByHand {
    raw: Raw,
    commands: Vec<Commands>,
    sums: Vec<Buffer>,
}

impl ByHand {
    fn new(device: &str, words: &[u32], sums: usize) -> Result<Self, Failure> {
        let mut raw = Raw::open(device)?;
        let program = raw.program(words, 3)?;
        let bytes = ELEMENTS as u64 * 4;
        let (a, b) = (raw.buffer(bytes)?, raw.buffer(bytes)?);
        let sums: Vec<Buffer> = (0..sums).map(|_| raw.buffer(bytes)).collect::<Result<_, _>>()?;
        let mut fills =
            vec![Step::Fill { buffer: a, word: 1.0_f32.to_bits() }, Step::Fill { buffer: b, word: 1 }];
        fills.extend(sums.iter().map(|sum| Step::Fill { buffer: *sum, word: 0 }));
        let fills = raw.record(&fills)?;
        let value = raw.submit(&[fills])?;
        raw.wait(value)?;

        // With vectors of their own, operation n of all sequences may overlap: a layer at a time, a barrier between.
        let layers = sums.len();
        let mut commands = Vec::new();
        for _ in 0..SEQUENCES * OPERATIONS / layers / OPERATIONS {
            let mut steps = Vec::new();
            for _ in 0..OPERATIONS {
                steps.push(Step::Barrier);
                steps.extend(sums.iter().map(|sum| Step::Dispatch {
                    program,
                    buffers: vec![a, b, *sum],
                    groups: (ELEMENTS / OF_A_GROUP) as u32,
                }));
            }
            commands.push(raw.record(&steps)?);
        }
        Ok(ByHand { raw, commands, sums })
    }

    fn iteration(&mut self) {
        let value = self.raw.submit(&self.commands).expect("the device is there");
        self.raw.wait(value).expect("the device is there");
    }

    fn check(&self, expected: f32) -> Result<(), Failure> {
        for sum in &self.sums {
            let words = self.raw.read(*sum);
            let values: Vec<f32> = words.into_iter().map(f32::from_bits).collect();
            check("raw ash", &values, expected)?;
        }
        Ok(())
    }
}

fn check(side: &str, values: &[f32], expected: f32) -> Result<(), Failure> {
    match values.iter().find(|value| **value != expected) {
        None => Ok(()),
        Some(value) => Err(format!("{side}: a sum is {value}, and should be {expected}").into()),
    }
}
