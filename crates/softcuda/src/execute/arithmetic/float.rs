//! Floating-point arithmetic on all lanes.
//!
//! Rounding to nearest is the machine's own; directed roundings and halves go through `exact.rs`. Results that are NaN
//! have the bits that devices give. Not here: comparisons, conversions.

use super::exact::Format;
use crate::execute::lanes::{Lanes, map1, map2, map3};
use crate::ptx::program::{Float, Float1, Float2, Mode, Round};

/// A number of the machine.
trait Native: crate::execute::lanes::Lane {
    const FORMAT: Format;
    fn canonical(self) -> Self;
}

impl Native for f32 {
    const FORMAT: Format = Format::of(Float::F32);
    #[inline(always)]
    fn canonical(self) -> f32 {
        if self.is_nan() { f32::from_bits(0x7fff_ffff) } else { self }
    }
}

impl Native for f64 {
    const FORMAT: Format = Format::of(Float::F64);
    #[inline(always)]
    fn canonical(self) -> f64 {
        if self.is_nan() { f64::from_bits(0x7ff8_0000_0000_0000) } else { self }
    }
}

impl Mode {
    fn plain(self) -> bool {
        self.round == Round::Nearest && !self.flush && !self.saturate
    }

    #[inline(always)]
    fn operand(self, format: Format, bits: u64) -> u64 {
        if self.flush { format.flushed(bits) } else { bits }
    }

    #[inline(always)]
    fn result(self, format: Format, bits: u64) -> u64 {
        let bits = if self.flush { format.flushed(bits) } else { bits };
        if self.saturate { format.saturated(bits) } else { bits }
    }
}

pub(in crate::execute) fn unary(f: Float1, float: Float, mode: Mode, a: &Lanes) -> Lanes {
    if mode.packed {
        return in_halves([a, a, a], |[a, _, _]| unary(f, float, Mode { packed: false, ..mode }, a));
    }
    let format = Format::of(float);
    match (f, float) {
        (Float1::Abs, _) => map1(a, |a| format.absolute(mode.operand(format, a))),
        (Float1::Neg, _) => map1(a, |a| format.negated(mode.operand(format, a))),
        (Float1::Reciprocal, Float::F32) => unary_as(mode, a, |a: f32| 1.0 / a, reciprocal),
        (Float1::Reciprocal, Float::F64) => unary_as(mode, a, |a: f64| 1.0 / a, reciprocal),
        (Float1::Sqrt, Float::F32) => unary_as(mode, a, f32::sqrt, Format::sqrt),
        (Float1::Sqrt, Float::F64) => unary_as(mode, a, f64::sqrt, Format::sqrt),
        _ => map1(a, |a| {
            let value = by_double(f, format.to_double(mode.operand(format, a)));
            mode.result(format, format.of_double(value))
        }),
    }
}

fn reciprocal(format: Format, a: u64, round: Round) -> u64 {
    format.div(format.of_double(1.0), a, round)
}

/// Functions of limited precision, by way of doubles.
fn by_double(f: Float1, value: f64) -> f64 {
    match f {
        Float1::Abs => value.abs(),
        Float1::Neg => -value,
        Float1::Reciprocal => 1.0 / value,
        Float1::Sqrt => value.sqrt(),
        Float1::ReciprocalSqrt => 1.0 / value.sqrt(),
        Float1::Exp2 => value.exp2(),
        Float1::Log2 => value.log2(),
        Float1::Sin => value.sin(),
        Float1::Cos => value.cos(),
        Float1::Tanh => value.tanh(),
    }
}

#[inline(always)]
fn unary_as<F: Native>(
    mode: Mode,
    a: &Lanes,
    native: impl Fn(F) -> F,
    exact: impl Fn(Format, u64, Round) -> u64,
) -> Lanes {
    let format = F::FORMAT;
    if mode.plain() {
        return map1(a, |a: F| native(a).canonical());
    }
    map1(a, |a: u64| {
        let a = mode.operand(format, a);
        let result = match mode.round {
            Round::Nearest => native(F::of(a)).canonical().bits(),
            round => exact(format, a, round),
        };
        mode.result(format, result)
    })
}

pub(in crate::execute) fn binary(f: Float2, float: Float, mode: Mode, a: &Lanes, b: &Lanes) -> Lanes {
    if mode.packed {
        return in_halves([a, b, b], |[a, b, _]| binary(f, float, Mode { packed: false, ..mode }, a, b));
    }
    let format = Format::of(float);
    let exact = |operation: fn(Format, u64, u64, Round) -> u64| {
        map2(a, b, |a, b| {
            let (a, b) = (mode.operand(format, a), mode.operand(format, b));
            mode.result(format, operation(format, a, b, mode.round))
        })
    };
    match (f, float) {
        (Float2::Add, Float::F32) => binary_as(mode, a, b, |a: f32, b| a + b, Format::add),
        (Float2::Add, Float::F64) => binary_as(mode, a, b, |a: f64, b| a + b, Format::add),
        (Float2::Add, _) => exact(Format::add),
        (Float2::Sub, Float::F32) => binary_as(mode, a, b, |a: f32, b| a - b, sub),
        (Float2::Sub, Float::F64) => binary_as(mode, a, b, |a: f64, b| a - b, sub),
        (Float2::Sub, _) => exact(sub),
        (Float2::Mul, Float::F32) => binary_as(mode, a, b, |a: f32, b| a * b, Format::mul),
        (Float2::Mul, Float::F64) => binary_as(mode, a, b, |a: f64, b| a * b, Format::mul),
        (Float2::Mul, _) => exact(Format::mul),
        (Float2::Div, Float::F32) => binary_as(mode, a, b, |a: f32, b| a / b, Format::div),
        (Float2::Div, Float::F64) => binary_as(mode, a, b, |a: f64, b| a / b, Format::div),
        (Float2::Div, _) => exact(Format::div),
        (Float2::DivApproximate, _) => binary_as(mode, a, b, div_approximate, Format::div),
        (Float2::Min { nan }, _) => exact(if nan { min_nan } else { min }),
        (Float2::Max { nan }, _) => exact(if nan { max_nan } else { max }),
        (Float2::CopySign, _) => map2(a, b, |a, b| format.absolute(b) | (a ^ format.absolute(a))),
    }
}

