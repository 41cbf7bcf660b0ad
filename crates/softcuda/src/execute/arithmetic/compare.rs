//! Comparisons and kinds of numbers, on all lanes.
//!
//! Not here: what is done with the answers.

use super::exact::Format;
use super::integer::with_integer;
use crate::execute::lanes::{Lane, Lanes, map1, test1, test2};
use crate::ptx::program::{Compare, Float, Int, Kind, Number};

/// One bit for each lane where the comparison holds.
pub(in crate::execute) fn compare(f: Compare, number: Number, flush: bool, a: &Lanes, b: &Lanes) -> u32 {
    match number {
        Number::Int(int) => with_integer!(int, T => compare_as::<T>(f, a, b)),
        Number::Float(Float::F32) if !flush => compare_as::<f32>(f, a, b),
        Number::Float(Float::F64) => compare_as::<f64>(f, a, b),
        // Doubles hold all values of the narrower formats.
        Number::Float(float) => {
            let format = Format::of(float);
            let double = |bits: u64| format.to_double(if flush { format.flushed(bits) } else { bits });
            compare_as::<f64>(f, &map1(a, double), &map1(b, double))
        }
    }
}

#[inline(always)]
fn compare_as<T: Lane + PartialOrd>(f: Compare, a: &Lanes, b: &Lanes) -> u32 {
    match f {
        Compare::Eq => test2(a, b, |a: T, b: T| a == b),
        Compare::Ne => test2(a, b, differ::<T>),
        Compare::Lt => test2(a, b, |a: T, b: T| a < b),
        Compare::Le => test2(a, b, |a: T, b: T| a <= b),
        Compare::Gt => test2(a, b, |a: T, b: T| a > b),
        Compare::Ge => test2(a, b, |a: T, b: T| a >= b),
        Compare::Equ => !test2(a, b, differ::<T>),
        Compare::Neu => !test2(a, b, |a: T, b: T| a == b),
        Compare::Ltu => !test2(a, b, |a: T, b: T| a >= b),
        Compare::Leu => !test2(a, b, |a: T, b: T| a > b),
        Compare::Gtu => !test2(a, b, |a: T, b: T| a <= b),
        Compare::Geu => !test2(a, b, |a: T, b: T| a < b),
        Compare::Num => test2(a, b, |a: T, b: T| a.partial_cmp(&b).is_some()),
        Compare::Nan => !test2(a, b, |a: T, b: T| a.partial_cmp(&b).is_some()),
    }
}

/// False if either is NaN.
#[inline(always)]
fn differ<T: PartialOrd>(a: T, b: T) -> bool {
    a.partial_cmp(&b).is_some_and(|order| order.is_ne())
}

/// One bit for each lane with a number of the kind.
pub(in crate::execute) fn kind(f: Kind, float: Float, a: &Lanes) -> u32 {
    let format = Format::of(float);
    test1(a, |bits: u64| {
        let value = format.to_double(bits);
        // Subnormals of singles are normal doubles, so that they are told by their bits.
        let subnormal = value != 0.0 && format.flushed(bits) != bits;
        match f {
            Kind::Finite => value.is_finite(),
            Kind::Infinite => value.is_infinite(),
            Kind::Number => !value.is_nan(),
            Kind::Nan => value.is_nan(),
            Kind::Normal => value.is_finite() && value != 0.0 && !subnormal,
            Kind::Subnormal => subnormal,
        }
    })
}
