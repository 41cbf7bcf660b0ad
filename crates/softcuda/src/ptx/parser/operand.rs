//! Operands of instructions, and numbers.
//!
//! Not here: which operand an instruction wants.

use super::Parser;
use crate::ptx::error::{ParseError, Position};
use crate::ptx::lexer::Kind;
use crate::ptx::syntax::{Base, Literal, Operand};

pub(super) fn operand<'a>(parser: &mut Parser<'a>) -> Result<Operand<'a>, ParseError> {
    let first = simple(parser)?;
    if parser.take('|') {
        let second = simple(parser)?;
        return Ok(Operand::Pair(Box::new(first), Box::new(second)));
    }
    Ok(first)
}

fn simple<'a>(parser: &mut Parser<'a>) -> Result<Operand<'a>, ParseError> {
    let token = parser.peek();
    match token.kind {
        Kind::Mark('[') => {
            parser.next();
            let operand = address(parser)?;
            parser.expect(']')?;
            Ok(operand)
        }
        Kind::Mark('{') => {
            parser.next();
            Ok(Operand::Vector(parser.nested(|parser| list(parser, '}'))?))
        }
        Kind::Mark('(') if is_list(parser) => {
            parser.next();
            Ok(Operand::List(parser.nested(|parser| list(parser, ')'))?))
        }
        Kind::Mark('!') => {
            parser.next();
            Ok(Operand::Not(parser.word("a predicate")?))
        }
        Kind::Word if token.text == "_" => {
            parser.next();
            Ok(Operand::Sink)
        }
        Kind::Word if token.text == "WARP_SZ" => Ok(Operand::Literal(literal(parser)?)),
        Kind::Word => {
            let name = name(parser)?;
            if matches!(parser.peek().kind, Kind::Mark('+' | '-')) {
                return Ok(Operand::Offset(name, offset(parser)?));
            }
            Ok(Operand::Name(name))
        }
        _ => Ok(Operand::Literal(literal(parser)?)),
    }
}

/// A parenthesis that opens arguments, not a number.
fn is_list(parser: &Parser<'_>) -> bool {
    // Only calls have it, with names or numbers and commas. A number in parentheses has an operator or ends at once;
    // read as a list of one it means the same to a call, and no other instruction takes a list.
    let inner = parser.ahead(1).kind;
    matches!(inner, Kind::Word | Kind::Mark(')')) || matches!(parser.ahead(2).kind, Kind::Mark(',' | ')'))
}

fn list<'a>(parser: &mut Parser<'a>, end: char) -> Result<Vec<Operand<'a>>, ParseError> {
    let mut operands = Vec::new();
    if parser.take(end) {
        return Ok(operands);
    }
    loop {
        operands.push(simple(parser)?);
        if parser.take(end) {
            return Ok(operands);
        }
        parser.expect(',')?;
    }
}

/// A name with the dimension of a special register, such as `%tid.x`.
fn name<'a>(parser: &mut Parser<'a>) -> Result<&'a str, ParseError> {
    let first = parser.peek();
    let word = parser.word("a name")?;
    let next = parser.peek();
    let end = first.start + word.len();
    if next.kind == Kind::Dotted && next.start == end && word.starts_with('%') {
        parser.next();
        return Ok(&parser.text[first.start..end + next.text.len()]);
    }
    Ok(word)
}

fn address<'a>(parser: &mut Parser<'a>) -> Result<Operand<'a>, ParseError> {
    if parser.peek().kind == Kind::Word && parser.peek().text != "WARP_SZ" {
        let name = name(parser)?;
        let more = matches!(parser.peek().kind, Kind::Mark('+' | '-'));
        let offset = if more { offset(parser)? } else { 0 };
        return Ok(Operand::Address(Base::Name(name), offset));
    }
    let position = parser.position();
    match literal(parser)? {
        Literal::Integer(value) => Ok(Operand::Address(Base::Nothing, value as i64)),
        _ => Err(position.error("an address is a whole number")),
    }
}

/// `+4`, `-4`, `+-4`, with further terms.
pub(super) fn offset(parser: &mut Parser<'_>) -> Result<i64, ParseError> {
    let mut sum = 0_i64;
    while let Kind::Mark(mark @ ('+' | '-')) = parser.peek().kind {
        parser.next();
        let position = parser.position();
        let Literal::Integer(term) = product(parser)? else {
            return Err(position.error("an offset is a whole number"));
        };
        let term = term as i64;
        sum = if mark == '+' { sum.wrapping_add(term) } else { sum.wrapping_sub(term) };
    }
    Ok(sum)
}

