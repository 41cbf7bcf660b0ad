//! Conversions against the machine's own, and against wide integers.
//!
//! Not here: arithmetic of halves (`float.rs`).

mod common;

use common::operation::{Row, cases, check, double_rows, rows, single_rows};
use proptest::prelude::*;

/// Integers: name, bits, signed, the kind of their registers.
const INTEGERS: [(&str, u32, bool, &str); 8] = [
    ("u8", 8, false, "h"),
    ("s8", 8, true, "h"),
    ("u16", 16, false, "h"),
    ("s16", 16, true, "h"),
    ("u32", 32, false, "r"),
    ("s32", 32, true, "r"),
    ("u64", 64, false, "rd"),
    ("s64", 64, true, "rd"),
];

fn width(kind: &str) -> u32 {
    match kind {
        "h" => 16,
        "r" => 32,
        _ => 64,
    }
}

fn value(bits: u32, signed: bool, from: u64) -> i128 {
    let low = i128::from(from) & ((1 << bits) - 1);
    if signed && low >> (bits - 1) & 1 == 1 { low - (1 << bits) } else { low }
}

fn range(bits: u32, signed: bool) -> (i128, i128) {
    if signed { (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) }
}

/// The bits of a register with the value, filled with its sign.
fn placed(value: i128, kind: &str) -> u64 {
    (value & ((1 << width(kind)) - 1)) as u64
}

fn single(bits: u64) -> f32 {
    f32::from_bits(bits as u32)
}

