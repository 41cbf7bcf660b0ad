//! `cvt`.
//!
//! Not here: the conversions themselves (`crate::execute::arithmetic`).

use super::builder::Builder;
use super::modifiers::{Modifiers, float, number};
use super::operands::{Fit, exactly};
use crate::ptx::error::ParseError;
use crate::ptx::program::{Convert, Float, Number, Op, Round, SINK};
use crate::ptx::syntax::Instruction;
use crate::ptx::types::Type;

type Decoded = Result<(), ParseError>;

pub(crate) fn decode<'a>(b: &mut Builder<'a>, i: &'a Instruction<'a>, m: &mut Modifiers<'a>) -> Decoded {
    let to_whole =
        m.one_of(&[("rni", Round::Nearest), ("rzi", Round::Zero), ("rmi", Round::Down), ("rpi", Round::Up)]);
    let round = m.round();
    let (flush, saturate, relu) = (m.take("ftz"), m.take("sat"), m.take("relu"));
    let (to_type, from_type) = (m.ty()?, m.ty()?);
    if let (Some((to, true)), Type::F32) = (float(to_type), from_type) {
        return packed(b, i, m, to, to_type, round, saturate || flush, relu);
    }
    let (Some(to), Some(from)) = (number(to_type), number(from_type)) else {
        return Err(m.error("these types are not supported"));
    };
    use Number::{Float as F, Int as I};
    let (round, whole) = match (from, to) {
        (F(_), I(_)) => match to_whole {
            Some(round) => (round, true),
            None => return Err(m.error("it needs a rounding to whole numbers, such as `.rzi`")),
        },
        (F(narrow), F(wide)) if bits(narrow) < bits(wide) || narrow == wide => {
            if round.is_some() {
                return Err(m.error("it takes no such rounding"));
            }
            (to_whole.unwrap_or(Round::Nearest), to_whole.is_some())
        }
        (F(_) | I(_), F(_)) => match round {
            Some(round) if to_whole.is_none() => (round, false),
            _ => return Err(m.error("it needs a rounding of floats, such as `.rn`")),
        },
        (I(_), I(_)) if round.is_some() || to_whole.is_some() => {
            return Err(m.error("it takes no rounding"));
        }
        (I(_), I(_)) => (Round::Zero, false),
    };
    let single = |n| n == F(Float::F32);
    if flush && !single(from) && !single(to) {
        return Err(m.error("the modifier `.ftz` is not supported"));
    }
    if relu && !matches!((from, to), (F(Float::F32), F(Float::F16 | Float::Bf16))) {
        return Err(m.error("the modifier `.relu` is not supported"));
    }
    let [d, a] = exactly(i)?;
    let a = b.source_of(a, from_type, Fit::Wider)?;
    let (d, width) = b.target_of(d, to_type, Fit::Wider)?;
    let how = Convert { from, to, round, whole, flush, saturate, relu, width };
    b.emit(Op::Convert { how, d, a });
    Ok(())
}

fn bits(float: Float) -> u32 {
    match float {
        Float::F16 | Float::Bf16 => 16,
        Float::F32 => 32,
        Float::F64 => 64,
    }
}

/// `cvt.rn.f16x2.f32 d, a, b`: a into the upper half.
#[allow(clippy::too_many_arguments, reason = "all that `decode` has taken off the modifiers")]
fn packed<'a>(
    b: &mut Builder<'a>,
    i: &'a Instruction<'a>,
    m: &Modifiers<'a>,
    to: Float,
    to_type: Type,
    round: Option<Round>,
    refused: bool,
    relu: bool,
) -> Decoded {
    let (Some(round @ (Round::Nearest | Round::Zero)), false) = (round, refused) else {
        return Err(m.error("this form is not supported"));
    };
    let how = Convert {
        from: Number::Float(Float::F32),
        to: Number::Float(to),
        round,
        whole: false,
        flush: false,
        saturate: false,
        relu,
        width: 16,
    };
    let [d, high, low] = exactly(i)?;
    let (high, low) = (b.source(high, Type::F32)?, b.source(low, Type::F32)?);
    let d = b.target(d, to_type)?;
    let (high_half, low_half) = (b.register(), b.register());
    b.emit(Op::Convert { how, d: high_half, a: high });
    b.emit(Op::Convert { how, d: low_half, a: low });
    b.emit(Op::Pack { bits: 16, count: 2, d, a: [low_half, high_half, SINK, SINK] });
    Ok(())
}