#[inline(always)]
fn binary_as<F: Native>(
    mode: Mode,
    a: &Lanes,
    b: &Lanes,
    native: impl Fn(F, F) -> F,
    exact: impl Fn(Format, u64, u64, Round) -> u64,
) -> Lanes {
    let format = F::FORMAT;
    if mode.plain() {
        return map2(a, b, |a: F, b: F| native(a, b).canonical());
    }
    map2(a, b, |a: u64, b: u64| {
        let (a, b) = (mode.operand(format, a), mode.operand(format, b));
        let result = match mode.round {
            Round::Nearest => native(F::of(a), F::of(b)).canonical().bits(),
            round => exact(format, a, b, round),
        };
        mode.result(format, result)
    })
}

fn sub(format: Format, a: u64, b: u64, round: Round) -> u64 {
    format.add(a, format.negated(b), round)
}

/// Devices divide by the reciprocal, which is 0 for divisors above 2^126.
fn div_approximate(a: f32, b: f32) -> f32 {
    let large = b.abs() > 2.0_f32.powi(126) && b.is_finite();
    if large { a * 0.0_f32.copysign(b) } else { a / b }
}

/// The smaller; -0 is smaller than 0. One NaN gives way to the other operand.
fn min(format: Format, a: u64, b: u64, _: Round) -> u64 {
    match (format.is_nan(a), format.is_nan(b)) {
        (true, true) => format.nan(),
        (true, false) => b,
        (false, true) => a,
        (false, false) if order(format, a) <= order(format, b) => a,
        (false, false) => b,
    }
}

fn max(format: Format, a: u64, b: u64, round: Round) -> u64 {
    // Of two NaN the result has no sign, so that it must not be negated.
    if format.is_nan(a) && format.is_nan(b) {
        return format.nan();
    }
    format.negated(min(format, format.negated(a), format.negated(b), round))
}

fn min_nan(format: Format, a: u64, b: u64, round: Round) -> u64 {
    if format.is_nan(a) || format.is_nan(b) { format.nan() } else { min(format, a, b, round) }
}

fn max_nan(format: Format, a: u64, b: u64, round: Round) -> u64 {
    if format.is_nan(a) || format.is_nan(b) { format.nan() } else { max(format, a, b, round) }
}

/// Integers in the order of the numbers.
fn order(format: Format, bits: u64) -> i64 {
    let magnitude = format.absolute(bits) as i64;
    if magnitude as u64 == bits { magnitude } else { -1 - magnitude }
}

pub(in crate::execute) fn fma(float: Float, mode: Mode, operands: [&Lanes; 3]) -> Lanes {
    if mode.packed {
        return in_halves(operands, |operands| fma(float, Mode { packed: false, ..mode }, operands));
    }
    match float {
        Float::F32 => fma_as(mode, operands, f32::mul_add),
        Float::F64 => fma_as(mode, operands, f64::mul_add),
        Float::F16 | Float::Bf16 => fma_exact(Format::of(float), mode, operands),
    }
}

#[inline(always)]
fn fma_as<F: Native>(mode: Mode, operands: [&Lanes; 3], native: impl Fn(F, F, F) -> F) -> Lanes {
    let format = F::FORMAT;
    if mode.plain() {
        return map3(operands, |a: F, b: F, c: F| native(a, b, c).canonical());
    }
    if mode.round != Round::Nearest {
        return fma_exact(format, mode, operands);
    }
    map3(operands, |a: u64, b: u64, c: u64| {
        let [a, b, c] = [a, b, c].map(|bits| F::of(mode.operand(format, bits)));
        mode.result(format, native(a, b, c).canonical().bits())
    })
}

fn fma_exact(format: Format, mode: Mode, operands: [&Lanes; 3]) -> Lanes {
    map3(operands, |a: u64, b: u64, c: u64| {
        let [a, b, c] = [a, b, c].map(|bits| mode.operand(format, bits));
        mode.result(format, format.fma(a, b, c, mode.round))
    })
}

/// Applies a function to the lower and the upper 16 bits of each lane.
fn in_halves(operands: [&Lanes; 3], f: impl Fn([&Lanes; 3]) -> Lanes) -> Lanes {
    let part = |shift: u32| operands.map(|a| map1(a, |a: u64| a >> shift & 0xffff));
    let (low, high) = (part(0), part(16));
    let (low, high) = (f([&low[0], &low[1], &low[2]]), f([&high[0], &high[1], &high[2]]));
    map2(&low, &high, |low: u64, high: u64| low | high << 16)
}
