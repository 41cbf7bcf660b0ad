//! Branches, ends, fences, and functions that the system gives.
//!
//! Not here: calls of functions of the text (`function.rs`).

use super::builder::Builder;
use super::modifiers::Modifiers;
use super::operands::exactly;
use super::scope::Entry;
use crate::ptx::error::ParseError;
use crate::ptx::program::{Address, Load, Op, SINK, Slot};
use crate::ptx::syntax::{Instruction, Operand};
use crate::ptx::types::{Space, Type};

type Decoded = Result<(), ParseError>;

pub(crate) fn decode<'a>(b: &mut Builder<'a>, i: &'a Instruction<'a>, m: &mut Modifiers<'a>) -> Decoded {
    match i.opcode {
        "bra" => {
            m.take("uni");
            let [target] = exactly(i)?;
            let target = label(b, target)?;
            b.emit(Op::Branch { target });
            Ok(())
        }
        "brx" => {
            m.required("form", &[("idx", ())])?;
            m.take("uni");
            branch_table(b, i)
        }
        "call" => {
            m.take("uni");
            b.call(i)
        }
        "ret" => {
            m.take("uni");
            let [] = exactly(i)?;
            b.emit(match b.return_to {
                Some(target) => Op::Branch { target },
                None => Op::Exit,
            });
            Ok(())
        }
        "exit" | "trap" => {
            let [] = exactly(i)?;
            b.emit(if i.opcode == "exit" { Op::Exit } else { Op::Trap });
            Ok(())
        }
        "nanosleep" => {
            let [time] = exactly(i)?;
            b.source(time, m.ty()?)?;
            b.emit(Op::Yield);
            Ok(())
        }
        _ => fence(i, m),
    }
}

/// Accesses are in order here, so a fence has nothing to do.
fn fence<'a>(i: &'a Instruction<'a>, m: &mut Modifiers<'a>) -> Decoded {
    let [] = exactly(i)?;
    let scope = [("cta", ()), ("gl", ()), ("sys", ()), ("gpu", ()), ("cluster", ())];
    if i.opcode == "membar" {
        return m.required("level", &scope);
    }
    if m.take("proxy") {
        return m.required("proxy", &[("alias", ()), ("async", ()), ("async.global", ())]);
    }
    m.one_of(&[("sc", ()), ("acq_rel", ()), ("acquire", ()), ("release", ())]);
    m.required("scope", &scope)
}

fn label<'a>(b: &mut Builder<'a>, operand: &'a Operand<'a>) -> Result<u32, ParseError> {
    let Operand::Name(name) = operand else {
        return Err(b.wrong("a branch to what is no label"));
    };
    match b.lookup(name)? {
        Some(Entry::Label(label)) => Ok(label),
        _ => Err(b.wrong(format!("there is no label `{name}`"))),
    }
}

fn branch_table<'a>(b: &mut Builder<'a>, i: &'a Instruction<'a>) -> Decoded {
    let [index, Operand::Name(name)] = exactly(i)? else {
        return Err(b.wrong("`brx.idx` takes the name of its targets"));
    };
    let a = b.source(index, Type::U32)?;
    let Some(Entry::Targets(names)) = b.lookup(name)? else {
        return Err(b.wrong(format!("there are no targets `{name}`")));
    };
    let mut targets = Vec::with_capacity(names.len());
    for name in names {
        match b.lookup(name)? {
            Some(Entry::Label(label)) => targets.push(label),
            _ => return Err(b.wrong(format!("there is no label `{name}`"))),
        }
    }
    let table = b.tables.len() as u32;
    b.tables.push(targets);
    b.emit(Op::BranchTable { table, a });
    Ok(())
}

impl<'a> Builder<'a> {
    /// A call of a function that the text declares, but does not have.
    pub fn call_of_system(&mut self, name: &'a str, arguments: &'a [Operand<'a>]) -> Decoded {
        match (name, arguments) {
            // What `assert` of CUDA C++ calls when it fails.
            ("__assertfail" | "__assert_fail", [message, file, line, function, ..]) => {
                let message = self.argument(message, 8)?;
                let file = self.argument(file, 8)?;
                let line = self.argument(line, 4)?;
                let function = self.argument(function, 8)?;
                self.emit(Op::Assert { message, file, line, function });
                Ok(())
            }
            _ => Err(self.wrong(format!("`call`: `{name}` is declared here, but defined nowhere"))),
        }
    }

    /// The value of an argument that was stored as a `.param`.
    fn argument(&mut self, operand: &'a Operand<'a>, bytes: u8) -> Result<Slot, ParseError> {
        let Operand::Name(name) = operand else {
            return self.source(operand, if bytes == 8 { Type::B64 } else { Type::B32 });
        };
        match self.known(name)? {
            Entry::Register(slot, _) => Ok(slot),
            Entry::Place(place) if place.space == Space::Local => {
                let base = self.address_of(place, 0);
                let address = Address { base, offset: 0, narrow: false, space: Space::Local };
                let d = self.register();
                self.emit(Op::Load(Load {
                    address,
                    bytes,
                    count: 1,
                    signed_to: 0,
                    d: [d, SINK, SINK, SINK],
                }));
                Ok(d)
            }
            _ => Err(self.wrong(format!("`{name}` is no argument"))),
        }
    }
}
