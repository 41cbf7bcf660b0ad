//! Floating-point instructions against the machine's own arithmetic.
//!
//! Not here: roundings of every kind and format in depth, which `exact.rs` of the crate tests.

mod common;

use common::operation::{Row, cases, check, compute, double_rows, rows, single_rows};
use proptest::prelude::*;

const NAN: u64 = 0x7fff_ffff;
const NAN_DOUBLE: u64 = 0x7ff8_0000_0000_0000;

/// A function of doubles.
type Function = fn(f64) -> f64;

fn single(bits: u64) -> f32 {
    f32::from_bits(bits as u32)
}

fn bits(value: f32) -> Option<u64> {
    Some(if value.is_nan() { NAN } else { value.to_bits().into() })
}

fn double(bits: u64) -> f64 {
    f64::from_bits(bits)
}

fn double_bits(value: f64) -> Option<u64> {
    Some(if value.is_nan() { NAN_DOUBLE } else { value.to_bits() })
}

fn flush(value: f32) -> f32 {
    if value.is_subnormal() { 0.0_f32.copysign(value) } else { value }
}

fn saturate(value: f32) -> f32 {
    if value.is_nan() || value <= 0.0 { 0.0 } else { value.min(1.0) }
}

/// The single below, above or towards zero of the exact sum `value + rest`.
fn directed(mode: &str, value: f64, rest: f64) -> f32 {
    let near = value as f32;
    if near.is_nan() || value.is_infinite() {
        return near;
    }
    let exact = |single: f32| {
        let single = f64::from(single);
        if single == value { 0.0_f64.partial_cmp(&rest) } else { single.partial_cmp(&value) }
    };
    let below = if exact(near).is_some_and(|order| order.is_gt()) { near.next_down() } else { near };
    let above = if exact(near).is_some_and(|order| order.is_lt()) { near.next_up() } else { near };
    match mode {
        "rm" => below,
        "rp" => above,
        _ if value > 0.0 => below,
        _ => above,
    }
}

fn zero_below(a: f32, b: f32) -> bool {
    a == b && a.is_sign_negative()
}

/// The smaller; NaN gives way.
fn min(a: f32, b: f32) -> f32 {
    if a.is_nan() {
        b
    } else if b.is_nan() || a < b || zero_below(a, b) {
        a
    } else {
        b
    }
}

/// The larger; NaN gives way.
fn max(a: f32, b: f32) -> f32 {
    if a.is_nan() {
        b
    } else if b.is_nan() || a > b || zero_below(b, a) {
        a
    } else {
        b
    }
}

