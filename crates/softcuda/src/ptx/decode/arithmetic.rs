//! Floating-point arithmetic.
//!
//! Not here: comparisons (`compare.rs`), conversions (`convert.rs`).

use super::builder::Builder;
use super::modifiers::{Modifiers, float};
use super::operands::exactly;
use crate::ptx::error::ParseError;
use crate::ptx::program::{Float, Float1, Float2, Mode, Op, Round};
use crate::ptx::syntax::Instruction;
use crate::ptx::types::Type;

type Decoded = Result<(), ParseError>;

pub(crate) fn decode<'a>(b: &mut Builder<'a>, i: &'a Instruction<'a>, m: &mut Modifiers<'a>) -> Decoded {
    match i.opcode {
        "abs" | "neg" | "rcp" | "sqrt" | "rsqrt" | "ex2" | "lg2" | "sin" | "cos" | "tanh" => unary(b, i, m),
        "fma" | "mad" => fma(b, i, m),
        _ => binary(b, i, m),
    }
}

/// The type and what the modifiers say on roundings.
fn shape(m: &mut Modifiers<'_>, rounds: bool) -> Result<(Type, Float, Mode), ParseError> {
    let ty = m.ty()?;
    let Some((float, packed)) = float(ty) else {
        return m.refuse(ty);
    };
    let single = float == Float::F32;
    let half = float == Float::F16;
    let round = if rounds { m.round() } else { None }.unwrap_or(Round::Nearest);
    let directed_half = round != Round::Nearest && !matches!(float, Float::F32 | Float::F64);
    if directed_half || round == Round::Away {
        return Err(m.error(format!("this rounding is not supported for {ty}")));
    }
    let flush = (single || half) && m.take("ftz");
    let saturate = rounds && (single || half) && m.take("sat");
    Ok((ty, float, Mode { round, flush, saturate, packed }))
}

fn unary<'a>(b: &mut Builder<'a>, i: &'a Instruction<'a>, m: &mut Modifiers<'a>) -> Decoded {
    let approximate = m.take("approx");
    let exact = !approximate && matches!(i.opcode, "rcp" | "sqrt");
    let rounding = exact && i.modifiers.iter().any(|name| matches!(*name, "rn" | "rz" | "rm" | "rp"));
    let (ty, float, mode) = shape(m, exact)?;
    let mode = Mode { saturate: false, ..mode };
    let wide = matches!(float, Float::F32 | Float::F64);
    let (f, supported) = match i.opcode {
        "abs" => (Float1::Abs, !approximate),
        "neg" => (Float1::Neg, !approximate),
        // The double forms have only a coarse approximation, always flushing.
        "rcp" => (Float1::Reciprocal, wide && (approximate || rounding)),
        "sqrt" => (Float1::Sqrt, if approximate { float == Float::F32 } else { wide && rounding }),
        "rsqrt" => (Float1::ReciprocalSqrt, wide && approximate),
        "ex2" => (Float1::Exp2, float != Float::F64 && approximate),
        "lg2" => (Float1::Log2, float == Float::F32 && approximate),
        "sin" => (Float1::Sin, float == Float::F32 && approximate),
        "cos" => (Float1::Cos, float == Float::F32 && approximate),
        _ => (Float1::Tanh, float != Float::F64 && approximate),
    };
    let flush = mode.flush || approximate && float == Float::F64 && m.take("ftz");
    if !supported || i.modifiers.contains(&"sat") {
        return Err(m.error("this form is not supported"));
    }
    let [d, a] = exactly(i)?;
    let (a, d) = (b.source(a, ty)?, b.target(d, ty)?);
    b.emit(Op::Float1 { f, float, mode: Mode { flush, ..mode }, d, a });
    Ok(())
}

fn binary<'a>(b: &mut Builder<'a>, i: &'a Instruction<'a>, m: &mut Modifiers<'a>) -> Decoded {
    let rounds = matches!(i.opcode, "add" | "sub" | "mul" | "div");
    // Says only that the assembler must not fuse it.
    let half = i.modifiers.last().is_some_and(|name| name.contains("16"));
    let rounded = i.modifiers.iter().any(|name| matches!(*name, "rn" | "rz" | "rm" | "rp"));
    let (approximate, full) =
        if i.opcode == "div" { (m.take("approx"), m.take("full")) } else { (false, false) };
    let (ty, float, mode) = shape(m, rounds)?;
    let wide = matches!(float, Float::F32 | Float::F64);
    let f = match i.opcode {
        "add" => Float2::Add,
        "sub" => Float2::Sub,
        "mul" => Float2::Mul,
        "div" if approximate && float == Float::F32 && !rounded => Float2::DivApproximate,
        "div" if full && float == Float::F32 && !rounded => Float2::Div,
        "div" if wide && rounded && !approximate && !full && !mode.saturate => Float2::Div,
        "div" => return Err(m.error("this form is not supported")),
        "min" => Float2::Min { nan: (half || float == Float::F32) && m.take("NaN") },
        "max" => Float2::Max { nan: (half || float == Float::F32) && m.take("NaN") },
        _ if wide => Float2::CopySign,
        _ => return m.refuse(ty),
    };
    if f == Float2::CopySign && mode.flush {
        return Err(m.error("the modifier `.ftz` is not supported"));
    }
    let [d, x, y] = exactly(i)?;
    let (x, y, d) = (b.source(x, ty)?, b.source(y, ty)?, b.target(d, ty)?);
    b.emit(Op::Float2 { f, float, mode, d, a: x, b: y });
    Ok(())
}

fn fma<'a>(b: &mut Builder<'a>, i: &'a Instruction<'a>, m: &mut Modifiers<'a>) -> Decoded {
    let rounded = i.modifiers.iter().any(|name| matches!(*name, "rn" | "rz" | "rm" | "rp"));
    let (ty, float, mode) = shape(m, true)?;
    if !rounded {
        return Err(m.error("it has no rounding that is supported"));
    }
    let [d, x, y, z] = exactly(i)?;
    let (x, y, z) = (b.source(x, ty)?, b.source(y, ty)?, b.source(z, ty)?);
    let d = b.target(d, ty)?;
    b.emit(Op::Fma { float, mode, d, a: x, b: y, c: z });
    Ok(())
}
