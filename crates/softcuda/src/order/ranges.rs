//! Sets of bytes, as rising ranges.
//!
//! Not here: who touched them.

/// Bytes of an allocation: ranges that rise and do not touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranges(Vec<(u64, u64)>);

impl Ranges {
    /// One range, from `start` to before `end`.
    pub fn one(start: u64, end: u64) -> Ranges {
        Ranges(if start < end { vec![(start, end)] } else { Vec::new() })
    }

    /// Ranges that rise and do not touch.
    pub fn from_rising(ranges: Vec<(u64, u64)>) -> Ranges {
        debug_assert!(ranges.windows(2).all(|pair| pair[0].1 < pair[1].0));
        Ranges(ranges)
    }

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The first range that both have bytes of.
    pub fn meet(&self, other: &Ranges) -> Option<(u64, u64)> {
        let (mut left, mut right) = (self.0.iter().peekable(), other.0.iter().peekable());
        while let (Some(one), Some(two)) = (left.peek(), right.peek()) {
            let (start, end) = (one.0.max(two.0), one.1.min(two.1));
            if start < end {
                return Some((start, end));
            }
            if one.1 <= two.1 {
                left.next()
            } else {
                right.next()
            };
        }
        None
    }

    /// Whether every byte of the other is one of these.
    pub fn contain(&self, other: &Ranges) -> bool {
        let mut mine = self.0.iter();
        let mut current = mine.next();
        other.0.iter().all(|range| {
            while current.is_some_and(|own| own.1 < range.1) {
                current = mine.next();
            }
            current.is_some_and(|own| own.0 <= range.0)
        })
    }

    /// The whole stretch, for messages.
    pub fn hull(&self) -> (u64, u64) {
        (self.0.first().map_or(0, |range| range.0), self.0.last().map_or(0, |range| range.1))
    }
}

/// Bytes that are touched one after the other, in any order: a bit each.
#[derive(Debug)]
pub struct Marks {
    bits: Vec<u64>,
    lowest: usize,
    highest: usize,
}

impl Marks {
    /// None of `bytes` bytes yet.
    pub fn new(bytes: u64) -> Marks {
        Marks { bits: vec![0; (bytes as usize).div_ceil(64)], lowest: usize::MAX, highest: 0 }
    }

    /// Touches bytes that are within.
    pub fn mark(&mut self, start: u64, count: usize) {
        let (first, end) = (start as usize, start as usize + count);
        if first == end {
            return;
        }
        self.lowest = self.lowest.min(first / 64);
        self.highest = self.highest.max((end - 1) / 64);
        let mut at = first;
        while at < end {
            let (word, bit) = (at / 64, at % 64);
            let length = (64 - bit).min(end - at);
            self.bits[word] |= (u64::MAX >> (64 - length)) << bit;
            at += length;
        }
    }

    /// Whether all of these bytes were touched.
    pub fn covers(&self, start: u64, count: usize) -> bool {
        (start as usize..start as usize + count).all(|at| self.bits[at / 64] >> (at % 64) & 1 == 1)
    }

    /// What was touched.
    pub fn ranges(&self) -> Ranges {
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        if self.lowest == usize::MAX {
            return Ranges::default();
        }
        for word in self.lowest..=self.highest {
            let mut bits = self.bits[word];
            let base = word as u64 * 64;
            let mut bit = 0;
            while bits != 0 {
                let skip = bits.trailing_zeros();
                bits >>= skip;
                let length = bits.trailing_ones();
                let start = base + u64::from(bit + skip);
                let end = start + u64::from(length);
                match ranges.last_mut() {
                    Some(last) if last.1 == start => last.1 = end,
                    _ => ranges.push((start, end)),
                }
                bit += skip + length;
                bits = if length == 64 { 0 } else { bits >> length };
            }
        }
        Ranges(ranges)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(list: &[(u64, u64)]) -> Ranges {
        Ranges::from_rising(list.to_vec())
    }

    #[test]
    fn meeting() {
        assert_eq!(Ranges::one(0, 4).meet(&Ranges::one(4, 8)), None);
        assert_eq!(Ranges::one(0, 5).meet(&Ranges::one(4, 8)), Some((4, 5)));
        assert_eq!(ranges(&[(0, 2), (8, 10)]).meet(&ranges(&[(2, 8), (9, 12)])), Some((9, 10)));
        assert_eq!(Ranges::one(3, 3).meet(&Ranges::one(0, 9)), None);
    }

    #[test]
    fn containing() {
        assert!(Ranges::one(0, 8).contain(&ranges(&[(0, 2), (4, 8)])));
        assert!(!ranges(&[(0, 2), (4, 8)]).contain(&Ranges::one(0, 8)));
        assert!(ranges(&[(0, 2), (4, 8)]).contain(&Ranges::one(5, 6)));
        assert!(!Ranges::one(0, 8).contain(&Ranges::one(7, 9)));
        assert!(Ranges::one(0, 8).contain(&Ranges::default()));
    }

    #[test]
    fn marks_become_ranges() {
        let mut marks = Marks::new(300);
        assert!(marks.ranges().is_empty());
        for start in [0, 8, 4, 60, 64, 68, 199] {
            marks.mark(start, 4);
        }
        assert_eq!(marks.ranges(), ranges(&[(0, 12), (60, 72), (199, 203)]));
        assert!(marks.covers(61, 10) && !marks.covers(61, 12));
        let mut all = Marks::new(300);
        all.mark(0, 300);
        assert_eq!(all.ranges(), Ranges::one(0, 300));
    }
}
