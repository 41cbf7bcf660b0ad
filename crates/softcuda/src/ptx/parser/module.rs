//! What stands outside of functions: directives, variables, the heads of functions.
//!
//! Not here: bodies (`body.rs`).

use super::Parser;
use super::body::{block, register_class};
use super::operand::{literal, offset};
use crate::ptx::error::{ParseError, Position};
use crate::ptx::lexer::Kind;
use crate::ptx::syntax::{Formal, Function, Initial, Literal, Storage, Unit, Variable};
use crate::ptx::types::Type;

pub(super) fn unit<'a>(parser: &mut Parser<'a>) -> Result<Unit<'a>, ParseError> {
    let mut unit = Unit::default();
    let mut version = false;
    loop {
        let token = parser.peek();
        if token.kind == Kind::End {
            break;
        }
        if token.kind == Kind::Mark(';') {
            parser.next();
            continue;
        }
        if token.kind != Kind::Dotted {
            return Err(parser.unexpected("a directive"));
        }
        parser.next();
        match token.text {
            ".version" => {
                version = true;
                skip_line(parser, token.position.line);
            }
            ".target" | ".file" | ".loc" | ".pragma" => skip_line(parser, token.position.line),
            ".address_size" => address_size(parser)?,
            ".section" => skip_section(parser)?,
            ".visible" | ".weak" | ".common" | ".extern" => {
                symbol(parser, &mut unit, token.text == ".extern")?;
            }
            _ => {
                parser.at -= 1;
                symbol(parser, &mut unit, false)?;
            }
        }
    }
    if !version {
        return Err(Position { line: 1, column: 1 }.error("no `.version`: the text is no PTX"));
    }
    Ok(unit)
}

fn symbol<'a>(parser: &mut Parser<'a>, unit: &mut Unit<'a>, external: bool) -> Result<(), ParseError> {
    let token = parser.next();
    let storage = match token.text {
        ".entry" => return function(parser, unit, true),
        ".func" => return function(parser, unit, false),
        ".global" => Storage::Global,
        ".const" => Storage::Constant,
        ".shared" => Storage::Shared,
        other => return Err(token.position.error(format!("unknown directive `{other}`"))),
    };
    unit.variables.extend(variables(parser, storage, external)?);
    parser.expect(';')
}

fn address_size(parser: &mut Parser<'_>) -> Result<(), ParseError> {
    let token = parser.next();
    if token.text == "64" {
        return Ok(());
    }
    Err(token.position.error(format!("addresses have 64 bits here, not {}", token.text)))
}

/// Skips what is left of a line, for directives without an end of their own.
pub(super) fn skip_line(parser: &mut Parser<'_>, line: u32) {
    while parser.position().line == line && parser.peek().kind != Kind::End {
        parser.next();
    }
}

/// Skips a section of debugging information.
pub(super) fn skip_section(parser: &mut Parser<'_>) -> Result<(), ParseError> {
    while !parser.take('{') {
        if parser.peek().kind == Kind::End {
            return Err(parser.unexpected("`{`"));
        }
        parser.next();
    }
    while !parser.take('}') {
        if parser.peek().kind == Kind::End {
            return Err(parser.unexpected("`}`"));
        }
        parser.next();
    }
    Ok(())
}

fn function<'a>(parser: &mut Parser<'a>, unit: &mut Unit<'a>, entry: bool) -> Result<(), ParseError> {
    let mut results = Vec::new();
    if !entry && parser.take('(') {
        results = formals(parser)?;
    }
    let position = parser.position();
    let name = parser.word("the name of a function")?;
    let parameters = if parser.take('(') { formals(parser)? } else { Vec::new() };
    let mut function = Function {
        entry,
        name,
        position,
        results,
        parameters,
        max_threads: None,
        required: None,
        body: None,
    };
    loop {
        let token = parser.next();
        match token.kind {
            Kind::Mark(';') => break,
            Kind::Mark('{') => {
                function.body = Some(block(parser)?);
                break;
            }
            Kind::Dotted => match token.text {
                ".maxntid" => {
                    let [x, y, z] = extents(parser)?;
                    function.max_threads = Some(x.saturating_mul(y).saturating_mul(z));
                }
                ".reqntid" => function.required = Some(extents(parser)?),
                ".maxnreg" | ".minnctapersm" | ".maxnctapersm" => {
                    numbers(parser)?;
                }
                ".noreturn" => {}
                ".pragma" => {
                    parser.next();
                    parser.expect(';')?;
                }
                other => {
                    let message = format!("unknown directive `{other}` of function `{name}`");
                    return Err(token.position.error(message));
                }
            },
            _ => {
                return Err(token
                    .position
                    .error(format!("expected the body of `{name}`, found `{}`", token.text)));
            }
        }
    }
    unit.functions.push(function);
    Ok(())
}

/// One to three numbers; those left out are 1.
fn extents(parser: &mut Parser<'_>) -> Result<[u32; 3], ParseError> {
    let position = parser.position();
    let mut extents = [1; 3];
    let numbers = numbers(parser)?;
    if numbers.len() > 3 {
        return Err(position.error("a block has three extents"));
    }
    for (extent, number) in extents.iter_mut().zip(numbers) {
        *extent = u32::try_from(number).map_err(|_| position.error("a block of too many threads"))?;
    }
    Ok(extents)
}

fn numbers(parser: &mut Parser<'_>) -> Result<Vec<u64>, ParseError> {
    let mut numbers = Vec::new();
    loop {
        numbers.push(whole(parser)?);
        if !parser.take(',') {
            return Ok(numbers);
        }
    }
}

