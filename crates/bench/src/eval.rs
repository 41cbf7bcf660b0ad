//! Evaluating a sequence that does not change: what core adds to the driver's work.
//!
//! Over the null backend what is left is core alone. Beside raw Vulkan and raw wgpu (features) the same empty dispatch
//! is submitted and waited for on both sides, in pairs that take turns.

use std::hint::black_box;

use tenure::{ManagedScope, ManagedSequence, Manager, ManagerOptions, Tensor, TrimPolicy, op};
use tenure_bench::measure::{Bench, Failure};
use tenure_bench::null::NullBackend;
use tenure_bench::report::Row;

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
    Ok(rows)
}

/// Evaluates `rounds` times over the null backend, and measures nothing: for a program that counts instructions.
pub fn repeat(rounds: u64, threads: bool) -> Result<(), Failure> {
    let unchanged = Unchanged::new(threads)?;
    (0..rounds).for_each(|_| unchanged.run());
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
