//! One source file, split into code and comments, so that a check never mistakes one for the other.
//!
//! This is a lexer for the few things that hide text in Rust: comments, strings and characters. Not here: any
//! check.

/// A Rust file. `code` and `comments` have the same lines as the text, with blanks for what is not theirs.
#[derive(Debug)]
pub struct Source {
    /// From the root of the repository, with `/`.
    pub path: String,
    /// As it stands in the file.
    pub text: String,
    /// Without comments and without the contents of strings and characters.
    pub code: String,
    /// The comments alone, their marks included.
    pub comments: String,
}

impl Source {
    /// Splits `text`.
    pub fn new(path: impl Into<String>, text: impl Into<String>) -> Source {
        let text = text.into();
        let Split { code, comments } = split(&text);
        Source { path: path.into(), text, code, comments }
    }

    /// True for a file that a program wrote, by the usual mark in its first line.
    pub fn is_generated(&self) -> bool {
        self.text.lines().next().is_some_and(|line| line.contains("@generated"))
    }

    /// The text with its literals, but with blanks for comments.
    pub fn without_comments(&self) -> String {
        let pairs = self.text.chars().zip(self.comments.chars());
        pairs.map(|(c, comment)| if comment.is_whitespace() { c } else { ' ' }).collect()
    }
}

/// The number of the line that holds the byte at `offset`.
pub fn line_of(text: &str, offset: usize) -> usize {
    text.as_bytes()[..offset].iter().filter(|byte| **byte == b'\n').count() + 1
}

/// The offsets at which `word` stands in `code` as a whole word.
pub fn words<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let part_of_word = |character: char| character.is_alphanumeric() || character == '_';
    code.match_indices(word).map(|(offset, _)| offset).filter(move |offset| {
        let before = code[..*offset].chars().next_back();
        let after = code[offset + word.len()..].chars().next();
        !before.is_some_and(part_of_word) && !after.is_some_and(part_of_word)
    })
}

struct Split {
    code: String,
    comments: String,
}

