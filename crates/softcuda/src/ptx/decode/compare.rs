//! Comparisons, predicates and selections.
//!
//! Not here: branches (`control.rs`).

use super::builder::Builder;
use super::modifiers::{Modifiers, float, number};
use super::operands::exactly;
use crate::ptx::error::ParseError;
use crate::ptx::program::{Compare, Flag, Float, Kind, Logic, Op, Slot, Test};
use crate::ptx::syntax::{Instruction, Operand};
use crate::ptx::types::{Class, Type};

type Decoded = Result<(), ParseError>;

const LOGIC: &[(&str, Logic)] = &[("and", Logic::And), ("or", Logic::Or), ("xor", Logic::Xor)];

pub(crate) fn decode<'a>(b: &mut Builder<'a>, i: &'a Instruction<'a>, m: &mut Modifiers<'a>) -> Decoded {
    match i.opcode {
        "setp" => set_predicate(b, i, m),
        "set" => set_value(b, i, m),
        "selp" => select(b, i, m),
        "slct" => select_by_sign(b, i, m),
        _ => kind(b, i, m),
    }
}

/// `and.pred` and the like.
pub(crate) fn logic<'a>(b: &mut Builder<'a>, i: &'a Instruction<'a>, m: &mut Modifiers<'a>) -> Decoded {
    m.take("pred");
    let f = match i.opcode {
        "not" => {
            let [d, a] = exactly(i)?;
            let (a, d) = (b.test(a)?, b.flag_target(d)?);
            b.emit(Op::MoveFlag { d, a: Test { flag: a.flag, flip: !a.flip } });
            return Ok(());
        }
        "and" => Logic::And,
        "or" => Logic::Or,
        _ => Logic::Xor,
    };
    let [d, x, y] = exactly(i)?;
    let (x, y, d) = (b.test(x)?, b.test(y)?, b.flag_target(d)?);
    b.emit(Op::Logic { f, d, a: x, b: y });
    Ok(())
}

/// How two values of a type are compared.
fn comparison(m: &mut Modifiers<'_>, ty: Type) -> Result<Compare, ParseError> {
    // `.lo` to `.hs` are for unsigned integers; they mean the same as `.lt` to `.ge` of such a type.
    let unsigned = matches!(ty.class(), Class::Unsigned | Class::Bits);
    let floating = ty.class() == Class::Float;
    let found = m.one_of(&[
        ("eq", Compare::Eq),
        ("ne", Compare::Ne),
        ("lt", Compare::Lt),
        ("le", Compare::Le),
        ("gt", Compare::Gt),
        ("ge", Compare::Ge),
    ]);
    let found = found.or_else(|| {
        let table = [("lo", Compare::Lt), ("ls", Compare::Le), ("hi", Compare::Gt), ("hs", Compare::Ge)];
        if unsigned { m.one_of(&table) } else { None }
    });
    let found = found.or_else(|| {
        let table = [
            ("equ", Compare::Equ),
            ("neu", Compare::Neu),
            ("ltu", Compare::Ltu),
            ("leu", Compare::Leu),
            ("gtu", Compare::Gtu),
            ("geu", Compare::Geu),
            ("num", Compare::Num),
            ("nan", Compare::Nan),
        ];
        if floating { m.one_of(&table) } else { None }
    });
    let Some(found) = found else {
        return Err(m.error("it has no comparison that is supported for this type"));
    };
    if ty.class() == Class::Bits && !matches!(found, Compare::Eq | Compare::Ne) {
        return m.refuse(ty);
    }
    Ok(found)
}

/// Emits `d = (x ? y) combined with c`.
fn compare<'a>(
    b: &mut Builder<'a>,
    m: &mut Modifiers<'a>,
    ty: Type,
    flush: bool,
    d: Flag,
    operands: [&'a Operand<'a>; 2],
) -> Decoded {
    let f = comparison(m, ty)?;
    let Some(number) = number(ty).filter(|_| ty.bits() > 8) else {
        return m.refuse(ty);
    };
    let [x, y] = operands;
    let (x, y) = (b.source(x, ty)?, b.source(y, ty)?);
    b.emit(Op::Compare { f, number, flush, d, a: x, b: y });
    Ok(())
}

