//! The one table of backends. Every command reads it; adding a backend to the tooling is one row here.
//!
//! Not here: how a backend is built, run or installed. What a row needs from the system is installed by
//! `test/setup.rs`.

use crate::workspace::Problem;

/// A backend, or a device of one, that can be named on the command line.
#[derive(Debug)]
pub struct Backend {
    /// What `--backend` and `--require` call it, and what the suite itself is told.
    pub name: &'static str,
    /// The cargo feature of the conformance package that selects it.
    pub feature: &'static str,
    /// Variables that its process is started with, such as the one that points a loader at a driver.
    pub environment: &'static [(&'static str, &'static str)],
    /// What its devices are.
    pub nature: Nature,
    /// What the machine has to have.
    pub needs: &'static str,
    /// The command, or the sentence, that mends a machine where it is unavailable.
    pub fix: &'static str,
}

/// What the devices of a backend are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nature {
    /// The machine's own processors: no device, and no emulation of one.
    Processor,
    /// Devices behind a driver, in hardware or in software.
    Device,
}

/// A backend of the design that this version does not have.
#[derive(Debug)]
pub struct Planned {
    /// Its name.
    pub name: &'static str,
    /// What it will be.
    pub what: &'static str,
}

/// All backends, in the order of reports.
pub const BACKENDS: &[Backend] = &[
    Backend {
        name: "host",
        feature: "host",
        environment: &[],
        nature: Nature::Processor,
        needs: "nothing: it runs on this machine's processors",
        fix: "nothing can be missing: please report this as a bug",
    },
    Backend {
        name: "vulkan",
        feature: "vulkan",
        environment: &[],
        nature: Nature::Device,
        needs: VULKAN_NEEDS,
        fix: VULKAN_FIX,
    },
    // The same devices, as if the host did not reach their memory.
    Backend {
        name: "vulkan-staged",
        feature: "vulkan",
        environment: &[],
        nature: Nature::Device,
        needs: VULKAN_NEEDS,
        fix: VULKAN_FIX,
    },
    Backend {
        name: "wgpu",
        feature: "wgpu",
        environment: &[],
        nature: Nature::Device,
        needs: "a device with a driver for Vulkan, Metal or Direct3D 12; one in software will do",
        fix: VULKAN_FIX,
    },
];

const VULKAN_NEEDS: &str = "a Vulkan 1.2 driver, and its validation layer for the layer's checks";
const VULKAN_FIX: &str = crate::test::VULKAN_PACKAGES;

/// Named here so that `doctor` and error messages can say plainly that they are not there yet.
pub const PLANNED: &[Planned] = &[
    Planned { name: "cuda", what: "NVIDIA devices" },
    Planned { name: "softcuda", what: "a CUDA driver in software, for machines without such a device" },
];

/// The backends that a list of names selects, in the table's order and each once. `all` selects all.
///
/// # Errors
/// A name that is not in the table: the message lists those that are.
pub fn select(names: &[String]) -> Result<Vec<&'static Backend>, Problem> {
    if let Some(unknown) = names.iter().find(|name| *name != "all" && find(name).is_none()) {
        return Err(unknown_backend(unknown));
    }
    let all = names.iter().any(|name| name == "all");
    Ok(BACKENDS.iter().filter(|backend| all || names.iter().any(|name| name == backend.name)).collect())
}

/// The backend of that name.
pub fn find(name: &str) -> Option<&'static Backend> {
    BACKENDS.iter().find(|backend| backend.name == name)
}

fn unknown_backend(name: &str) -> Problem {
    let known: Vec<_> = BACKENDS.iter().map(|backend| backend.name).collect();
    let what = if PLANNED.iter().any(|planned| planned.name == name) {
        format!("backend `{name}` is not in this version")
    } else {
        format!("there is no backend `{name}`")
    };
    Problem::new(format!("{what}; there is: {}", known.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(of: &[&str]) -> Vec<String> {
        of.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn all_selects_each_once() {
        assert_eq!(select(&names(&["all"])).unwrap().len(), BACKENDS.len());
        assert_eq!(select(&names(&["host", "all", "host"])).unwrap().len(), BACKENDS.len());
        assert_eq!(select(&names(&["host", "host"])).unwrap().len(), 1);
    }

    #[test]
    fn an_unknown_name_lists_what_exists() {
        let message = select(&names(&["host", "metal"])).unwrap_err().to_string();
        assert!(message.contains("no backend `metal`"), "{message}");
        assert!(message.contains("there is: host"), "{message}");
    }

    #[test]
    fn a_planned_backend_is_said_to_be_planned() {
        let message = select(&names(&["cuda"])).unwrap_err().to_string();
        assert!(message.contains("not in this version"), "{message}");
    }
}
