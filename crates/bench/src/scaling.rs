//! How work scales: with threads, beside a loop that shares nothing, and against other work, in pairs that take turns. So
//! the machine's own limits and moods cancel out.

use std::hint::black_box;
use std::sync::Barrier;
use std::time::Instant;

use crate::measure::median;

/// Runs of each kind; their median counts.
const RUNS: usize = 9;

/// Seconds that `threads` threads need for `work` each.
fn seconds(threads: usize, work: &(impl Fn() + Sync)) -> f64 {
    let start = Barrier::new(threads + 1);
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    start.wait();
                    work();
                })
            })
            .collect();
        start.wait();
        let began = Instant::now();
        for thread in running {
            thread.join().expect("the work does not panic");
        }
        began.elapsed().as_secs_f64()
    })
}

/// The work that shares nothing: arithmetic in registers.
fn spin(rounds: u64) {
    let mut value = 1_u64;
    for at in 0..rounds {
        value = black_box(value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(at));
    }
}

/// How well `threads` threads scale at `work`, as a part of how well they scale at spinning, both in one run: 1 is as
/// good as a loop that shares nothing.
pub fn relative_scaling(threads: usize, spin_rounds: u64, work: impl Fn() + Sync) -> f64 {
    let spinning = || spin(spin_rounds);
    let ratios = (0..RUNS).map(|_| {
        let own = seconds(1, &work) / seconds(threads, &work);
        let independent = seconds(1, &spinning) / seconds(threads, &spinning);
        own / independent
    });
    median(ratios.collect())
}

/// Pairs of [`paired`]; their medians count. Many short ones: where other programs want the processors too, most are still
/// not interrupted.
const PAIRS: u64 = 301;

/// What two kinds of work took, in pairs that took turns.
#[derive(Clone, Copy, Debug)]
pub struct Paired {
    /// Median nanoseconds a round of the one.
    pub own: f64,
    /// Median nanoseconds a round of the other.
    pub other: f64,
    /// Median of what the one took as a part of what the other took, pair by pair.
    pub ratio: f64,
}

/// Times `rounds` of `work` and `rounds` of `other`, in pairs that take turns. Rounds are few: at most a millisecond of them.
pub fn paired(rounds: u64, work: impl FnMut(), other: impl FnMut()) -> Paired {
    pairs(PAIRS, rounds, work, other)
}

/// Times `count` pairs of `rounds` of `work` and `rounds` of `other`.
pub fn pairs(count: u64, rounds: u64, work: impl FnMut(), other: impl FnMut()) -> Paired {
    let mut pairs = Pairs::default();
    pairs.time(count, rounds, work, other);
    pairs.medians()
}

/// Pairs that are timed bit by bit: where both sides are made anew in between, such as devices whose threads the system puts
/// now on one processor and now on another.
#[derive(Clone, Debug, Default)]
pub struct Pairs {
    times: Vec<(f64, f64)>,
}

impl Pairs {
    /// Times `count` pairs more of `rounds` of `work` and `rounds` of `other`.
    pub fn time(&mut self, count: u64, rounds: u64, mut work: impl FnMut(), mut other: impl FnMut()) {
        let time = |run: &mut dyn FnMut()| {
            let start = Instant::now();
            (0..rounds).for_each(|_| run());
            start.elapsed().as_nanos() as f64 / rounds as f64
        };
        for pair in 0..count {
            // Each goes first as often as the other.
            if pair % 2 == 0 {
                let own = time(&mut work);
                self.times.push((own, time(&mut other)));
            } else {
                let others = time(&mut other);
                self.times.push((time(&mut work), others));
            }
        }
    }

    /// Medians of all.
    pub fn medians(&self) -> Paired {
        Paired {
            own: median(self.times.iter().map(|(own, _)| *own).collect()),
            other: median(self.times.iter().map(|(_, other)| *other).collect()),
            ratio: median(self.times.iter().map(|(own, other)| own / other).collect()),
        }
    }
}

/// What `rounds` of `work` take, as a part of what `rounds` of `other` take.
pub fn paired_ratio(rounds: u64, work: impl FnMut(), other: impl FnMut()) -> f64 {
    paired(rounds, work, other).ratio
}
