//! Comparisons, selections and predicates.
//!
//! Not here: branches (`control.rs`).

mod common;

use common::operation::{Row, cases, check, double_rows, rows, single_rows};
use common::{run_words, text};
use proptest::prelude::*;

/// Whether a number is of a kind.
type Is<T> = fn(T) -> bool;

/// A function of two predicates.
type Combine = fn(bool, bool) -> bool;

fn signed(bits: u32, from: u64) -> i64 {
    (from << (64 - bits)) as i64 >> (64 - bits)
}

fn unsigned(bits: u32, from: u64) -> u64 {
    from << (64 - bits) >> (64 - bits)
}

fn ordered<T: PartialOrd>(name: &str, a: T, b: T) -> bool {
    match name {
        "eq" => a == b,
        "ne" => a != b,
        "lt" | "lo" => a < b,
        "le" | "ls" => a <= b,
        "gt" | "hi" => a > b,
        _ => a >= b,
    }
}

fn floating(name: &str, a: f64, b: f64) -> bool {
    let nan = a.is_nan() || b.is_nan();
    match name {
        "num" => !nan,
        "nan" => nan,
        "equ" => nan || a == b,
        "neu" => nan || a != b,
        "ltu" => nan || a < b,
        "leu" => nan || a <= b,
        "gtu" => nan || a > b,
        "geu" => nan || a >= b,
        ordered_name => !nan && ordered(ordered_name, a, b),
    }
}

const ORDERS: [&str; 6] = ["eq", "ne", "lt", "le", "gt", "ge"];
const FLOATING: [&str; 14] =
    ["eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"];

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn integers(rows in rows()) {
        // Equal operands are rare otherwise.
        let rows: Vec<Row> =
            rows.into_iter().enumerate().map(|(i, [a, b, c, d])| [a, if i % 4 == 0 { a } else { b }, c, d]).collect();
        for (bits, kind) in [(16, "h"), (32, "r"), (64, "rd")] {
            for name in ORDERS {
                check(&format!("setp.{name}.s{bits}"), "p", &[kind, kind], &rows, |row| {
                    Some(ordered(name, signed(bits, row[0]), signed(bits, row[1])).into())
                })?;
                check(&format!("setp.{name}.u{bits}"), "p", &[kind, kind], &rows, |row| {
                    Some(ordered(name, unsigned(bits, row[0]), unsigned(bits, row[1])).into())
                })?;
            }
            for name in ["lo", "ls", "hi", "hs"] {
                check(&format!("setp.{name}.u{bits}"), "p", &[kind, kind], &rows, |row| {
                    Some(ordered(name, unsigned(bits, row[0]), unsigned(bits, row[1])).into())
                })?;
            }
            check(&format!("setp.eq.b{bits}"), "p", &[kind, kind], &rows, |row| {
                Some((unsigned(bits, row[0]) == unsigned(bits, row[1])).into())
            })?;
        }
    }

    #[test]
    fn singles(rows in single_rows()) {
        for name in FLOATING {
            let value = |bits: u64| f64::from(f32::from_bits(bits as u32));
            check(&format!("setp.{name}.f32"), "p", &["f", "f"], &rows, |row| {
                Some(floating(name, value(row[0]), value(row[1])).into())
            })?;
            let flushed = |bits: u64| {
                let value = f32::from_bits(bits as u32);
                f64::from(if value.is_subnormal() { 0.0 } else { value })
            };
            check(&format!("setp.{name}.ftz.f32"), "p", &["f", "f"], &rows, |row| {
                Some(floating(name, flushed(row[0]), flushed(row[1])).into())
            })?;
            check(&format!("set.{name}.u32.f32"), "r", &["f", "f"], &rows, |row| {
                Some(if floating(name, value(row[0]), value(row[1])) { 0xffff_ffff } else { 0 })
            })?;
            check(&format!("set.{name}.f32.f32"), "f", &["f", "f"], &rows, |row| {
                Some(if floating(name, value(row[0]), value(row[1])) { 0x3f80_0000 } else { 0 })
            })?;
        }
    }

    #[test]
    fn doubles(rows in double_rows()) {
        for name in FLOATING {
            check(&format!("setp.{name}.f64"), "p", &["d", "d"], &rows, |row| {
                Some(floating(name, f64::from_bits(row[0]), f64::from_bits(row[1])).into())
            })?;
        }
        let kinds: [(&str, Is<f64>); 6] = [
            ("finite", f64::is_finite),
            ("infinite", f64::is_infinite),
            ("number", |x| !x.is_nan()),
            ("notanumber", f64::is_nan),
            ("normal", f64::is_normal),
            ("subnormal", f64::is_subnormal),
        ];
        for (name, f) in kinds {
            check(&format!("testp.{name}.f64"), "p", &["d"], &rows, |row| Some(f(f64::from_bits(row[0])).into()))?;
        }
    }

    #[test]
    fn kinds_of_singles(rows in single_rows()) {
        let kinds: [(&str, Is<f32>); 6] = [
            ("finite", f32::is_finite),
            ("infinite", f32::is_infinite),
            ("number", |x| !x.is_nan()),
            ("notanumber", f32::is_nan),
            ("normal", f32::is_normal),
            ("subnormal", f32::is_subnormal),
        ];
        for (name, f) in kinds {
            check(&format!("testp.{name}.f32"), "p", &["f"], &rows, |row| {
                Some(f(f32::from_bits(row[0] as u32)).into())
            })?;
        }
        check("slct.b32.f32", "r", &["r", "r", "f"], &rows, |row| {
            Some(if f32::from_bits(row[2] as u32) >= 0.0 { row[0] } else { row[1] } & 0xffff_ffff)
        })?;
    }

    #[test]
    fn combined_and_selected(rows in rows()) {
        let rows: Vec<Row> = rows.into_iter().map(|[a, b, c, d]| [a & 3, b & 3, c & 1, d & 1]).collect();
        let logic: [(&str, Combine); 3] =
            [("and", |a, b| a & b), ("or", |a, b| a | b), ("xor", |a, b| a ^ b)];
        for (name, f) in logic {
            check(&format!("setp.lt.{name}.s32"), "p", &["r", "r", "p"], &rows, |row| {
                Some(f(row[0] < row[1], row[2] != 0).into())
            })?;
            check(&format!("set.lt.{name}.u32.s32"), "r", &["r", "r", "p"], &rows, |row| {
                Some(if f(row[0] < row[1], row[2] != 0) { 0xffff_ffff } else { 0 })
            })?;
            check(&format!("{name}.pred"), "p", &["p", "p"], &rows, |row| {
                Some(f(row[0] != 0, row[1] != 0).into())
            })?;
        }
        check("not.pred", "p", &["p"], &rows, |row| Some((row[0] == 0).into()))?;
        check("mov.pred", "p", &["p"], &rows, |row| Some((row[0] != 0).into()))?;
        for (op, kind) in [("selp.b16", "h"), ("selp.b32", "r"), ("selp.u64", "rd"), ("selp.f32", "f"), ("selp.f64", "d")] {
            check(op, kind, &[kind, kind, "p"], &rows, |row| Some(if row[2] != 0 { row[0] } else { row[1] }))?;
        }
        check("slct.u64.s32", "rd", &["rd", "rd", "r"], &rows, |row| Some(row[0]))?;
        check("slct.u64.s32", "rd", &["rd", "rd", "-1"], &rows, |row| Some(row[1]))?;
    }
}

