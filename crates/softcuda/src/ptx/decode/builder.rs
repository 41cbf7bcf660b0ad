//! [`Builder`]: a program in the making.
//!
//! Here: slots, constants, names, memory of variables, the end. Not here: operands (`operands.rs`), instructions.

use std::collections::HashMap;

use super::Names;
use super::scope::{Entry, Place, Scope};
use crate::ptx::error::{ParseError, Position};
use crate::ptx::program::{Constant, Flag, Instruction, Op, Program, Slot, Special, Test};
use crate::ptx::syntax::{Formal, Function, Storage, Variable};
use crate::ptx::types::{Space, Type};

/// Instructions of a program, functions in place of their calls included.
pub(crate) const MAX_CODE: usize = 1 << 20;

/// The most static shared memory, as assemblers for devices have it. A launch may add more.
const MAX_STATIC_SHARED: u64 = 48 << 10;

/// The most local memory of a thread, as devices have it.
const MAX_LOCAL: u64 = 512 << 10;

/// What a constant is found by: value, global, whether it counts from dynamic shared memory.
type ConstantKey = (u64, Option<u32>, bool);

pub(crate) struct Builder<'a> {
    pub names: &'a Names<'a>,
    pub code: Vec<Instruction>,
    lines: Vec<u32>,
    pub tables: Vec<Vec<u32>>,
    slots: u32,
    flags: u32,
    registers: u32,
    constants: HashMap<ConstantKey, Slot>,
    specials: HashMap<Special, Slot>,
    pub scopes: Vec<Scope<'a>>,
    /// Where labels are, by number. Branches hold numbers until the end.
    pub labels: Vec<Option<u32>>,
    /// Offsets of shared variables, by their declarations.
    shared: HashMap<u32, Place>,
    static_shared: u64,
    dynamic_align: u64,
    local: u64,
    /// Functions whose bodies are being put in.
    pub calls: Vec<&'a str>,
    /// Where `ret` goes: to a label, or to the end of the thread.
    pub return_to: Option<u32>,
    /// Of the instruction at hand.
    pub guard: Test,
    pub position: Position,
}

impl<'a> Builder<'a> {
    /// The program of an `.entry`.
    pub fn kernel(names: &'a Names<'a>, function: &'a Function<'a>) -> Result<Program, ParseError> {
        let mut builder = Builder::new(names);
        builder.scopes.push(Scope { function: true, ..Scope::default() });
        let mut parameters = Vec::new();
        let mut end = 0_usize;
        for formal in &function.parameters {
            let Formal::Memory(variable) = formal else {
                return Err(function.position.error("a kernel has no parameters in registers"));
            };
            let offset = end.next_multiple_of(variable.align.max(1));
            end = offset + variable.bytes;
            parameters.push(crate::ptx::Parameter { bytes: variable.bytes, align: variable.align, offset });
            let place = Place::plain(Space::Parameter, offset as u64);
            builder.declare(variable.name, Entry::Place(place), variable.position)?;
        }
        builder.body(function)?;
        builder.position = function.position;
        // Whoever comes to the end of the body ends there, whatever its last instruction was guarded by.
        builder.guard = Test::ALWAYS;
        builder.emit(Op::Exit);
        builder.finish(function, parameters, end)
    }

    /// Checks the body of a function that is not a kernel.
    pub fn check(names: &'a Names<'a>, function: &'a Function<'a>) -> Result<(), ParseError> {
        let mut builder = Builder::new(names);
        builder.calls.push(function.name);
        builder.scopes.push(Scope { function: true, ..Scope::default() });
        for formal in function.results.iter().chain(&function.parameters) {
            builder.formal_of_its_own(formal, function.position)?;
        }
        builder.body(function)?;
        builder.resolve_labels(function.position)
    }