/// The sum as the nearest double and what it misses.
fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let part = sum - a;
    (sum, (a - (sum - part)) + (b - part))
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn singles_to_the_nearest(rows in single_rows()) {
        let two = |op: &str, f: fn(f32, f32) -> f32| {
            check(&format!("{op}.f32"), "f", &["f", "f"], &rows, |row| bits(f(single(row[0]), single(row[1]))))
        };
        two("add", |a, b| a + b)?;
        two("add.rn", |a, b| a + b)?;
        two("sub", |a, b| a - b)?;
        two("mul", |a, b| a * b)?;
        two("div.rn", |a, b| a / b)?;
        two("div.full", |a, b| a / b)?;
        two("add.ftz", |a, b| flush(flush(a) + flush(b)))?;
        two("sub.ftz", |a, b| flush(flush(a) - flush(b)))?;
        two("mul.ftz", |a, b| flush(flush(a) * flush(b)))?;
        two("div.rn.ftz", |a, b| flush(flush(a) / flush(b)))?;
        two("add.sat", |a, b| saturate(a + b))?;
        two("mul.ftz.sat", |a, b| saturate(flush(flush(a) * flush(b))))?;
        check("fma.rn.f32", "f", &["f", "f", "f"], &rows, |row| {
            bits(single(row[0]).mul_add(single(row[1]), single(row[2])))
        })?;
        check("fma.rn.ftz.sat.f32", "f", &["f", "f", "f"], &rows, |row| {
            let [a, b, c, _] = row.map(|bits| flush(single(bits)));
            bits(saturate(flush(a.mul_add(b, c))))
        })?;
        check("mad.rn.f32", "f", &["f", "f", "f"], &rows, |row| {
            bits(single(row[0]).mul_add(single(row[1]), single(row[2])))
        })?;
        check("sqrt.rn.f32", "f", &["f"], &rows, |row| bits(single(row[0]).sqrt()))?;
        check("rcp.rn.f32", "f", &["f"], &rows, |row| bits(1.0 / single(row[0])))?;
        check("rcp.rn.ftz.f32", "f", &["f"], &rows, |row| bits(flush(1.0 / flush(single(row[0])))))?;
    }

    #[test]
    fn doubles_to_the_nearest(rows in double_rows()) {
        let two = |op: &str, f: fn(f64, f64) -> f64| {
            check(&format!("{op}.f64"), "d", &["d", "d"], &rows, |row| double_bits(f(double(row[0]), double(row[1]))))
        };
        two("add", |a, b| a + b)?;
        two("sub.rn", |a, b| a - b)?;
        two("mul", |a, b| a * b)?;
        two("div.rn", |a, b| a / b)?;
        check("fma.rn.f64", "d", &["d", "d", "d"], &rows, |row| {
            double_bits(double(row[0]).mul_add(double(row[1]), double(row[2])))
        })?;
        check("sqrt.rn.f64", "d", &["d"], &rows, |row| double_bits(double(row[0]).sqrt()))?;
        check("rcp.rn.f64", "d", &["d"], &rows, |row| double_bits(1.0 / double(row[0])))?;
        check("neg.f64", "d", &["d"], &rows, |row| Some(row[0] ^ 1 << 63))?;
        check("abs.f64", "d", &["d"], &rows, |row| Some(row[0] & !(1 << 63)))?;
    }

    #[test]
    fn singles_rounded_as_told(rows in single_rows()) {
        for mode in ["rz", "rm", "rp"] {
            check(&format!("mul.{mode}.f32"), "f", &["f", "f"], &rows, |row| {
                let product = f64::from(single(row[0])) * f64::from(single(row[1]));
                bits(directed(mode, product, 0.0))
            })?;
            check(&format!("add.{mode}.f32"), "f", &["f", "f"], &rows, |row| {
                let (sum, rest) = two_sum(single(row[0]).into(), single(row[1]).into());
                // The sign of a sum of opposites is its own rule.
                if sum == 0.0 { None } else { bits(directed(mode, sum, rest)) }
            })?;
            check(&format!("sqrt.{mode}.f32"), "f", &["f"], &rows, |row| {
                let value = f64::from(single(row[0]));
                let root = value.sqrt();
                // What the root misses has the sign of the difference of the squares.
                bits(if value > 0.0 { directed(mode, root, -root.mul_add(root, -value)) } else { root as f32 })
            })?;
            check(&format!("div.{mode}.f32"), "f", &["f", "f"], &rows, |row| {
                let (a, b) = (f64::from(single(row[0])), f64::from(single(row[1])));
                let quotient = a / b;
                if quotient == 0.0 || !quotient.is_finite() {
                    return bits(quotient as f32);
                }
                let rest = -quotient.mul_add(b, -a) * b.signum();
                bits(directed(mode, quotient, rest))
            })?;
        }
    }

    #[test]
    fn doubles_rounded_as_told(a in -1e9..1e9_f64, b in -1e-3..1e9_f64) {
        let row: Row = [a.to_bits(), b.to_bits(), 0, 0];
        let (sum, rest) = two_sum(a, b);
        let product = a * b;
        let missing = a.mul_add(b, -product);
        let moved = |value: f64, rest: f64, mode: &str| {
            let (down, up) = match mode {
                "rm" => (rest < 0.0, false),
                "rp" => (false, rest > 0.0),
                _ => (value > 0.0 && rest < 0.0, value < 0.0 && rest > 0.0),
            };
            if down { value.next_down() } else if up { value.next_up() } else { value }
        };
        for mode in ["rz", "rm", "rp"] {
            check(&format!("add.{mode}.f64"), "d", &["d", "d"], &[row], |_| Some(moved(sum, rest, mode).to_bits()))?;
            check(&format!("mul.{mode}.f64"), "d", &["d", "d"], &[row], |_| {
                Some(moved(product, missing, mode).to_bits())
            })?;
            check(&format!("fma.{mode}.f64"), "d", &["d", "d", "0d8000000000000000"], &[row], |_| {
                Some(moved(product, missing, mode).to_bits())
            })?;
        }
    }

    #[test]
    fn smaller_and_larger(rows in single_rows()) {
        let operands = |row: Row| (single(row[0]), single(row[1]));
        check("min.f32", "f", &["f", "f"], &rows, |row| {
            let (a, b) = operands(row);
            bits(min(a, b))
        })?;
        check("max.f32", "f", &["f", "f"], &rows, |row| {
            let (a, b) = operands(row);
            bits(max(a, b))
        })?;
        check("min.ftz.f32", "f", &["f", "f"], &rows, |row| {
            let (a, b) = operands(row);
            bits(min(flush(a), flush(b)))
        })?;
        check("min.NaN.f32", "f", &["f", "f"], &rows, |row| {
            let (a, b) = operands(row);
            bits(if a.is_nan() || b.is_nan() { f32::NAN } else { min(a, b) })
        })?;
        check("max.NaN.f32", "f", &["f", "f"], &rows, |row| {
            let (a, b) = operands(row);
            bits(if a.is_nan() || b.is_nan() { f32::NAN } else { max(a, b) })
        })?;
        check("neg.f32", "f", &["f"], &rows, |row| Some(row[0] ^ 1 << 31))?;
        check("abs.f32", "f", &["f"], &rows, |row| Some(row[0] & 0x7fff_ffff))?;
        check("copysign.f32", "f", &["f", "f"], &rows, |row| Some(row[1] & 0x7fff_ffff | row[0] & 0x8000_0000))?;
    }

    /// Devices give these within a few units in the last place, here they are the nearest or next to it.
    #[test]
    fn functions_of_limited_precision(rows in single_rows()) {
        let functions: [(&str, Function); 8] = [
            ("ex2.approx", f64::exp2),
            ("lg2.approx", f64::log2),
            ("sin.approx", f64::sin),
            ("cos.approx", f64::cos),
            ("tanh.approx", f64::tanh),
            ("rsqrt.approx", |x| 1.0 / x.sqrt()),
            ("rcp.approx", |x| 1.0 / x),
            ("sqrt.approx", f64::sqrt),
        ];
        for (op, f) in functions {
            for (row, found) in rows.iter().zip(compute(&format!("{op}.f32"), "f", &["f"], &rows)) {
                let (found, expected) = (single(found), f(f64::from(single(row[0]))) as f32);
                let apart = (found.to_bits() as i32).abs_diff(expected.to_bits() as i32);
                let same = found.is_nan() && expected.is_nan() || apart <= 1;
                prop_assert!(same, "{op} of {:e}: {found:e}, not {expected:e}", single(row[0]));
            }
        }
        check("ex2.approx.ftz.f32", "f", &["f"], &rows, |row| {
            bits(flush(f64::from(flush(single(row[0]))).exp2() as f32))
        })?;
        check("div.approx.f32", "f", &["f", "f"], &rows, |row| {
            let (a, b) = (single(row[0]), single(row[1]));
            let large = b.abs() > 2.0_f32.powi(126) && b.is_finite();
            bits(if large { a * 0.0_f32.copysign(b) } else { a / b })
        })?;
    }

    #[test]
    fn halves(rows in rows()) {
        let half = |bits: u64| from_half(bits as u16);
        // Sums and products of halves are exact as doubles.
        let binary = |op: &str, f: fn(f64, f64) -> f64| {
            check(&format!("{op}.f16"), "h", &["h", "h"], &rows, |row| {
                Some(to_half(f(half(row[0]), half(row[1]))).into())
            })?;
            check(&format!("{op}.f16x2"), "r", &["r", "r"], &rows, |row| {
                let part = |shift: u32| u64::from(to_half(f(half(row[0] >> shift), half(row[1] >> shift))));
                Some(part(0) | part(16) << 16)
            })
        };
        binary("add", |a, b| a + b)?;
        binary("sub", |a, b| a - b)?;
        binary("mul", |a, b| a * b)?;
        check("neg.f16", "h", &["h"], &rows, |row| Some((row[0] ^ 0x8000) & 0xffff))?;
        // The product is exact; where the sum is too, this is one rounding.
        check("fma.rn.f16", "h", &["h", "h", "h"], &rows, |row| {
            let (sum, rest) = two_sum(half(row[0]) * half(row[1]), half(row[2]));
            (rest == 0.0 || sum.is_nan()).then(|| to_half(sum).into())
        })?;
    }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn halves_of_wider_numbers(singles in single_rows(), doubles in double_rows()) {
        check("cvt.rn.f16.f32", "h", &["f"], &singles, |row| Some(to_half(single(row[0]).into()).into()))?;
        check("cvt.rn.f16.f64", "h", &["d"], &doubles, |row| Some(to_half(double(row[0])).into()))?;
        check("cvt.rn.f16x2.f32", "r", &["f", "f"], &singles, |row| {
            let [high, low] = [row[0], row[1]].map(|bits| u64::from(to_half(single(bits).into())));
            Some(high << 16 | low)
        })?;
        // Towards zero the size never grows, and the next half is past the number.
        check("cvt.rz.f16.f32", "h", &["f"], &singles, |row| {
            let value = f64::from(single(row[0]));
            let near = to_half(value);
            let past = from_half(near).abs() > value.abs();
            Some(if past { near - 1 } else { near }.into())
        })?;
    }
}

/// A half as a double.
fn from_half(bits: u16) -> f64 {
    let sign = if bits & 0x8000 == 0 { 1.0 } else { -1.0 };
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 0x3ff));
    sign * match exponent {
        0 => fraction * 2.0_f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1024.0 + fraction) * 2.0_f64.powi(exponent - 25),
    }
}

/// The nearest half, by its distance to the grid of halves around it.
fn to_half(value: f64) -> u16 {
    if value.is_nan() {
        return 0x7fff;
    }
    let sign = if value.is_sign_negative() { 0x8000 } else { 0 };
    let size = value.abs();
    if size >= 65520.0 {
        return sign | 0x7c00;
    }
    // The spacing of halves at this size.
    let exponent = if size < 2.0_f64.powi(-14) { -14 } else { size.log2().floor() as i32 };
    let exponent = if size < 2.0_f64.powi(exponent) && exponent > -14 { exponent - 1 } else { exponent };
    let steps = (size / 2.0_f64.powi(exponent - 10)).round_ties_even() as u16;
    let below = if exponent == -14 { 0 } else { (exponent + 14) as u16 };
    sign | ((below << 10) + steps)
}
