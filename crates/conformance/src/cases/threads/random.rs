//! Threads, part 4: lives at random. Several threads do whatever the public interface has, on tensors and scopes of their own
//! and on tensors that go round, under every policy; some managers close in the middle of it.
//!
//! What must hold whoever comes first: each read finds what was written last, ended tensors are stale, every hook runs
//! exactly once a period, and in the end nothing is left. The bed checks the driver's side. What one thread does is in `random/worker.rs`.
//!
//! `TENURE_RANDOM_ROUNDS` asks for more rounds than a suite has time for, `TENURE_RANDOM_SEED` for others.

mod worker;

use std::sync::Arc;

use parking_lot::Mutex;
use tenure_core::{Error, Manager, ManagerOptions, Tensor, TrimPolicy};

use crate::bed::{Bed, Rig};
use crate::case::Case;
use crate::cases::hooks::support::{Count, MIB, case};
use crate::instrument::Probe;
use crate::random::Random;
use worker::Worker;

pub(super) const CASES: &[Case] = &[case(
    "threads/lives_at_random",
    &["L2", "L3", "L4", "L11", "L15", "L18", "L19", "L20"],
    lives_at_random,
)];

const THREADS: u64 = 4;
const STEPS: u64 = 150;
const ROUNDS: u64 = 6;

/// What the threads of one round share.
struct World {
    manager: Manager,
    probe: Probe,
    /// The manager closes in the middle: every call may be refused.
    closes: bool,
    /// Memory may run out.
    tight: bool,
    /// Tenure has threads of its own: a future is woken without anybody who polls.
    threads: bool,
    shared: Mutex<Vec<Tensor<u32>>>,
    hooks: Mutex<Vec<Registered>>,
}

impl World {
    /// The answer, unless it is a refusal that this round may see.
    #[track_caller]
    fn expect<T>(&self, answer: Result<T, Error>) -> Option<T> {
        match answer {
            Ok(value) => Some(value),
            Err(Error::OutOfMemory(_)) if self.tight => None,
            Err(
                Error::Closed { .. }
                | Error::Stale { .. }
                | Error::ScopeFinishing { .. }
                | Error::ScopeFinished { .. },
            ) if self.closes => None,
            Err(error) => panic!("unexpected: {error:?}"),
        }
    }
}

/// A hook, and what has to come of it.
struct Registered {
    runs: Count,
    /// The executions of its scope, and how many there were before; none for a hook that runs once.
    executions: Option<(Count, u64)>,
}

impl Registered {
    fn due(&self) -> u64 {
        self.executions.as_ref().map_or(1, |(executions, before)| executions.get() - before)
    }
}

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

fn lives_at_random(bed: &Bed) {
    let first = number("TENURE_RANDOM_SEED", 1);
    for seed in first..first + number("TENURE_RANDOM_ROUNDS", ROUNDS) {
        one_round(&bed.fresh(), seed);
    }
}

fn one_round(bed: &Bed, seed: u64) {
    let mut random = Random::new(seed);
    let trim = match random.below(4) {
        0 => TrimPolicy::OnFinish,
        1 => TrimPolicy::EveryExecution,
        2 => TrimPolicy::Watermark { high: 2 * MIB, low: MIB / 2 },
        _ => TrimPolicy::Never,
    };
    let (closes, tight, threads) = (seed.is_multiple_of(4), random.below(3) == 0, !seed.is_multiple_of(5));
    let budget = if tight { 2 * MIB } else { 1 << 40 };
    let options = ManagerOptions::builder().trim(trim).budget(budget).threads(threads).build();
    let Rig { manager, probe } = bed.open_with(options);
    let (shared, hooks) = Default::default();
    let world = Arc::new(World { manager, probe, closes, tight, threads, shared, hooks });
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let world = &world;
            scope.spawn(move || {
                let mut worker = Worker::new(world, seed * THREADS + thread + 1_000_003);
                for step in 0..STEPS {
                    if world.closes && thread == 0 && step == STEPS / 2 {
                        world.manager.close().unwrap();
                    }
                    worker.step();
                }
                worker.end();
            });
        }
    });
    world.shared.lock().clear();
    if !closes {
        world.manager.wait_idle().unwrap();
        // Abandoned scopes finish by polls where there are no threads.
        while !threads && world.manager.poll().unwrap().jobs > 0 {}
    }
    let report = world.manager.close().unwrap();
    assert_eq!(report.memory.reserved.bytes, 0, "seed {seed}: {report}");
    assert_eq!(report.memory.allocations, report.memory.frees, "seed {seed}: {report}");
    assert!(report.errors.is_empty() && world.manager.take_errors().is_empty(), "seed {seed}: {report}");
    for (at, hook) in world.hooks.lock().iter().enumerate() {
        assert_eq!(hook.runs.get(), hook.due(), "seed {seed}: hook {at}");
    }
    let problems = bed.verify();
    assert!(problems.is_empty(), "seed {seed}: {problems:?}");
}
