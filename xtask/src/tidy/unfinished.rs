//! Check: nothing unfinished, nothing timed, nothing left from debugging.
//!
//! Only code counts: comments and strings may name these words. Not here: words in prose.

use super::finding::Finding;
use super::source::{Source, line_of, words};

const CHECK: &str = "unfinished";

/// Macros that must not be called.
const MACROS: [&str; 3] = ["todo", "unimplemented", "dbg"];

/// Finds such code.
pub fn check(source: &Source) -> Vec<Finding> {
    let code = &source.code;
    let mut found: Vec<(usize, String)> = Vec::new();
    for name in MACROS {
        let calls = words(code, name).filter(|offset| code[offset + name.len()..].starts_with('!'));
        found.extend(calls.map(|offset| (offset, format!("`{name}!` must not appear"))));
    }
    let sleeps = words(code, "sleep").filter(|offset| comes_from_thread(&code[..*offset]));
    found.extend(
        sleeps
            .map(|offset| (offset, "`thread::sleep` must not appear: wait for the event itself".to_owned())),
    );
    let ignored = words(code, "ignore").filter(|offset| is_in_attribute(&code[..*offset]));
    found.extend(
        ignored.map(|offset| {
            (offset, "`#[ignore]` must not appear: a skip is counted, with a reason".to_owned())
        }),
    );
    found.sort();
    found
        .into_iter()
        .map(|(offset, text)| Finding::error(CHECK, &source.path, line_of(code, offset), text))
        .collect()
}

/// `thread::`, or an import list of it.
fn comes_from_thread(before: &str) -> bool {
    let path = match before.rfind(['{', ';', '}']) {
        Some(brace) if before[brace..].starts_with('{') => &before[..brace],
        _ => before,
    };
    before.trim_end().ends_with("thread::") || path.trim_end().ends_with("thread::")
}

/// `#[ignore`, or deeper in the brackets as in `#[cfg_attr(x, ignore)]`.
fn is_in_attribute(before: &str) -> bool {
    let line = before.rsplit('\n').next().unwrap_or_default();
    line.rfind("#[").is_some_and(|start| !line[start..].contains(']'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<usize> {
        check(&Source::new("a.rs", text)).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn each_word_is_found() {
        for text in [
            "fn f() { todo!() }",
            "fn f() { unimplemented!(\"later\") }",
            "let x = dbg!(y);",
            "std::thread::sleep(d);",
            "use std::thread::{self, sleep};",
            "#[ignore] fn f() {}",
            "#[ignore = \"slow\"]\nfn f() {}",
            "#[cfg_attr(miri, ignore)]\nfn f() {}",
        ] {
            assert_eq!(lines(text), [1], "{text}");
        }
        assert_eq!(lines("a\ntodo!();\nb\ndbg!(x);\n"), [2, 4]);
    }

    #[test]
    fn words_elsewhere_are_no_finding() {
        for text in [
            "// todo!() and thread::sleep and #[ignore]\n",
            "let x = \"todo!()\";",
            "let todo = 1; my_todo!(todo);",
            "timer::sleep(d);",
            "use std::thread::{self, Builder};\nfn sleep() {}",
            "fn ignore() { ignore(); }",
            "#[test] fn ignore() {}",
        ] {
            assert!(lines(text).is_empty(), "{text}");
        }
    }
}