#[test]
fn both_targets_are_written_from_what_was_there() {
    // The predicate that is combined is a target too.
    let body = "
        mov.u32 %r1, %tid.x; setp.ge.u32 %p1, %r1, 2; setp.lt.and.u32 %p1|%p2, %r1, 3, %p1;
        selp.u32 %r2, 1, 0, %p1; selp.u32 %r3, 2, 0, %p2; or.b32 %r2, %r2, %r3;
        setp.eq.u32 %p3|%p4, %r1, 1; selp.u32 %r3, 4, 0, %p3; or.b32 %r2, %r2, %r3;
        selp.u32 %r3, 8, 0, %p4; or.b32 %r2, %r2, %r3;
        mul.wide.u32 %rd1, %r1, 4; add.u64 %rd1, %rd1, %base; st.global.u32 [%rd1], %r2;";
    assert_eq!(run_words(body, 4, 4).unwrap(), [8, 4, 8 + 1, 8 + 2], "{}", text(body));
}

#[test]
fn predicates_may_be_constants_and_negated() {
    let body = "
        mov.pred %p1, 1; mov.pred %p2, 0; and.pred %p3, %p1, !%p2; not.pred %p4, %p3;
        selp.u32 %r1, 1, 0, %p3; selp.u32 %r2, 1, 0, %p4; st.global.v2.u32 [%base], {%r1, %r2};";
    assert_eq!(run_words(body, 1, 2).unwrap(), [1, 0]);
}
