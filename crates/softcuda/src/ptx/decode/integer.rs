//! Integer and bit instructions.
//!
//! Not here: comparisons (`compare.rs`), conversions (`convert.rs`).

use super::builder::Builder;
use super::modifiers::{Modifiers, int};
use super::operands::exactly;
use crate::ptx::error::ParseError;
use crate::ptx::program::{Carry, Int, Int1, Int2, Int3, Op, Permute, Slot};
use crate::ptx::syntax::{Instruction, Literal, Operand};
use crate::ptx::types::{Class, Type};

type Decoded = Result<(), ParseError>;

pub(crate) fn decode<'a>(b: &mut Builder<'a>, i: &'a Instruction<'a>, m: &mut Modifiers<'a>) -> Decoded {
    match i.opcode {
        "abs" | "neg" | "not" | "cnot" | "popc" | "clz" | "brev" | "bfind" => unary(b, i, m),
        "add" if m.take("cc") => carry(b, i, m, Carry::Add, false, true),
        "sub" if m.take("cc") => carry(b, i, m, Carry::Sub, false, true),
        "addc" => {
            let gives = m.take("cc");
            carry(b, i, m, Carry::Add, true, gives)
        }
        "subc" => {
            let gives = m.take("cc");
            carry(b, i, m, Carry::Sub, true, gives)
        }
        "mad" | "madc" => mad(b, i, m),
        "mad24" | "sad" | "bfe" => ternary(b, i, m),
        "bfi" => insert(b, i, m),
        "prmt" => permute(b, i, m),
        "lop3" => table(b, i, m),
        "shf" => funnel(b, i, m),
        "dp4a" | "dp2a" => dot(b, i, m),
        _ => binary(b, i, m),
    }
}

/// The type, which has to be an integer of 16, 32 or 64 bits of one of these classes.
fn integer(m: &mut Modifiers<'_>, classes: &[Class]) -> Result<(Type, Int), ParseError> {
    let ty = m.ty()?;
    match int(ty).filter(|_| ty.bits() > 8 && classes.contains(&ty.class())) {
        Some(int) => Ok((ty, int)),
        None => m.refuse(ty),
    }
}

const ANY: &[Class] = &[Class::Unsigned, Class::Signed, Class::Bits];
const NUMBERS: &[Class] = &[Class::Unsigned, Class::Signed];

fn unary<'a>(b: &mut Builder<'a>, i: &'a Instruction<'a>, m: &mut Modifiers<'a>) -> Decoded {
    let (f, classes, narrow) = match i.opcode {
        "abs" => (Int1::Abs, &[Class::Signed][..], false),
        "neg" => (Int1::Neg, &[Class::Signed][..], false),
        "not" => (Int1::Not, ANY, false),
        "cnot" => (Int1::LogicalNot, ANY, false),
        "popc" => (Int1::Ones, ANY, true),
        "clz" => (Int1::LeadingZeros, ANY, true),
        "brev" => (Int1::Reverse, ANY, false),
        _ if m.take("shiftamt") => (Int1::FindShift, NUMBERS, true),
        _ => (Int1::FindHighest, NUMBERS, true),
    };
    let (ty, int) = integer(m, classes)?;
    if (narrow || f == Int1::Reverse) && ty.bits() < 32 {
        return m.refuse(ty);
    }
    let [d, a] = exactly(i)?;
    let a = b.source(a, ty)?;
    let d = b.target(d, if narrow { Type::U32 } else { ty })?;
    b.emit(Op::Int1 { f, int, d, a });
    Ok(())
}

