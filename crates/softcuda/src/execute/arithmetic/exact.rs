//! Floating point by integers: every binary format up to doubles, every rounding, one rounding an operation.
//!
//! Slow, and right by construction: the exact result, or enough of its bits and whether there are more, is rounded
//! once. For what the machine's own floats cannot do: directed roundings and halves. Not here: flushing and saturation
//! (`float.rs`).

use crate::ptx::program::{Float, Round};

/// A format of IEEE 754, by its widths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::execute) struct Format {
    exponent: u32,
    fraction: u32,
}

/// A number taken apart; finite ones are `mantissa * 2^exponent`.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Value {
    Nan,
    Infinite,
    Zero,
    Finite { mantissa: u128, exponent: i32 },
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Signed {
    negative: bool,
    value: Value,
}

/// Mantissas are moved up to here before they are added: 2 bits below the top are left for sums.
const TOP: u32 = 125;

impl Format {
    pub const fn of(float: Float) -> Format {
        match float {
            Float::F16 => Format { exponent: 5, fraction: 10 },
            Float::Bf16 => Format { exponent: 8, fraction: 7 },
            Float::F32 => Format { exponent: 8, fraction: 23 },
            Float::F64 => Format { exponent: 11, fraction: 52 },
        }
    }

    const fn bias(self) -> i32 {
        (1 << (self.exponent - 1)) - 1
    }

    const fn sign(self) -> u64 {
        1 << (self.exponent + self.fraction)
    }

    const fn infinity(self) -> u64 {
        ((1 << self.exponent) - 1) << self.fraction
    }

    /// The NaN that operations give: of singles and halves all bits below the sign, as on devices.
    pub const fn nan(self) -> u64 {
        if self.fraction == 52 { 0x7ff8_0000_0000_0000 } else { self.sign() - 1 }
    }

    fn open(self, bits: u64) -> Signed {
        let negative = bits & self.sign() != 0;
        let fraction = bits & ((1 << self.fraction) - 1);
        let exponent = (bits >> self.fraction & ((1 << self.exponent) - 1)) as i32;
        let value = match (exponent, fraction) {
            (0, 0) => Value::Zero,
            (0, _) => Value::Finite {
                mantissa: u128::from(fraction),
                exponent: 1 - self.bias() - self.fraction as i32,
            },
            (all, 0) if all == (1 << self.exponent) - 1 => Value::Infinite,
            (all, _) if all == (1 << self.exponent) - 1 => Value::Nan,
            (exponent, fraction) => Value::Finite {
                mantissa: u128::from(fraction | 1 << self.fraction),
                exponent: exponent - self.bias() - self.fraction as i32,
            },
        };
        Signed { negative, value }
    }

    /// The bits of what is nearest by `round`. The lowest bit of a mantissa may stand for all bits below it.
    fn close(self, signed: Signed, round: Round) -> u64 {
        let sign = if signed.negative { self.sign() } else { 0 };
        let (mantissa, exponent) = match signed.value {
            Value::Nan => return self.nan(),
            Value::Infinite => return sign | self.infinity(),
            Value::Zero | Value::Finite { mantissa: 0, .. } => return sign,
            Value::Finite { mantissa, exponent } => (mantissa, exponent),
        };
        let top = exponent + 127 - mantissa.leading_zeros() as i32;
        // The weight of the last bit that is kept: that of subnormals at the least.
        let last = top.max(1 - self.bias()) - self.fraction as i32;
        let biased = (last + self.fraction as i32 + self.bias()) as i64;
        let drop = last - exponent;
        let (kept, half, more) = if drop <= 0 {
            ((mantissa << -drop) as u64, false, false)
        } else if drop > 127 {
            (0, false, true)
        } else {
            let half = mantissa >> (drop - 1) & 1 == 1;
            ((mantissa >> drop) as u64, half, mantissa & ((1 << (drop - 1)) - 1) != 0)
        };
        let up = match round {
            Round::Nearest => half && (more || kept & 1 == 1),
            Round::Away => half,
            Round::Zero => false,
            Round::Down => signed.negative && (half || more),
            Round::Up => !signed.negative && (half || more),
        };
        // A carry out of the fraction steps into the exponent by itself, from subnormal to normal too.
        if biased < (1 << self.exponent) - 1 {
            let hidden = 1_i64 << self.fraction;
            let bits = (biased << self.fraction) + kept as i64 - hidden + i64::from(up);
            if bits < self.infinity() as i64 {
                return sign | bits as u64;
            }
        }
        let to_infinity = match round {
            Round::Nearest | Round::Away => true,
            Round::Zero => false,
            Round::Down => signed.negative,
            Round::Up => !signed.negative,
        };
        sign | if to_infinity { self.infinity() } else { self.infinity() - 1 }
    }

