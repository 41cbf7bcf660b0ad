//! Which opcode is decoded where.
//!
//! Not here: any of the decoding.

use super::builder::Builder;
use super::modifiers::Modifiers;
use super::{arithmetic, compare, control, convert, integer, memory, moves, together};
use crate::ptx::error::ParseError;
use crate::ptx::program::Test;
use crate::ptx::syntax::Instruction;
use crate::ptx::types::Type;

impl<'a> Builder<'a> {
    /// Decodes one instruction of the text.
    ///
    /// # Errors
    /// The opcode, a modifier or an operand is wrong or not supported.
    pub fn instruction(&mut self, instruction: &'a Instruction<'a>) -> Result<(), ParseError> {
        self.position = instruction.position;
        self.guard = match instruction.guard {
            Some((name, negated)) => self.test_named(name, negated)?,
            None => Test::ALWAYS,
        };
        let mut modifiers = Modifiers::new(instruction);
        let m = &mut modifiers;
        // The same opcodes stand for integers, floats and predicates.
        let last = instruction.modifiers.last().and_then(|name| Type::named(name));
        let is_float = last.is_some_and(|ty| super::modifiers::float(ty).is_some());
        match instruction.opcode {
            "add" | "sub" | "mul" | "div" | "min" | "max" | "abs" | "neg" if is_float => {
                arithmetic::decode(self, instruction, m)?;
            }
            "fma" | "rcp" | "sqrt" | "rsqrt" | "ex2" | "lg2" | "sin" | "cos" | "tanh" | "copysign" => {
                arithmetic::decode(self, instruction, m)?;
            }
            "mad" if is_float => arithmetic::decode(self, instruction, m)?,
            "and" | "or" | "xor" | "not" if last == Some(Type::Pred) => {
                compare::logic(self, instruction, m)?;
            }
            "add" | "sub" | "mul" | "mul24" | "div" | "rem" | "min" | "max" | "abs" | "neg" | "not"
            | "cnot" | "and" | "or" | "xor" | "shl" | "shr" | "popc" | "clz" | "brev" | "bfind" | "mad"
            | "mad24" | "sad" | "bfe" | "bfi" | "prmt" | "lop3" | "shf" | "dp4a" | "dp2a" | "addc"
            | "subc" | "madc" => {
                integer::decode(self, instruction, m)?;
            }
            "setp" | "set" | "selp" | "slct" | "testp" => compare::decode(self, instruction, m)?,
            "cvt" => convert::decode(self, instruction, m)?,
            "mov" | "cvta" | "isspacep" => moves::decode(self, instruction, m)?,
            "ld" | "ldu" | "st" | "atom" | "red" | "prefetch" | "prefetchu" | "applypriority" | "discard" => {
                memory::decode(self, instruction, m)?;
            }
            "bar" | "barrier" | "shfl" | "vote" | "match" | "redux" | "activemask" => {
                together::decode(self, instruction, m)?;
            }
            "bra" | "brx" | "call" | "ret" | "exit" | "trap" | "membar" | "fence" | "nanosleep" => {
                control::decode(self, instruction, m)?;
            }
            _ => {
                let message = format!("unknown opcode `{}`", instruction.name());
                return Err(instruction.position.error(message));
            }
        }
        modifiers.finish()
    }
}