fn binary<'a>(b: &mut Builder<'a>, i: &'a Instruction<'a>, m: &mut Modifiers<'a>) -> Decoded {
    let (f, classes) = match i.opcode {
        "add" if m.take("sat") => (Int2::AddSaturate, &[Class::Signed][..]),
        "sub" if m.take("sat") => (Int2::SubSaturate, &[Class::Signed][..]),
        "add" => (Int2::Add, NUMBERS),
        "sub" => (Int2::Sub, NUMBERS),
        "mul" if m.take("wide") => (Int2::MulWide, NUMBERS),
        "mul" if m.take("hi") => (Int2::MulHigh, NUMBERS),
        "mul" if m.take("lo") => (Int2::MulLow, NUMBERS),
        "mul24" if m.take("hi") => (Int2::Mul24High, NUMBERS),
        "mul24" if m.take("lo") => (Int2::Mul24Low, NUMBERS),
        "mul" | "mul24" => return Err(m.error("it needs `.lo`, `.hi` or `.wide`")),
        "div" => (Int2::Div, NUMBERS),
        "rem" => (Int2::Rem, NUMBERS),
        "min" => (Int2::Min, NUMBERS),
        "max" => (Int2::Max, NUMBERS),
        "and" => (Int2::And, ANY),
        "or" => (Int2::Or, ANY),
        "xor" => (Int2::Xor, ANY),
        "shl" => (Int2::ShiftLeft, ANY),
        _ => (Int2::ShiftRight, ANY),
    };
    let (ty, int) = integer(m, classes)?;
    let only_32 = matches!(f, Int2::AddSaturate | Int2::SubSaturate | Int2::Mul24Low | Int2::Mul24High);
    if only_32 && ty.bits() != 32 || f == Int2::MulWide && ty.bits() == 64 {
        return m.refuse(ty);
    }
    let [d, x, y] = exactly(i)?;
    let x = b.source(x, ty)?;
    let shifts = matches!(f, Int2::ShiftLeft | Int2::ShiftRight);
    let y = b.source(y, if shifts { Type::U32 } else { ty })?;
    let d = b.target(d, if f == Int2::MulWide { wider(ty) } else { ty })?;
    b.emit(Op::Int2 { f, int, d, a: x, b: y });
    Ok(())
}

/// The type of twice the width.
fn wider(ty: Type) -> Type {
    match (ty.bits(), ty.class() == Class::Signed) {
        (16, true) => Type::S32,
        (16, false) => Type::U32,
        (_, true) => Type::S64,
        (_, false) => Type::U64,
    }
}

fn carry<'a>(
    b: &mut Builder<'a>,
    i: &'a Instruction<'a>,
    m: &mut Modifiers<'a>,
    f: Carry,
    takes: bool,
    gives: bool,
) -> Decoded {
    let (ty, int) = integer(m, NUMBERS)?;
    if ty.bits() < 32 {
        return m.refuse(ty);
    }
    let [d, x, y] = exactly(i)?;
    let (x, y, d) = (b.source(x, ty)?, b.source(y, ty)?, b.target(d, ty)?);
    b.emit(Op::Carry { f, int, takes, gives, d, a: x, b: y, c: x });
    Ok(())
}

fn mad<'a>(b: &mut Builder<'a>, i: &'a Instruction<'a>, m: &mut Modifiers<'a>) -> Decoded {
    let takes = i.opcode == "madc";
    let gives = m.take("cc");
    let (wide, high, low) = (m.take("wide"), m.take("hi"), m.take("lo"));
    let saturate = m.take("sat");
    let (ty, int) = integer(m, NUMBERS)?;
    let [d, x, y, z] = exactly(i)?;
    let (x, y) = (b.source(x, ty)?, b.source(y, ty)?);
    let result = if wide { wider(ty) } else { ty };
    let (z, d) = (b.source(z, result)?, b.target(d, result)?);
    let f = match (wide, high, low, saturate) {
        (true, false, false, false) if ty.bits() < 64 => Int3::MadWide,
        (false, true, false, false) => Int3::MadHigh,
        (false, true, false, true) if ty == Type::S32 => Int3::MadHighSaturate,
        (false, false, true, false) => Int3::MadLow,
        _ => return m.refuse(ty),
    };
    if takes || gives {
        let f = match f {
            Int3::MadLow => Carry::MadLow,
            Int3::MadHigh => Carry::MadHigh,
            _ => return m.refuse(ty),
        };
        if ty.bits() < 32 {
            return m.refuse(ty);
        }
        b.emit(Op::Carry { f, int, takes, gives, d, a: x, b: y, c: z });
    } else {
        b.emit(Op::Int3 { f, int, d, a: x, b: y, c: z });
    }
    Ok(())
}

fn ternary<'a>(b: &mut Builder<'a>, i: &'a Instruction<'a>, m: &mut Modifiers<'a>) -> Decoded {
    let f = match i.opcode {
        "sad" => Int3::Sad,
        "bfe" => Int3::Extract,
        _ if m.take("hi") => Int3::Mad24High,
        _ if m.take("lo") => Int3::Mad24Low,
        _ => return Err(m.error("it needs `.lo` or `.hi`")),
    };
    let (ty, int) = integer(m, NUMBERS)?;
    let fits = match f {
        Int3::Sad => true,
        Int3::Extract => ty.bits() >= 32,
        _ => ty.bits() == 32,
    };
    if !fits {
        return m.refuse(ty);
    }
    let [d, x, y, z] = exactly(i)?;
    let place = if f == Int3::Extract { Type::U32 } else { ty };
    let (x, y, z) = (b.source(x, ty)?, b.source(y, place)?, b.source(z, place)?);
    let d = b.target(d, ty)?;
    b.emit(Op::Int3 { f, int, d, a: x, b: y, c: z });
    Ok(())
}

