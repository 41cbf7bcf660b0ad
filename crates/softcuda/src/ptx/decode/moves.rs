//! `mov`, also of vectors, and addresses between spaces.
//!
//! Not here: loads and stores (`memory.rs`).

use super::builder::Builder;
use super::modifiers::Modifiers;
use super::operands::{Fit, exactly};
use crate::ptx::error::ParseError;
use crate::ptx::program::{Int, Int2, Op, SINK};
use crate::ptx::syntax::{Instruction, Operand};
use crate::ptx::types::{Class, Space, Type};

type Decoded = Result<(), ParseError>;

pub(crate) fn decode<'a>(b: &mut Builder<'a>, i: &'a Instruction<'a>, m: &mut Modifiers<'a>) -> Decoded {
    match i.opcode {
        "mov" => mov(b, i, m),
        "cvta" => between_spaces(b, i, m),
        _ => is_space(b, i, m),
    }
}

fn mov<'a>(b: &mut Builder<'a>, i: &'a Instruction<'a>, m: &mut Modifiers<'a>) -> Decoded {
    let ty = m.ty()?;
    let [d, a] = exactly(i)?;
    if ty == Type::Pred {
        let (a, d) = (b.test(a)?, b.flag_target(d)?);
        b.emit(Op::MoveFlag { d, a });
        return Ok(());
    }
    match (d, a) {
        (_, Operand::Vector(parts)) => {
            let element = element(m, ty, parts.len())?;
            let mut slots = [SINK; 4];
            for (slot, part) in slots.iter_mut().zip(parts) {
                *slot = b.source(part, element)?;
            }
            let d = b.target(d, ty)?;
            b.emit(Op::Pack { bits: element.bits() as u8, count: parts.len() as u8, d, a: slots });
        }
        (Operand::Vector(parts), _) => {
            let element = element(m, ty, parts.len())?;
            let a = b.source(a, ty)?;
            let mut slots = [SINK; 4];
            for (slot, part) in slots.iter_mut().zip(parts) {
                if !matches!(part, Operand::Sink) {
                    *slot = b.target(part, element)?;
                }
            }
            b.emit(Op::Unpack { bits: element.bits() as u8, count: parts.len() as u8, d: slots, a });
        }
        _ => {
            let (a, d) = (b.source(a, ty)?, b.target(d, ty)?);
            b.emit(Op::Move { d, a });
        }
    }
    Ok(())
}

/// The type of one of `count` parts.
fn element(m: &Modifiers<'_>, ty: Type, count: usize) -> Result<Type, ParseError> {
    match (ty.bits(), count, ty.class()) {
        (_, _, Class::Float | Class::Predicate) => m.refuse(ty),
        (16, 2, _) | (32, 4, _) => Ok(Type::B8),
        (32, 2, _) | (64, 4, _) => Ok(Type::B16),
        (64, 2, _) => Ok(Type::B32),
        _ => Err(m.error(format!("{ty} has not {count} parts"))),
    }
}

const SPACES: &[(&str, Space)] = &[
    ("global", Space::Global),
    ("const", Space::Global),
    ("shared", Space::Shared),
    ("shared::cta", Space::Shared),
    ("local", Space::Local),
    ("param", Space::Parameter),
    ("param::entry", Space::Parameter),
];

fn between_spaces<'a>(b: &mut Builder<'a>, i: &'a Instruction<'a>, m: &mut Modifiers<'a>) -> Decoded {
    let to = m.take("to");
    let space = m.required("space", SPACES)?;
    let space = b.real_space(space);
    let ty = m.ty()?;
    if ty != Type::U64 {
        return m.refuse(ty);
    }
    let [d, a] = exactly(i)?;
    let (a, d) = (b.source_of(a, ty, Fit::Exact)?, b.target(d, ty)?);
    if space == Space::Global {
        b.emit(Op::Move { d, a });
    } else {
        let window = b.constant(space.window());
        let f = if to { Int2::Sub } else { Int2::Add };
        b.emit(Op::Int2 { f, int: Int::U64, d, a, b: window });
    }
    Ok(())
}

fn is_space<'a>(b: &mut Builder<'a>, i: &'a Instruction<'a>, m: &mut Modifiers<'a>) -> Decoded {
    if m.take("const") {
        return Err(m.error("constants are in global memory here, so it cannot tell them"));
    }
    let space = m.required("space", SPACES)?;
    let space = b.real_space(space);
    let [d, a] = exactly(i)?;
    let (a, d) = (b.source(a, Type::B64)?, b.flag_target(d)?);
    b.emit(Op::IsSpace { space, d, a });
    Ok(())
}
