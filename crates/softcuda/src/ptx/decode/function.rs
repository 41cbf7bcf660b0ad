//! Bodies of functions, and calls: the body of a function stands in place of each call of it.
//!
//! A program without calls needs no stack at run time, and lanes that return at different times meet again after the
//! call by the order of the code alone. The price: no recursion and no calls by pointer; both are refused. Not here:
//! other instructions.

use super::builder::{Builder, MAX_CODE};
use super::operands::Fit;
use super::scope::{Entry, Place, Scope};
use crate::ptx::error::ParseError;
use crate::ptx::program::Op;
use crate::ptx::syntax::{Formal, Function, Instruction, Operand, Statement};
use crate::ptx::types::Space;

impl<'a> Builder<'a> {
    /// Decodes the body of a function; its formals have been declared.
    pub fn body(&mut self, function: &'a Function<'a>) -> Result<(), ParseError> {
        match &function.body {
            Some(statements) => self.block(statements),
            None => Err(function.position.error(format!("`{}` has no body", function.name))),
        }
    }

    fn block(&mut self, statements: &'a [Statement<'a>]) -> Result<(), ParseError> {
        self.scopes.push(Scope::default());
        // Labels may be used before they stand there.
        for statement in statements {
            match statement {
                Statement::Label(name, position) => {
                    let label = self.label();
                    self.declare(name, Entry::Label(label), *position)?;
                }
                Statement::Targets { name, labels } => {
                    self.declare(name, Entry::Targets(labels.clone()), self.position)?;
                }
                _ => {}
            }
        }
        for statement in statements {
            self.statement(statement)?;
        }
        self.scopes.pop();
        Ok(())
    }

    fn statement(&mut self, statement: &'a Statement<'a>) -> Result<(), ParseError> {
        match statement {
            Statement::Label(name, _) => {
                if let Some(Entry::Label(label)) = self.lookup(name)? {
                    self.put_label(label);
                }
                Ok(())
            }
            Statement::Register { name, class, count: None } => {
                let entry = self.entry_of_class(*class);
                self.declare(name, entry, self.position)
            }
            Statement::Register { name, class, count: Some(count) } => {
                let scope = self.scopes.last_mut().expect("a scope is open within a block");
                scope.families.push((name, *class, *count));
                Ok(())
            }
            Statement::Variable(variable) => {
                if !variable.initial.is_empty() {
                    let message = format!("`{}` has an initial value within a function", variable.name);
                    return Err(variable.position.error(message));
                }
                let place = self.place(variable)?;
                self.declare(variable.name, Entry::Place(place), variable.position)
            }
            Statement::Targets { .. } => Ok(()),
            Statement::Block(statements) => self.block(statements),
            Statement::Instruction(instruction) => self.instruction(instruction),
        }
    }

    /// A new label, not yet anywhere.
    pub fn label(&mut self) -> u32 {
        self.labels.push(None);
        self.labels.len() as u32 - 1
    }

    /// Puts the label before the next instruction.
    pub fn put_label(&mut self, label: u32) {
        self.labels[label as usize] = Some(self.code.len() as u32);
    }

    /// `call (results), name, (arguments);`
    pub fn call(&mut self, instruction: &'a Instruction<'a>) -> Result<(), ParseError> {
        let none: &[Operand<'a>] = &[];
        let (results, name, arguments) = match instruction.operands.as_slice() {
            [Operand::Name(name)] => (none, name, none),
            [Operand::Name(name), Operand::List(arguments)] => (none, name, arguments.as_slice()),
            [Operand::List(results), Operand::Name(name)] => (results.as_slice(), name, none),
            [Operand::List(results), Operand::Name(name), Operand::List(arguments)] => {
                (results.as_slice(), name, arguments.as_slice())
            }
            _ => return Err(self.wrong("`call` of this form is not supported; calls by pointer are not")),
        };
        let Some(function) = self.names.functions.get(name).copied() else {
            return Err(self.wrong(format!(
                "`call`: there is no function `{name}`; calls by pointer are not supported"
            )));
        };
        if function.body.is_none() {
            return self.call_of_system(name, arguments);
        }
        if self.calls.contains(name) {
            return Err(self.wrong(format!("`call`: `{name}` calls itself; recursion is not supported")));
        }
        if function.results.len() != results.len() || function.parameters.len() != arguments.len() {
            return Err(self.wrong(format!("`call`: `{name}` takes other arguments or has other results")));
        }
        self.put_in(function, results, arguments)
    }

    fn put_in(
        &mut self,
        function: &'a Function<'a>,
        results: &'a [Operand<'a>],
        arguments: &'a [Operand<'a>],
    ) -> Result<(), ParseError> {
        let position = self.position;
        let guard = self.guard;
        let end = self.label();
        if guard != crate::ptx::program::Test::ALWAYS {
            // Lanes that do not call go around.
            self.guard.flip = !guard.flip;
            self.emit(Op::Branch { target: end });
            self.guard = crate::ptx::program::Test::ALWAYS;
        }
        let mut scope = Scope { function: true, ..Scope::default() };
        for (formal, actual) in function.parameters.iter().zip(arguments) {
            let (name, entry) = match formal {
                Formal::Memory(variable) => {
                    (variable.name, Entry::Place(self.passed(actual, variable.bytes, variable.align, true)?))
                }
                Formal::Register { name, class } => {
                    let a = self.source(actual, *class)?;
                    let d = self.register();
                    self.emit(Op::Move { d, a });
                    (*name, Entry::Register(d, *class))
                }
            };
            scope.names.insert(name, entry);
        }
        for (formal, actual) in function.results.iter().zip(results) {
            let (name, entry) = match formal {
                Formal::Memory(variable) => {
                    (variable.name, Entry::Place(self.passed(actual, variable.bytes, variable.align, false)?))
                }
                Formal::Register { name, class } => {
                    let (slot, _) = self.target_of(actual, *class, Fit::Exact)?;
                    (*name, Entry::Register(slot, *class))
                }
            };
            scope.names.insert(name, entry);
        }
        self.scopes.push(scope);
        self.calls.push(function.name);
        let outer = self.return_to.replace(end);
        self.body(function)?;
        self.return_to = outer;
        self.calls.pop();
        self.scopes.pop();
        self.put_label(end);
        self.position = position;
        self.guard = guard;
        if self.code.len() > MAX_CODE {
            return Err(self.wrong("too many instructions, with functions in place of their calls"));
        }
        Ok(())
    }

    /// The memory that a formal parameter stands for: that of the actual one.
    fn passed(
        &mut self,
        actual: &'a Operand<'a>,
        bytes: usize,
        align: usize,
        argument: bool,
    ) -> Result<Place, ParseError> {
        if let Operand::Name(name) = actual {
            match self.known(name)? {
                Entry::Place(place) if place.space == Space::Local => return Ok(place),
                Entry::Register(slot, class) if argument && class.bits() as usize == bytes * 8 => {
                    let place = self.local(bytes, align);
                    let base = self.address_of(place, 0);
                    self.store_local(base, slot, bytes);
                    return Ok(place);
                }
                _ => {}
            }
        }
        Err(self.wrong("`call`: an argument that is no `.param` of this function"))
    }
}
