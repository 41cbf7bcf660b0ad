//! `cargo xtask doctor`: what this machine has, and the exact command that mends what it lacks.
//!
//! Nothing is changed. Not here: installing (`test/setup.rs`).

use std::fs;
use std::process::Command;
use std::thread;

use crate::backends::{BACKENDS, Backend, Nature};
use crate::terminal::{green, red, table};
use crate::test::REQUIREMENTS;
use crate::workspace::{Problem, Verdict, cargo, root, version_of};

/// Looks and prints. True if all that `cargo xtask test` needs is there.
///
/// # Errors
/// The workspace's Cargo.toml cannot be read.
pub fn command() -> Verdict {
    let tools = tools()?;
    println!("{}", render("tool", &tools));
    let backends: Vec<Entry> = BACKENDS.iter().map(examine).collect();
    println!("\n{}", render("backend", &backends));

    let missing: Vec<&Entry> = tools.iter().chain(&backends).filter(|entry| entry.fix.is_some()).collect();
    if missing.is_empty() {
        println!("\n{}: all that this version needs is there", green("ok"));
    }
    for entry in &missing {
        println!("\n{}: {}", red(&entry.name), entry.state);
        println!("    {}", entry.fix.as_deref().unwrap_or_default());
    }
    Ok(missing.is_empty())
}

/// A row of the report.
struct Entry {
    name: String,
    state: String,
    detail: String,
    /// What to do about it; `None` if there is nothing to do.
    fix: Option<String>,
}

fn render(what: &str, entries: &[Entry]) -> String {
    let mut table = table([what, "state", "details"]);
    for entry in entries {
        table.add_row([&entry.name, &entry.state, &entry.detail]);
    }
    table.to_string()
}

fn tools() -> Result<Vec<Entry>, Problem> {
    let manifest = fs::read_to_string(root().join("Cargo.toml"))
        .map_err(Problem::while_doing("reading the workspace's Cargo.toml"))?;
    let required = rust_version(&manifest)
        .ok_or_else(|| Problem::new("the workspace's Cargo.toml has no rust-version"))?;
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let rust = version_of(Command::new(rustc).arg("--version"));
    let mut entries = vec![compiler(rust, &required), tool("cargo", version_of(&mut cargo(["--version"])))];
    for requirement in REQUIREMENTS {
        let present = (requirement.present)();
        entries.push(Entry {
            name: requirement.name.to_owned(),
            state: state(present).to_owned(),
            detail: "used by cargo xtask test".to_owned(),
            fix: (!present).then(|| requirement.install.to_owned()),
        });
    }
    Ok(entries)
}

fn compiler(found: Option<String>, required: &str) -> Entry {
    let detail = format!("{required} or newer is needed");
    let Some(found) = found else {
        return Entry {
            name: "rustc".to_owned(),
            state: "missing".to_owned(),
            detail,
            fix: Some("install Rust from https://rustup.rs".to_owned()),
        };
    };
    let number = found.split_whitespace().nth(1).unwrap_or_default();
    let new_enough = version(number) >= version(required);
    Entry {
        name: "rustc".to_owned(),
        state: if new_enough { number.to_owned() } else { format!("{number} is too old") },
        detail,
        fix: (!new_enough).then(|| "rustup update stable".to_owned()),
    }
}

fn tool(name: &str, version: Option<String>) -> Entry {
    Entry {
        name: name.to_owned(),
        state: state(version.is_some()).to_owned(),
        fix: version.is_none().then(|| format!("put {name} on the PATH")),
        detail: version.unwrap_or_default(),
    }
}

fn state(present: bool) -> &'static str {
    if present { "there" } else { "missing" }
}

/// The machine's own processors are always there. What a device API has is for its row to say, once there is one.
fn examine(backend: &Backend) -> Entry {
    let (state, detail) = match backend.nature {
        Nature::Processor => {
            let threads = thread::available_parallelism().map_or(1, usize::from);
            ("available", format!("{}, {threads} threads; needs {}", processor(), backend.needs))
        }
        Nature::Device => ("built in", format!("needs {}; fix: {}", backend.needs, backend.fix)),
    };
    Entry { name: backend.name.to_owned(), state: state.to_owned(), detail, fix: None }
}

/// The processor's name where the system says it.
fn processor() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    name.map_or_else(|| std::env::consts::ARCH.to_owned(), |(_, name)| name.trim().to_owned())
}

/// `rust-version = "1.95"` of the workspace.
fn rust_version(manifest: &str) -> Option<String> {
    manifest.lines().find_map(|line| {
        let value = line.trim().strip_prefix("rust-version")?.trim_start().strip_prefix('=')?;
        Some(value.trim().trim_matches('"').to_owned())
    })
}

/// The numbers of a version. What follows a `-`, as in `1.95.0-nightly`, does not count.
fn version(text: &str) -> Vec<u32> {
    let numbers = text.split('-').next().unwrap_or_default();
    numbers.split('.').map_while(|number| number.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_required_version_is_read() {
        let manifest = "[workspace.package]\nedition = \"2024\"\nrust-version = \"1.95\"\n";
        assert_eq!(rust_version(manifest).as_deref(), Some("1.95"));
        assert_eq!(rust_version("rust-version.workspace = true\n"), None);
    }

    #[test]
    fn versions_compare_by_number() {
        assert!(version("1.100.0") > version("1.95"));
        assert!(version("1.95.0") >= version("1.95"));
        assert!(version("1.94.3") < version("1.95"));
        assert!(version("1.96.0-nightly") > version("1.95"));
    }

    #[test]
    fn an_old_compiler_comes_with_its_fix() {
        let old = compiler(Some("rustc 1.80.0 (x 2024-07-21)".to_owned()), "1.95");
        assert_eq!(old.fix.as_deref(), Some("rustup update stable"));
        let good = compiler(Some("rustc 1.95.0 (x 2026-04-14)".to_owned()), "1.95");
        assert_eq!(good.fix, None);
        assert!(compiler(None, "1.95").fix.is_some());
    }

    #[test]
    fn every_backend_of_the_design_has_a_row() {
        let names: Vec<String> = BACKENDS.iter().map(examine).map(|entry| entry.name).collect();
        assert_eq!(names, ["host", "vulkan", "vulkan-staged", "wgpu", "cuda", "softcuda"]);
    }
}
