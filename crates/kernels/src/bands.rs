//! What the host forms of the picture kernels have in common: work split over threads, and adding up lines.
//!
//! Not here: what is computed.

use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::OnceLock;
use std::thread;

/// Fewer elements than this are not worth a thread.
const SHARE: usize = 1 << 15;

/// Splits `target` into bands of whole units, of `unit` elements each, and calls `run` with each band's first unit and its
/// elements, on as many threads as pay.
///
/// # Panics
/// If `unit` is 0 and the target is not empty, or as `run` does.
pub(crate) fn in_bands(target: &mut [f32], unit: usize, run: impl Fn(usize, &mut [f32]) + Sync) {
    static PROCESSORS: OnceLock<usize> = OnceLock::new();
    let processors = *PROCESSORS.get_or_init(|| thread::available_parallelism().map_or(1, NonZero::get));
    let threads = processors.min(target.len() / SHARE);
    in_bands_on(threads, target, unit, run);
}

/// As [`in_bands`], on at most so many threads.
fn in_bands_on(threads: usize, target: &mut [f32], unit: usize, run: impl Fn(usize, &mut [f32]) + Sync) {
    if target.is_empty() {
        return;
    }
    let share = target.len().div_ceil(unit).div_ceil(threads.max(1));
    // Bands are disjoint parts of the target: each thread has its own to itself.
    let mut bands = target.chunks_mut(share * unit).enumerate();
    let run_band = |(index, band): (usize, &mut [f32])| run(index * share, band);
    let Some(first) = bands.next() else { return };
    let run_band = &run_band;
    thread::scope(|scope| {
        let others: Vec<_> = bands.map(|band| scope.spawn(move || run_band(band))).collect();
        run_band(first);
        for other in others {
            // The panic itself, so that the execution fails with its message.
            other.join().unwrap_or_else(|panic| resume_unwind(panic));
        }
    });
}

/// Adds `weight` times `line` to `sum`, element by element, as far as both go.
pub(crate) fn add_scaled(sum: &mut [f32], weight: f32, line: &[f32]) {
    for (sum, value) in sum.iter_mut().zip(line) {
        *sum += weight * value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_is_run_once_with_its_number() {
        for threads in [0, 1, 2, 3, 7, 100] {
            for units in 0..12 {
                let mut target = vec![0.0; units * 5];
                in_bands_on(threads, &mut target, 5, |first, band| {
                    for (at, unit) in band.chunks_mut(5).enumerate() {
                        assert_eq!(unit.len(), 5);
                        unit.iter_mut().for_each(|value| *value += (first + at) as f32 + 1.0);
                    }
                });
                let expected: Vec<f32> = (0..units * 5).map(|at| (at / 5) as f32 + 1.0).collect();
                assert_eq!(target, expected, "{threads} threads, {units} units");
            }
        }
    }

    #[test]
    fn the_last_unit_may_be_short() {
        let mut target = vec![0.0; 7];
        in_bands_on(3, &mut target, 3, |first, unit| unit.fill((10 * first + unit.len()) as f32));
        assert_eq!(target, [3.0, 3.0, 3.0, 13.0, 13.0, 13.0, 21.0]);
    }

    #[test]
    #[should_panic(expected = "unit 9")]
    fn a_panic_keeps_its_message() {
        in_bands_on(4, &mut [0.0; 12], 1, |first, band| {
            assert!(!(first..first + band.len()).contains(&9), "unit 9");
        });
    }
}
