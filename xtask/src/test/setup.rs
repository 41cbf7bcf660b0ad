//! The set-up step of `cargo xtask test`: what the steps after it need from the system.
//!
//! This is the one place where system packages and tools are installed. A backend that needs some (a driver, a validation
//! layer) adds a [`Requirement`] here and its row in `backends.rs`.
//! Not here: anything that cargo fetches by itself.

use std::process::{Command, Stdio};

use crate::terminal::{green, yellow};
use crate::workspace::{self, Problem, cargo};

/// Something that a step needs and that cargo does not fetch.
pub struct Requirement {
    /// What it is called in messages.
    pub name: &'static str,
    /// Whether it is there.
    pub present: fn() -> bool,
    /// The command that installs it, as a person types it.
    pub install: &'static str,
    /// Whether this step may run that command by itself.
    pub consent: Consent,
    /// Whether the run fails without it. Else what needs it is skipped, and said to be.
    pub needed: bool,
}

/// Whether a missing requirement is installed by the set-up step.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Consent {
    /// The user's toolchain is the user's: the step only says what to type.
    Ask,
    /// Run the command, if this is root: it installs system packages.
    AsRoot,
}

/// Needed by the steps that use them.
pub const REQUIREMENTS: &[Requirement] = &[
    Requirement {
        name: "rustfmt",
        present: || workspace::version_of(&mut cargo(["fmt", "--version"])).is_some(),
        install: "rustup component add rustfmt",
        consent: Consent::Ask,
        needed: true,
    },
    Requirement {
        name: "clippy",
        present: || workspace::version_of(&mut cargo(["clippy", "--version"])).is_some(),
        install: "rustup component add clippy",
        consent: Consent::Ask,
        needed: true,
    },
    Requirement {
        name: "a Vulkan driver",
        present: has_vulkan,
        install: VULKAN_PACKAGES,
        consent: Consent::AsRoot,
        needed: false,
    },
    // Without it the PTX of kernels is not made anew to compare; it is used as it is.
    Requirement {
        name: "clang-19",
        present: || workspace::version_of(Command::new("clang-19").arg("--version")).is_some(),
        install: "apt-get update && apt-get install --yes --no-install-recommends clang-19",
        consent: Consent::AsRoot,
        needed: false,
    },
];

/// Loader, software driver and validation layer, on Debian and Ubuntu.
pub const VULKAN_PACKAGES: &str = "apt-get update && apt-get install --yes --no-install-recommends \
     libvulkan1 mesa-vulkan-drivers vulkan-validationlayers";

/// Whether a Vulkan loader would find a driver. True where that is not ours to judge: on other systems than Linux.
pub fn has_vulkan() -> bool {
    const MANIFESTS: [&str; 3] =
        ["/usr/share/vulkan/icd.d", "/usr/local/share/vulkan/icd.d", "/etc/vulkan/icd.d"];
    if !cfg!(target_os = "linux") {
        return true;
    }
    let named = ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"].iter().any(|name| std::env::var_os(name).is_some());
    let installed = MANIFESTS
        .iter()
        .any(|folder| std::fs::read_dir(folder).is_ok_and(|mut manifests| manifests.next().is_some()));
    named || installed
}

fn is_root() -> bool {
    workspace::version_of(Command::new("id").arg("-u")).is_some_and(|user| user == "0")
}

/// Looks for all requirements and installs what it may.
///
/// # Errors
/// What is missing, with the commands that install it.
pub fn prepare() -> Result<(), Problem> {
    let missing = prepare_all(REQUIREMENTS, run_in_shell);
    let (needed, optional): (Vec<&Requirement>, Vec<&Requirement>) =
        missing.into_iter().partition(|requirement| requirement.needed);
    if !optional.is_empty() {
        println!("{}\nwhat needs it is skipped", yellow(&advice(&optional)));
    }
    if needed.is_empty() { Ok(()) } else { Err(Problem::new(advice(&needed))) }
}

/// Goes through `requirements`; `install` runs a command line and says whether it succeeded.
fn prepare_all(requirements: &[Requirement], install: fn(&str) -> bool) -> Vec<&Requirement> {
    let mut missing = Vec::new();
    for requirement in requirements {
        if (requirement.present)() {
            println!("{}: {}", requirement.name, green("there"));
            continue;
        }
        println!("{}: {}", requirement.name, yellow("missing"));
        let installed = requirement.consent == Consent::AsRoot && is_root() && {
            println!("running: {}", requirement.install);
            // A command that succeeds and installs nothing is no success.
            install(requirement.install) && (requirement.present)()
        };
        if !installed {
            missing.push(requirement);
        }
    }
    missing
}

fn advice(missing: &[&Requirement]) -> String {
    missing
        .iter()
        .map(|one| format!("{} is missing; run: {}", one.name, one.install))
        .collect::<Vec<_>>()
        .join("\n")
}

fn run_in_shell(line: &str) -> bool {
    Command::new("sh").args(["-c", line]).stdin(Stdio::null()).status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requirement(present: fn() -> bool, consent: Consent) -> Requirement {
        Requirement { name: "thing", present, install: "get thing", consent, needed: true }
    }

    #[test]
    fn what_is_there_is_not_installed() {
        let there = [requirement(|| true, Consent::AsRoot)];
        assert!(prepare_all(&there, |_| unreachable!("nothing is missing")).is_empty());
    }

    #[test]
    fn what_is_missing_is_named_with_its_command() {
        let ask = [requirement(|| false, Consent::Ask)];
        let missing = prepare_all(&ask, |_| unreachable!("there was no consent"));
        assert_eq!(advice(&missing), "thing is missing; run: get thing");
    }

    #[test]
    fn an_installation_that_changes_nothing_does_not_count() {
        let install = [requirement(|| false, Consent::AsRoot)];
        assert_eq!(prepare_all(&install, |_| true).len(), 1);
        assert_eq!(prepare_all(&install, |_| false).len(), 1);
    }
}