/// A constant; sums, differences and products of whole numbers too.
pub(super) fn literal(parser: &mut Parser<'_>) -> Result<Literal, ParseError> {
    let position = parser.position();
    let first = product(parser)?;
    if !matches!(parser.peek().kind, Kind::Mark('+' | '-')) {
        return Ok(first);
    }
    let Literal::Integer(first) = first else {
        return Err(position.error("arithmetic of constants is for whole numbers"));
    };
    Ok(Literal::Integer(first.wrapping_add(offset(parser)? as u64)))
}

fn product(parser: &mut Parser<'_>) -> Result<Literal, ParseError> {
    let position = parser.position();
    let mut value = atom(parser)?;
    while parser.take('*') {
        value = match (value, atom(parser)?) {
            (Literal::Integer(a), Literal::Integer(b)) => Literal::Integer(a.wrapping_mul(b)),
            _ => return Err(position.error("arithmetic of constants is for whole numbers")),
        };
    }
    Ok(value)
}

fn atom(parser: &mut Parser<'_>) -> Result<Literal, ParseError> {
    let token = parser.peek();
    match token.kind {
        Kind::Mark('-') => {
            parser.next();
            Ok(negated(parser.nested(atom)?))
        }
        Kind::Mark('+') => {
            parser.next();
            parser.nested(atom)
        }
        Kind::Mark('~') => {
            parser.next();
            match parser.nested(atom)? {
                Literal::Integer(value) => Ok(Literal::Integer(!value)),
                _ => Err(token.position.error("`~` is for whole numbers")),
            }
        }
        Kind::Mark('(') => {
            parser.next();
            let value = parser.nested(literal)?;
            parser.expect(')')?;
            Ok(value)
        }
        Kind::Number => {
            parser.next();
            number(token.text, token.position)
        }
        Kind::Word if token.text == "WARP_SZ" => {
            parser.next();
            Ok(Literal::Integer(32))
        }
        _ => Err(parser.unexpected("an operand")),
    }
}

fn negated(value: Literal) -> Literal {
    match value {
        Literal::Integer(value) => Literal::Integer(value.wrapping_neg()),
        Literal::Decimal(value) => Literal::Decimal(-value),
        Literal::Single(bits) => Literal::Single(bits ^ 1 << 31),
        Literal::Double(bits) => Literal::Double(bits ^ 1 << 63),
    }
}

fn number(text: &str, position: Position) -> Result<Literal, ParseError> {
    let wrong = || position.error(format!("`{text}` is no number"));
    let lower = text.to_ascii_lowercase();
    if let Some(digits) = lower.strip_prefix("0f") {
        let bits = u32::from_str_radix(digits, 16).ok().filter(|_| digits.len() == 8);
        return bits.map(Literal::Single).ok_or_else(wrong);
    }
    if let Some(digits) = lower.strip_prefix("0d") {
        let bits = u64::from_str_radix(digits, 16).ok().filter(|_| digits.len() == 16);
        return bits.map(Literal::Double).ok_or_else(wrong);
    }
    let whole = lower.strip_suffix('u').unwrap_or(&lower);
    let integer = if let Some(digits) = whole.strip_prefix("0x") {
        u64::from_str_radix(digits, 16)
    } else if let Some(digits) = whole.strip_prefix("0b") {
        u64::from_str_radix(digits, 2)
    } else if lower.contains(['.', 'e']) {
        return lower.parse().map(Literal::Decimal).map_err(|_| wrong());
    } else if let Some(digits) = whole.strip_prefix('0').filter(|digits| !digits.is_empty()) {
        u64::from_str_radix(digits, 8)
    } else {
        whole.parse()
    };
    integer.map(Literal::Integer).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_every_form() {
        let value = |text| number(text, Position::default());
        assert_eq!(value("12").unwrap(), Literal::Integer(12));
        assert_eq!(value("0x1Fu").unwrap(), Literal::Integer(31));
        assert_eq!(value("0b101").unwrap(), Literal::Integer(5));
        assert_eq!(value("017").unwrap(), Literal::Integer(15));
        assert_eq!(value("0").unwrap(), Literal::Integer(0));
        assert_eq!(value("18446744073709551615").unwrap(), Literal::Integer(u64::MAX));
        assert_eq!(value("0f3F800000").unwrap(), Literal::Single(0x3f80_0000));
        assert_eq!(value("0d3FF0000000000000").unwrap(), Literal::Double(1.0_f64.to_bits()));
        assert_eq!(value("1.5e-1").unwrap(), Literal::Decimal(0.15));
        assert!(value("0f3F8000").is_err());
        assert!(value("18446744073709551616").is_err());
        assert!(value("12a").is_err());
    }
}
