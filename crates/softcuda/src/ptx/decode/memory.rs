//! Loads, stores and atomic operations.
//!
//! Not here: addresses within operands (`operands.rs`).

use super::builder::Builder;
use super::modifiers::{Modifiers, number};
use super::operands::{Fit, exactly};
use crate::ptx::error::ParseError;
use crate::ptx::program::{Address, Atomic, Change, Float, Int, Load, Number, Op, SINK, Slot, Store};
use crate::ptx::syntax::{Instruction, Operand};
use crate::ptx::types::{Class, Space, Type};

type Decoded = Result<(), ParseError>;

const SPACES: &[(&str, Space)] = &[
    ("global", Space::Global),
    ("const", Space::Global),
    ("shared", Space::Shared),
    ("shared::cta", Space::Shared),
    ("local", Space::Local),
    ("param", Space::Parameter),
    ("param::entry", Space::Parameter),
    ("param::func", Space::Parameter),
];

pub(crate) fn decode<'a>(b: &mut Builder<'a>, i: &'a Instruction<'a>, m: &mut Modifiers<'a>) -> Decoded {
    // Order and caches: lanes run one instruction after the other here, so that all accesses are in order.
    m.drop_where(is_hint);
    let space = m.one_of(SPACES).unwrap_or(Space::Generic);
    match i.opcode {
        "ld" | "ldu" => load(b, i, m, space),
        "st" => store(b, i, m, space),
        "atom" | "red" => atomic(b, i, m, space),
        _ => {
            // Hints alone. Only the address is checked.
            m.drop_where(|name| matches!(name, "L1" | "L2" | "tensormap"));
            match i.operands.first() {
                Some(address) => b.address(address, space).map(|_| ()),
                None => Err(m.error("it has no address")),
            }
        }
    }
}

fn is_hint(name: &str) -> bool {
    let order = ["weak", "relaxed", "acquire", "release", "acq_rel", "volatile", "mmio"];
    let scope = ["cta", "cluster", "gpu", "sys"];
    let cache = ["ca", "cg", "cs", "lu", "cv", "nc", "wb", "wt", "unified"];
    let level = name.starts_with("L1::") || name.starts_with("L2::") && name != "L2::cache_hint";
    level || order.contains(&name) || scope.contains(&name) || cache.contains(&name)
}

/// The type of an element and how many there are.
fn elements(m: &mut Modifiers<'_>) -> Result<(Type, usize), ParseError> {
    let count = m.one_of(&[("v2", 2), ("v4", 4)]).unwrap_or(1);
    let ty = m.ty()?;
    if ty == Type::Pred || ty.bytes() * count > 16 {
        return m.refuse(ty);
    }
    Ok((ty, count))
}

fn load<'a>(b: &mut Builder<'a>, i: &'a Instruction<'a>, m: &mut Modifiers<'a>, space: Space) -> Decoded {
    let (ty, count) = elements(m)?;
    let [d, address] = exactly(i)?;
    let address = b.memory_address(address, space)?;
    let mut slots = [SINK; 4];
    let mut width = 0;
    for (slot, part) in slots.iter_mut().zip(b.vector_parts(d, count)?) {
        if !matches!(part, Operand::Sink) {
            (*slot, width) = b.target_of(part, ty, Fit::Wider)?;
        }
    }
    let signed_to = if ty.class() == Class::Signed { width as u8 } else { 0 };
    b.emit(Op::Load(Load { address, bytes: ty.bytes() as u8, count: count as u8, signed_to, d: slots }));
    Ok(())
}

fn store<'a>(b: &mut Builder<'a>, i: &'a Instruction<'a>, m: &mut Modifiers<'a>, space: Space) -> Decoded {
    let (ty, count) = elements(m)?;
    let [address, a] = exactly(i)?;
    let address = b.memory_address(address, space)?;
    if address.space == Space::Parameter {
        return Err(m.error("the parameters of a kernel are not written"));
    }
    let a = b.vector_source(a, ty, count)?;
    b.emit(Op::Store(Store { address, bytes: ty.bytes() as u8, count: count as u8, a }));
    Ok(())
}

fn atomic<'a>(b: &mut Builder<'a>, i: &'a Instruction<'a>, m: &mut Modifiers<'a>, space: Space) -> Decoded {
    if matches!(space, Space::Local | Space::Parameter) {
        return Err(m.error("it is for global and shared memory"));
    }
    let change = m.required(
        "operation",
        &[
            ("add", Change::Add),
            ("min", Change::Min),
            ("max", Change::Max),
            ("and", Change::And),
            ("or", Change::Or),
            ("xor", Change::Xor),
            ("exch", Change::Exchange),
            ("inc", Change::Increment),
            ("dec", Change::Decrement),
            ("cas", Change::CompareExchange),
        ],
    )?;
    let ty = m.ty()?;
    let Some(number) = number(ty) else {
        return m.refuse(ty);
    };
    let fits = match (change, number) {
        (Change::Add, Number::Int(Int::U32 | Int::S32 | Int::U64 | Int::S64)) => ty.class() != Class::Bits,
        (Change::Add, Number::Float(Float::F16 | Float::Bf16)) => m.take("noftz"),
        (Change::Add, Number::Float(_)) => true,
        (Change::Min | Change::Max, Number::Int(_)) => ty.bits() >= 32 && ty.class() != Class::Bits,
        (Change::And | Change::Or | Change::Xor | Change::Exchange, Number::Int(_)) => ty.bits() >= 32,
        (Change::CompareExchange, Number::Int(_)) => ty.bits() >= 16,
        (Change::Increment | Change::Decrement, _) => ty == Type::U32,
        _ => false,
    };
    if !fits {
        return m.refuse(ty);
    }
    let (d, operands) = match (i.opcode, i.operands.as_slice()) {
        ("atom", [d, rest @ ..]) => (Some(d), rest),
        (_, rest) => (None, rest),
    };
    let (address, value, second) = match (operands, change) {
        ([address, compare, value], Change::CompareExchange) => (address, compare, Some(value)),
        ([address, value], change) if change != Change::CompareExchange => (address, value, None),
        _ => return Err(m.error("it has other operands than this")),
    };
    let address = b.memory_address(address, space)?;
    let value = b.source(value, ty)?;
    let second = match second {
        Some(second) => b.source(second, ty)?,
        None => value,
    };
    let d = match d {
        Some(Operand::Sink) | None => SINK,
        Some(d) => b.target(d, ty)?,
    };
    b.emit(Op::Atomic(Atomic { change, number, address, d, b: value, c: second }));
    Ok(())
}

impl<'a> Builder<'a> {
    fn memory_address(&mut self, operand: &'a Operand<'a>, space: Space) -> Result<Address, ParseError> {
        let mut address = self.address(operand, space)?;
        // By a register: what was written as a parameter of a function is in local memory.
        address.space = self.real_space(address.space);
        if address.narrow && matches!(address.space, Space::Generic | Space::Global) {
            return Err(self.wrong("an address of 32 bits, where it takes 64"));
        }
        Ok(address)
    }

    /// Where the parameters of the function at hand are: those of functions put in place are local.
    pub fn real_space(&self, space: Space) -> Space {
        if space == Space::Parameter && !self.calls.is_empty() { Space::Local } else { space }
    }

    /// Writes a register to local memory.
    pub fn store_local(&mut self, base: Slot, a: Slot, bytes: usize) {
        let address = Address { base, offset: 0, narrow: false, space: Space::Local };
        self.emit(Op::Store(Store { address, bytes: bytes as u8, count: 1, a: [a, SINK, SINK, SINK] }));
    }
}
