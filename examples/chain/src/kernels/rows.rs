//! What the filters have in common: work on rows, split over threads, and edges.
//!
//! Not here: what is computed for a row.

use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::OnceLock;
use std::thread;

use super::CHANNELS;

/// Fewer elements than this are not worth a thread.
const SHARE: usize = 1 << 15;

/// Calls `run` with the number and the elements of every row of `target`, on as many threads as pay. Rows have `row`
/// elements; the last one may have fewer.
///
/// # Panics
/// If `row` is 0, or as `run` does.
pub fn each_row(target: &mut [f32], row: usize, run: impl Fn(usize, &mut [f32]) + Sync) {
    let threads = processors().min(target.len() / SHARE);
    each_row_on(threads, target, row, run);
}

/// As [`each_row`], on at most so many threads.
fn each_row_on(threads: usize, target: &mut [f32], row: usize, run: impl Fn(usize, &mut [f32]) + Sync) {
    assert!(row > 0, "a row has elements");
    let rows = target.len().div_ceil(row);
    let share = rows.div_ceil(threads.max(1)).max(1);
    let run_band = |(index, band): (usize, &mut [f32])| {
        for (at, line) in band.chunks_mut(row).enumerate() {
            run(index * share + at, line);
        }
    };
    // Bands are disjoint parts of the target: each thread has its own to itself.
    let mut bands = target.chunks_mut(share * row).enumerate();
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

fn processors() -> usize {
    static COUNT: OnceLock<usize> = OnceLock::new();
    *COUNT.get_or_init(|| thread::available_parallelism().map_or(1, NonZero::get))
}

/// A row with `margin` pixels of room on either side. `fill` gets the middle, of `row` elements; then the margins
/// become copies of the first and the last pixel.
pub fn with_margins(row: usize, margin: usize, fill: impl FnOnce(&mut [f32])) -> Vec<f32> {
    let side = margin * CHANNELS;
    let mut line = vec![0.0; row + 2 * side];
    fill(&mut line[side..side + row]);
    for pixel in 0..margin {
        line.copy_within(side..side + CHANNELS, pixel * CHANNELS);
        line.copy_within(side + row - CHANNELS..side + row, side + row + pixel * CHANNELS);
    }
    line
}

/// Adds `weight` times `line` to `sum`, element by element, as far as both go.
pub fn add_scaled(sum: &mut [f32], weight: f32, line: &[f32]) {
    for (sum, value) in sum.iter_mut().zip(line) {
        *sum += weight * value;
    }
}

/// Row `index` of a picture; before the first and after the last row those go on.
pub fn clamped_row(picture: &[f32], row: usize, index: isize) -> &[f32] {
    let last = picture.len() / row - 1;
    let index = usize::try_from(index).unwrap_or(0).min(last);
    &picture[index * row..][..row]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_run_once_with_its_number() {
        for threads in [0, 1, 2, 3, 7, 100] {
            for rows in 0..12 {
                let mut target = vec![0.0; rows * 5];
                each_row_on(threads, &mut target, 5, |y, row| {
                    assert_eq!(row.len(), 5);
                    row.iter_mut().for_each(|value| *value += y as f32 + 1.0);
                });
                let expected: Vec<f32> = (0..rows * 5).map(|at| (at / 5) as f32 + 1.0).collect();
                assert_eq!(target, expected, "{threads} threads, {rows} rows");
            }
        }
    }

    #[test]
    fn the_last_row_may_be_short() {
        let mut target = vec![0.0; 7];
        each_row_on(2, &mut target, 3, |y, row| row.fill((10 * y + row.len()) as f32));
        assert_eq!(target, [3.0, 3.0, 3.0, 13.0, 13.0, 13.0, 21.0]);
    }

    #[test]
    #[should_panic(expected = "row 9")]
    fn a_panic_keeps_its_message() {
        each_row_on(4, &mut [0.0; 12], 1, |y, _| assert_ne!(y, 9, "row {y}"));
    }

    #[test]
    fn margins_repeat_the_edges() {
        let line = with_margins(8, 2, |middle| {
            middle.copy_from_slice(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
        });
        let first = [1.0, 2.0, 3.0, 4.0];
        let last = [5.0, 6.0, 7.0, 8.0];
        assert_eq!(line, [first, first, first, last, last, last].concat());
    }

    #[test]
    fn rows_go_on_beyond_the_picture() {
        let picture = [1.0, 2.0, 3.0, 4.0];
        let row = |index| clamped_row(&picture, 2, index)[0];
        assert_eq!([row(-5), row(-1), row(0), row(1), row(2), row(9)], [1.0, 1.0, 1.0, 3.0, 3.0, 3.0]);
    }
}