    pub fn is_nan(self, bits: u64) -> bool {
        bits & !self.sign() > self.infinity()
    }

    pub fn negated(self, bits: u64) -> u64 {
        bits ^ self.sign()
    }

    pub fn absolute(self, bits: u64) -> u64 {
        bits & !self.sign()
    }

    /// A subnormal becomes a zero of its sign.
    pub fn flushed(self, bits: u64) -> u64 {
        if bits & self.infinity() == 0 { bits & self.sign() } else { bits }
    }

    /// Clamped to 0 to 1; NaN and -0 become 0.
    pub fn saturated(self, bits: u64) -> u64 {
        let one = (self.bias() as u64) << self.fraction;
        if self.is_nan(bits) || bits & self.sign() != 0 { 0 } else { bits.min(one) }
    }

    pub fn add(self, a: u64, b: u64, round: Round) -> u64 {
        self.close(sum(self.open(a), self.open(b), round), round)
    }

    pub fn mul(self, a: u64, b: u64, round: Round) -> u64 {
        self.close(product(self.open(a), self.open(b)), round)
    }

    pub fn fma(self, a: u64, b: u64, c: u64, round: Round) -> u64 {
        self.close(sum(product(self.open(a), self.open(b)), self.open(c), round), round)
    }

    pub fn div(self, a: u64, b: u64, round: Round) -> u64 {
        let (a, b) = (self.open(a), self.open(b));
        let negative = a.negative != b.negative;
        use Value::{Finite, Infinite, Nan, Zero};
        let value = match (a.value, b.value) {
            (Nan, _) | (_, Nan) | (Zero, Zero) | (Infinite, Infinite) => Nan,
            (Infinite, _) | (_, Zero) => Infinite,
            (Zero, _) | (_, Infinite) => Zero,
            (Finite { mantissa: ma, exponent: ea }, Finite { mantissa: mb, exponent: eb }) => {
                // At least 60 bits of the quotient.
                let shift = ma.leading_zeros() - 1;
                let up = ma << shift;
                let rest = up % mb != 0;
                Finite { mantissa: (up / mb) << 1 | u128::from(rest), exponent: ea - shift as i32 - eb - 1 }
            }
        };
        self.close(Signed { negative, value }, round)
    }

    pub fn sqrt(self, a: u64, round: Round) -> u64 {
        let a = self.open(a);
        let value = match a.value {
            Value::Finite { .. } | Value::Infinite if a.negative => Value::Nan,
            Value::Finite { mantissa, exponent } => {
                // As large as it can be with an even exponent.
                let shift = mantissa.leading_zeros() as i32;
                let shift = if (exponent - shift) % 2 == 0 { shift } else { shift - 1 };
                let square = mantissa << shift;
                let root = square.isqrt();
                let rest = root * root != square;
                Value::Finite { mantissa: root << 1 | u128::from(rest), exponent: (exponent - shift) / 2 - 1 }
            }
            other => other,
        };
        self.close(Signed { negative: a.negative, value }, round)
    }

    /// To a whole number, still a float.
    pub fn whole(self, bits: u64, round: Round) -> u64 {
        let signed = self.open(bits);
        match self.to_integer(signed, round) {
            Some(magnitude) => {
                let value = if magnitude == 0 {
                    Value::Zero
                } else {
                    Value::Finite { mantissa: magnitude, exponent: 0 }
                };
                self.close(Signed { value, ..signed }, Round::Nearest)
            }
            None if self.is_nan(bits) => self.nan(),
            None => bits,
        }
    }

    /// The rounded magnitude, if it is not already a large whole number, infinite or NaN.
    fn to_integer(self, signed: Signed, round: Round) -> Option<u128> {
        let (mantissa, exponent) = match signed.value {
            Value::Zero => return Some(0),
            Value::Finite { mantissa, exponent } if exponent < 0 => (mantissa, -exponent),
            Value::Finite { .. } | Value::Infinite | Value::Nan => return None,
        };
        let (kept, half, more) = if exponent > 127 {
            (0, false, true)
        } else {
            let half = mantissa >> (exponent - 1) & 1 == 1;
            (mantissa >> exponent, half, mantissa & ((1 << (exponent - 1)) - 1) != 0)
        };
        let up = match round {
            Round::Nearest => half && (more || kept & 1 == 1),
            Round::Away => half,
            Round::Zero => false,
            Round::Down => signed.negative && (half || more),
            Round::Up => !signed.negative && (half || more),
        };
        Some(kept + u128::from(up))
    }

