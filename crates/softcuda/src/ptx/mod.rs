//! PTX text to kernels that `crate::execute` runs.
//!
//! Here: what a module and a kernel tell about themselves. `lexer.rs` and `parser/` make the tree of `syntax.rs`,
//! `decode/` turns each kernel of it into the form of `program.rs`. Not here: running it.
//!
//! Taken are the instructions of ordinary code: integers, floats down to halves, memory, atomic operations, barriers,
//! and what warps do together. Everything else is refused by name, among it textures, matrices (`mma`), asynchronous
//! copies and `mbarrier`, clusters, recursion, calls by pointer, and `printf`.

mod decode;
mod error;
mod functions;
mod lexer;
mod parser;
pub(crate) mod program;
mod syntax;
pub(crate) mod types;

use std::sync::Arc;

pub use self::error::ParseError;
use self::program::Program;

/// The kernels and variables of one text.
#[derive(Clone, Debug)]
pub struct Module {
    kernels: Vec<Kernel>,
    globals: Vec<Global>,
    /// Pointers to variables within initial values: where they are put once addresses are known.
    pointers: Vec<Pointer>,
}

/// A kernel. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Kernel {
    program: Arc<Program>,
    /// Where the variables of the module are.
    globals: Arc<[u64]>,
}

/// A variable of the module, in device memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Global {
    /// As in the text.
    pub name: String,
    /// Its size.
    pub bytes: usize,
    /// In bytes, a power of two.
    pub align: usize,
    /// The first bytes; those after them are 0. Pointers to other variables are right after
    /// [`Module::place_globals`].
    pub initial: Vec<u8>,
    /// Whether it is declared `.const`, and so only read by kernels.
    pub constant: bool,
}

/// A parameter of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its size.
    pub bytes: usize,
    /// In bytes, a power of two.
    pub align: usize,
    /// Where it starts in the block of parameters.
    pub offset: usize,
}

#[derive(Clone, Copy, Debug)]
struct Pointer {
    global: usize,
    at: usize,
    to: usize,
    offset: i64,
}

impl Module {
    /// Reads and checks `text`. Every instruction is checked, whether or not it is ever reached.
    ///
    /// # Errors
    /// The text is no PTX, or uses what is not supported here; the error names it.
    pub fn parse(text: &str) -> Result<Module, ParseError> {
        let unit = parser::parse(text)?;
        decode::module(&unit)
    }

    /// The kernel of that name.
    pub fn kernel(&self, name: &str) -> Option<&Kernel> {
        self.kernels().find(|kernel| kernel.name() == name)
    }

    /// All kernels, in the order of the text.
    pub fn kernels(&self) -> impl Iterator<Item = &Kernel> {
        self.kernels.iter()
    }

    /// The variables that need device memory before a launch.
    pub fn globals(&self) -> &[Global] {
        &self.globals
    }

    /// Tells where the variables of [`Module::globals`] are, in their order. Kernels taken from the module before
    /// do not learn of it.
    ///
    /// # Panics
    /// There are not as many addresses as variables.
    pub fn place_globals(&mut self, addresses: &[u64]) {
        assert_eq!(addresses.len(), self.globals.len(), "an address for every variable");
        let shared: Arc<[u64]> = addresses.into();
        for kernel in &mut self.kernels {
            kernel.globals = Arc::clone(&shared);
        }
        for pointer in &self.pointers {
            let value = addresses[pointer.to].wrapping_add_signed(pointer.offset).to_le_bytes();
            self.globals[pointer.global].initial[pointer.at..pointer.at + 8].copy_from_slice(&value);
        }
    }
}

impl Kernel {
    /// As in the text.
    pub fn name(&self) -> &str {
        &self.program.name
    }

    /// The parameters in order.
    pub fn parameters(&self) -> &[Parameter] {
        &self.program.parameters
    }

    /// The size of the block of parameters.
    pub fn parameter_bytes(&self) -> usize {
        self.program.parameter_bytes
    }

    /// Shared memory of a block that the text asks for. A launch may add to it.
    pub fn static_shared_bytes(&self) -> u32 {
        self.program.static_shared_bytes
    }

    /// Local memory of one thread.
    pub fn local_bytes(&self) -> u32 {
        self.program.local_bytes
    }

    /// Registers that the kernel writes, of any width: what the text uses, not what a compiler for a device would
    /// make of it.
    pub fn registers(&self) -> u32 {
        self.program.registers
    }

    /// The most threads of a block, where the text limits them (`.maxntid`, `.reqntid`).
    pub fn max_threads(&self) -> Option<u32> {
        let required =
            self.program.required.map(|extents| extents.iter().copied().fold(1, u32::saturating_mul));
        required.or(self.program.max_threads)
    }

    pub(crate) fn program(&self) -> &Program {
        &self.program
    }

    /// The address of a variable of the module; 0 before it was placed.
    pub(crate) fn global(&self, index: u32) -> u64 {
        self.globals.get(index as usize).copied().unwrap_or(0)
    }
}
