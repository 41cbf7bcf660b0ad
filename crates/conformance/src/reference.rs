//! What kernels should compute, written as naively as can be and in `f64`: sums over everything, no tiles, no passes.
//! Also made-up inputs, and how near a result has to be.
//!
//! Not here: kernels. Nothing here shares code with one.

/// So many numbers from -1 to 1 that look random and are the same everywhere: a linear congruential generator.
pub fn values(seed: u32, count: usize) -> Vec<f32> {
    whole(seed, count, 1 << 20).into_iter().map(|n| n as f32 / (1 << 19) as f32 - 1.0).collect()
}

/// The same as whole numbers from 0 to `below - 1`.
pub fn whole(seed: u32, count: usize, below: u32) -> Vec<u32> {
    let mut state = u64::from(seed).wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(1);
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) % u64::from(below)) as u32
    };
    (0..count).map(|_| next()).collect()
}

/// Asserts that `actual` is `expected`, each element with an error of at most `tolerance`.
///
/// # Panics
/// If it is not.
#[track_caller]
pub fn assert_near(what: &str, actual: &[f32], expected: &[f64], tolerance: f64) {
    assert_eq!(actual.len(), expected.len(), "{what}: number of elements");
    for (at, (actual, expected)) in actual.iter().zip(expected).enumerate() {
        let error = (f64::from(*actual) - expected).abs();
        assert!(error <= tolerance, "{what}: element {at} is {actual} instead of {expected}");
    }
}

/// `a x + y`.
pub fn saxpy(a: f32, x: &[f32], y: &[f32]) -> Vec<f64> {
    x.iter().zip(y).map(|(x, y)| f64::from(a) * f64::from(*x) + f64::from(*y)).collect()
}

/// The sum.
pub fn sum(input: &[f32]) -> f64 {
    input.iter().map(|value| f64::from(*value)).sum()
}

/// Running sums, wrapping.
pub fn prefix_sum(input: &[u32]) -> Vec<u32> {
    let mut running = 0_u32;
    let mut add = |value: &u32| {
        running = running.wrapping_add(*value);
        running
    };
    input.iter().map(&mut add).collect()
}

/// How often each number below `bins` is there.
pub fn histogram(values: &[u32], bins: usize) -> Vec<u32> {
    (0..bins).map(|bin| values.iter().filter(|value| **value as usize == bin).count() as u32).collect()
}

/// The product of `a` (m x k) and `b` (k x n), row-major.
pub fn matmul(a: &[f32], b: &[f32], [m, k, n]: [usize; 3]) -> Vec<f64> {
    let element = |row: usize, column: usize| -> f64 {
        (0..k).map(|at| f64::from(a[row * k + at]) * f64::from(b[at * n + column])).sum()
    };
    (0..m * n).map(|at| element(at / n, at % n)).collect()
}

/// A picture: elements, and width, height, channels.
#[derive(Clone, Copy, Debug)]
pub struct Picture<'a> {
    /// The elements, rows of pixels of channels.
    pub elements: &'a [f32],
    /// Pixels in a row, rows, elements in a pixel.
    pub size: [usize; 3],
}