impl Split {
    /// Puts a piece into one of the two and blanks of the same shape into the other.
    fn push(&mut self, piece: &str, kind: Kind) {
        let blank: String = piece.chars().map(|c| if c == '\n' { '\n' } else { ' ' }).collect();
        let (code, comment) = match kind {
            Kind::Code => (piece, blank.as_str()),
            Kind::Comment => (blank.as_str(), piece),
            Kind::Literal => (blank.as_str(), blank.as_str()),
        };
        self.code.push_str(code);
        self.comments.push_str(comment);
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Code,
    Comment,
    Literal,
}

fn split(text: &str) -> Split {
    let mut split = Split { code: String::new(), comments: String::new() };
    let mut rest = text;
    let mut previous = ' ';
    while let Some(first) = rest.chars().next() {
        let (length, kind) = match hidden(rest, previous) {
            Some(hidden) => hidden,
            None => (first.len_utf8(), Kind::Code),
        };
        let (piece, after) = rest.split_at(length);
        split.push(piece, kind);
        previous = piece.chars().next_back().unwrap_or(' ');
        rest = after;
    }
    split
}

/// The length and kind of the comment or literal that `rest` begins with.
fn hidden(rest: &str, previous: char) -> Option<(usize, Kind)> {
    if rest.starts_with("//") {
        return Some((rest.find('\n').unwrap_or(rest.len()), Kind::Comment));
    }
    if rest.starts_with("/*") {
        return Some((block_comment(rest), Kind::Comment));
    }
    let literal = match rest.as_bytes()[0] {
        b'"' => Some(quoted(rest, '"')),
        b'\'' => character(rest),
        // `r"`, `br#"`, `c"` and so on, but not the end of a longer name.
        b'r' | b'b' | b'c' if !(previous.is_alphanumeric() || previous == '_') => prefixed(rest),
        _ => None,
    };
    literal.map(|length| (length, Kind::Literal))
}

/// Block comments nest.
fn block_comment(rest: &str) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < rest.len() {
        match &rest.as_bytes()[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

/// From one quote to the next that no backslash precedes.
fn quoted(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (offset, character) in rest.char_indices().skip(1) {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if character == quote => return offset + 1,
            _ => {}
        }
    }
    rest.len()
}

/// A character, or `None` for a lifetime or a label.
fn character(rest: &str) -> Option<usize> {
    let mut characters = rest.chars().skip(1);
    match (characters.next()?, characters.next()?) {
        ('\\', _) => Some(quoted(rest, '\'')),
        (one, '\'') => Some(2 + one.len_utf8()),
        _ => None,
    }
}

/// A literal with a prefix: raw strings end at as many `#` as they began with.
fn prefixed(rest: &str) -> Option<usize> {
    let letters = rest.find(|c| !matches!(c, 'r' | 'b' | 'c'))?;
    let raw = rest[..letters].contains('r');
    let hashes = rest[letters..].find(|c| c != '#')?;
    let body = &rest[letters + hashes..];
    match body.as_bytes()[0] {
        b'"' if raw => {
            let end = format!("\"{}", "#".repeat(hashes));
            let length = body[1..].find(&end).map_or(body.len(), |at| 1 + at + end.len());
            Some(letters + hashes + length)
        }
        b'"' if hashes == 0 => Some(letters + quoted(body, '"')),
        b'\'' if hashes == 0 && &rest[..letters] == "b" => Some(letters + character(body)?),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> String {
        Source::new("a.rs", text).code
    }

    #[test]
    fn comments_are_not_code() {
        assert_eq!(code("a // unsafe\nb"), "a          \nb");
        assert_eq!(code("a /* x /* y */ z */ b"), "a                   b");
        let source = Source::new("a.rs", "a // L4: why\nb");
        assert_eq!(source.comments, "  // L4: why\n ");
    }

    #[test]
    fn strings_are_not_code() {
        for text in [
            r#"f("unsafe", 1)"#,
            r#"f("a \" unsafe", 1)"#,
            r##"f(r"unsafe", 1)"##,
            r###"f(r#"a " unsafe"#, 1)"###,
            r#"f(b"unsafe", 1)"#,
            r###"f(br#"unsafe"#, 1)"###,
            r#"f(c"unsafe // no comment", 1)"#,
        ] {
            let code = code(text);
            assert!(!code.contains("unsafe"), "{text}");
            assert!(code.starts_with("f(") && code.ends_with(", 1)"), "{text}: {code}");
        }
    }

    #[test]
    fn characters_are_told_from_lifetimes() {
        assert_eq!(code("fn f<'a>(x: &'a str) {} // t"), "fn f<'a>(x: &'a str) {}     ");
        assert_eq!(
            code("match c { '\"' => 1, '\\'' => 2, b'\"' => 3 }"),
            "match c {     => 1,      => 2,      => 3 }"
        );
        assert_eq!(code("'outer: loop { break 'outer }"), "'outer: loop { break 'outer }");
        assert_eq!(code("'\u{e9}' + x"), "    + x");
    }

    #[test]
    fn names_that_end_like_a_prefix_are_names() {
        assert_eq!(code("for r in car { abc(r) }"), "for r in car { abc(r) }");
        assert_eq!(code("r#type.b + r"), "r#type.b + r");
    }

    #[test]
    fn literals_can_be_had_without_comments() {
        let source = Source::new("a.rs", "x(\"y\") // \"z\"\n");
        assert_eq!(source.without_comments().trim_end(), "x(\"y\")");
    }

    #[test]
    fn lines_stay_in_place() {
        let source = Source::new("a.rs", "\"one\ntwo\"\nthree");
        assert_eq!(source.code.lines().nth(2), Some("three"));
        assert_eq!(line_of(&source.text, source.text.find("three").unwrap()), 3);
    }

    #[test]
    fn words_are_whole() {
        assert_eq!(words("unsafe_code unsafe {unsafe} nunsafe", "unsafe").collect::<Vec<_>>(), [12, 20]);
    }
}
