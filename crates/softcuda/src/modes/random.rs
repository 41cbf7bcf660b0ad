//! A small generator of numbers, the same for the same seed.
//!
//! Not here: anything that has to be hard to guess.

/// The state of the generator; SplitMix64 of Steele, Lea and Flood.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Starts from a seed and a number that tells generators of one seed apart.
    pub fn new(seed: u64, which: u64) -> Random {
        Random(seed ^ which.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// The next number below `bound`, which is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_gives_one_sequence() {
        let draw = |seed, which| {
            let mut random = Random::new(seed, which);
            (0..8).map(|_| random.below(100)).collect::<Vec<_>>()
        };
        assert_eq!(draw(7, 1), draw(7, 1));
        assert_ne!(draw(7, 1), draw(8, 1));
        assert_ne!(draw(7, 1), draw(7, 2));
    }
}
