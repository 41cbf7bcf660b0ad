//! Tokens into the tree of `syntax.rs`.
//!
//! Here: the cursor over tokens. Modules and functions are in `module.rs`, statements in `body.rs`, operands and
//! numbers in `operand.rs`. Not here: what names and opcodes mean (`../decode/`).

mod body;
mod module;
mod operand;

use super::error::{ParseError, Position};
use super::lexer::{Kind, Token, tokens};
use super::syntax::Unit;

/// Parses a whole text.
///
/// # Errors
/// The text has not the form of PTX, or has a directive that is not known here.
pub(crate) fn parse(text: &str) -> Result<Unit<'_>, ParseError> {
    let mut parser = Parser { text, tokens: tokens(text)?, at: 0, variables: 0, depth: 0 };
    module::unit(&mut parser)
}

struct Parser<'a> {
    text: &'a str,
    tokens: Vec<Token<'a>>,
    at: usize,
    /// How many variables were declared so far.
    variables: u32,
    /// Blocks, parentheses and signs within each other.
    depth: u32,
}

/// Far beyond what anybody writes, far below what the stack holds.
const MAX_DEPTH: u32 = 100;

impl<'a> Parser<'a> {
    fn peek(&self) -> Token<'a> {
        self.ahead(0)
    }

    fn ahead(&self, count: usize) -> Token<'a> {
        self.tokens[(self.at + count).min(self.tokens.len() - 1)]
    }

    fn next(&mut self) -> Token<'a> {
        let token = self.peek();
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        token
    }

    fn position(&self) -> Position {
        self.peek().position
    }

    /// Takes the mark if it comes next.
    fn take(&mut self, mark: char) -> bool {
        let found = self.peek().kind == Kind::Mark(mark);
        if found {
            self.next();
        }
        found
    }

    fn expect(&mut self, mark: char) -> Result<(), ParseError> {
        if self.take(mark) { Ok(()) } else { Err(self.unexpected(&format!("`{mark}`"))) }
    }

    fn word(&mut self, what: &str) -> Result<&'a str, ParseError> {
        if self.peek().kind == Kind::Word { Ok(self.next().text) } else { Err(self.unexpected(what)) }
    }

    /// Takes the directive if it comes next.
    fn take_dotted(&mut self, name: &str) -> bool {
        let token = self.peek();
        let found = token.kind == Kind::Dotted && token.text == name;
        if found {
            self.next();
        }
        found
    }

    /// Parses something that may hold its like.
    fn nested<T>(
        &mut self,
        parse: impl FnOnce(&mut Parser<'a>) -> Result<T, ParseError>,
    ) -> Result<T, ParseError> {
        if self.depth == MAX_DEPTH {
            return Err(self.position().error("nested too deeply"));
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    fn unexpected(&self, wanted: &str) -> ParseError {
        let token = self.peek();
        let found = match token.kind {
            Kind::End => "the end of the text".to_owned(),
            _ => format!("`{}`", token.text),
        };
        token.position.error(format!("expected {wanted}, found {found}"))
    }
}
