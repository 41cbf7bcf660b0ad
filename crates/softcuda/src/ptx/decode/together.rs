//! What threads do together: barriers, exchanges between lanes, votes.
//!
//! Not here: atomic operations (`memory.rs`).

use super::builder::Builder;
use super::modifiers::{Modifiers, int};
use super::operands::exactly;
use crate::ptx::error::ParseError;
use crate::ptx::program::{Barrier, BarrierAction, Change, Exchange, ExchangeKind, Op, SINK, Test};
use crate::ptx::syntax::{Instruction, Operand};
use crate::ptx::types::Type;

type Decoded = Result<(), ParseError>;

pub(crate) fn decode<'a>(b: &mut Builder<'a>, i: &'a Instruction<'a>, m: &mut Modifiers<'a>) -> Decoded {
    match i.opcode {
        "bar" | "barrier" => barrier(b, i, m),
        "shfl" => shuffle(b, i, m),
        "vote" => vote(b, i, m),
        "match" => matching(b, i, m),
        "redux" => reduce(b, i, m),
        _ => {
            if m.ty()? != Type::B32 {
                return m.refuse(Type::B32);
            }
            let [d] = exactly(i)?;
            let d = b.target(d, Type::B32)?;
            b.emit(Op::ActiveMask { d });
            Ok(())
        }
    }
}

/// Everything that an exchange does not have.
fn blank(kind: ExchangeKind, members: u32) -> Exchange {
    Exchange { kind, members, a: members, b: members, c: members, test: Test::ALWAYS, d: SINK, flag: SINK }
}

/// Since Volta all of these name the lanes that take part.
fn sync(m: &mut Modifiers<'_>) -> Decoded {
    m.required("`.sync`, or a form", &[("sync", ())])
}

fn barrier<'a>(b: &mut Builder<'a>, i: &'a Instruction<'a>, m: &mut Modifiers<'a>) -> Decoded {
    if i.opcode == "bar" && m.take("warp") {
        sync(m)?;
        let [members] = exactly(i)?;
        let members = b.source(members, Type::U32)?;
        b.emit(Op::Exchange(blank(ExchangeKind::Barrier, members)));
        return Ok(());
    }
    m.take("cta");
    if i.opcode == "barrier" {
        m.take("aligned");
    }
    let form = m.required("form", &[("sync", 0), ("arrive", 1), ("red", 2)])?;
    let (action, operands) = match (form, i.operands.as_slice()) {
        (0, operands) => (BarrierAction::Wait, operands),
        (1, operands @ [_, _]) => (BarrierAction::Arrive, operands),
        (2, [d, operands @ .., test]) => {
            let a = b.test(test)?;
            let action = match m.required("operation", &[("popc", 0), ("and", 1), ("or", 2)])? {
                0 => BarrierAction::Ones { d: b.target(d, Type::U32)?, a },
                1 => BarrierAction::All { d: b.flag_target(d)?, a },
                _ => BarrierAction::Any { d: b.flag_target(d)?, a },
            };
            let ty = m.ty()?;
            if matches!(action, BarrierAction::Ones { .. }) != (ty == Type::U32) {
                return m.refuse(ty);
            }
            (action, operands)
        }
        _ => return Err(m.error("it has other operands than this")),
    };
    let (id, count) = match operands {
        [id] => (b.source(id, Type::U32)?, SINK),
        [id, count] => (b.source(id, Type::U32)?, b.source(count, Type::U32)?),
        _ => return Err(m.error("it has other operands than this")),
    };
    b.emit(Op::Barrier(Barrier { id, count, action }));
    Ok(())
}

