//! What came back last, by size: the next request of that size gets it without a search, without cutting and without
//! joining.
//!
//! Direct-mapped and bounded: a size has one place, a place has one size at a time. Not here: the books (`pool.rs`,
//! `engine/shards.rs`).

/// Places; a power of two.
const PLACES: usize = 64;
/// What a place holds at most.
const DEPTH: usize = 8;

pub(crate) struct Recent<T> {
    places: Box<[Place<T>; PLACES]>,
    /// What all places hold.
    count: usize,
}

struct Place<T> {
    bytes: u64,
    items: Vec<T>,
}

impl<T> Default for Recent<T> {
    fn default() -> Self {
        let place = |_| Place { bytes: 0, items: Vec::new() };
        Recent { places: Box::new(std::array::from_fn(place)), count: 0 }
    }
}

impl<T> Place<T> {
    fn takes(&self, bytes: u64) -> bool {
        self.items.is_empty() || (self.bytes == bytes && self.items.len() < DEPTH)
    }
}

/// Where something is.
pub(crate) struct Found {
    place: usize,
    at: usize,
}

/// The place of a size.
fn place(bytes: u64) -> usize {
    // Sizes are multiples of powers of two: the upper bits of the product depend on all of theirs (Knuth's
    // multiplicative hashing).
    (bytes.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - PLACES.ilog2())) as usize
}

impl<T> Recent<T> {
    /// Something of exactly `bytes` that `fits`.
    #[inline]
    pub(crate) fn find(&self, bytes: u64, fits: impl FnMut(&T) -> bool) -> Option<Found> {
        let place = place(bytes);
        if self.places[place].bytes != bytes {
            return None;
        }
        // What came back last is the likeliest.
        self.places[place].items.iter().rposition(fits).map(|at| Found { place, at })
    }

    /// Takes out what was found just now.
    #[inline]
    pub(crate) fn take_found(&mut self, found: Found) -> T {
        self.count -= 1;
        self.places[found.place].items.swap_remove(found.at)
    }

    /// Whether something of `bytes` would be kept.
    #[inline]
    pub(crate) fn has_place(&self, bytes: u64) -> bool {
        self.places[place(bytes)].takes(bytes)
    }

    /// Something of exactly `bytes`.
    pub(crate) fn take(&mut self, bytes: u64) -> Option<T> {
        let found = self.find(bytes, |_| true)?;
        Some(self.take_found(found))
    }

    /// Keeps something of `bytes`, or hands it back where its place is taken.
    #[inline]
    pub(crate) fn keep(&mut self, bytes: u64, item: T) -> Option<T> {
        let place = &mut self.places[place(bytes)];
        if !place.takes(bytes) {
            return Some(item);
        }
        place.bytes = bytes;
        place.items.push(item);
        self.count += 1;
        None
    }

    /// Everything.
    pub(crate) fn take_all(&mut self) -> Vec<T> {
        if self.count == 0 {
            return Vec::new();
        }
        self.count = 0;
        self.places.iter_mut().flat_map(|place| place.items.drain(..)).collect()
    }
}
