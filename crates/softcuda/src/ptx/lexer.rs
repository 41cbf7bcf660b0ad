//! Text into tokens with their places.
//!
//! Not here: what tokens mean together (`parser/`), the values of numbers (`literal.rs`).

use super::error::{ParseError, Position};

/// One token. Slices are of the text itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Token<'a> {
    pub kind: Kind,
    pub text: &'a str,
    pub position: Position,
    /// Byte at which it starts in the text.
    pub start: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An opcode, a register, a symbol.
    Word,
    /// A directive or modifier with its dot, such as `.global` or `.shared::cta`.
    Dotted,
    /// A literal, not yet read.
    Number,
    /// Text in quotes, the quotes included.
    Text,
    /// One character of punctuation.
    Mark(char),
    /// After the last.
    End,
}

/// All tokens of `text`; the last is [`Kind::End`].
///
/// # Errors
/// A character that PTX does not have, a comment or string without an end.
pub(crate) fn tokens(text: &str) -> Result<Vec<Token<'_>>, ParseError> {
    let mut lexer = Lexer { text, at: 0, place: Position { line: 1, column: 1 }, counted: 0 };
    let mut tokens = Vec::with_capacity(text.len() / 5);
    loop {
        let token = lexer.next()?;
        tokens.push(token);
        if token.kind == Kind::End {
            return Ok(tokens);
        }
    }
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    /// Of the byte `counted`.
    place: Position,
    counted: usize,
}

impl<'a> Lexer<'a> {
    fn next(&mut self) -> Result<Token<'a>, ParseError> {
        self.skip_blanks()?;
        let position = self.position();
        let start = self.at;
        let kind = match self.byte(0) {
            None => Kind::End,
            Some(first) if is_word_start(first) => {
                self.skip_while(is_word);
                Kind::Word
            }
            Some(b'.') if self.byte(1).is_some_and(is_word) => {
                self.at += 1;
                self.skip_while(is_word);
                while self.rest().starts_with("::") {
                    self.at += 2;
                    self.skip_while(is_word);
                }
                Kind::Dotted
            }
            Some(first) if first.is_ascii_digit() => {
                self.skip_number();
                Kind::Number
            }
            Some(b'"') => {
                let Some(length) = self.rest()[1..].find(['"', '\n']) else {
                    return Err(position.error("a string without an end"));
                };
                self.at += length + 2;
                Kind::Text
            }
            Some(first) if b",;:()[]{}<>=+-*/@!|~".contains(&first) => {
                self.at += 1;
                Kind::Mark(char::from(first))
            }
            Some(_) => {
                let character = self.rest().chars().next().unwrap_or_default();
                return Err(position.error(format!("unexpected character `{}`", character.escape_default())));
            }
        };
        Ok(Token { kind, text: &self.text[start..self.at], position, start })
    }

    fn skip_blanks(&mut self) -> Result<(), ParseError> {
        loop {
            let rest = self.rest();
            if rest.starts_with("//") {
                self.at += rest.find('\n').unwrap_or(rest.len());
            } else if rest.starts_with("/*") {
                let Some(length) = rest.find("*/") else {
                    return Err(self.position().error("a comment without an end"));
                };
                let end = self.at + length + 2;
                while self.at < end {
                    self.step();
                }
            } else if self.byte(0).is_some_and(|byte| byte.is_ascii_whitespace()) {
                self.step();
            } else if rest.starts_with('\0') {
                // The driver's entry takes a C string; a trailing zero may come along.
                self.at = self.text.len();
            } else {
                return Ok(());
            }
        }
    }

    /// Digits, suffix letters, a fraction and an exponent. `1.5`, but not the dot of `1.x`.
    fn skip_number(&mut self) {
        let start = self.at;
        self.skip_while(is_word);
        if self.byte(0) == Some(b'.') && self.byte(1).is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
            self.skip_while(is_word);
        }
        let so_far = &self.text[start..self.at];
        let decimal = !so_far.starts_with("0x") && !so_far.starts_with("0X");
        let floating = !so_far.starts_with("0f") && !so_far.starts_with("0d") && decimal;
        if floating && so_far.ends_with(['e', 'E']) && matches!(self.byte(0), Some(b'+' | b'-')) {
            self.at += 1;
            self.skip_while(is_word);
        }
    }

    fn step(&mut self) {
        self.at += 1;
        if self.text.as_bytes().get(self.at - 1) == Some(&b'\n') {
            self.place = Position { line: self.place.line + 1, column: 1 };
            self.counted = self.at;
        }
    }

    fn skip_while(&mut self, wanted: impl Fn(u8) -> bool) {
        while self.byte(0).is_some_and(&wanted) {
            self.at += 1;
        }
    }

    fn byte(&self, ahead: usize) -> Option<u8> {
        self.text.as_bytes().get(self.at + ahead).copied()
    }

    fn rest(&self) -> &'a str {
        // Inside a comment `at` may stand within a character.
        self.text.get(self.at..).unwrap_or("")
    }

    /// Where the lexer is. Counts on from where it was asked last, so that long lines cost no more than short ones.
    fn position(&mut self) -> Position {
        let columns = self.text.get(self.counted..self.at).map_or(0, |between| between.chars().count());
        self.place.column += columns as u32;
        self.counted = self.at;
        self.place
    }
}

fn is_word_start(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'$' | b'%')
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'%')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<&str> {
        tokens(text).unwrap().into_iter().map(|token| token.text).collect()
    }

    #[test]
    fn an_instruction_falls_into_words_modifiers_and_marks() {
        assert_eq!(
            texts("@!%p1 ld.shared::cta.v2.f32 {%f1,_}, [%rd1+-4]; // end"),
            [
                "@",
                "!",
                "%p1",
                "ld",
                ".shared::cta",
                ".v2",
                ".f32",
                "{",
                "%f1",
                ",",
                "_",
                "}",
                ",",
                "[",
                "%rd1",
                "+",
                "-",
                "4",
                "]",
                ";",
                ""
            ]
        );
    }

    #[test]
    fn numbers_keep_suffix_fraction_and_exponent() {
        assert_eq!(
            texts("0f3F800000 0x1EU 7.0 1.5e-3 12 0d40-1"),
            ["0f3F800000", "0x1EU", "7.0", "1.5e-3", "12", "0d40", "-", "1", ""]
        );
    }

    #[test]
    fn places_count_lines_across_comments() {
        let tokens = tokens("/* a\n é */ x\n  y").unwrap();
        assert_eq!(tokens[0].position, Position { line: 2, column: 7 });
        assert_eq!(tokens[1].position, Position { line: 3, column: 3 });
    }

    #[test]
    fn what_is_no_ptx_is_refused_with_its_place() {
        let error = tokens("a\n  ?").unwrap_err();
        assert_eq!((error.line, error.column), (2, 3));
        assert!(tokens("/* a").is_err());
        assert!(tokens("\"a").is_err());
    }
}
