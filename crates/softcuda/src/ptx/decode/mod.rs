//! The tree of a module into programs.
//!
//! Here: variables of the module, and one program a kernel. Functions are put in place of their calls
//! (`function.rs`), so a program has no calls. One file for a family of instructions; `instruction.rs` tells which
//! opcode is whose. Not here: the form that is made (`../program.rs`).

mod arithmetic;
mod builder;
mod compare;
mod control;
mod convert;
mod function;
mod instruction;
mod integer;
mod memory;
mod modifiers;
mod moves;
mod operands;
mod scope;
mod together;

use std::collections::HashMap;
use std::sync::Arc;

use self::builder::Builder;
use super::error::ParseError;
use super::syntax::{Function, Initial, Literal, Storage, Unit, Variable};
use super::types::{Class, Type};
use super::{Global, Kernel, Module, Pointer};

/// What functions of a module know of each other.
pub(crate) struct Names<'a> {
    pub functions: HashMap<&'a str, &'a Function<'a>>,
    pub variables: HashMap<&'a str, &'a Variable<'a>>,
    /// The number of a variable among the globals, by its name.
    pub globals: HashMap<&'a str, u32>,
}

/// Decodes a module.
///
/// # Errors
/// An instruction, operand or variable is wrong or not supported.
pub(crate) fn module(unit: &Unit<'_>) -> Result<Module, ParseError> {
    let mut names = Names { functions: HashMap::new(), variables: HashMap::new(), globals: HashMap::new() };
    for variable in &unit.variables {
        // A declaration gives way to the definition, whichever comes first.
        match names.variables.get(variable.name) {
            Some(old) if variable.external && !old.external => continue,
            Some(old) if !old.external => {
                return Err(variable.position.error(format!("`{}` is defined twice", variable.name)));
            }
            _ => names.variables.insert(variable.name, variable),
        };
    }
    for function in &unit.functions {
        match names.functions.get(function.name) {
            Some(_) if function.body.is_none() => continue,
            Some(old) if old.body.is_some() => {
                return Err(function.position.error(format!("`{}` is defined twice", function.name)));
            }
            _ => names.functions.insert(function.name, function),
        };
    }
    let defined: Vec<&Variable<'_>> = unit
        .variables
        .iter()
        .filter(|v| matches!(v.storage, Storage::Global | Storage::Constant) && !v.external)
        .collect();
    names.globals = (0..).zip(&defined).map(|(index, variable)| (variable.name, index)).collect();

    let mut pointers = Vec::new();
    let mut globals = Vec::with_capacity(defined.len());
    for variable in &defined {
        globals.push(global(variable, &names, globals.len(), &mut pointers)?);
    }
    let addresses: Arc<[u64]> = vec![0; globals.len()].into();
    let mut kernels = Vec::new();
    for function in &unit.functions {
        let program = match function {
            Function { body: None, .. } => continue,
            Function { entry: true, .. } => Builder::kernel(&names, function)?,
            // A device function is checked even if no kernel calls it.
            Function { entry: false, .. } => {
                Builder::check(&names, function)?;
                continue;
            }
        };
        kernels.push(Kernel { program: Arc::new(program), globals: Arc::clone(&addresses) });
    }
    Ok(Module { kernels, globals, pointers })
}

fn global(
    variable: &Variable<'_>,
    names: &Names<'_>,
    index: usize,
    pointers: &mut Vec<Pointer>,
) -> Result<Global, ParseError> {
    let mut initial = Vec::new();
    for value in &variable.initial {
        let bytes = match value {
            Initial::Literal(literal) => {
                let Some(bits) = bits(*literal, variable.element) else {
                    let message =
                        format!("`{}` has an initial value that is no {}", variable.name, variable.element);
                    return Err(variable.position.error(message));
                };
                bits.to_le_bytes()
            }
            Initial::Address(name, offset) => {
                let to = names.globals.get(name).filter(|_| variable.element.bits() == 64);
                let Some(to) = to else {
                    let message = format!("`{}` cannot start with the address of `{name}`", variable.name);
                    return Err(variable.position.error(message));
                };
                let (at, offset) = (initial.len(), *offset);
                pointers.push(Pointer { global: index, at, to: *to as usize, offset });
                [0; 8]
            }
        };
        initial.extend_from_slice(&bytes[..variable.element.bytes()]);
    }
    Ok(Global {
        name: variable.name.to_owned(),
        bytes: variable.bytes,
        align: variable.align,
        initial,
        constant: variable.storage == Storage::Constant,
    })
}

/// A literal as the bits of a value of type `ty`; None if it does not fit its kind.
pub(crate) fn bits(literal: Literal, ty: Type) -> Option<u64> {
    let mask = if ty.bits() == 64 { u64::MAX } else { (1 << ty.bits()) - 1 };
    match (literal, ty) {
        (Literal::Integer(value), _) if ty.class() != Class::Float => Some(value & mask),
        (Literal::Decimal(value), Type::F32) => Some(u64::from((value as f32).to_bits())),
        (Literal::Decimal(value), Type::F64) => Some(value.to_bits()),
        (Literal::Single(bits), Type::F32 | Type::B32) => Some(u64::from(bits)),
        (Literal::Single(bits), Type::F64) => Some(f64::from(f32::from_bits(bits)).to_bits()),
        (Literal::Double(bits), Type::F64 | Type::B64) => Some(bits),
        (Literal::Double(bits), Type::F32) => Some(u64::from((f64::from_bits(bits) as f32).to_bits())),
        // Halves are written as the integers of their bits.
        (Literal::Integer(value), Type::F16 | Type::Bf16 | Type::F16x2 | Type::Bf16x2) => Some(value & mask),
        _ => None,
    }
}
