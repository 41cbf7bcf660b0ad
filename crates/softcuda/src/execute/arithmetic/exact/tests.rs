//! Against the machine's own floats, and against bounds.
//!
//! Not here: instructions.

use proptest::prelude::*;

use super::*;

const SINGLE: Format = Format::of(Float::F32);
const DOUBLE: Format = Format::of(Float::F64);

/// Bits of singles with those at the edges more often.
fn single() -> impl Strategy<Value = u32> {
    prop_oneof![
        4 => any::<u32>(),
        2 => (any::<bool>(), 0_u32..=255, prop_oneof![Just(0_u32), Just(1), Just(0x7f_ffff), 0..0x80_0000_u32])
            .prop_map(|(s, e, f)| u32::from(s) << 31 | e << 23 | f),
        1 => (any::<bool>(), 120_u32..135, 0..0x80_0000_u32).prop_map(|(s, e, f)| u32::from(s) << 31 | e << 23 | f),
    ]
}

fn double() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => any::<u64>(),
        2 => (any::<bool>(), 0_u64..=2047, prop_oneof![Just(0_u64), Just(1), Just((1 << 52) - 1), 0..1_u64 << 52])
            .prop_map(|(s, e, f)| u64::from(s) << 63 | e << 52 | f),
        2 => (any::<bool>(), 1015_u64..1030, 0..1_u64 << 52).prop_map(|(s, e, f)| u64::from(s) << 63 | e << 52 | f),
    ]
}

fn same_single(ours: u64, theirs: f32) -> Result<(), TestCaseError> {
    if theirs.is_nan() {
        prop_assert_eq!(ours, SINGLE.nan());
    } else {
        prop_assert_eq!(ours as u32, theirs.to_bits());
    }
    Ok(())
}

