//! The text as a tree: what was written, with names not yet resolved.
//!
//! Not here: what it means (`decode/`). The tree lives only while a module is parsed.

use super::error::Position;
use super::types::Type;

/// A whole text.
#[derive(Debug, Default)]
pub(crate) struct Unit<'a> {
    pub functions: Vec<Function<'a>>,
    /// Variables outside of functions.
    pub variables: Vec<Variable<'a>>,
}

/// An `.entry` or a `.func`.
#[derive(Debug)]
pub(crate) struct Function<'a> {
    pub entry: bool,
    pub name: &'a str,
    pub position: Position,
    pub results: Vec<Formal<'a>>,
    pub parameters: Vec<Formal<'a>>,
    /// `.maxntid`, as the product of its numbers.
    pub max_threads: Option<u32>,
    /// `.reqntid`: the only extents of a block that it can have.
    pub required: Option<[u32; 3]>,
    /// None for a declaration.
    pub body: Option<Vec<Statement<'a>>>,
}

/// A formal parameter or result.
#[derive(Clone, Debug)]
pub(crate) enum Formal<'a> {
    /// `.param`: in memory.
    Memory(Variable<'a>),
    /// `.reg`: a register.
    Register { name: &'a str, class: Type },
}

/// The state space of a declaration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Storage {
    Global,
    Constant,
    Shared,
    Local,
    Parameter,
}

/// A variable in memory.
#[derive(Clone, Debug)]
pub(crate) struct Variable<'a> {
    /// Different for every declaration of a text.
    pub id: u32,
    pub name: &'a str,
    pub position: Position,
    pub storage: Storage,
    /// Declared elsewhere, or of a size that the launch gives.
    pub external: bool,
    pub element: Type,
    /// In bytes; 0 if the launch gives the size.
    pub bytes: usize,
    pub align: usize,
    pub initial: Vec<Initial<'a>>,
}

/// One element of an initialiser.
#[derive(Clone, Debug)]
pub(crate) enum Initial<'a> {
    Literal(Literal),
    /// The address of a variable, with an offset in bytes.
    Address(&'a str, i64),
}

#[derive(Debug)]
pub(crate) enum Statement<'a> {
    Label(&'a str, Position),
    /// `.reg .b32 %r<12>` has a count, `.reg .pred p` none.
    Register {
        name: &'a str,
        class: Type,
        count: Option<u32>,
    },
    Variable(Variable<'a>),
    /// `name: .branchtargets a, b;`
    Targets {
        name: &'a str,
        labels: Vec<&'a str>,
    },
    Block(Vec<Statement<'a>>),
    Instruction(Instruction<'a>),
}

#[derive(Debug)]
pub(crate) struct Instruction<'a> {
    pub position: Position,
    pub guard: Option<(&'a str, bool)>,
    pub opcode: &'a str,
    /// Without their dots.
    pub modifiers: Vec<&'a str>,
    pub operands: Vec<Operand<'a>>,
}

impl Instruction<'_> {
    /// Opcode and modifiers as they were written.
    pub fn name(&self) -> String {
        let mut name = self.opcode.to_owned();
        for modifier in &self.modifiers {
            name.push('.');
            name.push_str(modifier);
        }
        name
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Operand<'a> {
    /// A register, a special register with its dimension, a variable, a label.
    Name(&'a str),
    /// `name+4`: the address of a variable with an offset.
    Offset(&'a str, i64),
    /// `!%p1`
    Not(&'a str),
    Literal(Literal),
    /// `_`
    Sink,
    /// `{a, b}`
    Vector(Vec<Operand<'a>>),
    /// `[base+offset]`
    Address(Base<'a>, i64),
    /// `a|b`
    Pair(Box<Operand<'a>>, Box<Operand<'a>>),
    /// `(a, b)` of a call
    List(Vec<Operand<'a>>),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Base<'a> {
    Name(&'a str),
    /// A bare number; the offset holds it.
    Nothing,
}

/// A constant as written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Literal {
    /// Two's complement in 64 bits.
    Integer(u64),
    /// A decimal fraction.
    Decimal(f64),
    /// `0f…`: the bits of a float.
    Single(u32),
    /// `0d…`: the bits of a double.
    Double(u64),
}
