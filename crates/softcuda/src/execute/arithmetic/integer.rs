//! Integer arithmetic on all lanes.
//!
//! Not here: what moves single bits or bytes (`bits.rs`).

use std::ops::{BitAnd, BitOr, BitXor, Not, Shl, Shr};

use super::bits;
use crate::execute::lanes::{Lane, Lanes, map1, map2, map3};
use crate::ptx::program::{Carry, Int, Int1, Int2, Int3};

/// An integer of PTX. Nothing here can fail: a division by zero, which PTX leaves open, gives all ones.
pub(in crate::execute) trait Integer:
    Lane
    + Ord
    + BitAnd<Output = Self>
    + BitOr<Output = Self>
    + BitXor<Output = Self>
    + Not<Output = Self>
    + Shl<u32, Output = Self>
    + Shr<u32, Output = Self>
{
    const BITS: u32;
    const MIN: Self;
    const MAX: Self;
    const ZERO: Self;
    /// Keeps the low bits.
    fn wrap(value: i128) -> Self;
    fn wide(self) -> i128;
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    fn div(self, other: Self) -> Self;
    fn rem(self, other: Self) -> Self;
    /// Twice the width, as the bits of a lane. Of 32 bits or fewer.
    fn mul_wide(self, other: Self) -> u64;
    fn mul_high(self, other: Self) -> Self;
    fn leading_zeros(self) -> u32;
    fn ones(self) -> u32;
    fn reversed(self) -> Self;
}

