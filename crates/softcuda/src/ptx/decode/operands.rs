//! Operands to slots, checked against the type of the instruction.
//!
//! Not here: which operands an instruction has.

use super::bits;
use super::builder::Builder;
use super::scope::Entry;
use crate::ptx::error::ParseError;
use crate::ptx::program::{Address, Flag, Op, SINK, Slot, Special, Test};
use crate::ptx::syntax::{Base, Instruction, Literal, Operand};
use crate::ptx::types::{Class, Space, Type};

/// How wide a register has to be.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fit {
    /// As wide as the type.
    Exact,
    /// That wide or wider: loads, stores and conversions.
    Wider,
}

/// The operands, if there are `N`.
pub(crate) fn exactly<'i, 'a, const N: usize>(
    instruction: &'i Instruction<'a>,
) -> Result<&'i [Operand<'a>; N], ParseError> {
    instruction.operands.as_slice().try_into().map_err(|_| {
        let found = instruction.operands.len();
        instruction.position.error(format!("`{}` takes {N} operands, not {found}", instruction.name()))
    })
}

impl<'a> Builder<'a> {
    /// A value of type `ty` that is read.
    pub fn source(&mut self, operand: &'a Operand<'a>, ty: Type) -> Result<Slot, ParseError> {
        self.source_of(operand, ty, Fit::Exact)
    }

    pub fn source_of(&mut self, operand: &'a Operand<'a>, ty: Type, fit: Fit) -> Result<Slot, ParseError> {
        match operand {
            Operand::Literal(literal) => match bits(*literal, ty) {
                Some(value) => Ok(self.constant(value)),
                None => Err(self.wrong(format!("a constant that is no {ty}"))),
            },
            Operand::Name(name) => {
                if let Some((slot, bits)) = self.special_register(name) {
                    return if bits == ty.bits() || fit == Fit::Wider && bits > ty.bits() {
                        Ok(slot)
                    } else {
                        Err(self.wrong(format!("`{name}` has {bits} bits, not those of {ty}")))
                    };
                }
                match self.known(name)? {
                    Entry::Register(slot, class) => {
                        self.check_fit(name, class, ty, fit)?;
                        Ok(slot)
                    }
                    Entry::Place(place) if ty.class() != Class::Float && ty.bits() >= 32 => {
                        Ok(self.address_of(place, 0))
                    }
                    _ => Err(self.wrong(format!("`{name}` is no value of type {ty}"))),
                }
            }
            Operand::Offset(name, offset) => match self.known(name)? {
                Entry::Place(place) if ty.class() != Class::Float && ty.bits() >= 32 => {
                    Ok(self.address_of(place, *offset))
                }
                _ => Err(self.wrong(format!("`{name}` is no variable"))),
            },
            _ => Err(self.wrong(format!("an operand that is no value of type {ty}"))),
        }
    }

    /// A register of type `ty` that is written.
    pub fn target(&mut self, operand: &'a Operand<'a>, ty: Type) -> Result<Slot, ParseError> {
        self.target_of(operand, ty, Fit::Exact).map(|(slot, _)| slot)
    }

    /// A register that is written, and its width in bits.
    pub fn target_of(
        &mut self,
        operand: &'a Operand<'a>,
        ty: Type,
        fit: Fit,
    ) -> Result<(Slot, u32), ParseError> {
        match operand {
            Operand::Sink => Ok((self.register(), ty.bits())),
            Operand::Name(name) => match self.known(name)? {
                Entry::Register(slot, class) => {
                    self.check_fit(name, class, ty, fit)?;
                    Ok((slot, class.bits()))
                }
                _ => Err(self.wrong(format!("`{name}` is no register of type {ty}"))),
            },
            _ => Err(self.wrong(format!("a target that is no register of type {ty}"))),
        }
    }

    /// A predicate that is read.
    pub fn test(&mut self, operand: &'a Operand<'a>) -> Result<Test, ParseError> {
        match operand {
            Operand::Name(name) => self.test_named(name, false),
            Operand::Not(name) => self.test_named(name, true),
            Operand::Literal(Literal::Integer(value)) => {
                Ok(Test { flag: 0, flip: if *value == 0 { u32::MAX } else { 0 } })
            }
            _ => Err(self.wrong("an operand that is no predicate")),
        }
    }

    pub fn test_named(&mut self, name: &'a str, negated: bool) -> Result<Test, ParseError> {
        match self.known(name)? {
            Entry::Flag(flag) => Ok(Test { flag, flip: if negated { u32::MAX } else { 0 } }),
            _ => Err(self.wrong(format!("`{name}` is no predicate"))),
        }
    }

    /// A predicate that is written.
    pub fn flag_target(&mut self, operand: &'a Operand<'a>) -> Result<Flag, ParseError> {
        match operand {
            Operand::Sink => Ok(self.flag()),
            Operand::Name(name) => match self.known(name)? {
                Entry::Flag(flag) => Ok(flag),
                _ => Err(self.wrong(format!("`{name}` is no predicate"))),
            },
            _ => Err(self.wrong("a target that is no predicate")),
        }
    }