fn rounded(mode: &str, value: f64) -> f64 {
    match mode {
        "rni" => value.round_ties_even(),
        "rzi" => value.trunc(),
        "rmi" => value.floor(),
        _ => value.ceil(),
    }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn between_integers(rows in rows()) {
        for (to, to_bits, to_signed, to_kind) in INTEGERS {
            for (from, bits, signed, kind) in INTEGERS {
                check(&format!("cvt.{to}.{from}"), to_kind, &[kind], &rows, |row| {
                    let cut = value(to_bits, to_signed, value(bits, signed, row[0]) as u64);
                    Some(placed(cut, to_kind))
                })?;
                check(&format!("cvt.sat.{to}.{from}"), to_kind, &[kind], &rows, |row| {
                    let (least, most) = range(to_bits, to_signed);
                    Some(placed(value(bits, signed, row[0]).clamp(least, most), to_kind))
                })?;
            }
        }
    }

    #[test]
    fn from_integers(rows in rows()) {
        for (from, bits, signed, kind) in INTEGERS {
            let number = |row: Row| value(bits, signed, row[0]);
            check(&format!("cvt.rn.f32.{from}"), "f", &[kind], &rows, |row| {
                Some((number(row) as f32).to_bits().into())
            })?;
            check(&format!("cvt.rn.f64.{from}"), "d", &[kind], &rows, |row| Some((number(row) as f64).to_bits()))?;
            for mode in ["rz", "rm", "rp"] {
                check(&format!("cvt.{mode}.f32.{from}"), "f", &[kind], &rows, |row| {
                    let exact = number(row);
                    let near = exact as f32;
                    // Singles of this size are whole.
                    let below = if near as i128 > exact { near.next_down() } else { near };
                    let above = if (near as i128) < exact { near.next_up() } else { near };
                    let result = match mode {
                        "rm" => below,
                        "rp" => above,
                        _ if exact > 0 => below,
                        _ => above,
                    };
                    Some(result.to_bits().into())
                })?;
            }
        }
    }

    #[test]
    fn singles_to_integers(rows in single_rows()) {
        for (to, bits, signed, kind) in INTEGERS {
            for mode in ["rni", "rzi", "rmi", "rpi"] {
                check(&format!("cvt.{mode}.{to}.f32"), kind, &["f"], &rows, |row| {
                    let number = f64::from(single(row[0]));
                    let (least, most) = range(bits, signed);
                    // NaN is 0, but of 64 bits the highest bit alone.
                    let nan = if bits == 64 { 1 << 63 } else { 0 };
                    let whole = if number.is_nan() { nan } else { (rounded(mode, number) as i128).clamp(least, most) };
                    Some(placed(whole, kind))
                })?;
            }
        }
    }

    #[test]
    fn doubles_to_integers(rows in double_rows()) {
        for (to, bits, signed, kind) in INTEGERS {
            for mode in ["rni", "rzi", "rmi", "rpi"] {
                check(&format!("cvt.{mode}.{to}.f64"), kind, &["d"], &rows, |row| {
                    let number = f64::from_bits(row[0]);
                    let (least, most) = range(bits, signed);
                    if number.is_nan() {
                        return Some(placed(value(bits, signed, 1 << (bits - 1)), kind));
                    }
                    Some(placed((rounded(mode, number) as i128).clamp(least, most), kind))
                })?;
            }
        }
    }

    #[test]
    fn between_floats(singles in single_rows(), doubles in double_rows()) {
        let bits = |value: f32| Some(if value.is_nan() { 0x7fff_ffff } else { u64::from(value.to_bits()) });
        check("cvt.f64.f32", "d", &["f"], &singles, |row| {
            let value = single(row[0]);
            Some(if value.is_nan() { 0x7ff8_0000_0000_0000 } else { f64::from(value).to_bits() })
        })?;
        check("cvt.rn.f32.f64", "f", &["d"], &doubles, |row| bits(f64::from_bits(row[0]) as f32))?;
        check("cvt.rz.f32.f64", "f", &["d"], &doubles, |row| {
            let value = f64::from_bits(row[0]);
            let near = value as f32;
            bits(if f64::from(near).abs() > value.abs() { f32::from_bits(near.to_bits() - 1) } else { near })
        })?;
        check("cvt.sat.f32.f32", "f", &["f"], &singles, |row| {
            let value = single(row[0]);
            bits(if value.is_nan() || value <= 0.0 { 0.0 } else { value.min(1.0) })
        })?;
        check("cvt.ftz.f32.f32", "f", &["f"], &singles, |row| {
            let value = single(row[0]);
            bits(if value.is_subnormal() { 0.0_f32.copysign(value) } else { value })
        })?;
        for mode in ["rni", "rzi", "rmi", "rpi"] {
            check(&format!("cvt.{mode}.f32.f32"), "f", &["f"], &singles, |row| {
                bits(rounded(mode, single(row[0]).into()) as f32)
            })?;
            check(&format!("cvt.{mode}.f64.f64"), "d", &["d"], &doubles, |row| {
                let value = f64::from_bits(row[0]);
                Some(if value.is_nan() { 0x7ff8_0000_0000_0000 } else { rounded(mode, value).to_bits() })
            })?;
        }
    }

    #[test]
    fn halves_and_back(rows in rows()) {
        // Every half is a single, and comes back as it was.
        check("cvt.f32.f16", "f", &["h"], &rows, |row| {
            let bits = row[0] as u16;
            let fraction = f32::from(bits & 0x3ff);
            let size = match bits >> 10 & 31 {
                0 => fraction * 2.0_f32.powi(-24),
                31 if fraction == 0.0 => f32::INFINITY,
                31 => return Some(0x7fff_ffff),
                exponent => (1024.0 + fraction) * 2.0_f32.powi(i32::from(exponent) - 25),
            };
            Some(u64::from(if bits & 0x8000 == 0 { size } else { -size }.to_bits()))
        })?;
        check("cvt.f32.bf16", "f", &["h"], &rows, |row| {
            let value = single(row[0] << 16);
            Some(if value.is_nan() { 0x7fff_ffff } else { value.to_bits().into() })
        })?;
        let round_trip = |to: &str, back: &str, rows: &[Row]| -> Result<(), TestCaseError> {
            let singles = common::operation::compute(&format!("cvt.f32.{back}"), "f", &["h"], rows);
            let again: Vec<Row> = singles.iter().map(|bits| [*bits, 0, 0, 0]).collect();
            check(&format!("cvt.rn.{to}.f32"), "h", &["f"], &again, |row| {
                let at = again.iter().position(|other| *other == row)?;
                let is_nan = single(row[0]).is_nan();
                Some(if is_nan { 0x7fff } else { rows[at][0] & 0xffff })
            })
        };
        round_trip("f16", "f16", &rows)?;
        round_trip("bf16", "bf16", &rows)?;
    }

    #[test]
    fn singles_to_halves(rows in single_rows()) {
        check("cvt.rn.bf16.f32", "h", &["f"], &rows, |row| {
            let value = single(row[0]);
            if value.is_nan() {
                return Some(0x7fff);
            }
            // To the nearest of the upper halves, ties to even.
            let bits = u64::from(value.to_bits());
            Some((bits + 0x7fff + (bits >> 16 & 1)) >> 16)
        })?;
        check("cvt.rn.bf16x2.f32", "r", &["f", "f"], &rows, |row| {
            let half = |bits: u64| {
                if single(bits).is_nan() { 0x7fff } else { (bits + 0x7fff + (bits >> 16 & 1)) >> 16 }
            };
            Some(half(row[0]) << 16 | half(row[1]))
        })?;
    }
}