macro_rules! integer {
    ($($ty:ty, $double:ty, $double_bits:ty);*) => {
        $(impl Integer for $ty {
            const BITS: u32 = <$ty>::BITS;
            const MIN: $ty = <$ty>::MIN;
            const MAX: $ty = <$ty>::MAX;
            const ZERO: $ty = 0;
            #[inline(always)]
            fn wrap(value: i128) -> $ty {
                value as $ty
            }
            #[inline(always)]
            fn wide(self) -> i128 {
                self as i128
            }
            #[inline(always)]
            fn add(self, other: $ty) -> $ty {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn sub(self, other: $ty) -> $ty {
                self.wrapping_sub(other)
            }
            #[inline(always)]
            fn mul(self, other: $ty) -> $ty {
                self.wrapping_mul(other)
            }
            #[inline(always)]
            fn div(self, other: $ty) -> $ty {
                if other == 0 { !0 } else { self.wrapping_div(other) }
            }
            #[inline(always)]
            fn rem(self, other: $ty) -> $ty {
                if other == 0 { self } else { self.wrapping_rem(other) }
            }
            #[inline(always)]
            fn mul_wide(self, other: $ty) -> u64 {
                (self as $double * other as $double) as $double_bits as u64
            }
            #[inline(always)]
            fn mul_high(self, other: $ty) -> $ty {
                ((self as $double * other as $double) >> <$ty>::BITS) as $ty
            }
            #[inline(always)]
            fn leading_zeros(self) -> u32 {
                <$ty>::leading_zeros(self)
            }
            #[inline(always)]
            fn ones(self) -> u32 {
                self.count_ones()
            }
            #[inline(always)]
            fn reversed(self) -> $ty {
                self.reverse_bits()
            }
        })*
    };
}

integer!(
    u16, u32, u32;
    i16, i32, u32;
    u32, u64, u64;
    i32, i64, u64;
    u64, u128, u128;
    i64, i128, u128
);

/// Calls a function that is generic over the integer. Operations are on 16 bits or more; narrower types are only
/// loaded, stored and converted.
macro_rules! with_integer {
    ($int:expr, $ty:ident => $call:expr) => {
        match $int {
            Int::U8 | Int::U16 => {
                type $ty = u16;
                $call
            }
            Int::S8 | Int::S16 => {
                type $ty = i16;
                $call
            }
            Int::U32 => {
                type $ty = u32;
                $call
            }
            Int::S32 => {
                type $ty = i32;
                $call
            }
            Int::U64 => {
                type $ty = u64;
                $call
            }
            Int::S64 => {
                type $ty = i64;
                $call
            }
        }
    };
}
pub(in crate::execute) use with_integer;

pub(in crate::execute) fn unary(f: Int1, int: Int, a: &Lanes) -> Lanes {
    with_integer!(int, T => unary_of::<T>(f, a))
}

pub(in crate::execute) fn binary(f: Int2, int: Int, a: &Lanes, b: &Lanes) -> Lanes {
    with_integer!(int, T => binary_of::<T>(f, a, b))
}

pub(in crate::execute) fn ternary(f: Int3, int: Int, operands: [&Lanes; 3]) -> Lanes {
    match f {
        Int3::MadLow => with_integer!(int, T => map3(operands, |a: T, b: T, c: T| a.mul(b).add(c))),
        Int3::MadHigh => with_integer!(int, T => map3(operands, |a: T, b: T, c: T| a.mul_high(b).add(c))),
        Int3::MadWide => with_integer!(int, T => map3(operands, mad_wide::<T>)),
        Int3::MadHighSaturate => map3(operands, |a: i32, b: i32, c: i32| a.mul_high(b).saturating_add(c)),
        Int3::Sad => {
            with_integer!(int, T => map3(operands, |a: T, b: T, c: T| a.max(b).sub(a.min(b)).add(c)))
        }
        Int3::Mad24Low => with_integer!(int, T => map3(operands, |a: T, b: T, c: T| mul24(a, b, 0).add(c))),
        Int3::Mad24High => with_integer!(int, T => map3(operands, |a: T, b: T, c: T| mul24(a, b, 16).add(c))),
        Int3::Extract => with_integer!(int, T => map3(operands, bits::extract::<T>)),
        Int3::Table(table) => map3(operands, |a: u32, b: u32, c: u32| bits::table(table, a, b, c)),
        Int3::Permute(permute) => map3(operands, |a: u32, b: u32, c: u32| bits::permute(permute, a, b, c)),
        Int3::FunnelLeft { wrap } => map3(operands, |a, b, c| bits::funnel_left(wrap, a, b, c)),
        Int3::FunnelRight { wrap } => map3(operands, |a, b, c| bits::funnel_right(wrap, a, b, c)),
        Int3::Dot4 { a, b } => {
            map3(operands, |x: u32, y: u32, z: u32| bits::dot4(a, b, x, y).wrapping_add(z))
        }
        Int3::Dot2 { a, b, high } => {
            map3(operands, |x: u32, y: u32, z: u32| bits::dot2(a, b, high, x, y).wrapping_add(z))
        }
    }
}

fn unary_of<T: Integer>(f: Int1, a: &Lanes) -> Lanes {
    match f {
        Int1::Abs => map1(a, |a: T| if a < T::ZERO { T::ZERO.sub(a) } else { a }),
        Int1::Neg => map1(a, |a: T| T::ZERO.sub(a)),
        Int1::Not => map1(a, |a: T| !a),
        Int1::LogicalNot => map1(a, |a: T| T::wrap(i128::from(a == T::ZERO))),
        Int1::Ones => map1(a, |a: T| a.ones()),
        Int1::LeadingZeros => map1(a, |a: T| a.leading_zeros()),
        Int1::Reverse => map1(a, |a: T| a.reversed()),
        Int1::FindHighest => map1(a, |a: T| {
            let shift = bits::unlike_sign(a);
            if shift == T::BITS { u32::MAX } else { T::BITS - 1 - shift }
        }),
        Int1::FindShift => map1(a, |a: T| {
            let shift = bits::unlike_sign(a);
            if shift == T::BITS { u32::MAX } else { shift }
        }),
    }
}

fn binary_of<T: Integer>(f: Int2, a: &Lanes, b: &Lanes) -> Lanes {
    match f {
        Int2::Add => map2(a, b, T::add),
        Int2::Sub => map2(a, b, T::sub),
        Int2::AddSaturate => map2(a, b, |a: T, b: T| clamp::<T>(a.wide() + b.wide())),
        Int2::SubSaturate => map2(a, b, |a: T, b: T| clamp::<T>(a.wide() - b.wide())),
        Int2::MulLow => map2(a, b, T::mul),
        Int2::MulHigh => map2(a, b, T::mul_high),
        Int2::MulWide => map2(a, b, T::mul_wide),
        Int2::Mul24Low => map2(a, b, |a: T, b: T| mul24(a, b, 0)),
        Int2::Mul24High => map2(a, b, |a: T, b: T| mul24(a, b, 16)),
        Int2::Div => map2(a, b, T::div),
        Int2::Rem => map2(a, b, T::rem),
        Int2::Min => map2(a, b, |a: T, b: T| a.min(b)),
        Int2::Max => map2(a, b, |a: T, b: T| a.max(b)),
        Int2::And => map2(a, b, |a: T, b: T| a & b),
        Int2::Or => map2(a, b, |a: T, b: T| a | b),
        Int2::Xor => map2(a, b, |a: T, b: T| a ^ b),
        Int2::ShiftLeft => map2(a, b, |a: T, by: u32| if by < T::BITS { a << by } else { T::ZERO }),
        // Past the width a signed value leaves only its sign.
        Int2::ShiftRight => map2(a, b, |a: T, by: u32| {
            if by < T::BITS {
                a >> by
            } else if a < T::ZERO {
                !T::ZERO
            } else {
                T::ZERO
            }
        }),
    }
}

fn mad_wide<T: Integer>(a: T, b: T, c: u64) -> u64 {
    let sum = a.mul_wide(b).wrapping_add(c);
    if T::BITS == 16 { sum & u64::from(u32::MAX) } else { sum }
}

/// The product of the low 24 bits, of which 32 are kept from bit `from` on.
fn mul24<T: Integer>(a: T, b: T, from: u32) -> T {
    let low = |value: T| (value << (T::BITS - 24)) >> (T::BITS - 24);
    T::wrap((low(a).wide() * low(b).wide()) >> from)
}

pub(super) fn clamp<T: Integer>(value: i128) -> T {
    T::wrap(value.clamp(T::MIN.wide(), T::MAX.wide()))
}

/// Results, and the carry or borrow of each lane.
pub(in crate::execute) fn carry(f: Carry, int: Int, operands: [&Lanes; 3], carry_in: u32) -> (Lanes, u32) {
    with_integer!(int, T => carry_of::<T>(f, operands, carry_in))
}

fn carry_of<T: Integer>(f: Carry, [a, b, c]: [&Lanes; 3], carry_in: u32) -> (Lanes, u32) {
    let mut out = [0; crate::execute::lanes::LANES];
    let mut carries = 0;
    // The carry is that of the unsigned sum, whatever the type.
    let mask = if T::BITS == 64 { u128::from(u64::MAX) } else { (1 << T::BITS) - 1 };
    for (lane, out) in out.iter_mut().enumerate() {
        let (a, b, c) = (T::of(a[lane]), T::of(b[lane]), T::of(c[lane]));
        let carry = u128::from(carry_in >> lane & 1);
        let unsigned = |value: T| value.wide() as u128 & mask;
        let sum = match f {
            Carry::Add => unsigned(a) + unsigned(b) + carry,
            Carry::Sub => unsigned(a).wrapping_sub(unsigned(b)).wrapping_sub(carry),
            Carry::MadLow => unsigned(a.mul(b)) + unsigned(c) + carry,
            Carry::MadHigh => unsigned(a.mul_high(b)) + unsigned(c) + carry,
        };
        *out = (sum & mask) as u64;
        carries |= u32::from(sum & !mask != 0) << lane;
    }
    (out, carries)
}
