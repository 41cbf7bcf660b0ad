//! One instruction on rows of operands, a thread a row.
//!
//! Not here: references.

use proptest::prelude::*;

use super::{BASE, ENTRY, Flat, HEAD, launch, module};

/// Operands and the room for a result.
const ROW: usize = 40;

/// Operands of one thread.
pub type Row = [u64; 4];

/// Runs `op` on each row. Kinds are `h`, `r`, `rd` (integers of 16, 32, 64 bits), `f`, `d` (floats), `p` (predicates,
/// from and to whether the number is 0). An operand that is no kind is written as it is.
pub fn compute(op: &str, result: &str, operands: &[&str], rows: &[Row]) -> Vec<u64> {
    let mut text = format!("{HEAD}{ENTRY}");
    text.push_str("mov.u32 %r90, %tid.x; mul.wide.u32 %rd90, %r90, 40; add.u64 %rd91, %base, %rd90;\n");
    let mut list = Vec::new();
    for (index, kind) in operands.iter().enumerate() {
        let (at, number) = (8 * index, index + 1);
        let load = match *kind {
            "h" => format!("ld.global.b16 %h{number}, [%rd91+{at}];\n"),
            "r" => format!("ld.global.b32 %r{number}, [%rd91+{at}];\n"),
            "rd" => format!("ld.global.b64 %rd{number}, [%rd91+{at}];\n"),
            "f" => format!("ld.global.f32 %f{number}, [%rd91+{at}];\n"),
            "d" => format!("ld.global.f64 %d{number}, [%rd91+{at}];\n"),
            "p" => format!("ld.global.u32 %r80, [%rd91+{at}]; setp.ne.u32 %p{number}, %r80, 0;\n"),
            literal => {
                list.push(literal.to_owned());
                continue;
            }
        };
        text.push_str(&load);
        list.push(format!("%{kind}{number}"));
    }
    text.push_str(&format!("{op} %{result}50, {};\n", list.join(", ")));
    text.push_str(match result {
        "h" => "st.global.b16 [%rd91+32], %h50;",
        "r" => "st.global.b32 [%rd91+32], %r50;",
        "rd" => "st.global.b64 [%rd91+32], %rd50;",
        "f" => "st.global.f32 [%rd91+32], %f50;",
        "d" => "st.global.f64 [%rd91+32], %d50;",
        _ => "selp.u32 %r81, 1, 0, %p50; st.global.u32 [%rd91+32], %r81;",
    });
    text.push_str("\nret;\n}\n");
    let memory = Flat::new(ROW * rows.len());
    for (index, row) in rows.iter().enumerate() {
        for (column, value) in row.iter().enumerate() {
            memory.write(index * ROW + column * 8, &value.to_le_bytes());
        }
    }
    let module = module(&text);
    launch(module.kernel("k").unwrap(), rows.len() as u32, &memory, 0).unwrap();
    assert_eq!(BASE % 8, 0);
    memory.longs().chunks_exact(ROW / 8).map(|row| row[4]).collect()
}

/// Runs `op` on each row and compares with a reference; None of it leaves the result open.
pub fn check(
    op: &str,
    result: &str,
    operands: &[&str],
    rows: &[Row],
    reference: impl Fn(Row) -> Option<u64>,
) -> Result<(), TestCaseError> {
    for (row, found) in rows.iter().zip(compute(op, result, operands, rows)) {
        if let Some(expected) = reference(*row) {
            prop_assert_eq!(found, expected, "{} of {:x?}: {:#x}, not {:#x}", op, row, found, expected);
        }
    }
    Ok(())
}

/// Rows of numbers, those at the edges of every width more often.
pub fn rows() -> impl Strategy<Value = Vec<Row>> {
    let edge = prop_oneof![
        Just(0_u64),
        Just(1),
        Just(u64::MAX),
        Just(0x7fff),
        Just(0x8000),
        Just(0xffff),
        Just(0x7fff_ffff),
        Just(0x8000_0000),
        Just(0xffff_ffff),
        Just(1 << 63),
        Just((1 << 63) - 1),
    ];
    let number = prop_oneof![3 => any::<u64>(), 3 => edge, 2 => 0_u64..70];
    proptest::collection::vec(proptest::array::uniform4(number), 40)
}

/// Rows of singles: any bits, every exponent, NaN, infinities, subnormals and their neighbours.
pub fn single_rows() -> impl Strategy<Value = Vec<Row>> {
    let edges = [
        0.0_f32,
        -0.0,
        1.0,
        -1.0,
        0.5,
        1.5,
        2.5,
        -2.5,
        f32::MAX,
        f32::MIN,
        f32::MIN_POSITIVE,
        -f32::MIN_POSITIVE,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        f32::EPSILON,
        2147483648.0,
        -2147483648.0,
        4294967296.0,
    ];
    let edge = proptest::sample::select(edges.to_vec()).prop_map(f32::to_bits);
    let near = (proptest::sample::select(edges.to_vec()), -1_i32..=1)
        .prop_map(|(value, by)| value.to_bits().wrapping_add_signed(by));
    let plain = (-1000_i32..1000).prop_map(|value| (value as f32 / 8.0).to_bits());
    let number =
        prop_oneof![4 => any::<u32>(), 2 => edge, 2 => near, 1 => 0_u32..16, 3 => plain].prop_map(u64::from);
    proptest::collection::vec(proptest::array::uniform4(number), 40)
}

/// As [`single_rows`], of doubles.
pub fn double_rows() -> impl Strategy<Value = Vec<Row>> {
    let edges = [
        0.0_f64,
        -0.0,
        1.0,
        -1.0,
        0.5,
        1.5,
        2.5,
        f64::MAX,
        f64::MIN,
        f64::MIN_POSITIVE,
        -f64::MIN_POSITIVE,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        f64::EPSILON,
        9223372036854775808.0,
        -9223372036854775808.0,
        18446744073709551616.0,
        4294967295.5,
        f32::MAX as f64,
        f32::MIN_POSITIVE as f64,
    ];
    let edge = proptest::sample::select(edges.to_vec()).prop_map(f64::to_bits);
    let near = (proptest::sample::select(edges.to_vec()), -1_i64..=1)
        .prop_map(|(value, by)| value.to_bits().wrapping_add_signed(by));
    let plain = (-1000_i32..1000).prop_map(|value| (f64::from(value) / 8.0).to_bits());
    let number = prop_oneof![4 => any::<u64>(), 2 => edge, 2 => near, 1 => 0_u64..16, 3 => plain];
    proptest::collection::vec(proptest::array::uniform4(number), 40)
}

/// Few, since each case is a module of its own and 40 threads.
pub fn cases() -> ProptestConfig {
    ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() }
}
