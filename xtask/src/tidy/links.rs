//! Check: what a page links to inside the repository is there.
//!
//! Not here: links to the web, and headings inside pages.

use std::path::Path;

use super::finding::Finding;

const CHECK: &str = "links";

/// A page and its text.
#[derive(Debug)]
pub struct Page {
    /// From the root of the repository, with `/`.
    pub path: String,
    /// Markdown.
    pub text: String,
}

/// Finds relative links that lead nowhere. `root` is where the paths start.
pub fn check(page: &Page, root: &Path) -> Vec<Finding> {
    let folder = root.join(&page.path).parent().map(Path::to_path_buf).unwrap_or_default();
    links(&page.text)
        .into_iter()
        .filter(|link| is_relative(&link.target))
        .filter(|link| {
            let path = link.target.split(['#', '?']).next().unwrap_or_default();
            let base = if path.starts_with('/') { root } else { folder.as_path() };
            !base.join(path.trim_start_matches('/')).exists()
        })
        .map(|link| Finding::error(CHECK, &page.path, link.line, format!("no such file: {}", link.target)))
        .collect()
}

struct Link {
    line: usize,
    target: String,
}

fn is_relative(target: &str) -> bool {
    let has_scheme = target.split_once(':').is_some_and(|(scheme, _)| {
        scheme.len() > 1 && scheme.chars().all(|c| c.is_ascii_alphanumeric() || c == '+')
    });
    !(target.is_empty() || target.starts_with('#') || target.starts_with("//") || has_scheme)
}

/// Inline links and images, `[text](target)`, and definitions, `[name]: target`, outside of code.
fn links(text: &str) -> Vec<Link> {
    let mut links = Vec::new();
    let mut fence: Option<&str> = None;
    for (index, line) in text.lines().enumerate() {
        let trimmed = line.trim_start();
        if let Some(mark) = ["```", "~~~"].into_iter().find(|mark| trimmed.starts_with(mark)) {
            match fence {
                None => fence = Some(mark),
                Some(open) if open == mark => fence = None,
                Some(_) => {}
            }
            continue;
        }
        if fence.is_none() {
            let line = without_code(line);
            let targets = inline(&line).into_iter().chain(definition(&line));
            links.extend(targets.map(|target| Link { line: index + 1, target }));
        }
    }
    links
}

/// The line with what stands between backticks blanked.
fn without_code(line: &str) -> String {
    let mut code = false;
    let blank = |c: char| {
        code ^= c == '`';
        if code || c == '`' { ' ' } else { c }
    };
    // An odd backtick at the end is a plain character: then nothing after it is code.
    if line.matches('`').count().is_multiple_of(2) {
        line.chars().map(blank).collect()
    } else {
        line.to_owned()
    }
}

fn inline(line: &str) -> Vec<String> {
    line.match_indices("](")
        .filter_map(|(offset, mark)| {
            let rest = &line[offset + mark.len()..];
            rest.find(')').map(|end| target(&rest[..end]))
        })
        .collect()
}

fn definition(line: &str) -> Option<String> {
    let rest = line.trim_start().strip_prefix('[')?;
    let (name, after) = rest.split_once("]:")?;
    (!name.contains(['[', ']'])).then(|| target(after))
}

/// Without a title and without angle brackets.
fn target(text: &str) -> String {
    let text = text.trim();
    match text.strip_prefix('<') {
        Some(rest) => rest.split('>').next().unwrap_or_default().to_owned(),
        None => text.split_whitespace().next().unwrap_or_default().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::root;

    fn broken(text: &str) -> Vec<usize> {
        let page = Page { path: "xtask/README.md".to_owned(), text: text.to_owned() };
        check(&page, root()).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn links_that_lead_somewhere_are_fine() {
        for text in [
            "[a](Cargo.toml)",
            "[a](../Cargo.toml#x)",
            "[a](src/)",
            "![a](/xtask/Cargo.toml \"title\")",
            "[a]: src/main.rs",
            "[a](#heading) [b](https://example.org/x) [c](mailto:a@example.org)",
            "```\n[a](nowhere.md)\n```\n",
            "`[a](nowhere.md)`",
        ] {
            assert!(broken(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn links_that_lead_nowhere_are_found() {
        for (text, lines) in [
            ("x\n[a](nowhere.md)", vec![2]),
            ("[a](Cargo.toml) and [b](nowhere.md#x)", vec![1]),
            ("![a](nowhere.png \"title\")", vec![1]),
            ("[a](<no where.md>)", vec![1]),
            ("[a]: nowhere.md", vec![1]),
            ("```\ncode\n```\n[a](nowhere.md)", vec![4]),
            ("`code` [a](nowhere.md)", vec![1]),
        ] {
            assert_eq!(broken(text), lines, "{text}");
        }
    }
}
