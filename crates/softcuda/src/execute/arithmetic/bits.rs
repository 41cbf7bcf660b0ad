//! Functions of bits and bytes of one value.
//!
//! Not here: arithmetic (`integer.rs`).

use super::integer::Integer;
use crate::ptx::program::Permute;

/// `bfe`: bits from a position on, the highest of them repeated if signed.
pub(super) fn extract<T: Integer>(value: T, position: u32, length: u32) -> T {
    let (position, length) = (position & 0xff, length & 0xff);
    if length == 0 {
        return T::ZERO;
    }
    let signed = T::MIN < T::ZERO;
    // Bits past the top are copies of the sign, or zeros.
    let moved = value.wide() >> position.min(127);
    if length >= 128 - 1 {
        return T::wrap(moved);
    }
    let top = 128 - length;
    // The sign is that of the highest bit taken, but of the value if that is past its top.
    let kept = if signed { (moved << top) >> top } else { ((moved << top) as u128 >> top) as i128 };
    T::wrap(kept)
}

/// `bfi`: the low bits of `a` over those of `b` from a position on.
pub(in crate::execute) fn insert<T: Integer>(a: T, b: T, position: u32, length: u32) -> T {
    let (position, length) = (position & 0xff, length & 0xff);
    if position >= T::BITS || length == 0 {
        return b;
    }
    let ones = if length >= T::BITS { u128::MAX } else { (1 << length) - 1 };
    let mask = T::wrap((ones << position) as i128);
    ((a << position) & mask) | (b & !mask)
}

/// How far the highest bit unlike the sign is from the top; the width if there is none.
pub(super) fn unlike_sign<T: Integer>(value: T) -> u32 {
    if value < T::ZERO { (!value).leading_zeros() } else { value.leading_zeros() }
}

/// `lop3`: bit `4a + 2b + c` of the table.
pub(super) fn table(table: u8, a: u32, b: u32, c: u32) -> u32 {
    (0..8).filter(|row| table >> row & 1 == 1).fold(0, |result, row| {
        let side = |bit: u32, value: u32| if row >> bit & 1 == 1 { value } else { !value };
        result | (side(2, a) & side(1, b) & side(0, c))
    })
}

/// `prmt`: four bytes out of eight.
pub(super) fn permute(permute: Permute, a: u32, b: u32, control: u32) -> u32 {
    let bytes = (u64::from(b) << 32 | u64::from(a)).to_le_bytes();
    let by = (control & 3) as usize;
    let pick = |index: usize| bytes[index & 7];
    let picked = match permute {
        Permute::Index => {
            let mut picked = [0; 4];
            for (place, out) in picked.iter_mut().enumerate() {
                let selector = control >> (4 * place) & 0xf;
                let byte = pick(selector as usize & 7);
                // The highest bit asks for the sign of the byte in all of its bits.
                *out = if selector & 8 == 0 { byte } else { ((byte as i8) >> 7) as u8 };
            }
            picked
        }
        Permute::ForwardFour => [0, 1, 2, 3].map(|place| pick(by + place)),
        Permute::BackwardFour => [0, 1, 2, 3].map(|place| pick(by + 8 - place)),
        Permute::Replicate => [pick(by); 4],
        Permute::EdgeLeft => [0, 1, 2, 3].map(|place| pick(place.max(by))),
        Permute::EdgeRight => [0, 1, 2, 3].map(|place| pick(place.min(by))),
        Permute::ReplicateHalf => {
            let half = 2 * (by & 1);
            [pick(half), pick(half + 1), pick(half), pick(half + 1)]
        }
    };
    u32::from_le_bytes(picked)
}

/// `shf.l`: the upper word of `b:a` moved up.
pub(super) fn funnel_left(wrap: bool, a: u32, b: u32, by: u32) -> u32 {
    let by = if wrap { by & 31 } else { by.min(32) };
    ((u64::from(b) << 32 | u64::from(a)) << by >> 32) as u32
}

/// `shf.r`: the lower word of `b:a` moved down.
pub(super) fn funnel_right(wrap: bool, a: u32, b: u32, by: u32) -> u32 {
    let by = if wrap { by & 31 } else { by.min(32) };
    ((u64::from(b) << 32 | u64::from(a)) >> by) as u32
}

/// The sum of products of bytes.
pub(super) fn dot4(a_signed: bool, b_signed: bool, a: u32, b: u32) -> u32 {
    let pairs = a.to_le_bytes().into_iter().zip(b.to_le_bytes());
    pairs.fold(0_u32, |sum, (a, b)| sum.wrapping_add((byte(a_signed, a) * byte(b_signed, b)) as u32))
}

/// The sum of products of the halves of `a` with the lower or upper two bytes of `b`.
pub(super) fn dot2(a_signed: bool, b_signed: bool, high: bool, a: u32, b: u32) -> u32 {
    let bytes = b.to_le_bytes();
    let first = if high { 2 } else { 0 };
    [a as u16, (a >> 16) as u16].into_iter().zip(&bytes[first..]).fold(0_u32, |sum, (a, b)| {
        let a = if a_signed { i64::from(a as i16) } else { i64::from(a) };
        sum.wrapping_add((a * i64::from(byte(b_signed, *b))) as u32)
    })
}

fn byte(signed: bool, byte: u8) -> i32 {
    if signed { i32::from(byte as i8) } else { i32::from(byte) }
}