    fn new(names: &'a Names<'a>) -> Builder<'a> {
        Builder {
            names,
            code: Vec::new(),
            lines: Vec::new(),
            tables: Vec::new(),
            slots: 0,
            // 0 is always true.
            flags: 1,
            registers: 0,
            constants: HashMap::new(),
            specials: HashMap::new(),
            scopes: Vec::new(),
            labels: Vec::new(),
            shared: HashMap::new(),
            static_shared: 0,
            dynamic_align: 16,
            local: 0,
            calls: Vec::new(),
            return_to: None,
            guard: Test::ALWAYS,
            position: Position::default(),
        }
    }

    fn finish(
        mut self,
        function: &Function<'_>,
        parameters: Vec<crate::ptx::Parameter>,
        parameter_bytes: usize,
    ) -> Result<Program, ParseError> {
        self.resolve_labels(function.position)?;
        let fits = |what: &str, bytes: u64, most: u64| match u32::try_from(bytes) {
            Ok(fitting) if bytes <= most => Ok(fitting),
            _ => {
                let message = format!("`{}` has {bytes} bytes of {what} memory, of {most}", function.name);
                Err(function.position.error(message))
            }
        };
        let static_shared_bytes = fits("static shared", self.static_shared, MAX_STATIC_SHARED)?;
        let local_bytes = fits("local", self.local, MAX_LOCAL)?;
        let dynamic = self.static_shared.next_multiple_of(self.dynamic_align);
        let constants = self.constants.iter().map(|((value, global, counts), slot)| {
            let value = if *counts { value.wrapping_add(dynamic) } else { *value };
            Constant { slot: *slot, value, global: *global }
        });
        Ok(Program {
            name: function.name.to_owned(),
            constants: constants.collect(),
            code: self.code,
            lines: self.lines,
            tables: self.tables,
            slots: self.slots,
            flags: self.flags,
            registers: self.registers,
            specials: self.specials.into_iter().collect(),
            parameters,
            parameter_bytes,
            static_shared_bytes,
            dynamic_shared: fits("shared", dynamic, u64::from(u32::MAX))?,
            local_bytes,
            max_threads: function.max_threads,
            required: function.required,
        })
    }

    /// Puts places in the code where branches have numbers of labels.
    fn resolve_labels(&mut self, position: Position) -> Result<(), ParseError> {
        if self.code.len() > MAX_CODE {
            return Err(position.error("too many instructions, with functions in place of their calls"));
        }
        let place = |label: &mut u32| match self.labels[*label as usize] {
            Some(place) => {
                *label = place;
                Ok(())
            }
            None => Err(position.error("a branch to a label that is nowhere")),
        };
        for instruction in &mut self.code {
            if let Op::Branch { target } = &mut instruction.op {
                place(target)?;
            }
        }
        self.tables.iter_mut().flatten().try_for_each(place)
    }

    /// Appends an operation under the guard at hand.
    pub fn emit(&mut self, op: Op) {
        self.code.push(Instruction { guard: self.guard, op });
        self.lines.push(self.position.line);
    }

    /// A new register.
    pub fn register(&mut self) -> Slot {
        self.registers += 1;
        self.slot()
    }

    fn slot(&mut self) -> Slot {
        self.slots += 1;
        self.slots - 1
    }

    /// A new predicate register.
    pub fn flag(&mut self) -> Flag {
        self.flags += 1;
        self.flags - 1
    }

    pub fn constant(&mut self, value: u64) -> Slot {
        self.keyed_constant((value, None, false))
    }

    /// The address of a variable, within its space.
    pub fn address_of(&mut self, place: Place, offset: i64) -> Slot {
        self.keyed_constant((place.address.wrapping_add_signed(offset), place.global, place.dynamic))
    }

    fn keyed_constant(&mut self, key: ConstantKey) -> Slot {
        if let Some(slot) = self.constants.get(&key) {
            return *slot;
        }
        let slot = self.slot();
        self.constants.insert(key, slot);
        slot
    }

    pub fn special(&mut self, special: Special) -> Slot {
        if let Some(slot) = self.specials.get(&special) {
            return *slot;
        }
        let slot = self.slot();
        self.specials.insert(special, slot);
        slot
    }

    /// Gives a name in the innermost block a meaning.
    pub fn declare(&mut self, name: &'a str, entry: Entry<'a>, position: Position) -> Result<(), ParseError> {
        let scope = self.scopes.last_mut().expect("a scope is open while names are declared");
        match scope.names.insert(name, entry) {
            None => Ok(()),
            Some(_) => Err(position.error(format!("`{name}` is declared twice"))),
        }
    }

    /// What a name means here.
    pub fn lookup(&mut self, name: &'a str) -> Result<Option<Entry<'a>>, ParseError> {
        for index in (0..self.scopes.len()).rev() {
            let scope = &self.scopes[index];
            if let Some(entry) = scope.names.get(name) {
                return Ok(Some(entry.clone()));
            }
            if let Some(class) = scope.of_family(name) {
                // From now on it is a name of its own.
                let entry = self.entry_of_class(class);
                self.scopes[index].names.insert(name, entry.clone());
                return Ok(Some(entry));
            }
            if scope.function {
                break;
            }
        }
        let Some(variable) = self.names.variables.get(name).copied() else {
            return Ok(None);
        };
        self.place(variable).map(|place| Some(Entry::Place(place)))
    }

    pub fn entry_of_class(&mut self, class: Type) -> Entry<'a> {
        if class == Type::Pred { Entry::Flag(self.flag()) } else { Entry::Register(self.register(), class) }
    }

    /// Where a variable is, giving it memory if it has none yet.
    pub fn place(&mut self, variable: &Variable<'_>) -> Result<Place, ParseError> {
        match variable.storage {
            Storage::Global | Storage::Constant => {
                let Some(index) = self.names.globals.get(variable.name) else {
                    let message = format!("`{}` is declared here, but defined nowhere", variable.name);
                    return Err(self.position.error(message));
                };
                let constant = variable.storage == Storage::Constant;
                Ok(Place { global: Some(*index), constant, ..Place::plain(Space::Global, 0) })
            }
            Storage::Shared if variable.external => {
                self.dynamic_align = self.dynamic_align.max(variable.align as u64);
                Ok(Place { dynamic: true, ..Place::plain(Space::Shared, 0) })
            }
            Storage::Shared => {
                if let Some(place) = self.shared.get(&variable.id) {
                    return Ok(*place);
                }
                let address = self.static_shared.next_multiple_of(variable.align.max(1) as u64);
                self.static_shared = address + variable.bytes as u64;
                let place = Place::plain(Space::Shared, address);
                self.shared.insert(variable.id, place);
                Ok(place)
            }
            Storage::Local | Storage::Parameter => Ok(self.local(variable.bytes, variable.align)),
        }
    }

    /// New local memory.
    pub fn local(&mut self, bytes: usize, align: usize) -> Place {
        let address = self.local.next_multiple_of(align.max(1) as u64);
        self.local = address + bytes as u64;
        Place::plain(Space::Local, address)
    }

    /// A formal parameter that belongs to no call.
    fn formal_of_its_own(&mut self, formal: &'a Formal<'a>, position: Position) -> Result<(), ParseError> {
        match formal {
            Formal::Memory(variable) => {
                let place = self.local(variable.bytes, variable.align);
                self.declare(variable.name, Entry::Place(place), variable.position)
            }
            Formal::Register { name, class } => {
                let entry = self.entry_of_class(*class);
                self.declare(name, entry, position)
            }
        }
    }
}

impl Place {
    pub fn plain(space: Space, address: u64) -> Place {
        Place { space, address, global: None, dynamic: false, constant: false }
    }
}
