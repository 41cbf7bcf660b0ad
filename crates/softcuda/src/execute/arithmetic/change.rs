//! What an atomic operation or a reduction makes of two values.
//!
//! Not here: memory (`../atomic.rs`), lanes (`../exchange.rs`).

use super::exact::Format;
use super::integer::Integer;
use crate::execute::lanes::Lane;
use crate::ptx::program::{Change, Float, Int, Number, Round};

/// The new bits of `old`. `b` is the operand, or what a compare-exchange compares with; `c` what that writes.
pub(in crate::execute) fn apply(
    change: Change,
    number: Number,
    flush: bool,
    old: u64,
    b: u64,
    c: u64,
) -> u64 {
    match number {
        Number::Int(Int::U8 | Int::U16) => of::<u16>(change, old, b, c),
        Number::Int(Int::S8 | Int::S16) => of::<i16>(change, old, b, c),
        Number::Int(Int::U32) => of::<u32>(change, old, b, c),
        Number::Int(Int::S32) => of::<i32>(change, old, b, c),
        Number::Int(Int::U64) => of::<u64>(change, old, b, c),
        Number::Int(Int::S64) => of::<i64>(change, old, b, c),
        // Of floats there is only the sum.
        Number::Float(float) => {
            let format = Format::of(float);
            let flushed = |bits| if flush && float == Float::F32 { format.flushed(bits) } else { bits };
            flushed(format.add(flushed(old), flushed(b), Round::Nearest))
        }
    }
}

fn of<T: Integer>(change: Change, old: u64, b: u64, c: u64) -> u64 {
    let (old, b, c) = (T::of(old), T::of(b), T::of(c));
    let new = match change {
        Change::Add => old.add(b),
        Change::Min => old.min(b),
        Change::Max => old.max(b),
        Change::And => old & b,
        Change::Or => old | b,
        Change::Xor => old ^ b,
        Change::Exchange => b,
        Change::Increment if old >= b => T::ZERO,
        Change::Increment => old.add(T::wrap(1)),
        Change::Decrement if old == T::ZERO || old > b => b,
        Change::Decrement => old.sub(T::wrap(1)),
        Change::CompareExchange if old == b => c,
        Change::CompareExchange => old,
    };
    Lane::bits(new)
}