impl Picture<'_> {
    /// An element; before and after the edges these go on.
    fn at(&self, x: i64, y: i64, channel: usize) -> f64 {
        let [width, height, channels] = self.size;
        let x = x.clamp(0, width as i64 - 1) as usize;
        let y = y.clamp(0, height as i64 - 1) as usize;
        f64::from(self.elements[(y * width + x) * channels + channel])
    }

    /// The elements of a picture of another size, each made of its place.
    fn make([width, height, channels]: [usize; 3], element: impl Fn(i64, i64, usize) -> f64) -> Vec<f64> {
        let places = (0..height).flat_map(|y| (0..width).map(move |x| (x as i64, y as i64)));
        places
            .flat_map(|(x, y)| (0..channels).map(move |c| (x, y, c)))
            .map(|(x, y, c)| element(x, y, c))
            .collect()
    }

    /// Cubic convolution to `width` x `height`, by the definition: the sum over all source pixels within two.
    pub fn resize(&self, width: usize, height: usize) -> Vec<f64> {
        let [source_width, source_height, channels] = self.size;
        let place = |target: i64, source: usize, length: usize| {
            (target as f64 + 0.5) * source as f64 / length as f64 - 0.5
        };
        Picture::make([width, height, channels], |x, y, channel| {
            let (x, y) = (place(x, source_width, width), place(y, source_height, height));
            let mut sum = 0.0;
            for row in (y - 2.0).ceil() as i64..=(y + 2.0).floor() as i64 {
                for column in (x - 2.0).ceil() as i64..=(x + 2.0).floor() as i64 {
                    let weight = keys((x - column as f64).abs()) * keys((y - row as f64).abs());
                    sum += weight * self.at(column, row, channel);
                }
            }
            sum
        })
    }

    /// Weighted sums of neighbours along rows, or along columns.
    pub fn blur(&self, weights: &[f32], along_rows: bool) -> Vec<f64> {
        let radius = weights.len() as i64 / 2;
        Picture::make(self.size, |x, y, channel| {
            let neighbour = |step: i64| {
                if along_rows { self.at(x + step, y, channel) } else { self.at(x, y + step, channel) }
            };
            (-radius..).zip(weights).map(|(step, weight)| f64::from(*weight) * neighbour(step)).sum()
        })
    }

    /// `amount` times the difference to `blurred` is added to pixels that differ by `threshold` in a channel.
    pub fn unsharp(&self, blurred: &[f32], amount: f32, threshold: f32) -> Vec<f64> {
        let channels = self.size[2];
        let blurred = Picture { elements: blurred, size: self.size };
        Picture::make(self.size, |x, y, channel| {
            let difference = |channel| self.at(x, y, channel) - blurred.at(x, y, channel);
            let sharpened = (0..channels).any(|channel| difference(channel).abs() >= f64::from(threshold));
            let amount = if sharpened { f64::from(amount) } else { 0.0 };
            self.at(x, y, channel) + amount * difference(channel)
        })
    }
}

/// The kernel of cubic convolution with the parameter -1/2, as its author writes it.
fn keys(s: f64) -> f64 {
    let a = -0.5;
    match s {
        s if s < 1.0 => (a + 2.0) * s.powi(3) - (a + 3.0) * s.powi(2) + 1.0,
        s if s < 2.0 => a * s.powi(3) - 5.0 * a * s.powi(2) + 8.0 * a * s - 4.0 * a,
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_spread_and_repeatable() {
        let numbers = values(7, 1000);
        assert_eq!(numbers, values(7, 1000));
        assert_ne!(numbers, values(8, 1000));
        assert!(numbers.iter().all(|value| (-1.0..1.0).contains(value)));
        assert!(numbers.iter().any(|value| *value < -0.9) && numbers.iter().any(|value| *value > 0.9));
        assert!(whole(1, 1000, 10).iter().all(|value| *value < 10));
    }

    #[test]
    fn references_are_as_calculated_by_hand() {
        assert_eq!(saxpy(2.0, &[1.0, 2.0], &[3.0, 4.0]), [5.0, 8.0]);
        assert_eq!(sum(&[0.5, 0.25]), 0.75);
        assert_eq!(prefix_sum(&[1, u32::MAX, 3]), [1, 0, 3]);
        assert_eq!(histogram(&[0, 2, 2, 5], 3), [1, 0, 2]);
        assert_eq!(matmul(&[1.0, 2.0, 3.0, 4.0], &[5.0, 6.0], [2, 2, 1]), [17.0, 39.0]);
        let row = Picture { elements: &[0.0, 0.0, 128.0, 0.0, 0.0], size: [5, 1, 1] };
        assert_eq!(row.resize(10, 1), [0.0, -3.0, -9.0, 29.0, 111.0, 111.0, 29.0, -9.0, -3.0, 0.0]);
        assert_eq!(row.blur(&[0.25, 0.5, 0.25], true), [0.0, 32.0, 64.0, 32.0, 0.0]);
        assert_eq!(row.blur(&[0.25, 0.5, 0.25], false), [0.0, 0.0, 128.0, 0.0, 0.0]);
        let pair = Picture { elements: &[0.5, 0.5, 0.25, 0.25], size: [2, 1, 2] };
        assert_eq!(pair.unsharp(&[0.25, 0.5, 0.25, 0.125], 2.0, 0.25), [1.0, 0.5, 0.25, 0.25]);
    }
}