fn insert<'a>(b: &mut Builder<'a>, i: &'a Instruction<'a>, m: &mut Modifiers<'a>) -> Decoded {
    let (ty, int) = integer(m, &[Class::Bits])?;
    if ty.bits() < 32 {
        return m.refuse(ty);
    }
    let [d, x, y, position, length] = exactly(i)?;
    let (x, y) = (b.source(x, ty)?, b.source(y, ty)?);
    let (c, e) = (b.source(position, Type::U32)?, b.source(length, Type::U32)?);
    let d = b.target(d, ty)?;
    b.emit(Op::Insert { int, d, a: x, b: y, c, e });
    Ok(())
}

/// Three operands of 32 bits.
fn words<'a>(b: &mut Builder<'a>, i: &'a Instruction<'a>) -> Result<[Slot; 4], ParseError> {
    let [d, x, y, z] = exactly(i)?;
    let sources = [b.source(x, Type::B32)?, b.source(y, Type::B32)?, b.source(z, Type::B32)?];
    Ok([b.target(d, Type::B32)?, sources[0], sources[1], sources[2]])
}

/// Takes the type, which has to be `.b32`.
fn bits_32(m: &mut Modifiers<'_>) -> Decoded {
    match m.ty()? {
        Type::B32 => Ok(()),
        ty => m.refuse(ty),
    }
}

fn permute<'a>(b: &mut Builder<'a>, i: &'a Instruction<'a>, m: &mut Modifiers<'a>) -> Decoded {
    bits_32(m)?;
    let mode = m.one_of(&[
        ("f4e", Permute::ForwardFour),
        ("b4e", Permute::BackwardFour),
        ("rc8", Permute::Replicate),
        ("ecl", Permute::EdgeLeft),
        ("ecr", Permute::EdgeRight),
        ("rc16", Permute::ReplicateHalf),
    ]);
    let [d, x, y, c] = words(b, i)?;
    let f = Int3::Permute(mode.unwrap_or(Permute::Index));
    b.emit(Op::Int3 { f, int: Int::U32, d, a: x, b: y, c });
    Ok(())
}

fn table<'a>(b: &mut Builder<'a>, i: &'a Instruction<'a>, m: &mut Modifiers<'a>) -> Decoded {
    bits_32(m)?;
    let [d, x, y, z, Operand::Literal(Literal::Integer(table))] = exactly(i)? else {
        return Err(m.error("its last operand has to be a constant"));
    };
    let Ok(table) = u8::try_from(*table) else {
        return Err(m.error("its table has 8 bits"));
    };
    let (x, y, z) = (b.source(x, Type::B32)?, b.source(y, Type::B32)?, b.source(z, Type::B32)?);
    let d = b.target(d, Type::B32)?;
    b.emit(Op::Int3 { f: Int3::Table(table), int: Int::U32, d, a: x, b: y, c: z });
    Ok(())
}

fn funnel<'a>(b: &mut Builder<'a>, i: &'a Instruction<'a>, m: &mut Modifiers<'a>) -> Decoded {
    bits_32(m)?;
    let left = m.required("direction", &[("l", true), ("r", false)])?;
    let wrap = m.required("kind of shift", &[("wrap", true), ("clamp", false)])?;
    let [d, x, y, c] = words(b, i)?;
    let f = if left { Int3::FunnelLeft { wrap } } else { Int3::FunnelRight { wrap } };
    b.emit(Op::Int3 { f, int: Int::U32, d, a: x, b: y, c });
    Ok(())
}

fn dot<'a>(b: &mut Builder<'a>, i: &'a Instruction<'a>, m: &mut Modifiers<'a>) -> Decoded {
    let half =
        if i.opcode == "dp2a" { Some(m.required("half", &[("hi", true), ("lo", false)])?) } else { None };
    let mut signed = [false; 2];
    for signed in &mut signed {
        *signed = match m.ty()? {
            Type::S32 => true,
            Type::U32 => false,
            ty => return m.refuse(ty),
        };
    }
    let [d, x, y, z] = words(b, i)?;
    let [a_signed, b_signed] = signed;
    let f = match half {
        Some(high) => Int3::Dot2 { a: a_signed, b: b_signed, high },
        None => Int3::Dot4 { a: a_signed, b: b_signed },
    };
    b.emit(Op::Int3 { f, int: Int::U32, d, a: x, b: y, c: z });
    Ok(())
}
