//! Random numbers that are the same in every run.

/// A small random number generator with a fixed seed (xorshift): cases are the same in every run.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }

    /// The place of one of `count` things.
    pub(crate) fn index(&mut self, count: usize) -> usize {
        self.below(count as u64) as usize
    }
}