fn set_predicate<'a>(b: &mut Builder<'a>, i: &'a Instruction<'a>, m: &mut Modifiers<'a>) -> Decoded {
    let ty = m.ty()?;
    let flush = matches!(ty, Type::F32 | Type::F16) && m.take("ftz");
    let combined = m.one_of(LOGIC);
    let (targets, x, y, other) = match (i.operands.as_slice(), combined) {
        ([d, x, y], None) => (d, x, y, None),
        ([d, x, y, c], Some(f)) => (d, x, y, Some((f, b.test(c)?))),
        _ => return Err(m.error("it has other operands than this")),
    };
    let (d, opposite) = match targets {
        Operand::Pair(d, q) => (b.flag_target(d)?, Some(b.flag_target(q)?)),
        d => (b.flag_target(d)?, None),
    };
    if other.is_none() && opposite.is_none() {
        return compare(b, m, ty, flush, d, [x, y]);
    }
    // Neither target may be written before all that is read has been.
    let found = b.flag();
    compare(b, m, ty, flush, found, [x, y])?;
    let opposite_of_found = Test { flag: found, flip: u32::MAX };
    let found = Test { flag: found, flip: 0 };
    let Some((f, c)) = other else {
        b.emit(Op::MoveFlag { d, a: found });
        b.emit(Op::MoveFlag { d: opposite.unwrap_or(d), a: opposite_of_found });
        return Ok(());
    };
    let kept = b.flag();
    b.emit(Op::MoveFlag { d: kept, a: c });
    let c = Test { flag: kept, flip: 0 };
    b.emit(Op::Logic { f, d, a: found, b: c });
    if let Some(q) = opposite {
        b.emit(Op::Logic { f, d: q, a: opposite_of_found, b: c });
    }
    Ok(())
}

/// `set`: all ones or 1.0 where the comparison holds, else 0.
fn set_value<'a>(b: &mut Builder<'a>, i: &'a Instruction<'a>, m: &mut Modifiers<'a>) -> Decoded {
    let (result, ty) = (m.ty()?, m.ty()?);
    let flush = matches!(ty, Type::F32 | Type::F16) && m.take("ftz");
    let combined = m.one_of(LOGIC);
    let (d, x, y, other) = match (i.operands.as_slice(), combined) {
        ([d, x, y], None) => (d, x, y, None),
        ([d, x, y, c], Some(f)) => (d, x, y, Some((f, b.test(c)?))),
        _ => return Err(m.error("it has other operands than this")),
    };
    let yes = match result {
        Type::U32 | Type::S32 => u64::from(u32::MAX),
        Type::F32 => u64::from(1.0_f32.to_bits()),
        Type::U16 | Type::S16 => 0xffff,
        Type::F16 => 0x3c00,
        _ => return m.refuse(result),
    };
    let found = b.flag();
    compare(b, m, ty, flush, found, [x, y])?;
    let test = Test { flag: found, flip: 0 };
    if let Some((f, c)) = other {
        b.emit(Op::Logic { f, d: found, a: test, b: c });
    }
    let d = b.target(d, result)?;
    let (yes, no) = (b.constant(yes), b.constant(0));
    b.emit(Op::Select { d, a: yes, b: no, on: test });
    Ok(())
}

fn select<'a>(b: &mut Builder<'a>, i: &'a Instruction<'a>, m: &mut Modifiers<'a>) -> Decoded {
    let ty = m.ty()?;
    if ty.bits() < 16 {
        return m.refuse(ty);
    }
    let [d, x, y, c] = exactly(i)?;
    let (x, y, on) = (b.source(x, ty)?, b.source(y, ty)?, b.test(c)?);
    let d = b.target(d, ty)?;
    b.emit(Op::Select { d, a: x, b: y, on });
    Ok(())
}

fn select_by_sign<'a>(b: &mut Builder<'a>, i: &'a Instruction<'a>, m: &mut Modifiers<'a>) -> Decoded {
    let flush = m.take("ftz");
    let (ty, by) = (m.ty()?, m.ty()?);
    if ty.bits() < 16 || !matches!((by, flush), (Type::S32, false) | (Type::F32, _)) {
        return m.refuse(by);
    }
    let [d, x, y, c] = exactly(i)?;
    let (x, y, c) = (b.source(x, ty)?, b.source(y, ty)?, b.source(c, by)?);
    let d = b.target(d, ty)?;
    let (found, zero): (Flag, Slot) = (b.flag(), b.constant(0));
    let Some(number) = number(by) else {
        return m.refuse(by);
    };
    // NaN selects the second.
    b.emit(Op::Compare { f: Compare::Ge, number, flush, d: found, a: c, b: zero });
    b.emit(Op::Select { d, a: x, b: y, on: Test { flag: found, flip: 0 } });
    Ok(())
}

fn kind<'a>(b: &mut Builder<'a>, i: &'a Instruction<'a>, m: &mut Modifiers<'a>) -> Decoded {
    let f = m.required(
        "kind",
        &[
            ("finite", Kind::Finite),
            ("infinite", Kind::Infinite),
            ("number", Kind::Number),
            ("notanumber", Kind::Nan),
            ("normal", Kind::Normal),
            ("subnormal", Kind::Subnormal),
        ],
    )?;
    let ty = m.ty()?;
    let Some((float @ (Float::F32 | Float::F64), false)) = float(ty) else {
        return m.refuse(ty);
    };
    let [d, a] = exactly(i)?;
    let (a, d) = (b.source(a, ty)?, b.flag_target(d)?);
    b.emit(Op::Kind { f, float, d, a });
    Ok(())
}
