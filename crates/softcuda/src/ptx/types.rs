//! The fundamental types and state spaces of PTX.
//!
//! Not here: which instruction takes which (`decode/`).

use std::fmt::{self, Display};

/// A fundamental type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are those of PTX")]
pub enum Type {
    U8,
    U16,
    U32,
    U64,
    S8,
    S16,
    S32,
    S64,
    B8,
    B16,
    B32,
    B64,
    F16,
    F16x2,
    Bf16,
    Bf16x2,
    F32,
    F64,
    Pred,
}

/// What the bits of a type stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Bits,
    Unsigned,
    Signed,
    Float,
    Predicate,
}

impl Type {
    /// Reads a modifier such as `.u32`, given without its dot.
    pub(crate) fn named(name: &str) -> Option<Type> {
        Some(match name {
            "u8" => Type::U8,
            "u16" => Type::U16,
            "u32" => Type::U32,
            "u64" => Type::U64,
            "s8" => Type::S8,
            "s16" => Type::S16,
            "s32" => Type::S32,
            "s64" => Type::S64,
            "b8" => Type::B8,
            "b16" => Type::B16,
            "b32" => Type::B32,
            "b64" => Type::B64,
            "f16" => Type::F16,
            "f16x2" => Type::F16x2,
            "bf16" => Type::Bf16,
            "bf16x2" => Type::Bf16x2,
            "f32" => Type::F32,
            "f64" => Type::F64,
            "pred" => Type::Pred,
            _ => return None,
        })
    }

    /// The name without the dot.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Type::U8 => "u8",
            Type::U16 => "u16",
            Type::U32 => "u32",
            Type::U64 => "u64",
            Type::S8 => "s8",
            Type::S16 => "s16",
            Type::S32 => "s32",
            Type::S64 => "s64",
            Type::B8 => "b8",
            Type::B16 => "b16",
            Type::B32 => "b32",
            Type::B64 => "b64",
            Type::F16 => "f16",
            Type::F16x2 => "f16x2",
            Type::Bf16 => "bf16",
            Type::Bf16x2 => "bf16x2",
            Type::F32 => "f32",
            Type::F64 => "f64",
            Type::Pred => "pred",
        }
    }

    /// Width in bits; a predicate has one.
    pub(crate) fn bits(self) -> u32 {
        match self {
            Type::Pred => 1,
            Type::U8 | Type::S8 | Type::B8 => 8,
            Type::U16 | Type::S16 | Type::B16 | Type::F16 | Type::Bf16 => 16,
            Type::U32 | Type::S32 | Type::B32 | Type::F32 | Type::F16x2 | Type::Bf16x2 => 32,
            Type::U64 | Type::S64 | Type::B64 | Type::F64 => 64,
        }
    }

    /// Width in memory. A predicate has none.
    pub(crate) fn bytes(self) -> usize {
        self.bits() as usize / 8
    }

    pub(crate) fn class(self) -> Class {
        match self {
            Type::Pred => Class::Predicate,
            Type::U8 | Type::U16 | Type::U32 | Type::U64 => Class::Unsigned,
            Type::S8 | Type::S16 | Type::S32 | Type::S64 => Class::Signed,
            Type::B8 | Type::B16 | Type::B32 | Type::B64 => Class::Bits,
            Type::F16 | Type::F16x2 | Type::Bf16 | Type::Bf16x2 | Type::F32 | Type::F64 => Class::Float,
        }
    }
}

impl Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, ".{}", self.name())
    }
}

/// Where an address points.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Space {
    /// Any of the others, told by the address.
    Generic,
    /// Device memory; constants live there too.
    Global,
    Shared,
    Local,
    Parameter,
}

impl Space {
    /// Generic addresses of a space other than global start here. Device memory has to stay below all of them.
    pub(crate) const fn window(self) -> u64 {
        match self {
            Space::Generic | Space::Global => 0,
            Space::Shared => 1 << 56,
            Space::Local => 2 << 56,
            Space::Parameter => 3 << 56,
        }
    }

    /// The space of a generic address, and the address within it.
    pub(crate) fn of(address: u64) -> (Space, u64) {
        let within = address & 0x00ff_ffff_ffff_ffff;
        match address >> 56 {
            1 => (Space::Shared, within),
            2 => (Space::Local, within),
            3 => (Space::Parameter, within),
            _ => (Space::Global, address),
        }
    }
}
