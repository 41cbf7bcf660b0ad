//! The lanes of a register, and functions over all of them.
//!
//! A function is applied to every lane, running or not, and the results of lanes that do not run are dropped: that is
//! quicker than asking each lane, and no such function can fail. Not here: which function.

/// Lanes of a warp.
pub(super) const LANES: usize = 32;

/// One register of a warp.
pub(super) type Lanes = [u64; LANES];

/// A value in the bits of a lane; the bits above it are 0.
pub(super) trait Lane: Copy {
    fn of(bits: u64) -> Self;
    fn bits(self) -> u64;
}

macro_rules! integers {
    ($($ty:ty: $unsigned:ty),*) => {
        $(impl Lane for $ty {
            #[inline(always)]
            fn of(bits: u64) -> $ty {
                bits as $ty
            }
            #[inline(always)]
            fn bits(self) -> u64 {
                self as $unsigned as u64
            }
        })*
    };
}

integers!(u8: u8, i8: u8, u16: u16, i16: u16, u32: u32, i32: u32, u64: u64, i64: u64);

impl Lane for f32 {
    #[inline(always)]
    fn of(bits: u64) -> f32 {
        f32::from_bits(bits as u32)
    }
    #[inline(always)]
    fn bits(self) -> u64 {
        u64::from(self.to_bits())
    }
}

impl Lane for f64 {
    #[inline(always)]
    fn of(bits: u64) -> f64 {
        f64::from_bits(bits)
    }
    #[inline(always)]
    fn bits(self) -> u64 {
        self.to_bits()
    }
}

#[inline(always)]
pub(super) fn map1<A: Lane, R: Lane>(a: &Lanes, f: impl Fn(A) -> R) -> Lanes {
    let mut out = [0; LANES];
    for (out, a) in out.iter_mut().zip(a) {
        *out = f(A::of(*a)).bits();
    }
    out
}

#[inline(always)]
pub(super) fn map2<A: Lane, B: Lane, R: Lane>(a: &Lanes, b: &Lanes, f: impl Fn(A, B) -> R) -> Lanes {
    let mut out = [0; LANES];
    for ((out, a), b) in out.iter_mut().zip(a).zip(b) {
        *out = f(A::of(*a), B::of(*b)).bits();
    }
    out
}

#[inline(always)]
pub(super) fn map3<A: Lane, B: Lane, C: Lane, R: Lane>(
    [a, b, c]: [&Lanes; 3],
    f: impl Fn(A, B, C) -> R,
) -> Lanes {
    let mut out = [0; LANES];
    for (((out, a), b), c) in out.iter_mut().zip(a).zip(b).zip(c) {
        *out = f(A::of(*a), B::of(*b), C::of(*c)).bits();
    }
    out
}

/// One bit for each lane where `f` holds.
#[inline(always)]
pub(super) fn test1<A: Lane>(a: &Lanes, f: impl Fn(A) -> bool) -> u32 {
    let mut out = 0;
    for (lane, a) in a.iter().enumerate() {
        out |= u32::from(f(A::of(*a))) << lane;
    }
    out
}

/// One bit for each lane where `f` holds.
#[inline(always)]
pub(super) fn test2<A: Lane>(a: &Lanes, b: &Lanes, f: impl Fn(A, A) -> bool) -> u32 {
    let mut out = 0;
    for (lane, (a, b)) in a.iter().zip(b).enumerate() {
        out |= u32::from(f(A::of(*a), A::of(*b))) << lane;
    }
    out
}

/// The lanes of a mask, from the lowest.
pub(super) fn each(mask: u32) -> impl Iterator<Item = usize> {
    let mut left = mask;
    std::iter::from_fn(move || {
        if left == 0 {
            return None;
        }
        let lane = left.trailing_zeros() as usize;
        left &= left - 1;
        Some(lane)
    })
}

/// Writes the lanes of `mask`.
#[inline(always)]
pub(super) fn write(into: &mut Lanes, from: &Lanes, mask: u32) {
    if mask == u32::MAX {
        *into = *from;
        return;
    }
    for (lane, (into, from)) in into.iter_mut().zip(from).enumerate() {
        if mask >> lane & 1 == 1 {
            *into = *from;
        }
    }
}
