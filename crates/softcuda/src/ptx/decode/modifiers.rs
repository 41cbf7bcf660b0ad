//! [`Modifiers`]: what follows an opcode, taken piece by piece, so that whatever is left is an error.
//!
//! Not here: what they mean for an instruction.

use crate::ptx::error::{ParseError, Position};
use crate::ptx::program::{Float, Int, Number, Round};
use crate::ptx::syntax::Instruction;
use crate::ptx::types::Type;

pub(crate) struct Modifiers<'a> {
    name: String,
    position: Position,
    left: Vec<&'a str>,
}

impl<'a> Modifiers<'a> {
    pub fn new(instruction: &Instruction<'a>) -> Modifiers<'a> {
        Modifiers {
            name: instruction.name(),
            position: instruction.position,
            left: instruction.modifiers.clone(),
        }
    }

    /// Takes the modifier if it is there.
    pub fn take(&mut self, name: &str) -> bool {
        match self.left.iter().position(|left| *left == name) {
            Some(index) => {
                self.left.remove(index);
                true
            }
            None => false,
        }
    }

    /// Takes the first of these that is there.
    pub fn one_of<T: Copy>(&mut self, table: &[(&str, T)]) -> Option<T> {
        table.iter().find(|(name, _)| self.take(name)).map(|(_, value)| *value)
    }

    /// As [`Modifiers::one_of`], where one has to be there.
    pub fn required<T: Copy>(&mut self, what: &str, table: &[(&str, T)]) -> Result<T, ParseError> {
        self.one_of(table).ok_or_else(|| self.error(format!("it has no {what} that is supported")))
    }

    /// Takes all that satisfy `wanted`.
    pub fn drop_where(&mut self, wanted: impl Fn(&str) -> bool) {
        self.left.retain(|name| !wanted(name));
    }

    /// Takes the first type.
    pub fn ty(&mut self) -> Result<Type, ParseError> {
        for index in 0..self.left.len() {
            if let Some(ty) = Type::named(self.left[index]) {
                self.left.remove(index);
                return Ok(ty);
            }
        }
        Err(self.error("it has no type that is supported"))
    }

    /// Takes a rounding of floats.
    pub fn round(&mut self) -> Option<Round> {
        self.one_of(&[
            ("rn", Round::Nearest),
            ("rna", Round::Away),
            ("rz", Round::Zero),
            ("rm", Round::Down),
            ("rp", Round::Up),
        ])
    }

    /// Checks that nothing is left.
    pub fn finish(&self) -> Result<(), ParseError> {
        match self.left.first() {
            None => Ok(()),
            Some(left) => Err(self.error(format!("the modifier `.{left}` is not supported"))),
        }
    }

    /// An error that names the instruction.
    pub fn error(&self, message: impl AsRef<str>) -> ParseError {
        self.position.error(format!("`{}`: {}", self.name, message.as_ref()))
    }

    /// The instruction does not take this type.
    pub fn refuse<T>(&self, ty: Type) -> Result<T, ParseError> {
        Err(self.error(format!("the type {ty} is not supported")))
    }
}

/// The integer of a type; bits are unsigned.
pub(crate) fn int(ty: Type) -> Option<Int> {
    Some(match ty {
        Type::U8 | Type::B8 => Int::U8,
        Type::S8 => Int::S8,
        Type::U16 | Type::B16 => Int::U16,
        Type::S16 => Int::S16,
        Type::U32 | Type::B32 => Int::U32,
        Type::S32 => Int::S32,
        Type::U64 | Type::B64 => Int::U64,
        Type::S64 => Int::S64,
        _ => return None,
    })
}

/// The float of a type, and whether two are packed.
pub(crate) fn float(ty: Type) -> Option<(Float, bool)> {
    Some(match ty {
        Type::F16 => (Float::F16, false),
        Type::F16x2 => (Float::F16, true),
        Type::Bf16 => (Float::Bf16, false),
        Type::Bf16x2 => (Float::Bf16, true),
        Type::F32 => (Float::F32, false),
        Type::F64 => (Float::F64, false),
        _ => return None,
    })
}

/// The number of a type that is not packed.
pub(crate) fn number(ty: Type) -> Option<Number> {
    match (int(ty), float(ty)) {
        (Some(int), _) => Some(Number::Int(int)),
        (None, Some((float, false))) => Some(Number::Float(float)),
        _ => None,
    }
}
