//! What came back to the pool last, by size: the next request of that size gets it without a search, without cutting and
//! without joining.
//!
//! Direct-mapped and bounded: a size has one place, a place has one size at a time. Not here: the books (`pool.rs`).

use super::Grant;

/// Places; a power of two.
const PLACES: usize = 64;
/// Grants that a place holds at most.
const DEPTH: usize = 8;

pub(super) struct Recent {
    places: Box<[Place; PLACES]>,
    /// Grants in all places.
    count: usize,
}

#[derive(Default)]
struct Place {
    grants: Vec<Grant>,
}

impl Default for Recent {
    fn default() -> Self {
        Recent { places: Box::new(std::array::from_fn(|_| Place::default())), count: 0 }
    }
}

impl Recent {
    fn place(&mut self, bytes: u64) -> &mut Place {
        // Sizes are multiples of powers of two: the upper bits of the product depend on all of theirs (Knuth's
        // multiplicative hashing).
        let hash = bytes.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - PLACES.ilog2());
        &mut self.places[hash as usize]
    }

    /// A grant of exactly `bytes`.
    pub(super) fn take(&mut self, bytes: u64) -> Option<Grant> {
        let place = self.place(bytes);
        if place.grants.last()?.bytes != bytes {
            return None;
        }
        let grant = place.grants.pop();
        self.count -= 1;
        grant
    }

    /// Keeps a grant, or hands it back where its place is taken.
    pub(super) fn keep(&mut self, grant: Grant) -> Option<Grant> {
        let place = self.place(grant.bytes);
        let taken = place.grants.last().is_some_and(|last| last.bytes != grant.bytes);
        if taken || place.grants.len() == DEPTH {
            return Some(grant);
        }
        place.grants.push(grant);
        self.count += 1;
        None
    }

    /// Everything.
    pub(super) fn take_all(&mut self) -> Vec<Grant> {
        if self.count == 0 {
            return Vec::new();
        }
        self.count = 0;
        self.places.iter_mut().flat_map(|place| place.grants.drain(..)).collect()
    }
}
