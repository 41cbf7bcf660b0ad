//! Statements of a function: declarations, labels, blocks, instructions.
//!
//! Not here: operands (`operand.rs`).

use super::Parser;
use super::module::{skip_line, skip_section, variables};
use super::operand::{literal, operand};
use crate::ptx::error::ParseError;
use crate::ptx::lexer::Kind;
use crate::ptx::syntax::{Instruction, Literal, Operand, Statement, Storage};
use crate::ptx::types::Type;

/// The statements up to the closing brace, which is taken too.
pub(super) fn block<'a>(parser: &mut Parser<'a>) -> Result<Vec<Statement<'a>>, ParseError> {
    let mut statements = Vec::new();
    loop {
        let token = parser.peek();
        match token.kind {
            Kind::Mark('}') => {
                parser.next();
                return Ok(statements);
            }
            Kind::Mark('{') => {
                parser.next();
                statements.push(Statement::Block(parser.nested(block)?));
            }
            Kind::Mark(';') => {
                parser.next();
            }
            Kind::Dotted => directive(parser, &mut statements)?,
            Kind::Word if parser.ahead(1).kind == Kind::Mark(':') => label(parser, &mut statements)?,
            Kind::Word | Kind::Mark('@') => statements.push(Statement::Instruction(instruction(parser)?)),
            _ => return Err(parser.unexpected("a statement")),
        }
    }
}

fn label<'a>(parser: &mut Parser<'a>, statements: &mut Vec<Statement<'a>>) -> Result<(), ParseError> {
    let position = parser.position();
    let name = parser.word("a label")?;
    parser.expect(':')?;
    if parser.take_dotted(".branchtargets") {
        let mut labels = vec![parser.word("a label")?];
        while parser.take(',') {
            labels.push(parser.word("a label")?);
        }
        parser.expect(';')?;
        statements.push(Statement::Targets { name, labels });
        return Ok(());
    }
    statements.push(Statement::Label(name, position));
    Ok(())
}

fn directive<'a>(parser: &mut Parser<'a>, statements: &mut Vec<Statement<'a>>) -> Result<(), ParseError> {
    let token = parser.next();
    let storage = match token.text {
        ".reg" => return registers(parser, statements),
        ".loc" | ".file" => {
            skip_line(parser, token.position.line);
            return Ok(());
        }
        ".section" => return skip_section(parser),
        ".pragma" => {
            while !parser.take(';') {
                parser.next();
                if parser.peek().kind == Kind::End {
                    return Err(parser.unexpected("`;`"));
                }
            }
            return Ok(());
        }
        ".local" => Storage::Local,
        ".shared" => Storage::Shared,
        ".param" => Storage::Parameter,
        other => return Err(token.position.error(format!("unknown directive `{other}` in a function"))),
    };
    statements.extend(variables(parser, storage, false)?.into_iter().map(Statement::Variable));
    parser.expect(';')
}

fn registers<'a>(parser: &mut Parser<'a>, statements: &mut Vec<Statement<'a>>) -> Result<(), ParseError> {
    let class = register_class(parser)?;
    loop {
        let name = parser.word("a register")?;
        let count = if parser.take('<') {
            let position = parser.position();
            let Literal::Integer(count) = literal(parser)? else {
                return Err(position.error("the number of registers is a whole number"));
            };
            parser.expect('>')?;
            Some(u32::try_from(count).map_err(|_| position.error("too many registers"))?)
        } else {
            None
        };
        statements.push(Statement::Register { name, class, count });
        if !parser.take(',') {
            return parser.expect(';');
        }
    }
}

/// The type in a declaration of registers.
pub(super) fn register_class(parser: &mut Parser<'_>) -> Result<Type, ParseError> {
    let token = parser.next();
    let class = token.text.strip_prefix('.').and_then(Type::named).filter(|_| token.kind == Kind::Dotted);
    class.ok_or_else(|| token.position.error(format!("`{}` is no type of a register", token.text)))
}

fn instruction<'a>(parser: &mut Parser<'a>) -> Result<Instruction<'a>, ParseError> {
    let guard = if parser.take('@') {
        let negated = parser.take('!');
        Some((parser.word("a predicate")?, negated))
    } else {
        None
    };
    let position = parser.position();
    let opcode = parser.word("an opcode")?;
    let mut modifiers = Vec::new();
    while parser.peek().kind == Kind::Dotted {
        modifiers.push(&parser.next().text[1..]);
    }
    let mut instruction = Instruction { position, guard, opcode, modifiers, operands: Vec::new() };
    match operands(parser) {
        Ok(operands) => {
            instruction.operands = operands;
            Ok(instruction)
        }
        // Operands of an unusual form most often belong to an instruction that is not known here.
        Err(error) => {
            Err(ParseError { message: format!("`{}`: {}", instruction.name(), error.message), ..error })
        }
    }
}

/// Operands and the semicolon.
fn operands<'a>(parser: &mut Parser<'a>) -> Result<Vec<Operand<'a>>, ParseError> {
    let mut operands = Vec::new();
    if parser.take(';') {
        return Ok(operands);
    }
    loop {
        operands.push(operand(parser)?);
        if parser.take(';') {
            return Ok(operands);
        }
        parser.expect(',')?;
    }
}
