//! Integer and bit instructions against references in wide integers and loops over bits.
//!
//! Not here: conversions (`convert.rs`), comparisons (`compare.rs`).

mod common;

use common::operation::{Row, cases, check, rows};
use proptest::prelude::*;

/// The value of the low bits.
fn value(bits: u32, signed: bool, from: u64) -> i128 {
    let low = i128::from(from) & ((1 << bits) - 1);
    if signed && low >> (bits - 1) & 1 == 1 { low - (1 << bits) } else { low }
}

/// The low bits of a value.
fn low(bits: u32, value: i128) -> u64 {
    (value & ((1 << bits) - 1)) as u64
}

/// Every width and sign, with the kinds of its registers and of twice the width.
const TYPES: [(u32, bool, &str, &str, &str); 6] = [
    (16, false, "u16", "h", "r"),
    (16, true, "s16", "h", "r"),
    (32, false, "u32", "r", "rd"),
    (32, true, "s32", "r", "rd"),
    (64, false, "u64", "rd", ""),
    (64, true, "s64", "rd", ""),
];

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn arithmetic_of_two(rows in rows()) {
        for (bits, signed, name, kind, wide) in TYPES {
            let two = |row: Row| (value(bits, signed, row[0]), value(bits, signed, row[1]));
            let binary = |op: &str, f: fn(i128, i128) -> Option<i128>| {
                check(&format!("{op}.{name}"), kind, &[kind, kind], &rows, |row| {
                    let (a, b) = two(row);
                    f(a, b).map(|result| low(bits, result))
                })
            };
            binary("add", |a, b| Some(a + b))?;
            binary("sub", |a, b| Some(a - b))?;
            binary("mul.lo", |a, b| Some(a.wrapping_mul(b)))?;
            binary("min", |a, b| Some(a.min(b)))?;
            binary("max", |a, b| Some(a.max(b)))?;
            // What a division by zero gives is open.
            binary("div", |a, b| a.checked_div(b))?;
            binary("rem", |a, b| a.checked_rem(b))?;
            check(&format!("mul.hi.{name}"), kind, &[kind, kind], &rows, |row| {
                let (a, b) = two(row);
                Some(low(bits, (a.wrapping_mul(b) as u128 >> bits) as i128))
            })?;
            if bits < 64 {
                check(&format!("mul.wide.{name}"), wide, &[kind, kind], &rows, |row| {
                    let (a, b) = two(row);
                    Some(low(2 * bits, a * b))
                })?;
                check(&format!("mad.wide.{name}"), wide, &[kind, kind, wide], &rows, |row| {
                    let (a, b) = two(row);
                    Some(low(2 * bits, a * b + value(2 * bits, signed, row[2])))
                })?;
            }
            check(&format!("mad.lo.{name}"), kind, &[kind, kind, kind], &rows, |row| {
                let (a, b) = two(row);
                Some(low(bits, a.wrapping_mul(b).wrapping_add(value(bits, signed, row[2]))))
            })?;
            check(&format!("mad.hi.{name}"), kind, &[kind, kind, kind], &rows, |row| {
                let (a, b) = two(row);
                Some(low(bits, (a.wrapping_mul(b) as u128 >> bits) as i128 + value(bits, signed, row[2])))
            })?;
            check(&format!("sad.{name}"), kind, &[kind, kind, kind], &rows, |row| {
                let (a, b) = two(row);
                Some(low(bits, (a - b).abs() + value(bits, signed, row[2])))
            })?;
        }
    }

    #[test]
    fn saturation_and_24_bits(rows in rows()) {
        let signed = |from| value(32, true, from);
        let clamp = |value: i128| Some(low(32, value.clamp(i32::MIN.into(), i32::MAX.into())));
        check("add.sat.s32", "r", &["r", "r"], &rows, |row| clamp(signed(row[0]) + signed(row[1])))?;
        check("sub.sat.s32", "r", &["r", "r"], &rows, |row| clamp(signed(row[0]) - signed(row[1])))?;
        check("mad.hi.sat.s32", "r", &["r", "r", "r"], &rows, |row| {
            clamp(((signed(row[0]) * signed(row[1])) >> 32) + signed(row[2]))
        })?;
        for (name, is_signed) in [("u32", false), ("s32", true)] {
            let product = move |row: Row| value(24, is_signed, row[0]) * value(24, is_signed, row[1]);
            check(&format!("mul24.lo.{name}"), "r", &["r", "r"], &rows, |row| Some(low(32, product(row))))?;
            check(&format!("mul24.hi.{name}"), "r", &["r", "r"], &rows, |row| Some(low(32, product(row) >> 16)))?;
            check(&format!("mad24.lo.{name}"), "r", &["r", "r", "r"], &rows, |row| {
                Some(low(32, product(row) + value(32, is_signed, row[2])))
            })?;
        }
    }

    #[test]
    fn arithmetic_of_one(rows in rows()) {
        for (bits, signed, name, kind, _) in TYPES.into_iter().filter(|ty| ty.1) {
            let one = |row: Row| value(bits, signed, row[0]);
            check(&format!("neg.{name}"), kind, &[kind], &rows, |row| Some(low(bits, -one(row))))?;
            check(&format!("abs.{name}"), kind, &[kind], &rows, |row| Some(low(bits, one(row).abs())))?;
        }
    }

    #[test]
    fn logic_and_shifts(rows in rows()) {
        for (bits, _, _, kind, _) in TYPES.into_iter().filter(|ty| !ty.1) {
            let mask = move |value: u64| low(bits, value.into());
            let b = |op: &str| format!("{op}.b{bits}");
            check(&b("and"), kind, &[kind, kind], &rows, |row| Some(mask(row[0] & row[1])))?;
            check(&b("or"), kind, &[kind, kind], &rows, |row| Some(mask(row[0] | row[1])))?;
            check(&b("xor"), kind, &[kind, kind], &rows, |row| Some(mask(row[0] ^ row[1])))?;
            check(&b("not"), kind, &[kind], &rows, |row| Some(mask(!row[0])))?;
            check(&b("cnot"), kind, &[kind], &rows, |row| Some(u64::from(mask(row[0]) == 0)))?;
            // Amounts past the width clamp.
            let by = |row: Row| row[1] as u32;
            check(&b("shl"), kind, &[kind, "r"], &rows, |row| {
                Some(if by(row) < bits { mask(row[0] << by(row)) } else { 0 })
            })?;
            for signed in [false, true] {
                let op = format!("shr.{}{bits}", if signed { "s" } else { "u" });
                check(&op, kind, &[kind, "r"], &rows, |row| {
                    Some(low(bits, value(bits, signed, row[0]) >> by(row).min(100)))
                })?;
            }
        }
    }

    #[test]
    fn counts_and_searches(rows in rows()) {
        for (bits, kind) in [(32_u32, "r"), (64, "rd")] {
            let bit = move |value: u64, index: u32| value >> index & 1;
            check(&format!("popc.b{bits}"), "r", &[kind], &rows, |row| {
                Some((0..bits).map(|i| bit(row[0], i)).sum())
            })?;
            let highest = move |value: u64, unlike: u64| (0..bits).rev().find(|i| bit(value, *i) != unlike);
            check(&format!("clz.b{bits}"), "r", &[kind], &rows, |row| {
                Some(highest(row[0], 0).map_or(bits, |i| bits - 1 - i).into())
            })?;
            check(&format!("brev.b{bits}"), kind, &[kind], &rows, |row| {
                Some((0..bits).fold(0, |all, i| all | bit(row[0], i) << (bits - 1 - i)))
            })?;
            for signed in [false, true] {
                let name = format!("{}{bits}", if signed { "s" } else { "u" });
                let found = move |row: Row| highest(row[0], if signed { bit(row[0], bits - 1) } else { 0 });
                check(&format!("bfind.{name}"), "r", &[kind], &rows, |row| {
                    Some(found(row).unwrap_or(u32::MAX).into())
                })?;
                check(&format!("bfind.shiftamt.{name}"), "r", &[kind], &rows, |row| {
                    Some(found(row).map_or(u32::MAX, |i| bits - 1 - i).into())
                })?;
            }
        }
    }

    #[test]
    fn fields_of_bits(rows in rows(), small in any::<bool>()) {
        // Positions and lengths past the end are rare in plain numbers.
        let rows: Vec<Row> = rows
            .into_iter()
            .map(|[a, b, c, d]| if small { [a, b, c & 0x3f, d & 0x3f] } else { [a, b, c, d] })
            .collect();
        for (bits, kind) in [(32_u32, "r"), (64, "rd")] {
            let bit = move |value: u64, index: u32| value >> index & 1;
            check(&format!("bfi.b{bits}"), kind, &[kind, kind, "r", "r"], &rows, |[a, b, c, d]| {
                let (position, length) = (c as u32 & 0xff, d as u32 & 0xff);
                let taken = |i: u32| i >= position && i < position + length;
                Some((0..bits).fold(0, |all, i| {
                    all | (if taken(i) { bit(a, i - position) } else { bit(b, i) }) << i
                }))
            })?;
            for signed in [false, true] {
                let rows: Vec<Row> = rows.iter().map(|[a, _, c, d]| [*a, *c, *d, 0]).collect();
                let op = format!("bfe.{}{bits}", if signed { "s" } else { "u" });
                check(&op, kind, &[kind, "r", "r"], &rows, |[a, b, c, _]| {
                    let (position, length) = (b as u32 & 0xff, c as u32 & 0xff);
                    let fill =
                        if signed && length > 0 { bit(a, (position + length - 1).min(bits - 1)) } else { 0 };
                    Some((0..bits).fold(0, |all, i| {
                        let inside = i < length && position + i < bits;
                        all | (if inside { bit(a, position + i) } else { fill }) << i
                    }))
                })?;
            }
        }
    }

    #[test]
    fn bytes_and_tables(rows in rows(), table in any::<u8>()) {
        let byte = |row: Row, index: u64| {
            let all = (row[1] & 0xffff_ffff) << 32 | row[0] & 0xffff_ffff;
            all >> (8 * (index & 7)) & 0xff
        };
        let four = |bytes: [u64; 4]| Some(bytes.iter().rev().fold(0, |all, byte| all << 8 | byte));
        check("prmt.b32", "r", &["r", "r", "r"], &rows, |row| {
            four([0, 1, 2, 3].map(|i| {
                let selector = row[2] >> (4 * i) & 0xf;
                let byte = byte(row, selector);
                if selector & 8 == 0 { byte } else { 0xff * (byte >> 7) }
            }))
        })?;
        let mode = |name: &str, f: fn(u64, u64) -> u64| {
            check(&format!("prmt.b32.{name}"), "r", &["r", "r", "r"], &rows, |row| {
                four([0, 1, 2, 3].map(|i| byte(row, f(row[2] & 3, i))))
            })
        };
        mode("f4e", |by, i| by + i)?;
        mode("b4e", |by, i| by + 8 - i)?;
        mode("rc8", |by, _| by)?;
        mode("ecl", |by, i| by.max(i))?;
        mode("ecr", |by, i| by.min(i))?;
        mode("rc16", |by, i| 2 * (by & 1) + (i & 1))?;
        let lut = table.to_string();
        check("lop3.b32", "r", &["r", "r", "r", lut.as_str()], &rows, |[a, b, c, _]| {
            Some((0..32).fold(0, |all, i| {
                let index = (a >> i & 1) << 2 | (b >> i & 1) << 1 | c >> i & 1;
                all | u64::from(table >> index & 1) << i
            }))
        })?;
        for (mode, wrap) in [("wrap", true), ("clamp", false)] {
            let by = move |row: Row| if wrap { row[2] & 31 } else { (row[2] & 0xffff_ffff).min(32) };
            let pair = |row: Row| u128::from((row[1] & 0xffff_ffff) << 32 | row[0] & 0xffff_ffff);
            check(&format!("shf.l.{mode}.b32"), "r", &["r", "r", "r"], &rows, |row| {
                Some((pair(row) << by(row) >> 32) as u32 as u64)
            })?;
            check(&format!("shf.r.{mode}.b32"), "r", &["r", "r", "r"], &rows, |row| {
                Some((pair(row) >> by(row)) as u32 as u64)
            })?;
        }
    }

    #[test]
    fn sums_of_products(rows in rows()) {
        for (first, a_signed) in [("u32", false), ("s32", true)] {
            for (second, b_signed) in [("u32", false), ("s32", true)] {
                let part = |bits, signed, from: u64, index: u32| value(bits, signed, from >> (bits * index));
                let op = format!("dp4a.{first}.{second}");
                check(&op, "r", &["r", "r", "r"], &rows, |[a, b, c, _]| {
                    let sum: i128 = (0..4).map(|i| part(8, a_signed, a, i) * part(8, b_signed, b, i)).sum();
                    Some(low(32, sum + i128::from(c)))
                })?;
                for (half, from) in [("lo", 0), ("hi", 2)] {
                    let op = format!("dp2a.{half}.{first}.{second}");
                    check(&op, "r", &["r", "r", "r"], &rows, |[a, b, c, _]| {
                        let sum: i128 =
                            (0..2).map(|i| part(16, a_signed, a, i) * part(8, b_signed, b, from + i)).sum();
                        Some(low(32, sum + i128::from(c)))
                    })?;
                }
            }
        }
    }

    /// Sums, differences and products of numbers of several words.
    #[test]
    fn carries_go_from_word_to_word(a: u128, b: u128) {
        let body = "
            ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%base];
            ld.global.v4.u32 {%r5, %r6, %r7, %r8}, [%base+16];
            add.cc.u32 %r11, %r1, %r5; addc.cc.u32 %r12, %r2, %r6; addc.cc.u32 %r13, %r3, %r7; addc.u32 %r14, %r4, %r8;
            st.global.v4.u32 [%base+32], {%r11, %r12, %r13, %r14};
            sub.cc.u32 %r11, %r1, %r5; subc.cc.u32 %r12, %r2, %r6; subc.cc.u32 %r13, %r3, %r7; subc.u32 %r14, %r4, %r8;
            st.global.v4.u32 [%base+48], {%r11, %r12, %r13, %r14};
            ld.global.v2.u64 {%rd1, %rd2}, [%base]; ld.global.v2.u64 {%rd3, %rd4}, [%base+16];
            mul.lo.u64 %rd5, %rd1, %rd3; mul.hi.u64 %rd6, %rd1, %rd3;
            mad.lo.cc.u64 %rd7, %rd1, %rd4, %rd6; madc.hi.u64 %rd8, %rd1, %rd4, 0;
            mad.lo.cc.u64 %rd7, %rd2, %rd3, %rd7;
            st.global.v2.u64 [%base+64], {%rd5, %rd7};";
        let memory = common::Flat::new(80);
        memory.write(0, &a.to_le_bytes());
        memory.write(16, &b.to_le_bytes());
        let module = common::module(&common::text(body));
        common::launch(module.kernel("k").unwrap(), 1, &memory, 0).unwrap();
        let longs = memory.longs();
        let wide = |at: usize| u128::from(longs[at]) | u128::from(longs[at + 1]) << 64;
        prop_assert_eq!(wide(4), a.wrapping_add(b));
        prop_assert_eq!(wide(6), a.wrapping_sub(b));
        prop_assert_eq!(wide(8), a.wrapping_mul(b));
    }
}
