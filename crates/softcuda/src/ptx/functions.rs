//! What instructions compute, by name: kinds of numbers and the functions on them.
//!
//! Not here: instructions with their operands (`program.rs`), the functions themselves (`crate::execute`).

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Int {
    U8,
    S8,
    U16,
    S16,
    U32,
    S32,
    U64,
    S64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Float {
    F16,
    Bf16,
    F32,
    F64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Number {
    Int(Int),
    Float(Float),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Round {
    /// To the nearest, ties to even.
    Nearest,
    /// To the nearest, ties away from zero.
    Away,
    Zero,
    Down,
    Up,
}

/// How a floating-point instruction treats its operands and its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mode {
    pub round: Round,
    /// Subnormal operands and results become zeros.
    pub flush: bool,
    /// The result is clamped to 0 to 1, NaN becoming 0.
    pub saturate: bool,
    /// Two values in the halves of 32 bits.
    pub packed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Int1 {
    Abs,
    Neg,
    Not,
    /// 1 for 0, else 0.
    LogicalNot,
    Ones,
    LeadingZeros,
    Reverse,
    /// The highest bit that is not a copy of the sign; all ones if none.
    FindHighest,
    /// As `FindHighest`, counted from the top.
    FindShift,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Int2 {
    Add,
    Sub,
    AddSaturate,
    SubSaturate,
    MulLow,
    MulHigh,
    MulWide,
    Mul24Low,
    Mul24High,
    Div,
    Rem,
    Min,
    Max,
    And,
    Or,
    Xor,
    ShiftLeft,
    ShiftRight,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Int3 {
    MadLow,
    MadHigh,
    MadHighSaturate,
    MadWide,
    Mad24Low,
    Mad24High,
    /// Sum of the absolute difference.
    Sad,
    /// value, position, length
    Extract,
    /// Any function of three bits, by its table.
    Table(u8),
    Permute(Permute),
    /// low, high, amount; by the upper half
    FunnelLeft {
        wrap: bool,
    },
    FunnelRight {
        wrap: bool,
    },
    /// Four products of bytes and a sum; whether a and b are signed.
    Dot4 {
        a: bool,
        b: bool,
    },
    /// Two products of halves with bytes and a sum.
    Dot2 {
        a: bool,
        b: bool,
        high: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Permute {
    Index,
    ForwardFour,
    BackwardFour,
    Replicate,
    EdgeLeft,
    EdgeRight,
    ReplicateHalf,
}

/// Arithmetic with the carry of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carry {
    Add,
    Sub,
    MadLow,
    MadHigh,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Float1 {
    Abs,
    Neg,
    Reciprocal,
    Sqrt,
    /// The following are of limited precision on a device; here they are as near as doubles give.
    ReciprocalSqrt,
    Exp2,
    Log2,
    Sin,
    Cos,
    Tanh,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Float2 {
    Add,
    Sub,
    Mul,
    Div,
    /// Gives 0 if the divisor is above 2^126.
    DivApproximate,
    Min {
        nan: bool,
    },
    Max {
        nan: bool,
    },
    /// b with the sign of a
    CopySign,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compare {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    /// The following are true if an operand is NaN.
    Equ,
    Neu,
    Ltu,
    Leu,
    Gtu,
    Geu,
    /// Both are numbers.
    Num,
    Nan,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Finite,
    Infinite,
    Number,
    Nan,
    Normal,
    Subnormal,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Logic {
    And,
    Or,
    Xor,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Convert {
    pub from: Number,
    pub to: Number,
    pub round: Round,
    /// From float to float: round to a whole number.
    pub whole: bool,
    pub flush: bool,
    pub saturate: bool,
    /// Negative results become 0.
    pub relu: bool,
    /// Bits of the target register; signed results fill them.
    pub width: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Add,
    Min,
    Max,
    And,
    Or,
    Xor,
    Exchange,
    /// Up to b, then 0.
    Increment,
    /// Down to 0, then b.
    Decrement,
    CompareExchange,
}