fn same_double(ours: u64, theirs: f64) -> Result<(), TestCaseError> {
    if theirs.is_nan() {
        prop_assert_eq!(ours, DOUBLE.nan());
    } else {
        prop_assert_eq!(ours, theirs.to_bits());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn nearest_is_what_the_machine_does_with_singles(a in single(), b in single(), c in single()) {
        let [x, y, z] = [a, b, c].map(f32::from_bits);
        let [a, b, c] = [a, b, c].map(u64::from);
        let n = Round::Nearest;
        same_single(SINGLE.add(a, b, n), x + y)?;
        same_single(SINGLE.mul(a, b, n), x * y)?;
        same_single(SINGLE.div(a, b, n), x / y)?;
        same_single(SINGLE.sqrt(a, n), x.sqrt())?;
        same_single(SINGLE.fma(a, b, c, n), x.mul_add(y, z))?;
        same_single(SINGLE.whole(a, n), x.round_ties_even())?;
        same_single(SINGLE.whole(a, Round::Zero), x.trunc())?;
        same_single(SINGLE.whole(a, Round::Down), x.floor())?;
        same_single(SINGLE.whole(a, Round::Up), x.ceil())?;
        same_single(SINGLE.whole(a, Round::Away), x.round())?;
        same_double(DOUBLE.of_format(SINGLE, a, n), f64::from(x))?;
    }

    #[test]
    fn nearest_is_what_the_machine_does_with_doubles(a in double(), b in double(), c in double()) {
        let [x, y, z] = [a, b, c].map(f64::from_bits);
        let n = Round::Nearest;
        same_double(DOUBLE.add(a, b, n), x + y)?;
        same_double(DOUBLE.mul(a, b, n), x * y)?;
        same_double(DOUBLE.div(a, b, n), x / y)?;
        same_double(DOUBLE.sqrt(a, n), x.sqrt())?;
        same_double(DOUBLE.fma(a, b, c, n), x.mul_add(y, z))?;
        same_single(SINGLE.of_format(DOUBLE, a, n), x as f32)?;
        prop_assert_eq!(DOUBLE.integer(a, Round::Zero).unwrap_or(0).clamp(i64::MIN.into(), i64::MAX.into()) as i64, x as i64);
    }

    #[test]
    fn whole_numbers_become_the_nearest_floats(a: i64, b: u64) {
        prop_assert_eq!(SINGLE.of_integer(a.into(), Round::Nearest) as u32, (a as f32).to_bits());
        prop_assert_eq!(SINGLE.of_integer(b.into(), Round::Nearest) as u32, (b as f32).to_bits());
        prop_assert_eq!(DOUBLE.of_integer(a.into(), Round::Nearest), (a as f64).to_bits());
    }

    /// Down and up are the neighbours around the exact result, or both are the result.
    #[test]
    fn directed_roundings_enclose_the_result(a in single(), b in single(), c in single()) {
        let [a, b, c] = [a, b, c].map(u64::from);
        let operations: [&dyn Fn(Round) -> u64; 5] = [
            &|round| SINGLE.add(a, b, round),
            &|round| SINGLE.mul(a, b, round),
            &|round| SINGLE.div(a, b, round),
            &|round| SINGLE.sqrt(a, round),
            &|round| SINGLE.fma(a, b, c, round),
        ];
        for operation in operations {
            let value = |round| f32::from_bits(operation(round) as u32);
            let (down, near, up) = (value(Round::Down), value(Round::Nearest), value(Round::Up));
            let zero = value(Round::Zero);
            if near.is_nan() {
                prop_assert!(down.is_nan() && up.is_nan() && zero.is_nan());
                continue;
            }
            prop_assert!(down <= near && near <= up);
            prop_assert!(down == up || down.next_up() == up, "{down:e} {up:e}");
            prop_assert!(near.abs() >= zero.abs() && (zero == down || zero == up));
        }
    }

    /// With doubles the exact sum and product of singles of like size can be told.
    #[test]
    fn directed_roundings_go_the_right_way(a in 0_u32..1 << 24, b in 0_u32..1 << 24, negative: bool) {
        let (x, y) = (a as f32, if negative { -(b as f32) } else { b as f32 });
        let exact = f64::from(x) * f64::from(y);
        let (p, q) = (u64::from(x.to_bits()), u64::from(y.to_bits()));
        let value = |round| f64::from(f32::from_bits(SINGLE.mul(p, q, round) as u32));
        prop_assert!(value(Round::Down) <= exact && exact <= value(Round::Up));
        prop_assert!(value(Round::Zero).abs() <= exact.abs());
        let value = |round| f64::from(f32::from_bits(SINGLE.of_format(DOUBLE, exact.to_bits(), round) as u32));
        prop_assert!(value(Round::Down) <= exact && exact <= value(Round::Up));
    }
}

#[test]
fn sums_that_cancel_are_negative_only_when_rounded_down() {
    let one = u64::from(1.0_f32.to_bits());
    let minus = SINGLE.negated(one);
    assert_eq!(SINGLE.add(one, minus, Round::Nearest), 0);
    assert_eq!(SINGLE.add(one, minus, Round::Down) as u32, (-0.0_f32).to_bits());
}

#[test]
fn overflow_follows_the_rounding() {
    let max = u64::from(f32::MAX.to_bits());
    let twice = |round| f32::from_bits(SINGLE.add(max, max, round) as u32);
    assert_eq!(twice(Round::Nearest), f32::INFINITY);
    assert_eq!(twice(Round::Up), f32::INFINITY);
    assert_eq!(twice(Round::Zero), f32::MAX);
    assert_eq!(twice(Round::Down), f32::MAX);
}

#[test]
fn halves_of_known_bits() {
    let half = Format::of(Float::F16);
    assert_eq!(half.of_double(1.0), 0x3c00);
    assert_eq!(half.of_double(65504.0), 0x7bff);
    assert_eq!(half.of_double(65520.0), 0x7c00);
    assert_eq!(half.of_double(65519.9), 0x7bff);
    assert_eq!(half.of_double(2.0_f64.powi(-24)), 1);
    assert_eq!(half.of_double(2.0_f64.powi(-25)), 0);
    assert_eq!(half.of_double(-0.0), 0x8000);
    assert_eq!(half.to_double(0x3555), 0.333_251_953_125);
    assert_eq!(Format::of(Float::Bf16).of_double(3.140_625), 0x4049);
}
