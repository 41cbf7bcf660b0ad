//! PTX text to kernels; a stand-in that knows no instruction.
//!
//! Not here: running them.

use std::sync::Arc;

/// What is wrong with a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// From 1 on.
    pub line: u32,
    /// From 1 on.
    pub column: u32,
    /// What is wrong.
    pub message: String,
}

/// The kernels and variables of one text.
#[derive(Clone, Debug)]
pub struct Module {
    kernels: Vec<Kernel>,
    globals: Vec<Global>,
}

/// A kernel.
#[derive(Clone, Debug)]
pub struct Kernel(Arc<String>);

/// A variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Global {
    /// Its name.
    pub name: String,
    /// Its size.
    pub bytes: usize,
    /// Its alignment.
    pub align: usize,
    /// Its first bytes.
    pub initial: Vec<u8>,
}

/// A parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its size.
    pub bytes: usize,
    /// Its alignment.
    pub align: usize,
    /// Where it starts.
    pub offset: usize,
}

impl Module {
    /// Reads a text.
    ///
    /// # Errors
    /// It is no PTX.
    pub fn parse(text: &str) -> Result<Module, ParseError> {
        if !text.contains(".version") {
            return Err(ParseError { line: 1, column: 1, message: "no .version".to_owned() });
        }
        let names = text.split(".entry").skip(1).filter_map(|rest| rest.trim_start().split('(').next());
        Ok(Module {
            kernels: names.map(|name| Kernel(Arc::new(name.trim().to_owned()))).collect(),
            globals: Vec::new(),
        })
    }

    /// The kernel of that name.
    pub fn kernel(&self, name: &str) -> Option<&Kernel> {
        self.kernels().find(|kernel| kernel.name() == name)
    }

    /// All kernels.
    pub fn kernels(&self) -> impl Iterator<Item = &Kernel> {
        self.kernels.iter()
    }

    /// All variables.
    pub fn globals(&self) -> &[Global] {
        &self.globals
    }

    /// Tells where the variables are.
    pub fn place_globals(&mut self, _addresses: &[u64]) {}
}

impl Kernel {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.0
    }

    /// Its parameters.
    pub fn parameters(&self) -> &[Parameter] {
        &[]
    }

    /// Bytes of all parameters.
    pub fn parameter_bytes(&self) -> usize {
        0
    }

    /// Shared memory that it declares.
    pub fn static_shared_bytes(&self) -> u32 {
        0
    }

    /// Local memory of a thread.
    pub fn local_bytes(&self) -> u32 {
        0
    }

    /// Registers.
    pub fn registers(&self) -> u32 {
        1
    }

    /// The most threads of a block.
    pub fn max_threads(&self) -> Option<u32> {
        None
    }
}