fn shuffle<'a>(b: &mut Builder<'a>, i: &'a Instruction<'a>, m: &mut Modifiers<'a>) -> Decoded {
    sync(m)?;
    let kind = m.required(
        "mode",
        &[
            ("up", ExchangeKind::ShuffleUp),
            ("down", ExchangeKind::ShuffleDown),
            ("bfly", ExchangeKind::ShuffleXor),
            ("idx", ExchangeKind::ShuffleIndex),
        ],
    )?;
    let ty = m.ty()?;
    if ty != Type::B32 {
        return m.refuse(ty);
    }
    let [d, value, lane, bounds, members] = exactly(i)?;
    let members = b.source(members, Type::U32)?;
    let (a, lane, c) = (b.source(value, ty)?, b.source(lane, ty)?, b.source(bounds, ty)?);
    let (d, flag) = with_flag(b, d, ty)?;
    b.emit(Op::Exchange(Exchange { a, b: lane, c, d, flag, ..blank(kind, members) }));
    Ok(())
}

/// `d` or `d|p`.
fn with_flag<'a>(b: &mut Builder<'a>, operand: &'a Operand<'a>, ty: Type) -> Result<(u32, u32), ParseError> {
    match operand {
        Operand::Pair(d, flag) => Ok((b.target(d, ty)?, b.flag_target(flag)?)),
        d => Ok((b.target(d, ty)?, SINK)),
    }
}

fn vote<'a>(b: &mut Builder<'a>, i: &'a Instruction<'a>, m: &mut Modifiers<'a>) -> Decoded {
    sync(m)?;
    let kind = m.required(
        "mode",
        &[
            ("all", ExchangeKind::All),
            ("any", ExchangeKind::Any),
            ("uni", ExchangeKind::Uniform),
            ("ballot", ExchangeKind::Ballot),
        ],
    )?;
    let ty = m.ty()?;
    let [d, test, members] = exactly(i)?;
    let members = b.source(members, Type::U32)?;
    let test = b.test(test)?;
    let blank = blank(kind, members);
    let exchange = match (kind, ty) {
        (ExchangeKind::Ballot, Type::B32) => Exchange { test, d: b.target(d, ty)?, ..blank },
        (ExchangeKind::Ballot, _) => return m.refuse(ty),
        (_, Type::Pred) => Exchange { test, flag: b.flag_target(d)?, ..blank },
        _ => return m.refuse(ty),
    };
    b.emit(Op::Exchange(exchange));
    Ok(())
}

fn matching<'a>(b: &mut Builder<'a>, i: &'a Instruction<'a>, m: &mut Modifiers<'a>) -> Decoded {
    sync(m)?;
    let kind = m.required("mode", &[("any", ExchangeKind::MatchAny), ("all", ExchangeKind::MatchAll)])?;
    let ty = m.ty()?;
    if !matches!(ty, Type::B32 | Type::B64) {
        return m.refuse(ty);
    }
    let [d, a, members] = exactly(i)?;
    let members = b.source(members, Type::U32)?;
    let a = b.source(a, ty)?;
    let (d, flag) = with_flag(b, d, Type::B32)?;
    if kind == ExchangeKind::MatchAny && flag != SINK {
        return Err(m.error("it gives no predicate"));
    }
    b.emit(Op::Exchange(Exchange { a, d, flag, ..blank(kind, members) }));
    Ok(())
}

fn reduce<'a>(b: &mut Builder<'a>, i: &'a Instruction<'a>, m: &mut Modifiers<'a>) -> Decoded {
    sync(m)?;
    let change = m.required(
        "operation",
        &[
            ("add", Change::Add),
            ("min", Change::Min),
            ("max", Change::Max),
            ("and", Change::And),
            ("or", Change::Or),
            ("xor", Change::Xor),
        ],
    )?;
    let ty = m.ty()?;
    let bitwise = matches!(change, Change::And | Change::Or | Change::Xor);
    let fits = if bitwise { ty == Type::B32 } else { matches!(ty, Type::U32 | Type::S32) };
    let Some(int) = int(ty).filter(|_| fits) else {
        return m.refuse(ty);
    };
    let [d, a, members] = exactly(i)?;
    let members = b.source(members, Type::U32)?;
    let (a, d) = (b.source(a, ty)?, b.target(d, ty)?);
    b.emit(Op::Exchange(Exchange { a, d, ..blank(ExchangeKind::Reduce(change, int), members) }));
    Ok(())
}
