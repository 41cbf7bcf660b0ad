//! Conversions between numbers, on all lanes.
//!
//! Not here: which conversions there are (`crate::ptx`).

use super::exact::Format;
use crate::execute::lanes::{Lanes, map1};
use crate::ptx::program::{Convert, Float, Int, Number, Round};

pub(in crate::execute) fn convert(how: Convert, a: &Lanes) -> Lanes {
    match (how.from, how.to) {
        (Number::Int(from), Number::Int(to)) => map1(a, |a| resized(a, from, to, how)),
        (Number::Int(from), Number::Float(to)) => of_integer(how, from, to, a),
        (Number::Float(from), Number::Int(to)) => to_integer(how, from, to, a),
        (Number::Float(from), Number::Float(to)) => between(how, from, to, a),
    }
}

fn width(int: Int) -> (u32, bool) {
    match int {
        Int::U8 => (8, false),
        Int::S8 => (8, true),
        Int::U16 => (16, false),
        Int::S16 => (16, true),
        Int::U32 => (32, false),
        Int::S32 => (32, true),
        Int::U64 => (64, false),
        Int::S64 => (64, true),
    }
}

/// The value of the low bits.
#[inline(always)]
fn value(bits: u64, int: Int) -> i128 {
    match int {
        Int::U8 => i128::from(bits as u8),
        Int::S8 => i128::from(bits as i8),
        Int::U16 => i128::from(bits as u16),
        Int::S16 => i128::from(bits as i16),
        Int::U32 => i128::from(bits as u32),
        Int::S32 => i128::from(bits as i32),
        Int::U64 => i128::from(bits),
        Int::S64 => i128::from(bits as i64),
    }
}

/// Bits for a register of `register` bits: filled with the sign of a signed type.
#[inline(always)]
fn placed(value: i128, to: Int, register: u32) -> u64 {
    let (bits, signed) = width(to);
    // Bring the value into the type first; a wider register then holds that value.
    let unused = 128 - bits;
    let value =
        if signed { (value << unused) >> unused } else { ((value << unused) as u128 >> unused) as i128 };
    let bits = value as u64;
    if register >= 64 { bits } else { bits & ((1 << register) - 1) }
}

#[inline(always)]
fn clamped(value: i128, to: Int) -> i128 {
    let (bits, signed) = width(to);
    let (low, high) = if signed {
        (-(1_i128 << (bits - 1)), (1_i128 << (bits - 1)) - 1)
    } else {
        (0, (1_i128 << bits) - 1)
    };
    value.clamp(low, high)
}

#[inline(always)]
fn resized(a: u64, from: Int, to: Int, how: Convert) -> u64 {
    let value = value(a, from);
    placed(if how.saturate { clamped(value, to) } else { value }, to, how.width)
}

fn of_integer(how: Convert, from: Int, to: Float, a: &Lanes) -> Lanes {
    let format = Format::of(to);
    let nearest = how.round == Round::Nearest && !how.saturate;
    match (from, to) {
        (Int::S32, Float::F32) if nearest => map1(a, |a: i32| a as f32),
        (Int::U32, Float::F32) if nearest => map1(a, |a: u32| a as f32),
        (Int::S32, Float::F64) if nearest => map1(a, |a: i32| f64::from(a)),
        (Int::U32, Float::F64) if nearest => map1(a, |a: u32| f64::from(a)),
        _ => map1(a, |a: u64| {
            let result = format.of_integer(value(a, from), how.round);
            if how.saturate { format.saturated(result) } else { result }
        }),
    }
}

fn to_integer(how: Convert, from: Float, to: Int, a: &Lanes) -> Lanes {
    let format = Format::of(from);
    if let (Float::F32, Int::S32, Round::Zero, false) = (from, to, how.round, how.flush)
        && how.width == 32
    {
        return map1(a, |a: f32| a as i32);
    }
    let (bits, _) = width(to);
    // What devices give for NaN depends on the types.
    let wide = bits == 64 || from == Float::F64;
    let of_nan = if wide { 1_i128 << (bits - 1) } else { 0 };
    map1(a, |a: u64| {
        let a = if how.flush { format.flushed(a) } else { a };
        match format.integer(a, how.round) {
            Some(value) => placed(clamped(value, to), to, how.width),
            None => placed(of_nan, to, how.width),
        }
    })
}

fn between(how: Convert, from: Float, to: Float, a: &Lanes) -> Lanes {
    let (from_format, to_format) = (Format::of(from), Format::of(to));
    let plain = !how.flush && !how.saturate && !how.whole && how.round == Round::Nearest && !how.relu;
    match (from, to) {
        (Float::F32, Float::F64) if plain => return map1(a, |a: f32| canonical(f64::from(a))),
        (Float::F64, Float::F32) if plain => {
            return map1(a, |a: f64| if a.is_nan() { f32::from_bits(0x7fff_ffff) } else { a as f32 });
        }
        _ => {}
    }
    map1(a, |a: u64| {
        // Only singles are flushed.
        let flush_from = how.flush && from == Float::F32;
        let a = if flush_from { from_format.flushed(a) } else { a };
        let a = if how.whole { from_format.whole(a, how.round) } else { a };
        let round = if how.whole { Round::Nearest } else { how.round };
        let result = to_format.of_format(from_format, a, round);
        let result = if how.flush && to == Float::F32 { to_format.flushed(result) } else { result };
        let result = if how.saturate { to_format.saturated(result) } else { result };
        let negative = to_format.absolute(result) != result;
        if how.relu && negative && !to_format.is_nan(result) { 0 } else { result }
    })
}

fn canonical(value: f64) -> f64 {
    if value.is_nan() { f64::from_bits(0x7ff8_0000_0000_0000) } else { value }
}