fn whole(parser: &mut Parser<'_>) -> Result<u64, ParseError> {
    let position = parser.position();
    match literal(parser)? {
        Literal::Integer(value) => Ok(value),
        _ => Err(position.error("expected a whole number")),
    }
}

/// Formal parameters up to the closing parenthesis.
fn formals<'a>(parser: &mut Parser<'a>) -> Result<Vec<Formal<'a>>, ParseError> {
    let mut formals = Vec::new();
    if parser.take(')') {
        return Ok(formals);
    }
    loop {
        if parser.take_dotted(".reg") {
            let class = register_class(parser)?;
            formals.push(Formal::Register { class, name: parser.word("a register")? });
        } else if parser.take_dotted(".param") {
            formals.push(Formal::Memory(variable(parser, Storage::Parameter, false)?));
        } else {
            return Err(parser.unexpected("`.param` or `.reg`"));
        }
        if parser.take(')') {
            return Ok(formals);
        }
        parser.expect(',')?;
    }
}

/// The variables of one declaration, after its state space.
pub(super) fn variables<'a>(
    parser: &mut Parser<'a>,
    storage: Storage,
    external: bool,
) -> Result<Vec<Variable<'a>>, ParseError> {
    let first = variable(parser, storage, external)?;
    let (element, align) = (first.element, first.align);
    let mut variables = vec![first];
    while parser.take(',') {
        let width = element.bytes();
        variables.push(declarator(parser, storage, external, element, width, align)?);
    }
    Ok(variables)
}

fn variable<'a>(
    parser: &mut Parser<'a>,
    storage: Storage,
    external: bool,
) -> Result<Variable<'a>, ParseError> {
    let mut align = None;
    let mut vector = 1;
    let element = loop {
        let token = parser.next();
        match token.text {
            ".align" => align = Some(whole(parser)?),
            // Of a parameter: it points to this space. That does not change what it is.
            ".ptr" | ".global" | ".const" | ".shared" | ".local" if storage == Storage::Parameter => {}
            ".v2" => vector = 2,
            ".v4" => vector = 4,
            ".attribute" => {
                return Err(token.position.error("`.attribute` is not supported"));
            }
            other => {
                let element = other.strip_prefix('.').and_then(Type::named).filter(|t| *t != Type::Pred);
                let refused = || token.position.error(format!("`{other}` is no type of a variable"));
                break element.ok_or_else(refused)?;
            }
        }
    };
    // `.param .u64 .ptr .global .align 4 name`
    let mut pointer = false;
    while parser.peek().kind == Kind::Dotted {
        match parser.next().text {
            ".ptr" => pointer = true,
            ".align" if pointer => {
                whole(parser)?;
            }
            ".global" | ".const" | ".shared" | ".local" if pointer => {}
            other => {
                return Err(parser.position().error(format!("unknown attribute `{other}` of a variable")));
            }
        }
    }
    let width = element.bytes() * vector;
    let position = parser.position();
    let align = align.unwrap_or(width as u64);
    if !align.is_power_of_two() || align > 1 << 20 {
        return Err(position.error(format!("{align} is no alignment")));
    }
    declarator(parser, storage, external, element, width, align as usize)
}

/// `name[4][2] = {…}`
fn declarator<'a>(
    parser: &mut Parser<'a>,
    storage: Storage,
    external: bool,
    element: Type,
    width: usize,
    align: usize,
) -> Result<Variable<'a>, ParseError> {
    let position = parser.position();
    let name = parser.word("the name of a variable")?;
    let mut count = 1_u64;
    let mut open = false;
    while parser.take('[') {
        if parser.take(']') {
            open = true;
            continue;
        }
        count = count.saturating_mul(whole(parser)?);
        parser.expect(']')?;
    }
    let mut initial = Vec::new();
    if parser.take('=') {
        initialiser(parser, &mut initial)?;
    }
    if open {
        count = count.saturating_mul(initial.len() as u64);
    }
    let bytes = count.saturating_mul(width as u64);
    if bytes > 1 << 32 {
        return Err(position.error(format!("`{name}` is too large")));
    }
    if (initial.len() * element.bytes()) as u64 > bytes {
        return Err(position.error(format!("`{name}` has more initial values than elements")));
    }
    let unsized_shared = storage == Storage::Shared && external && bytes == 0;
    if bytes == 0 && !unsized_shared && storage != Storage::Parameter && !external {
        return Err(position.error(format!("`{name}` has no size")));
    }
    parser.variables += 1;
    let id = parser.variables;
    Ok(Variable { id, name, position, storage, external, element, bytes: bytes as usize, align, initial })
}

/// Braces nest by dimension; the elements follow each other in memory.
fn initialiser<'a>(parser: &mut Parser<'a>, into: &mut Vec<Initial<'a>>) -> Result<(), ParseError> {
    if parser.take('{') {
        loop {
            parser.nested(|parser| initialiser(parser, into))?;
            if parser.take('}') {
                return Ok(());
            }
            parser.expect(',')?;
        }
    }
    let token = parser.peek();
    if token.kind == Kind::Word && token.text != "WARP_SZ" {
        parser.next();
        // `generic(name)` is the same address: global addresses are generic ones.
        let name = if token.text == "generic" && parser.take('(') {
            let name = parser.word("a variable")?;
            parser.expect(')')?;
            name
        } else {
            token.text
        };
        let offset = offset(parser)?;
        into.push(Initial::Address(name, offset));
        return Ok(());
    }
    into.push(Initial::Literal(literal(parser)?));
    Ok(())
}
