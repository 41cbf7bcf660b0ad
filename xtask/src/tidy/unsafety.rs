//! Checks: unsafe code stands only where the style guide lets it, and each piece says why it is sound.
//!
//! Declaring is not doing: `unsafe fn` and `unsafe trait` are contracts and may stand anywhere, for the
//! workspace denies `unsafe_op_in_unsafe_fn`. Not here: whether the reasons are true.

use super::finding::Finding;
use super::source::{Source, line_of, words};

const PLACEMENT: &str = "unsafe-placement";
const REASON: &str = "safety-comment";

/// How many lines of a statement may stand between a SAFETY comment and the block in it.
const REACH: usize = 3;

/// Finds unsafe code in the wrong file.
pub fn placement(source: &Source) -> Vec<Finding> {
    if is_allowed(&source.path) {
        return Vec::new();
    }
    let found = uses(source).into_iter();
    found
        .map(|found| {
            let text =
                format!("{} outside of a backend's ffi.rs and crates/core/src/engine", found.kind.in_words());
            Finding::error(PLACEMENT, &source.path, found.line, text)
        })
        .collect()
}

/// Finds unsafe code without a `SAFETY:` comment just above it.
pub fn reasons(source: &Source) -> Vec<Finding> {
    let code: Vec<&str> = source.code.lines().collect();
    let comments: Vec<&str> = source.comments.lines().collect();
    let found = uses(source).into_iter();
    found
        .filter(|found| !has_reason(&code, &comments, found.line))
        .map(|found| {
            let text = format!("{} without a `// SAFETY:` comment", found.kind.in_words());
            Finding::error(REASON, &source.path, found.line, text)
        })
        .collect()
}

/// Backends keep it in `ffi.rs`, core in its engine.
fn is_allowed(path: &str) -> bool {
    let in_workspace = path.starts_with("crates/") || path.starts_with("examples/");
    path.starts_with("crates/core/src/engine/") || (in_workspace && path.ends_with("/ffi.rs"))
}

/// A piece of code that the compiler does not check.
struct Use {
    line: usize,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Block,
    Impl,
    Extern,
    Attribute,
}

impl Kind {
    fn in_words(self) -> &'static str {
        match self {
            Kind::Block => "an unsafe block",
            Kind::Impl => "an unsafe impl",
            Kind::Extern => "an unsafe extern block",
            Kind::Attribute => "an unsafe attribute",
        }
    }
}

fn uses(source: &Source) -> Vec<Use> {
    let code = &source.code;
    words(code, "unsafe")
        .filter_map(|offset| {
            let after = code[offset + "unsafe".len()..].trim_start();
            let kind = if after.starts_with('{') {
                Kind::Block
            } else if after.starts_with('(') {
                Kind::Attribute
            } else if begins_with_word(after, "impl") {
                Kind::Impl
            } else if begins_with_word(after, "extern") && !is_function(after) {
                Kind::Extern
            } else {
                return None;
            };
            Some(Use { line: line_of(code, offset), kind })
        })
        .collect()
}

fn begins_with_word(code: &str, word: &str) -> bool {
    words(code, word).next() == Some(0)
}

/// Tells `unsafe extern "C" fn` from `unsafe extern "C" {`. The name of the ABI is blank here.
fn is_function(code: &str) -> bool {
    begins_with_word(code["extern".len()..].trim_start(), "fn")
}

/// Looks upward from the line for the comment, over comments and attributes and the begin of the same statement.
fn has_reason(code: &[&str], comments: &[&str], line: usize) -> bool {
    let says_why = |index: usize| comments.get(index).is_some_and(|comment| comment.contains("SAFETY:"));
    if says_why(line - 1) {
        return true;
    }
    let mut crossed = 0;
    for index in (0..line - 1).rev() {
        if says_why(index) {
            return true;
        }
        let code = code.get(index).copied().unwrap_or_default().trim();
        let comment = comments.get(index).copied().unwrap_or_default().trim();
        if code.is_empty() && comment.is_empty() {
            return false;
        }
        if !code.is_empty() && !code.starts_with("#[") {
            crossed += 1;
            // Another statement or another unsafe block ends what a comment can speak for.
            if crossed > REACH || code.ends_with([';', '}']) || words(code, "unsafe").next().is_some() {
                return false;
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: &str = "fn f() {\n    unsafe { g() }\n}\n";

    fn misplaced(path: &str, text: &str) -> Vec<usize> {
        placement(&Source::new(path, text)).iter().map(|finding| finding.line).collect()
    }

    fn unexplained(text: &str) -> Vec<usize> {
        reasons(&Source::new("a.rs", text)).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn the_place_decides() {
        for allowed in
            ["crates/backend-host/src/ffi.rs", "crates/core/src/engine/pool.rs", "examples/filter/src/ffi.rs"]
        {
            assert!(misplaced(allowed, BLOCK).is_empty(), "{allowed}");
        }
        for forbidden in [
            "crates/backend-host/src/buffer.rs",
            "crates/core/src/tensor.rs",
            "crates/core/src/engine.rs",
            "crates/backend-host/src/not_ffi.rs",
            "src/ffi.rs",
            "xtask/src/main.rs",
        ] {
            assert_eq!(misplaced(forbidden, BLOCK), [2], "{forbidden}");
        }
    }

    #[test]
    fn all_kinds_of_unsafe_code_count() {
        for text in [
            "unsafe impl Send for X {}",
            "unsafe extern \"C\" { fn f(); }",
            "#[unsafe(no_mangle)]\nfn f() {}",
            "let x = unsafe\n{ f() };",
        ] {
            assert_eq!(misplaced("a.rs", text), [1], "{text}");
        }
    }

    #[test]
    fn declarations_and_text_do_not_count() {
        for text in [
            "unsafe fn f() {}",
            "unsafe trait T {}",
            "type F = unsafe extern \"C\" fn(u32);",
            "// unsafe { }\n",
            "let x = \"unsafe { }\";",
            "unsafe_op {}",
        ] {
            assert!(misplaced("a.rs", text).is_empty(), "{text}");
        }
    }

    #[test]
    fn a_reason_above_or_beside_is_found() {
        for text in [
            "// SAFETY: g asks for nothing.\nunsafe { g() }",
            "unsafe { g() } // SAFETY: g asks for nothing.",
            "// SAFETY: two lines\n// of it.\n#[allow(x)]\nunsafe { g() }",
            "// SAFETY: g asks for nothing.\nlet x =\n    unsafe { g() };",
            "// SAFETY: X has no thread affinity.\nunsafe impl Send for X {}",
        ] {
            assert!(unexplained(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn a_missing_reason_is_found() {
        for (text, line) in [
            (BLOCK, 2),
            ("// It is fine.\nunsafe { g() }", 2),
            ("// SAFETY: for the first.\nunsafe { g() }\nunsafe { h() }", 3),
            ("// SAFETY: for another.\nlet x = 1;\nunsafe { h() }", 3),
            ("// SAFETY: far away.\n\nunsafe { h() }", 3),
            ("let x = \"SAFETY: in a string\"; unsafe { h() }", 1),
        ] {
            assert_eq!(unexplained(text), [line], "{text}");
        }
    }
}