    /// `[base+offset]` in a space.
    pub fn address(&mut self, operand: &'a Operand<'a>, space: Space) -> Result<Address, ParseError> {
        let Operand::Address(base, offset) = operand else {
            return Err(self.wrong("an operand that is no address"));
        };
        let at = |base, offset, narrow| Address { base, offset, narrow, space };
        let Base::Name(name) = base else {
            let base = self.constant(*offset as u64);
            return Ok(at(base, 0, false));
        };
        match self.known(name)? {
            Entry::Register(slot, class) => match (class.bits(), class.class()) {
                (_, Class::Float) => Err(self.wrong(format!("`{name}` holds no address"))),
                (64, _) => Ok(at(slot, *offset, false)),
                (32, _) => Ok(at(slot, *offset, true)),
                _ => Err(self.wrong(format!("`{name}` is too narrow for an address"))),
            },
            Entry::Place(place) => {
                // A parameter of a function lies in local memory here.
                let of_function = space == Space::Parameter && place.space == Space::Local;
                let space = if of_function { Space::Local } else { space };
                let matches = place.space == space || space == Space::Generic && place.space == Space::Global;
                if !matches {
                    return Err(self.wrong(format!("`{name}` is in another space")));
                }
                let base = self.address_of(place, *offset);
                Ok(Address { base, offset: 0, narrow: false, space })
            }
            _ => Err(self.wrong(format!("`{name}` holds no address"))),
        }
    }

    /// The parts of `{a, b}`; a single operand is one part.
    pub fn parts(operand: &'a Operand<'a>) -> &'a [Operand<'a>] {
        match operand {
            Operand::Vector(parts) => parts,
            single => std::slice::from_ref(single),
        }
    }

    /// What a name means; an error if nothing.
    pub fn known(&mut self, name: &'a str) -> Result<Entry<'a>, ParseError> {
        if name.starts_with('%') && self.scopes.iter().all(|scope| !scope.names.contains_key(name)) {
            // The usual case of a wrong name of a special register deserves its own words.
            return match self.lookup(name)? {
                Some(entry) => Ok(entry),
                None => Err(self.wrong(format!("`{name}` is no register that is declared or known"))),
            };
        }
        match self.lookup(name)? {
            Some(entry) => Ok(entry),
            None => Err(self.wrong(format!("`{name}` is not declared"))),
        }
    }

    fn check_fit(&self, name: &str, class: Type, ty: Type, fit: Fit) -> Result<(), ParseError> {
        let (has, wants) = (class.bits(), ty.bits());
        if has == wants || fit == Fit::Wider && has > wants {
            return Ok(());
        }
        Err(self.wrong(format!("`{name}` of type {class} is no operand of type {ty}")))
    }

    /// A special register, by its name, and its width.
    fn special_register(&mut self, name: &str) -> Option<(Slot, u32)> {
        if matches!(name, "%clock" | "%clock_hi" | "%clock64" | "%globaltimer" | "%globaltimer_lo") {
            let wide = matches!(name, "%clock64" | "%globaltimer");
            let d = self.register();
            if name == "%clock_hi" {
                return Some((self.constant(0), 32));
            }
            self.emit(Op::Clock { d });
            if wide {
                return Some((d, 64));
            }
            let mask = self.constant(u64::from(u32::MAX));
            self.emit(Op::Int2 {
                f: crate::ptx::program::Int2::And,
                int: crate::ptx::program::Int::U64,
                d,
                a: d,
                b: mask,
            });
            return Some((d, 32));
        }
        let dimension = |name: &str| match name {
            "x" => Some(0),
            "y" => Some(1),
            "z" => Some(2),
            _ => None,
        };
        let special = match name.strip_prefix('%')?.split_once('.') {
            Some(("tid", d)) => Special::Thread(dimension(d)?),
            Some(("ntid", d)) => Special::Threads(dimension(d)?),
            Some(("ctaid", d)) => Special::Block(dimension(d)?),
            Some(("nctaid", d)) => Special::Blocks(dimension(d)?),
            Some(_) => return None,
            None => match &name[1..] {
                "laneid" => Special::Lane,
                "warpid" => Special::Warp,
                "nwarpid" => Special::Warps,
                "lanemask_eq" => Special::LanesEqual,
                "lanemask_lt" => Special::LanesBelow,
                "lanemask_le" => Special::LanesUpTo,
                "lanemask_gt" => Special::LanesAbove,
                "lanemask_ge" => Special::LanesFrom,
                "smid" => Special::Zero,
                "nsmid" => Special::Multiprocessors,
                "gridid" => return Some((self.special(Special::Zero), 64)),
                "dynamic_smem_size" => Special::DynamicShared,
                "total_smem_size" => Special::TotalShared,
                _ => return None,
            },
        };
        Some((self.special(special), 32))
    }

    /// An error at the instruction at hand.
    pub fn wrong(&self, message: impl Into<String>) -> ParseError {
        self.position.error(message)
    }

    /// Slots of the parts of a vector that is read.
    pub fn vector_source(
        &mut self,
        operand: &'a Operand<'a>,
        ty: Type,
        count: usize,
    ) -> Result<[Slot; 4], ParseError> {
        let parts = self.vector_parts(operand, count)?;
        let mut slots = [SINK; 4];
        for (slot, part) in slots.iter_mut().zip(parts) {
            *slot = self.source_of(part, ty, Fit::Wider)?;
        }
        Ok(slots)
    }

    pub fn vector_parts(
        &mut self,
        operand: &'a Operand<'a>,
        count: usize,
    ) -> Result<&'a [Operand<'a>], ParseError> {
        let parts = Builder::parts(operand);
        if parts.len() == count {
            return Ok(parts);
        }
        Err(self.wrong(format!("{} parts where {count} are wanted", parts.len())))
    }
}
