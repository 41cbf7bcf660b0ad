//! `cargo xtask tidy`: the rules of the style guide that no compiler checks.
//!
//! Here: which files are looked at, and the report. One check a file: `docs.rs`, `unsafety.rs`, `length.rs`,
//! `unfinished.rs`, `coverage.rs`, `links.rs`; all of them are plain functions over text (`source.rs`) that give
//! findings (`finding.rs`). Not here: formatting and lints; rustfmt and clippy have them.

mod coverage;
mod docs;
mod finding;
mod length;
mod links;
mod source;
mod unfinished;
mod unsafety;

use std::fs;
use std::path::{Path, PathBuf};

use self::finding::{Finding, Weight};
use self::links::Page;
use self::source::Source;
use crate::terminal::{counted, green, red, yellow};
use crate::workspace::{Problem, Verdict, root};

/// Where the workspace's own files are. Pages in the root itself count too.
const FOLDERS: [&str; 8] = ["crates", "docs", "examples", "integrations", "src", "tests", "xtask", ".github"];

/// Runs all checks and prints what they found. True if nothing fails the run.
///
/// # Errors
/// A file cannot be read.
pub fn command() -> Verdict {
    let tree = Tree::read(root())?;
    let findings = check(&tree, root());
    for finding in &findings {
        match finding.weight {
            Weight::Error => println!("{} {finding}", red("error:")),
            Weight::Warning => println!("{} {finding}", yellow("warning:")),
        }
    }
    let errors = findings.iter().filter(|finding| finding.weight == Weight::Error).count();
    let looked =
        format!("{} and {}", counted(tree.sources.len(), "source file"), counted(tree.pages.len(), "page"));
    if errors == 0 {
        println!("tidy: {} ({looked})", green("ok"));
    } else {
        println!("tidy: {} ({looked})", red(&counted(errors, "error")));
    }
    Ok(errors == 0)
}

/// What is checked.
struct Tree {
    sources: Vec<Source>,
    pages: Vec<Page>,
}

impl Tree {
    /// Reads the Rust files and the pages of the repository at `root`.
    fn read(root: &Path) -> Result<Tree, Problem> {
        let mut files = Vec::new();
        for folder in FOLDERS {
            collect(&root.join(folder), &mut files)?;
        }
        files.extend(entries(root)?.into_iter().filter(|path| path.is_file()));
        files.sort();
        let mut tree = Tree { sources: Vec::new(), pages: Vec::new() };
        for file in files {
            let extension = file.extension().and_then(|extension| extension.to_str());
            if !matches!(extension, Some("rs" | "md")) {
                continue;
            }
            let text = fs::read_to_string(&file)
                .map_err(Problem::while_doing(format!("reading {}", file.display())))?;
            let path = relative(&file, root);
            match extension {
                Some("rs") => tree.sources.push(Source::new(path, text)),
                _ => tree.pages.push(Page { path, text }),
            }
        }
        Ok(tree)
    }
}

/// All findings, in the order of paths and lines.
fn check(tree: &Tree, root: &Path) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in &tree.sources {
        findings.extend(docs::check(source));
        findings.extend(length::check(source));
        findings.extend(unsafety::placement(source));
        findings.extend(unsafety::reasons(source));
        findings.extend(unfinished::check(source));
    }
    findings.extend(coverage::check(&tree.sources));
    for page in &tree.pages {
        findings.extend(links::check(page, root));
    }
    findings.sort();
    findings
}

/// All files below `folder`, without build outputs. Links are not followed: what they lead to has its own place.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), Problem> {
    if !folder.is_dir() {
        return Ok(());
    }
    for path in entries(folder)? {
        if path.is_symlink() || path.file_name().is_some_and(|name| name == "target") {
            continue;
        }
        if path.is_dir() {
            collect(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, Problem> {
    let failed = || Problem::while_doing(format!("reading {}", folder.display()));
    let listed: Result<Vec<_>, _> = fs::read_dir(folder).map_err(failed())?.collect();
    Ok(listed.map_err(failed())?.into_iter().map(|entry| entry.path()).collect())
}

fn relative(file: &Path, root: &Path) -> String {
    let relative = file.strip_prefix(root).unwrap_or(file);
    relative.components().map(|part| part.as_os_str().to_string_lossy()).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workspace_is_tidy() {
        let findings = check(&Tree::read(root()).unwrap(), root());
        let errors: Vec<String> = findings
            .iter()
            .filter(|finding| finding.weight == Weight::Error)
            .map(ToString::to_string)
            .collect();
        assert!(errors.is_empty(), "\n{}\n", errors.join("\n"));
    }

    #[test]
    fn every_kind_of_file_is_looked_at() {
        let tree = Tree::read(root()).unwrap();
        assert!(tree.sources.iter().any(|source| source.path == "xtask/src/tidy/mod.rs"));
        assert!(tree.sources.iter().any(|source| source.path.starts_with("crates/core/src/")));
        assert!(tree.pages.iter().any(|page| page.path == "CONTRIBUTING.md"));
        assert!(tree.sources.iter().all(|source| !source.path.contains("/target/")));
    }

    #[test]
    fn each_check_is_wired_in() {
        let bad = "fn f() {\n    unsafe { g() };\n    todo!()\n}\n".to_owned() + &"\n".repeat(length::LIMIT);
        let tree = Tree {
            sources: vec![Source::new("crates/core/src/a.rs", bad)],
            pages: vec![Page { path: "A.md".to_owned(), text: "[a](nowhere.md)".to_owned() }],
        };
        let mut checks: Vec<_> = check(&tree, root()).iter().map(|finding| finding.check).collect();
        checks.sort_unstable();
        checks.dedup();
        assert_eq!(
            checks,
            [
                "contract-coverage",
                "file-length",
                "links",
                "module-docs",
                "safety-comment",
                "unfinished",
                "unsafe-placement"
            ]
        );
    }
}
