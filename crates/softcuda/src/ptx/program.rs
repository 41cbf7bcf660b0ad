//! The form that is executed: instructions with slots instead of names.
//!
//! A slot is a register of 32 lanes, 64 bits each; values narrower than that have zeros above. Constants and special
//! registers have slots too, filled before the first instruction, so that every operand is read alike. Predicates
//! are apart: one bit a lane. Not here: how it is made (`decode/`), what it does (`crate::execute`).

pub(crate) use super::functions::*;

/// A register, constant or special register: an index into the lanes of a warp.
pub(crate) type Slot = u32;

/// A predicate register. 0 is always true.
pub(crate) type Flag = u32;

/// In place of a slot that nothing is written to.
pub(crate) const SINK: Slot = u32::MAX;

/// What a launch runs.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub name: String,
    pub code: Vec<Instruction>,
    /// The line in the text, of each instruction.
    pub lines: Vec<u32>,
    pub tables: Vec<Vec<u32>>,
    pub slots: u32,
    pub flags: u32,
    /// Slots that instructions write.
    pub registers: u32,
    pub constants: Vec<Constant>,
    pub specials: Vec<(Special, Slot)>,
    pub parameters: Vec<super::Parameter>,
    pub parameter_bytes: usize,
    pub static_shared_bytes: u32,
    /// Where dynamic shared memory starts.
    pub dynamic_shared: u32,
    /// Of one thread.
    pub local_bytes: u32,
    pub max_threads: Option<u32>,
    pub required: Option<[u32; 3]>,
}

/// A value that is the same in every lane and launch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Constant {
    pub slot: Slot,
    pub value: u64,
    /// Adds the address of this variable of the module.
    pub global: Option<u32>,
}

/// A special register that does not change while a block runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Special {
    /// x, y or z
    Thread(u8),
    Threads(u8),
    Block(u8),
    Blocks(u8),
    Lane,
    Warp,
    Warps,
    LanesEqual,
    LanesBelow,
    LanesUpTo,
    LanesAbove,
    LanesFrom,
    /// The number of the multiprocessor, of the grid: always 0.
    Zero,
    Multiprocessors,
    DynamicShared,
    TotalShared,
}

/// A predicate or its opposite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Test {
    pub flag: Flag,
    /// All ones for the opposite.
    pub flip: u32,
}

impl Test {
    pub const ALWAYS: Test = Test { flag: 0, flip: 0 };
}

#[derive(Clone, Debug)]
pub(crate) struct Instruction {
    pub guard: Test,
    pub op: Op,
}

/// `slot + offset`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub base: Slot,
    pub offset: i64,
    /// The base has 32 bits, and so has the sum.
    pub narrow: bool,
    pub space: super::types::Space,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub address: Address,
    /// Of one element.
    pub bytes: u8,
    /// Elements that are read.
    pub count: u8,
    /// Fill the target with the sign of the element up to this width; 0 for zeros.
    pub signed_to: u8,
    pub d: [Slot; 4],
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Store {
    pub address: Address,
    pub bytes: u8,
    pub count: u8,
    pub a: [Slot; 4],
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Atomic {
    pub change: Change,
    pub number: Number,
    pub address: Address,
    pub d: Slot,
    pub b: Slot,
    pub c: Slot,
}

/// A barrier of the block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Barrier {
    pub id: Slot,
    /// How many threads take part; all of the block if [`SINK`].
    pub count: Slot,
    pub action: BarrierAction,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BarrierAction {
    Wait,
    Arrive,
    Ones { d: Slot, a: Test },
    All { d: Flag, a: Test },
    Any { d: Flag, a: Test },
}

/// Something that lanes of a warp do together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exchange {
    pub kind: ExchangeKind,
    pub members: Slot,
    pub a: Slot,
    pub b: Slot,
    pub c: Slot,
    pub test: Test,
    pub d: Slot,
    /// [`SINK`] if there is none.
    pub flag: Flag,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExchangeKind {
    Barrier,
    ShuffleUp,
    ShuffleDown,
    ShuffleXor,
    ShuffleIndex,
    All,
    Any,
    Uniform,
    Ballot,
    MatchAny,
    MatchAll,
    Reduce(Change, Int),
}

#[derive(Clone, Debug)]
pub(crate) enum Op {
    Move {
        d: Slot,
        a: Slot,
    },
    MoveFlag {
        d: Flag,
        a: Test,
    },
    Logic {
        f: Logic,
        d: Flag,
        a: Test,
        b: Test,
    },
    Int1 {
        f: Int1,
        int: Int,
        d: Slot,
        a: Slot,
    },
    Int2 {
        f: Int2,
        int: Int,
        d: Slot,
        a: Slot,
        b: Slot,
    },
    Int3 {
        f: Int3,
        int: Int,
        d: Slot,
        a: Slot,
        b: Slot,
        c: Slot,
    },
    /// a into b, at position c, of length e
    Insert {
        int: Int,
        d: Slot,
        a: Slot,
        b: Slot,
        c: Slot,
        e: Slot,
    },
    Carry {
        f: Carry,
        int: Int,
        takes: bool,
        gives: bool,
        d: Slot,
        a: Slot,
        b: Slot,
        c: Slot,
    },
    Float1 {
        f: Float1,
        float: Float,
        mode: Mode,
        d: Slot,
        a: Slot,
    },
    Float2 {
        f: Float2,
        float: Float,
        mode: Mode,
        d: Slot,
        a: Slot,
        b: Slot,
    },
    Fma {
        float: Float,
        mode: Mode,
        d: Slot,
        a: Slot,
        b: Slot,
        c: Slot,
    },
    Compare {
        f: Compare,
        number: Number,
        flush: bool,
        d: Flag,
        a: Slot,
        b: Slot,
    },
    Kind {
        f: Kind,
        float: Float,
        d: Flag,
        a: Slot,
    },
    Select {
        d: Slot,
        a: Slot,
        b: Slot,
        on: Test,
    },
    Convert {
        how: Convert,
        d: Slot,
        a: Slot,
    },
    /// `bits` each, the first lowest.
    Pack {
        bits: u8,
        count: u8,
        d: Slot,
        a: [Slot; 4],
    },
    Unpack {
        bits: u8,
        count: u8,
        d: [Slot; 4],
        a: Slot,
    },
    Load(Load),
    Store(Store),
    Atomic(Atomic),
    /// Whether a generic address is in the space.
    IsSpace {
        space: super::types::Space,
        d: Flag,
        a: Slot,
    },
    Clock {
        d: Slot,
    },
    ActiveMask {
        d: Slot,
    },
    Branch {
        target: u32,
    },
    BranchTable {
        table: u32,
        a: Slot,
    },
    Exit,
    Trap,
    /// The message, file and function as addresses of text; the line.
    Assert {
        message: Slot,
        file: Slot,
        line: Slot,
        function: Slot,
    },
    Barrier(Barrier),
    Exchange(Exchange),
    /// Lets others go first.
    Yield,
}