    /// To a whole number; None for NaN, and the ends of `i128` for what is beyond doubles' whole numbers.
    pub fn integer(self, bits: u64, round: Round) -> Option<i128> {
        let signed = self.open(bits);
        let magnitude = match (self.to_integer(signed, round), signed.value) {
            (Some(magnitude), _) => magnitude as i128,
            (None, Value::Nan) => return None,
            (None, Value::Finite { mantissa, exponent }) if exponent <= 64 => (mantissa << exponent) as i128,
            (None, _) => i128::MAX,
        };
        Some(if signed.negative { -magnitude } else { magnitude })
    }

    pub fn of_integer(self, value: i128, round: Round) -> u64 {
        let negative = value < 0;
        let value = match value.unsigned_abs() {
            0 => Value::Zero,
            mantissa => Value::Finite { mantissa, exponent: 0 },
        };
        self.close(Signed { negative, value }, round)
    }

    /// From another format. NaN keeps nothing but being NaN.
    pub fn of_format(self, from: Format, bits: u64, round: Round) -> u64 {
        self.close(from.open(bits), round)
    }

    /// The value as a double, which holds every value of these formats.
    pub fn to_double(self, bits: u64) -> f64 {
        f64::from_bits(Format::of(Float::F64).of_format(self, bits, Round::Nearest))
    }

    pub fn of_double(self, value: f64) -> u64 {
        self.of_format(Format::of(Float::F64), value.to_bits(), Round::Nearest)
    }
}

fn product(a: Signed, b: Signed) -> Signed {
    use Value::{Finite, Infinite, Nan, Zero};
    let value = match (a.value, b.value) {
        (Nan, _) | (_, Nan) | (Infinite, Zero) | (Zero, Infinite) => Nan,
        (Infinite, _) | (_, Infinite) => Infinite,
        (Zero, _) | (_, Zero) => Zero,
        (Finite { mantissa: ma, exponent: ea }, Finite { mantissa: mb, exponent: eb }) => {
            Finite { mantissa: ma * mb, exponent: ea + eb }
        }
    };
    Signed { negative: a.negative != b.negative, value }
}

fn sum(a: Signed, b: Signed, round: Round) -> Signed {
    use Value::{Finite, Infinite, Nan, Zero};
    let cancelled = round == Round::Down;
    match (a.value, b.value) {
        (Nan, _) | (_, Nan) => Signed { value: Nan, ..a },
        (Infinite, Infinite) if a.negative != b.negative => Signed { value: Nan, ..a },
        (Infinite, _) => a,
        (_, Infinite) => b,
        (Zero, Zero) => {
            Signed { negative: if a.negative == b.negative { a.negative } else { cancelled }, ..a }
        }
        (Zero, _) => b,
        (_, Zero) => a,
        (Finite { .. }, Finite { .. }) => {
            let ((ma, ea), (mb, eb)) = (raised(a), raised(b));
            let (ma, mb, exponent) =
                if ea >= eb { (ma, lowered(mb, ea - eb), ea) } else { (lowered(ma, eb - ea), mb, eb) };
            if a.negative == b.negative {
                return Signed { value: Finite { mantissa: ma + mb, exponent }, ..a };
            }
            let (negative, mantissa) = match ma.cmp(&mb) {
                std::cmp::Ordering::Equal => return Signed { negative: cancelled, value: Zero },
                std::cmp::Ordering::Greater => (a.negative, ma - mb),
                std::cmp::Ordering::Less => (b.negative, mb - ma),
            };
            Signed { negative, value: Finite { mantissa, exponent } }
        }
    }
}

/// Mantissa and exponent with the highest bit at [`TOP`].
fn raised(signed: Signed) -> (u128, i32) {
    let Value::Finite { mantissa, exponent } = signed.value else {
        return (0, 0);
    };
    let shift = mantissa.leading_zeros() as i32 - (127 - TOP as i32);
    (mantissa << shift, exponent - shift)
}

/// Moved down; bits that fall off leave their mark in the lowest.
fn lowered(mantissa: u128, by: i32) -> u128 {
    match by {
        0 => mantissa,
        1..128 => mantissa >> by | u128::from(mantissa & ((1 << by) - 1) != 0),
        _ => 1,
    }
}

#[cfg(test)]
mod tests;
